"""The coordinator: gives blocks to workers and combines what they report, in block order, into one answer; and the
parameter server, which turns the gradients that workers push into steps.

Both know the engine's protocol only, never a concrete engine; exact solvers and the course of a run do not belong here.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.data.block_reader import BlockReport
from shoal.data.cache import Cache
from shoal.data.dataset import FORMAT, Dataset
from shoal.data.encoding import Encoding
from shoal.data.files import Identity, Source, file_format, inspect_text, reader_question, spool
from shoal.data.parquet_reader import inspect_parquet
from shoal.data.splits import Split
from shoal.data_pipeline import Shards
from shoal.engines.base import Dismiss, Engine, Hire, Instruction, Kill, Send
from shoal.errors import BadRowsError, DataError, EngineError, SourceChanged, WorkerFailed
from shoal.models import Array, LinearModel, Penalty
from shoal.passes.blocks import (
    CountKeys,
    Predict,
    Probe,
    ReadRange,
    Score,
    SumMoments,
    Sums,
    SumTriangle,
    value_of_key,
)
from shoal.passes.gradient_loop import COPIES, Assignment, Board, Part, Update
from shoal.passes.ingest import Ingest, ragged_message
from shoal.settings.config import RunConfig
from shoal.settings.limits import cells_from_reading
from shoal.solve.least_squares import Standardisation, stack
from shoal.solve.moments import Merger, Moments, merge_all
from shoal.steps.compression import Compression, make_compression
from shoal.steps.failure import FailurePolicy, Loss
from shoal.steps.optimizers import StepRule, clipped, stale_rate, unbounded
from shoal.steps.policy import Barrier, Member, Policy, Task
from shoal.utils import disk_errors
from shoal.worker import Worker

Progress = Callable[[str, float], None]


def silent(stage: str, fraction: float) -> None:
    """No progress display."""


class Coordinator:
    """Passes over files and data sets with the workers of one engine."""

    def __init__(self, engine: Engine, home: Path, progress: Progress = silent) -> None:
        self.engine, self.cache, self.progress = engine, Cache(home), progress

    # ---------------------------------------------------------------- from file to data set

    def open(self, config: RunConfig) -> Dataset:
        """The data set of a file: the cached one if the file is what it was, else read now."""
        path = Path(config.file).expanduser().absolute()
        identity = dataclasses.asdict(Identity.of(path))
        question = _question(path, config)
        found = self.cache.find(question, identity)
        if found is not None:
            return found
        with self.cache.workshop() as directory, disk_errors():
            whole, key = self._ingest(path, config, directory)
            if dataclasses.asdict(Identity.of(path)) != identity:
                raise SourceChanged(
                    f"'{path.name}' changed while it was read. Wait until it is complete, then try again."
                )
            dataset = self.cache.commit(whole, key)
            self.cache.remember(question, identity, key)
        return dataset

    def is_cached(self, config: RunConfig) -> bool:
        """Whether the file is there and still what it was when it was read."""
        path = Path(config.file).expanduser().absolute()
        try:
            identity = dataclasses.asdict(Identity.of(path))
        except DataError:
            return False
        return self.cache.find(_question(path, config), identity) is not None

    def _ingest(self, path: Path, config: RunConfig, directory: Path) -> tuple[Path, str]:
        """Read the file into `directory`; if a column turns out to be of another kind, once more with that known.

        Each attempt has a folder of its own: a worker may still be writing a block of the one that was given up.
        """
        source = self._source(path, config, directory)
        for number in itertools.count():
            attempt = directory / f"attempt{number}"
            attempt.mkdir()
            reading = Ingest(source, self._residues(source, config))
            strangers = self._read_all(reading, attempt)
            if not strangers:
                break
            names = [source.layout.names[i] for i in strangers]
            source = dataclasses.replace(source, layout=source.layout.with_levels(strangers))
            self.progress(f"reading again: {', '.join(names)} holds text", 0.0)
        if source.path != str(path):
            Path(source.path).unlink()
        return attempt, reading.finish(attempt, str(path))

    def _source(self, path: Path, config: RunConfig, directory: Path) -> Source:
        self.progress("looking at the file", 0.0)
        kind = file_format(path)
        if kind == "parquet":
            return inspect_parquet(path, config.categorical, config.numeric)
        source = inspect_text(path, config.dialect, config.categorical, config.numeric)
        if kind == "csv" and not source.dialect.rewrites:
            return source
        plain = directory / "plain"
        spool(path, source.dialect, plain, lambda part: self.progress("unpacking", part))
        start = source.data_start + (_mark_length(plain) if source.dialect.rewrites else 0)
        return dataclasses.replace(source, path=str(plain), size=plain.stat().st_size, data_start=start)

    def _residues(self, source: Source, config: RunConfig) -> int:
        return cells_from_reading(len(source.layout.numbers), config.test_every)

    def _read_all(self, reading: Ingest, directory: Path) -> list[int]:
        """Fold all blocks in; returns the columns that are of another kind than was thought, if any."""
        requests = list(reading.requests(directory))
        reports: Iterator[BlockReport] = self.engine.sweep(requests)
        for index, report in enumerate(reports):
            request = requests[index]
            if isinstance(request, ReadRange) and report.begin != reading.position:
                # The guess of where a row starts was wrong (a quoted newline): the block before knows better.
                report = Worker().handle(dataclasses.replace(request, exact=reading.position))
            if report.not_of_kind:
                return report.not_of_kind
            if report.too_ragged:
                raise BadRowsError(ragged_message(reading, report))
            reading.add(report)
            self.progress("reading", (index + 1) / len(requests))
        return []

    # ---------------------------------------------------------------- passes over blocks

    def moments(self, dataset: Dataset, base: Encoding, split: Split) -> tuple[Moments, Moments]:
        """Moments of (terms..., target) over training rows and over test rows."""
        stored = _stored_moments(dataset, base, split)
        if stored is not None:
            return stored
        train, test = Merger(), Merger()
        requests = [SumMoments(str(dataset.directory), block, base, split) for block in dataset.blocks]
        for of_train, of_test in self.swept("summing", requests):
            train.add(of_train)
            test.add(of_test)
        return train.total(), test.total()

    def triangle(self, dataset: Dataset, encoding: Encoding, split: Split, units: Standardisation) -> Array:
        """The triangle of all standardised training rows (TSQR)."""
        requests = [SumTriangle(str(dataset.directory), block, encoding, split, units) for block in dataset.blocks]
        total: Array | None = None
        for part in self.swept("factoring", requests):
            total = part if total is None else stack(total, part)
        if total is None:
            raise DataError("The file has no rows to fit a model to. Choose a file with rows.")
        return total

    def score(
        self, dataset: Dataset, encoding: Encoding, split: Split, coef: Array, intercept: float,
        centre: Array, scale: Array,
    ) -> Sums:  # fmt: skip
        """Residual sums of train and test, and the gradient, from the rows."""
        requests = [
            Score(str(dataset.directory), block, encoding, split, coef, intercept, centre, scale)
            for block in dataset.blocks
        ]
        total: Sums | None = None
        for part in self.swept("scoring", requests):
            total = part if total is None else total.merge(part)
        assert total is not None
        return total

    def medians(self, dataset: Dataset, columns: Sequence[str], target: str, split: Split) -> dict[str, float]:
        """The exact medians of the training rows in four counting passes, whatever the number of rows.

        Each pass counts the next 16 bits of the values' ordered keys among those that fit what is known so far.
        """
        probes = [Probe(name, 0, 0) for name in columns for _ in range(2)]
        ranks: list[int] = []
        for step in range(4):
            requests = [CountKeys(str(dataset.directory), b, target, split, tuple(probes)) for b in dataset.blocks]
            counts = np.asarray(sum(self.swept("finding medians", requests)))  # one at a time: half a MB a probe
            if step == 0:
                totals = counts.sum(axis=1)
                ranks = [int((n - 1) // 2 if i % 2 == 0 else n // 2) for i, n in enumerate(totals)]
            for i, probe in enumerate(probes):
                below = np.cumsum(counts[i])
                bits = int(np.searchsorted(below, ranks[i], side="right"))
                ranks[i] -= int(below[bits - 1]) if bits else 0
                probes[i] = Probe(probe.column, probe.known_bits + 16, (probe.prefix << 16) | min(bits, 0xFFFF))
        values = [value_of_key(probe.prefix) for probe in probes]
        found = {name: values[2 * i] / 2 + values[2 * i + 1] / 2 for i, name in enumerate(columns)}
        return {name: value for i, (name, value) in enumerate(found.items()) if totals[2 * i]}

    def predict(
        self, dataset: Dataset, encoding: Encoding, coef: Array, intercept: float
    ) -> Iterator[tuple[Array, int]]:
        requests = [Predict(str(dataset.directory), b, encoding, coef, intercept) for b in dataset.blocks]
        yield from self.swept("predicting", requests)

    def swept(self, stage: str, requests: Sequence[Any]) -> Iterator[Any]:
        """The reports of a sweep, with progress."""
        for i, report in enumerate(self.engine.sweep(requests)):
            yield report
            self.progress(stage, (i + 1) / len(requests))


def _question(path: Path, config: RunConfig) -> dict[str, Any]:
    """What a data set is the answer to: a file, and how it is to be read."""
    return {"path": str(path), "dialect": _plain(config.dialect), "format": FORMAT,
            "categorical": sorted(config.categorical), "numeric": sorted(config.numeric),
            **reader_question(path)}  # fmt: skip


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _mark_length(plain: Path) -> int:
    """Bytes of a byte-order mark that the rewritten text still has."""
    with plain.open("rb") as file:
        return 3 if file.read(3) == b"\xef\xbb\xbf" else 0


def _stored_moments(dataset: Dataset, base: Encoding, split: Split) -> tuple[Moments, Moments] | None:
    """From the sums made while reading, if all columns are complete numbers and the split fits their cells."""
    names = [*(term.name for term in base.terms), base.target]
    columns = [dataset.columns.get(name) for name in names]
    if dataset.manifest.bad_count or base.known or split.fraction:
        return None
    if any(c is None or not c.is_number or c.missing for c in columns):
        return None
    cells = dataset.cells
    if not cells or (split.every and len(cells) % split.every):
        return None
    slots = [c.slot for c in columns if c is not None]
    test = [r for r in range(len(cells)) if split.every and r % split.every == 0]
    train = [r for r in range(len(cells)) if r not in test]
    empty = Moments.empty(len(slots))
    return (
        merge_all(cells[r].take(slots) for r in train),
        merge_all(cells[r].take(slots) for r in test) if test else empty,
    )


# ------------------------------------------------------------------ the parameter server


@dataclasses.dataclass
class Steering:
    """What a person, or the run itself, may change while training goes on."""

    rate_at: Callable[[float], float]  # the learning rate at an epoch, with fractions
    seed: int
    batch_size: int
    local_steps: int = 1
    clip: float = 0.0
    compression: str = "none"
    share: float = 0.1
    tamed: bool = False  # take shorter steps with staler gradients
    prefetch: int = 2
    tight: bool = False
    slow: dict[int, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Tally:
    """Sums since they were last looked at; seconds are those of all workers together, but `apply`, the server's own."""

    rows: int = 0
    steps: int = 0
    bytes_raw: int = 0
    bytes_sent: int = 0
    read: float = 0.0
    compute: float = 0.0
    apply: float = 0.0
    staleness: int = 0


