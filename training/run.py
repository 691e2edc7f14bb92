"""A gradient run from config to report: the steps in their order.

What happens while workers train is in `conductor`; how a run is started, queued and stored is in `runs`.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data_pipeline import Shards
from shoal.errors import DamagedFile, Reason, SourceChanged, Standing, TrainingError
from shoal.fitting.reports import Trained, described, finite
from shoal.metrics import Event, Timings
from shoal.models import Array, LinearModel
from shoal.passes.blocks import Sums
from shoal.passes.gradient_loop import GradientLoop
from shoal.passes.shards import ShardGradient
from shoal.results.fit import GradientTraining, Resolved
from shoal.settings.config import RunConfig
from shoal.settings.limits import SMALL_DATA, shard_count
from shoal.steps.compression import make_compression
from shoal.steps.optimizers import SGD, batch_curvature
from shoal.storage.base import TIMEOUT
from shoal.training.checkpoints import Snapshot
from shoal.training.conductor import Conductor, Session
from shoal.training.objective import Objective, header_of, prepare_objective
from shoal.training.phases import step_rule
from shoal.training.recorder import Recorder
from shoal.training.shards import derive, top_eigenvalue
from shoal.utils import available_memory
from shoal.worker import Ping

ILL = 1e2  # condition number (of the columns) from which float32 gradients stop short of the optimum
COORDINATION = 0.1  # share of the time that it may take
FEWEST_STEPS = 2  # steps of an epoch, however small the data
MESSAGES = 25  # that are timed
A_STEP = 300e-6  # seconds that the server takes between the last gradient of a round and the work of the next
FEWEST_ROWS = 16  # of a batch
LOCKED = 0.1  # seconds that workers wait while somebody has locked the store: what there is to say can wait longer
MOST_LOCAL_ROWS = 1024  # of a batch in mode local, whose point is many small steps


def train_gradient(
    coordinator: Coordinator, config: RunConfig, session: Session, resume: Snapshot | None = None, run_id: str = ""
) -> Trained:
    """Train, from the beginning or from a checkpoint; TrainingError says why a run failed.

    Where a file of the cache turns out to be damaged it is made again, and the run goes on from its newest checkpoint.
    """
    attempts = itertools.count()

    def trained() -> Trained:
        again = next(attempts) > 0
        begin = (session.checkpoints.newest() or resume) if again else resume
        return _Training(coordinator, config, session, begin, run_id, final=again).outcome()

    return coordinator.cache.mending(trained)


class _Training:
    def __init__(
        self, coordinator: Coordinator, config: RunConfig, session: Session, resume: Snapshot | None, run_id: str,
        final: bool,
    ) -> None:  # fmt: skip
        self.coordinator, self.config, self.session = coordinator, config, session
        self.resume, self.run_id = resume, run_id
        self.final = final  # no other attempt follows if files of the cache are damaged
        self.timings = Timings()
        self.started = time.monotonic() - (resume.meta["seconds"] if resume else 0.0)

    def clock(self) -> float:
        """Seconds since the run began, those before a resume included."""
        return time.monotonic() - self.started

    def outcome(self) -> Trained:
        with self.timings.stage("ingest"):
            dataset = self.coordinator.open(self.config)
            self._check_same(dataset)
        objective = prepare_objective(self.coordinator, dataset, self.config, self.timings)
        with self.timings.stage("shards"):
            shards, resolved = self._shards(objective)
        for repair in self.coordinator.cache.repairs:
            self.session.log("warning", repair)
        with self.timings.stage("train"):
            conductor = self._train(objective, shards, resolved)
        return self._described(conductor)

    def _check_same(self, dataset: Dataset) -> None:
        if self.resume is None:
            return
        header = header_of(dataset)
        if (self.resume.meta["content"], self.resume.meta.get("header", header)) != (dataset.manifest.content, header):
            raise SourceChanged(
                f"'{Path(self.config.file).name}' is not what it was when the checkpoint was taken. Put the file back "
                "as it was to go on, or start a new run."
            )

    # ---------------------------------------------------------------- what is decided before

    def _shards(self, objective: Objective) -> tuple[Shards, Resolved]:
        known = self.resume.meta["resolved"] if self.resume else {}
        precision = known.get("precision") or _precision(self.config, objective)
        row_bytes = (objective.width + 1) * np.dtype(precision).itemsize
        count = known.get("shards") or shard_count(int(objective.n), row_bytes, self.config.shards)
        prepared = objective.prepared
        shards = derive(
            self.coordinator, prepared.dataset, prepared.encoding, prepared.split, objective.units,
            shards=count, dtype=precision, seed=self.config.seed, partition=self.config.partition,
        )  # fmt: skip
        objective.held.rows = shards
        if objective.problem is None:
            objective.scale = self._scale(shards)
        if known:
            return shards, Resolved(**known)
        return shards, self._resolved(objective, shards, precision)

    def _scale(self, shards: Shards) -> float:
        """max |Xs'y| / n, by a pass over the rows."""
        requests = [ShardGradient(shards, shard, np.zeros(shards.width)) for shard in range(len(shards.rows))]
        total = sum(self.coordinator.swept("measuring", requests), np.zeros(shards.width))
        return float(np.abs(total).max(initial=0.0)) / max(shards.total, 1)

    def _resolved(self, objective: Objective, shards: Shards, precision: str) -> Resolved:
        config = self.config
        if objective.problem is not None:
            # The Gram matrix of standardised columns: its largest eigenvalue bounds every step.
            top = float(np.linalg.eigvalsh(objective.problem.gram)[-1]) / objective.n
            top *= 1.001
        else:
            top = top_eigenvalue(self.coordinator, shards)
        batch, local = self._batch_size(shards)
        together = batch * len(shards.rows) if config.mode == "sync" else batch
        curvature = batch_curvature(shards.total, together, top, shards.largest_row)
        # Within a shard, mode local takes plain steps.
        rule = SGD(shards.width) if config.mode == "local" else step_rule(config, shards.width)
        rate = config.learning_rate or rule.safe_rate(curvature, objective.scale)
        prefetch = config.prefetch if config.prefetch >= 0 else 2
        return Resolved(len(shards.rows), precision, batch, local, prefetch, rate, top)

    def _batch_size(self, shards: Shards) -> tuple[int, int]:
        """Rows of a batch and steps of a local round: enough work between two messages, from what both cost here."""
        config, longest = self.config, max(shards.rows)
        if config.batch_size and (config.local_steps or config.mode != "local"):
            return config.batch_size, max(1, config.local_steps)
        a_row, a_message = _seconds_of_a_row(shards), self._seconds_of_a_message()
        cores = max(1, os.cpu_count() or 1)
        work = a_message * (1 - COORDINATION) / COORDINATION  # seconds of one worker between two messages
        most = max(FEWEST_ROWS, -(-longest // FEWEST_STEPS))  # rounded up: no round for the last two rows
        room = int(
            config.max_memory * available_memory() / (shards.width * 8 * 4 * max(1, self.coordinator.engine.workers))
        )
        if config.mode == "local":
            batch = config.batch_size or min(MOST_LOCAL_ROWS, max(FEWEST_ROWS, longest // 64))
            needed = work / (batch * a_row * max(1, len(shards.rows) / cores))
            # A message with a tenth of the values may come ten times as often; a round moves by as much less.
            needed *= make_compression(config.compression, shards.width, config.top_k).kept
            steps = -(-longest // batch)
            return batch, config.local_steps or int(min(max(4, needed), max(1, steps)))
        tasks = max(1, len(shards.rows) / cores) if config.mode == "sync" else 1
        wanted = _power_of_two(work / (a_row * tasks))
        return config.batch_size or max(1, min(max(FEWEST_ROWS, wanted), most, max(FEWEST_ROWS, room), longest)), 1

    def _seconds_of_a_message(self) -> float:
        """There and back, with what the server does in between."""
        engine, seconds = self.coordinator.engine, []
        for _ in range(MESSAGES):
            started = time.perf_counter()
            for _ in engine.sweep([Ping()] * engine.workers):
                pass
            seconds.append(time.perf_counter() - started)
        return float(np.median(seconds)) + A_STEP

    # ---------------------------------------------------------------- the training itself

    def _train(self, objective: Objective, shards: Shards, resolved: Resolved) -> Conductor:
        config, engine, session = self.config, self.coordinator.engine, self.session
        recorder = Recorder(session.storage, objective, self.clock, lambda text: session.log("warning", text))
        conductor = Conductor(
            config, resolved, objective, engine, shards, session, recorder, self.clock, self.run_id,
            self.coordinator.progress,
        )  # fmt: skip
        try:
            session.storage.wait_at_most(TIMEOUT)
            self._begin(conductor)
            if conductor.ending is None:  # else only the report was missing
                session.storage.wait_at_most(LOCKED)
                engine.run_workers(GradientLoop(shards, conductor.server.board), conductor.server)
                conductor.final_look()
                conductor.checkpoint()
            self._end(conductor)
        except BaseException as error:
            self._failed(conductor, error)
            raise
        finally:
            session.storage.wait_at_most(TIMEOUT)  # records that are not kept now are lost
            recorder.close()
            conductor.server.release()
        return conductor

    def _begin(self, conductor: Conductor) -> None:
        if self.resume is not None:
            self.session.storage.forget_after(self.resume.step)
            self.session.checkpoints.forget_after(self.resume.step)
        before = self.session.storage.last_round() if self.resume is None else None
        if before is not None:
            self.session.storage.forget_after(-1)
        conductor.begin(self.resume)
        begun = f"Resuming from the checkpoint of round {self.resume.step}." if self.resume else "Training begins."
        conductor.happened("started", begun, resolved=vars(conductor.resolved))
        self.session.state(Standing("running", self._said_of_a_loss(conductor, before.round) if before else ""))
        if self.resume is None:
            conductor.checkpoint()
        self.session.callbacks.run_started(conductor)

    def _said_of_a_loss(self, conductor: Conductor, done: int) -> str:
        """A run that had come further, and whose checkpoints are all damaged or gone: that is no silent matter."""
        text = (
            f"The run had come to round {done:,}, but none of its checkpoints in "
            f"'{self.session.checkpoints.directory}' can be used: they are damaged or gone. "
            "So it begins again with round 0."
        )
        conductor.happened("warning", text, reason=Reason.BAD_STATE, rounds_lost=done)
        return text

    def _end(self, conductor: Conductor) -> None:
        conductor.commands.refuse_the_rest()
        ending = conductor.ending
        assert ending is not None
        conductor.happened("state", f"The run is {ending.state}: {ending.cause}.", **ending.as_dict())
        self.session.callbacks.run_ended(conductor, ending.state)

    def _failed(self, conductor: Conductor, error: BaseException) -> None:
        if isinstance(error, DamagedFile) and not self.final:
            return  # it goes on in a moment
        text = str(error) if isinstance(error, TrainingError) else f"{type(error).__name__}: {error}"
        reason = error.reason if isinstance(error, TrainingError) else Reason.UNFORESEEN
        conductor.happened("error", text, reason=reason)
        self.session.callbacks.run_ended(conductor, "failed")

    # ---------------------------------------------------------------- what came out

    def _described(self, conductor: Conductor) -> Trained:
        objective, server, ending = conductor.objective, conductor.server, conductor.ending
        assert ending is not None
        with self.timings.stage("score"):
            fit = objective.fit(server.w, self._scored(objective, server.w))
        training = self._facts(conductor)
        notes = (*self._warnings(training.not_converged), *self._source_notes())
        by_plugin = {"penalty": self.config.penalty, "alpha": objective.alpha} if self.config.penalty else {}
        trained = described(fit, training, notes, **by_plugin)
        self.timings.seconds["total"] = self.clock()
        return replace(trained, report=replace(trained.report, timings=self.timings.seconds, run_id=self.run_id))

    def _scored(self, objective: Objective, w: Array) -> Sums:
        prepared, units = objective.prepared, objective.units
        return self.coordinator.score(
            prepared.dataset, prepared.encoding, prepared.split, *objective.raw(w), units.centre, units.scale
        )

    def _facts(self, conductor: Conductor) -> GradientTraining:
        away, ending = conductor.away, conductor.ending
        assert ending is not None
        return GradientTraining(
            mode=self.config.mode, epochs=finite(conductor.epoch), rounds=int(conductor.server.version),
            distance_to_optimum=finite(away.objective), coefficient_distance=finite(away.coefficients),
            slope=finite(away.slope), converged=bool(away.within(self.config.tolerance or 1e-6)),
            not_converged=self._not_converged(conductor), ending=ending,
            resolved=Resolved(**finite(vars(conductor.resolved))),
            ledger=finite(conductor.ledger()),
            overhead=finite({"recording": conductor.recorder.spent, "checkpoints": conductor.saving}),
            events=tuple(finite(_plain(event)) for event in conductor.recorder.events),
        )  # fmt: skip

    def _warnings(self, not_converged: str) -> list[str]:
        said = []
        if self.config.mode == "local" and (self.config.step_rule != "sgd" or self.config.clip):
            said.append("Mode local takes plain steps within a shard: step_rule and clip are not used.")
        return [*said, *([not_converged] if not_converged else [])]

    def _not_converged(self, conductor: Conductor) -> str:
        """What is left to the optimum; empty for a run that has converged."""
        away = conductor.away
        if away.within(self.config.tolerance or 1e-6):
            return ""
        parts = []
        if away.objective is not None:
            parts.append(f"the relative distance of the objective to its optimum is {away.objective:.1e}")
        if away.coefficients is not None:
            parts.append(
                f"the coefficients differ from the optimal ones by up to {away.coefficients:.1e} of the largest"
            )
        if not parts and away.slope is not None:
            parts.append(f"the gradient is still {away.slope:.1e} times that at the start")
        return (
            f"The run has not converged: {' and '.join(parts) or 'its distance to the optimum is not known'}. "
            "Allow more epochs or passes, or use the exact solver."
        )

    def _source_notes(self) -> list[str]:
        if self.coordinator.is_cached(self.config):
            return []
        name = Path(self.config.file).name
        return [f"'{name}' was changed or removed during the run; the model was fitted to what it was before."]


def _precision(config: RunConfig, objective: Objective) -> str:
    if config.precision != "auto":
        return config.precision
    small = objective.n * objective.width <= SMALL_DATA
    ill = objective.problem is not None and objective.problem.condition() > ILL
    return "float64" if small or ill else "float32"


def _seconds_of_a_row(shards: Shards) -> float:
    shard = max(range(len(shards.rows)), key=lambda s: shards.rows[s])
    X, y = shards.open(shard)
    X, y = X[: 1 << 16], y[: 1 << 16]
    w, best = np.zeros(shards.width), 1.0
    for _ in range(3):
        started = time.perf_counter()
        LinearModel.gradient(X, y, w)
        best = min(best, (time.perf_counter() - started) / max(1, len(y)))
    return best


def _power_of_two(value: float) -> int:
    """Rounded up: measurements that differ a little give the same answer."""
    return 1 << max(0, int(np.ceil(np.log2(max(value, 1.0)))))


def _plain(event: Event) -> dict[str, Any]:
    return dataclasses.asdict(event)