@dataclasses.dataclass
class Colleague:
    """What the server knows of a worker's doings."""

    pid: int
    rows: int = 0
    busy: float = 0.0  # seconds
    staleness: int = 0
    since: float = 0.0


class Observer(Protocol):
    """Who is told what the server does; it records, stops, steers and says what comes after a phase."""

    def stepped(self, now: float) -> None: ...

    def ticked(self, now: float) -> None: ...

    def phase_ended(self, now: float) -> None:
        """Nothing is left to do: `begin` another phase, or set `finished`."""

    def happened(self, kind: str, text: str, rank: int | None = None, **data: Any) -> None: ...


class ParameterServer:
    """Weights in shared memory with a version; gradients from slots; step rule and prox of the penalty.

    An engine wraps it (`engines.base.Server`). Who may go on is the policy's to say.
    """

    POLL = 0.05  # seconds between two looks at clock and commands when nothing else happens
    STALL = 1.0  # seconds between two ticks from which on this process itself was held up
    START = 20.0  # seconds that a hired worker may take to join

    def __init__(
        self, engine: Engine, shards: Shards, model: LinearModel[Penalty], steering: Steering, failure: FailurePolicy,
        w: Array,
    ) -> None:  # fmt: skip
        self.shards, self.model, self.steering, self.failure, self.w = shards, model, steering, failure, w
        self.observer: Observer
        self.policy: Policy
        self.rule: StepRule
        self.kind: Literal["gradient", "local", "full"] = "gradient"
        self.version = 0
        self.gradient = np.zeros_like(w)  # that of the last step, the point it was asked for, and ||y - Xs w||^2 there
        self.asked, self.squares, self.rows = w, 0.0, 0
        self.rows_done = 0  # since the run was started or resumed
        self.rate = 0.0
        self.tally = Tally()
        self.workers: dict[int, Colleague] = {}
        self.hired: dict[int, float] = dict.fromkeys(range(engine.workers), math.inf)
        self.elastic, self.finished, self.patience = engine.elastic, False, self.POLL
        self._engine = engine
        self._ticked = math.inf
        self._losses: dict[int, int] = {}
        self._orders: list[Instruction] = []
        self._evicted: dict[int, str] = {}
        self._parts: dict[Task, tuple[Part, int]] = {}
        self._news = False
        self._known_encodings: dict[tuple[str, float], Compression] = {}
        self._encodings: dict[Task, Compression] = {}  # a command may change it between a task and its update
        self._sides = np.zeros(len(shards.rows), np.int8)
        self._allocate(engine, len(shards.rows), len(w))

    def _allocate(self, engine: Engine, count: int, width: int) -> None:
        weights, self._weights = engine.allocate((COPIES, width), np.float64)
        version, self._published = engine.allocate((1,), np.int64)
        slots, self._slots = engine.allocate((count, 8 * width + 8), np.uint8)
        self._plain_slots = self._slots.view(np.float64)[:, :width]
        residuals, self._residuals = engine.allocate((2, count, width), np.float64)
        self.board = Board(weights, version, slots, residuals)

    def release(self) -> None:
        for field in dataclasses.fields(self.board):
            self._engine.release(getattr(self.board, field.name))

    def begin(self, policy: Policy, rule: StepRule, kind: Literal["gradient", "local", "full"]) -> None:
        """Another phase, with whoever is there."""
        if hasattr(self, "policy") and policy is not self.policy:
            policy.succeed(self.policy)
        self.policy, self.rule, self.kind = policy, rule, kind
        full = [min(n, self.steering.batch_size) for n in self.shards.rows]
        self._full_step = max(1, sum(full) if isinstance(policy, Barrier) else max(full))  # rows
        self._publish()

    @property
    def squares_of_all(self) -> float:
        """The squared residuals of all rows, guessed from those of the last step."""
        return self.squares / max(self.rows, 1) * self.shards.total

    # ---------------------------------------------------------------- what an engine tells

    def joined(self, rank: int, pid: int, now: float) -> list[Instruction]:
        again = rank in self._losses
        self.hired.pop(rank, None)
        self._evicted.pop(rank, None)
        self.steering.slow.pop(rank, None)  # that was another process
        self.workers[rank] = Colleague(pid, since=now)
        self.policy.join(rank)
        self.observer.happened("restarted" if again else "joined", f"Worker {rank} is here (process {pid}).", rank)
        return self._instructions(now)

    def pushed(self, rank: int, update: Update, now: float) -> list[Instruction]:
        tasks = self.policy.pushed(rank, now)
        if tasks:
            self._losses[rank] = 0
            self._take_in(self.workers[rank], tasks, update)
        self._make_steps(now)
        return self._instructions(now)

    def digest(self, now: float) -> list[Instruction]:
        """What there is to do about steps that were made: record, judge, end. Workers are at the next one meanwhile."""
        self._tell_news(now)
        if not self.finished and (self.policy.finished or self.policy.closed) and self.policy.idle:
            self.observer.phase_ended(now)
        return self._instructions(now)

    def lost(self, rank: int, failure: WorkerFailed, now: float) -> list[Instruction]:
        redone = self.policy.gone(rank)
        self.workers.pop(rank, None)
        self.hired.pop(rank, None)
        self._losses[rank] = self._losses.get(rank, 0) + 1
        cause = self._evicted.pop(rank, failure.cause)
        self.observer.happened(
            "lost", f"Worker {rank} is gone: {cause}.", rank,
            signal=failure.signal, cause=cause, tasks_redone=len(redone),
        )  # fmt: skip
        others = len(self.hired) + sum(not member.leaving for member in self.policy.members.values())
        decision = self.failure.decide(Loss(rank, self._losses[rank], others))
        if decision == "stop":
            raise EngineError(
                f"Worker {rank} was lost ({cause}) and is not replaced: {self.failure.why(self._losses[rank])}. "
                "Resume the run when the cause is mended."
            )
        if decision == "replace":
            self.hire(rank)
        self._make_steps(now)
        return self._instructions(now)

    def left(self, rank: int, now: float) -> list[Instruction]:
        self.policy.gone(rank)
        self.workers.pop(rank, None)
        self.observer.happened("left", f"Worker {rank} has left.", rank)
        return self._instructions(now)

    def tick(self, now: float) -> list[Instruction]:
        if now - self._ticked > self.STALL:  # this process was stopped or starved: that is no worker's fault
            self.policy.extend_leases(now - self._ticked)
        self._ticked = now
        self.observer.ticked(now)
        for rank in self.policy.overdue(now):
            self.evict(rank, f"it hung: no answer within {self.policy.lease:.1f} s")
        for rank, since in self.hired.items():
            self.hired[rank] = min(since, now)
            if now - since > self.START:
                self.evict(rank, f"it did not start within {self.START:.0f} s")
        self._make_steps(now)
        return self.digest(now)

    # ---------------------------------------------------------------- what a run may ask for

    def hire(self, rank: int) -> None:
        self.hired[rank] = math.inf  # its time runs from the next tick on
        self._orders.append(Hire(rank))

    def free_rank(self) -> int:
        return next(rank for rank in itertools.count() if rank not in self.workers and rank not in self.hired)

    def dismiss(self, rank: int) -> bool:
        """Let a worker go as soon as it has done what it is doing; not the last that stays."""
        return self.policy.leave(rank)

    def evict(self, rank: int, why: str) -> None:
        """Kill a worker; its shards are handed on when it is gone."""
        if rank not in self._evicted:
            self._evicted[rank] = why
            self._orders.append(Kill(rank))

    # ---------------------------------------------------------------- updates become steps

    def _take_in(self, worker: Colleague, tasks: Sequence[Task], update: Update) -> None:
        for task, plain in zip(tasks, update.parts, strict=True):
            part = Part(*plain)
            self._parts[task] = part, update.version
            worker.rows += part.rows
        worker.busy += update.read + update.compute
        worker.staleness = self.version - update.version
        self.tally.read += update.read
        self.tally.compute += update.compute

    def _tell_news(self, now: float) -> None:
        if self._news:
            self._news = False
            self.observer.stepped(now)

    def _make_steps(self, now: float) -> None:
        """Every step that can be made. The last one is left for `digest`, so that workers need not wait for that."""
        while not self.finished and (tasks := self.policy.due()):
            self._tell_news(now)
            started = time.perf_counter()
            self._apply(tasks)
            self.policy.applied(tasks)
            self._publish()
            self.tally.apply += time.perf_counter() - started
            self._news = True

    @unbounded
    def _apply(self, tasks: Sequence[Task]) -> None:
        parts, versions = zip(*(self._parts.pop(task) for task in tasks), strict=True)
        rows, squares = sum(part.rows for part in parts), sum(part.squares for part in parts)
        staleness = self.version - min(versions)
        total = self._total(tasks, parts)
        self._count(parts, rows, len(tasks) * self.version - sum(versions))
        self.asked, self.squares, self.rows = self._weights[self.version % COPIES].copy(), squares, rows
        self.rate = self.steering.rate_at(self.policy.progress)
        if self.steering.tamed:
            self.rate = stale_rate(self.rate, staleness)
        if self.kind == "local":
            self.gradient = -total / (rows * self.rate * self.steering.local_steps) if rows else total
            self.w = self.w + total / max(rows, 1)
        else:
            self.gradient = total / max(rows, 1)
            rate = self.rate * self._share_of_a_step(rows)
            self.w = self.rule.step(self.w, clipped(self.gradient, self.steering.clip), rate, self.model.penalty.prox)
        self.version += 1

    def _share_of_a_step(self, rows: int) -> float:
        """Less than 1 for the last batches of an epoch, where they have fewer rows: each row is to count as much as
        any other, and the rate is only safe for batches of full size."""
        if self.kind == "full":
            return 1.0
        return min(1.0, rows / self._full_step)

    def _total(self, tasks: Sequence[Task], parts: Sequence[Part]) -> Array:
        """The sum of the updates in the order of the shards: whoever computed them, it has the same bits."""
        encodings = [self._encodings.pop(task) for task in tasks]
        if all(encoding.name == "none" for encoding in encodings):
            updates = self._plain_slots[[task.shard for task in tasks]]
        else:
            pairs = zip(tasks, encodings, strict=True)
            updates = np.stack([encoding.decode(self._slots[task.shard]) for task, encoding in pairs])
            for task, encoding in zip(tasks, encodings, strict=True):
                self._sides[task.shard] ^= encoding.name != "none"
        if self.kind == "local":
            updates = updates * np.array([[part.rows] for part in parts])
        total: Array = np.add.reduce(updates, axis=0)
        return total

    def _count(self, parts: Sequence[Part], rows: int, staleness: int) -> None:
        self.rows_done += rows
        self.tally.rows += rows
        self.tally.steps += len(parts)
        self.tally.bytes_raw += 8 * len(self.w) * len(parts)
        self.tally.bytes_sent += sum(part.nbytes for part in parts)
        self.tally.staleness += staleness

    def _publish(self) -> None:
        self._weights[self.version % COPIES] = self.rule.query(self.w)
        self._published[0] = self.version

    def _instructions(self, now: float) -> list[Instruction]:
        orders, self._orders = self._orders, []
        if self.finished:
            return orders
        orders += [Dismiss(m.rank) for m in self.policy.departing()]
        return orders + [Send(m.rank, self._assignment(m)) for m in self.policy.grants(self.version, now)]

    def _assignment(self, member: Member) -> Assignment:
        knobs = self.steering
        sides = tuple(int(self._sides[task.shard]) for task in member.tasks)
        self._encodings.update(dict.fromkeys(member.tasks, self._encoding(knobs.compression, knobs.share)))
        local = self.kind == "local"
        return Assignment(
            tuple(map(tuple, member.tasks)), sides, self.kind, knobs.seed, knobs.batch_size, knobs.local_steps,
            knobs.rate_at(self.policy.progress) if local else 0.0, self.model if local else None,
            knobs.compression, knobs.share,
            knobs.prefetch, knobs.tight, knobs.slow.get(member.rank, 1.0),
        )  # fmt: skip

    def _encoding(self, name: str, share: float) -> Compression:
        if (name, share) not in self._known_encodings:
            self._known_encodings[name, share] = make_compression(name, len(self.w), share)
        return self._known_encodings[name, share]

    # ---------------------------------------------------------------- checkpoints

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain values and arrays from which `restore` goes on with the same bits."""
        held_back = self._residuals[self._sides, np.arange(len(self._sides))]
        arrays = {f"rule.{name}": array for name, array in self.rule.state().items()}
        arrays |= {"weights": self.w.copy()} | ({"residuals": held_back} if held_back.any() else {})
        return {"version": self.version, "policy": self.policy.state(), "kind": self.kind}, arrays

    def restore(self, version: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.version = version
        self.w = np.array(arrays["weights"], np.float64)
        if "residuals" in arrays:
            self._residuals[self._sides, np.arange(len(self._sides))] = arrays["residuals"]
