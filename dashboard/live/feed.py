"""What browsers see of one run: all of it first, then what is new. Sharing it among tabs is in `live_hub`.

The feed holds what a browser holds after its messages, so that a tab that comes later is given the same without
another look at the disk. A snapshot replaces everything, an update is added to it:

    head      state, cause and the numbers of the tiles, in words
    rounds    columns, thinned to about POINTS
    hosts     columns
    own       columns: what metrics of plug-ins came to, by their names; all of it whenever there is more
    spread    histograms of weights and gradients by parts of the model: a few looks, all of it whenever there is more
    rates     columns: rows a second of each worker, by its number, and the use of graphics processors
    workers   the newest sample of each rank, with its CPU over the last minute
    events    with their number in the store and what there is to say about them
    lanes     when each worker was here and when it was lost
    shards    of each parameter shard what it has and how it is; empty where the run's own process has all
    log       lines
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.dashboard.live import histograms
from shoal.dashboard.live import story as live_story
from shoal.dashboard.live import tiles as live_words
from shoal.dashboard.live.own_metrics import own_columns
from shoal.dashboard.parts import wording
from shoal.errors import TrainingError
from shoal.metrics import HISTOGRAMS, OWN_METRICS
from shoal.runs.folder import ENDED
from shoal.runs.launch import Run
from shoal.storage.base import HAPPENED

if TYPE_CHECKING:
    from shoal.metrics import Event, HostSample, LinkSample, Round, WorkerSample
    from shoal.storage import Storage

POINTS = 1500  # of a series: about the pixels a chart has
EVENTS = 1000  # the newest ones, but checkpoints go first
EVENTS_READ = 20 * EVENTS  # in which these are looked for
LINES = 500  # of the log, the newest ones
TAIL = 1 << 18  # bytes of the log that these are looked for in
MINUTE = 60  # samples of a worker, which come once a second
SAMPLING = 2.5  # seconds; a longer gap between two host samples means that some were not seen
BUSY = 1.0  # seconds to wait for a store that another process has locked


class Message(NamedTuple):
    """`kind` is snapshot or update."""

    kind: str
    body: dict[str, Any]


def json_number(value: float | None, digits: int | None = None) -> float | None:
    """A number as JSON has it: neither NaN nor infinite; with so many significant digits, or as it is."""
    if value is None or not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")


def _short(name: str, digits: int | None = 4) -> Callable[[Any], float | None]:
    return lambda record: json_number(getattr(record, name), digits)


def _above_zero(record: Round) -> float | None:
    """For a logarithmic axis: rounding may take the distance to the optimum to zero and below."""
    return json_number(record.distance, 5) if record.distance is not None and record.distance > 0 else None


# While the coordinator applies a step, workers wait for it: the two are shown apart, and all of it adds up to 1.
ROUND_COLUMNS: dict[str, Callable[[Round], Any]] = {
    "round": lambda r: r.round,
    "epoch": _short("epoch", 9),
    "seconds": _short("seconds", 8),
    "finish": lambda r: int(r.phase == "finish"),
    "loss": _short("loss", None),
    "validation": _short("validation", None),
    "distance": _above_zero,
    "gradient_norm": _short("gradient_norm"),
    "learning_rate": _short("learning_rate", 6),
    "rows_per_second": _short("rows_per_second"),
    "staleness": _short("staleness"),
    "workers": lambda r: r.workers,
    "bytes_sent": lambda r: r.bytes_sent,
    "bytes_saved": lambda r: max(0, r.bytes_raw - r.bytes_sent),
    "read": _short("read"),
    "compute": _short("compute"),
    "apply": lambda r: json_number(min(r.apply, r.wait), 4),
    "wait": lambda r: json_number(max(0.0, r.wait - r.apply), 4),
}
HOST_COLUMNS: dict[str, Callable[[HostSample], Any]] = {
    "seconds": _short("seconds", 8),
    "cpu": _short("cpu"),
    "memory": lambda h: json_number(h.memory_used / h.memory_total, 4) if h.memory_total else None,
    "disk_read": _short("disk_read"),
    "disk_write": _short("disk_write"),
    "net_in": _short("net_in"),
    "net_out": _short("net_out"),
}

Columns = dict[str, list[Any]]


def columns(records: Sequence[Any], wanted: Mapping[str, Callable[[Any], Any]]) -> Columns:
    return {name: [value(record) for record in records] for name, value in wanted.items()}


class RunFeed:
    """Reads one run. Used by one thread at a time."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.config = run.config
        self.ended = False
        self._fresh = True  # whether listeners need all of it
        self._storage: Storage | None = None
        self._log = LogTail(run.directory / "log.jsonl")
        self._words = live_words.Words(self.config)
        self._forget()

    def _forget(self) -> None:
        self.head: dict[str, Any] = {}
        self.rounds: Columns = columns([], ROUND_COLUMNS)
        self.hosts: Columns = columns([], HOST_COLUMNS)
        self.rates: Columns = {}
        self.own: Columns = {}
        self._looks: list[dict[str, Any]] = []
        self._number = self._own_number = self._spread_number = 0  # of the newest events that were seen
        self.workers: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.lanes: list[dict[str, Any]] = []
        self.shards: list[dict[str, Any]] = []
        self.log: list[dict[str, Any]] = []
        self._last: list[Any] = []  # the newest round that was seen, as a row
        self._appended = 0

    def close(self) -> None:
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    # ---------------------------------------------------------------- messages

    def snapshot(self) -> dict[str, Any]:
        """All that was seen so far."""
        return {
            "head": self.head,
            "rounds": self.rounds,
            "hosts": self.hosts,
            "rates": self.rates,
            "own": self.own,
            "spread": histograms.shown(self._looks),
            "workers": list(self.workers.values()),
            "events": self.events,
            "lanes": self.lanes,
            "shards": self.shards,
            "log": self.log,
        }

    def look(self) -> Message | None:
        """What is new since the last look; None if nothing is."""
        gone = not self.run.directory.is_dir()
        # The state comes first: what is read after the end of a run is all there will be.
        standing = self.run.standing
        state, cause = standing.state, wording.told(standing)
        self.ended = gone or state in ENDED
        new: dict[str, Any] = {}
        problem = ""
        try:
            storage = None if gone else self._store()
            if storage is not None and not self._read(storage, new):
                self._begin_anew(storage)
                new = {}
        except TrainingError as error:
            problem = wording.told(error)
        if lines := self._log.new_lines():
            self.log = [*self.log, *lines][-LINES:]
            new["log"] = lines
        head = {
            "state": "gone" if gone else state,
            "cause": "The folder of this run was removed." if gone else cause,
            "problem": problem,
            "ended": self.ended,
            "tiles": self._words.tiles(self.run, state, cause, self.rounds, self.lanes),
        }
        if head != self.head:
            self.head = new["head"] = head
        if self._fresh:
            self._fresh = False
            return Message("snapshot", self.snapshot())
        return Message("update", new) if new else None

    def _begin_anew(self, storage: Storage) -> None:
        """The run went back to a checkpoint, or went on further than is worth adding: all series from the store."""
        head, log = self.head, self.log
        self._forget()
        self.head, self.log, self._fresh = head, log, True
        found = storage.rounds(POINTS)
        self.rounds = columns(found, ROUND_COLUMNS)
        self._last = _row(found[-1]) if found else []
        self._read(storage, {})

    def _store(self) -> Storage | None:
        """Opened once, when it is there: opening costs more than reading."""
        if self._storage is None and self.run.has_records:
            self._storage = self.run.open_records(BUSY)
        return self._storage

    # ---------------------------------------------------------------- series

    def _read(self, storage: Storage, new: dict[str, Any]) -> bool:
        """Add what is new to what is known and to `new`; False if listeners need everything anew."""
        return self._read_rounds(storage, new) and self._read_rest(storage, new)

    def _read_rounds(self, storage: Storage, new: dict[str, Any]) -> bool:
        if not self._last:
            found = storage.rounds(POINTS)
        else:
            found = storage.rounds_since(self._last[0] - 1, POINTS)
            # A resumed run makes rounds again that it had not saved, perhaps all of them between two looks.
            if not found or _row(found[0]) != self._last:
                return False
            found = found[1:]
        self._appended += len(found)
        if self._last and (2 * len(found) >= POINTS or self._appended > POINTS):
            return False
        if found:
            self._last = _row(found[-1])
            new["rounds"] = columns(found, ROUND_COLUMNS)
            for name, values in new["rounds"].items():
                self.rounds[name] = self.rounds[name] + values
        return True

    def _read_rest(self, storage: Storage, new: dict[str, Any]) -> bool:
        if events := storage.events(self._number, HAPPENED, EVENTS_READ):
            self._number = events[-1][0]
            self._take_events(events, new)
        if own := storage.events(self._own_number, (OWN_METRICS,), EVENTS_READ):
            self._own_number = own[-1][0]
            self.own = new["own"] = own_columns(self.own, [event for _, event in own], POINTS)
        if spread := storage.events(self._spread_number, (HISTOGRAMS,), EVENTS_READ):
            self._spread_number = spread[-1][0]
            self._looks = histograms.looks(self._looks, [event for _, event in spread])
            new["spread"] = histograms.shown(self._looks)
        newest = storage.hosts(1)
        if newest and json_number(newest[0].seconds, 8) != (self.hosts["seconds"] or [None])[-1]:
            return self._read_samples(storage, newest, new)
        return True

    def _read_samples(self, storage: Storage, newest: list[HostSample], new: dict[str, Any]) -> bool:
        """Samples of host and workers are taken together, once a second."""
        known = self.hosts["seconds"]
        gap = newest[0].seconds - known[-1] if known else math.inf
        if gap < 0 or len(known) > 2 * POINTS:
            return False
        if gap > SAMPLING:
            newest = [sample for sample in storage.hosts(POINTS) if not known or sample.seconds > known[-1]]
        new["hosts"] = columns(newest, HOST_COLUMNS)
        for name, values in new["hosts"].items():
            self.hosts[name] = self.hosts[name] + values
        samples, ranks = storage.workers(), set(self.workers)
        if gap > SAMPLING:
            self.rates = throughput([storage.worker_history(sample.rank) for sample in samples])
        elif {sample.rank for sample in samples} != ranks:
            return False  # another line in the chart of all workers
        else:
            self._take_rates(samples, newest[0].seconds, new)
        links = {link.rank: link for link in storage.links()}
        for sample in samples:
            self._take_worker(storage, sample)
            self.workers[sample.rank]["link"] = _link(links.get(sample.rank))
        new["workers"] = list(self.workers.values())
        return True

    def _take_rates(self, samples: Sequence[WorkerSample], seconds: float, new: dict[str, Any]) -> None:
        before = {rank: (found["pid"], found["rows"], found["seconds"]) for rank, found in self.workers.items()}
        row: dict[str, Any] = dict.fromkeys(self.rates) | {"seconds": json_number(seconds, 8)}
        for sample in samples:
            if sample.seconds == seconds:
                row |= {str(sample.rank): _rate(before[sample.rank], sample), "gpu": json_number(sample.gpu, 3)}
        new["rates"] = {name: [value] for name, value in row.items()}
        self.rates = {name: [*self.rates.get(name, []), value] for name, value in row.items()}

    def _take_worker(self, storage: Storage, sample: WorkerSample) -> None:
        before = self.workers.get(sample.rank)
        if before is None:
            history = [json_number(s.cpu, 3) for s in storage.worker_history(sample.rank)[-MINUTE:]]
        else:
            history = before["history"]
            if sample.seconds != before["seconds"]:
                history = [*history, json_number(sample.cpu, 3)][-MINUTE:]
        self.workers[sample.rank] = {
            "rank": sample.rank,
            "pid": sample.pid,
            "state": sample.state,
            "seconds": sample.seconds,
            "cpu": json_number(sample.cpu, 3),
            "memory": sample.memory,
            "rows": sample.rows,
            "staleness": json_number(sample.staleness, 3),
            "wait": json_number(sample.wait, 3),
            "gpu": json_number(sample.gpu, 3),
            "history": history,
        }

    def _take_events(self, events: Iterable[tuple[int, Event]], new: dict[str, Any]) -> None:
        new["events"] = []
        for number, event in events:
            new["events"].append(live_story.told(number, event, self.events))
            self.events = _kept([*self.events, new["events"][-1]])
            if event.kind in ("started", "shards"):  # another process has none of those of the one before
                self.shards = new["shards"] = list(event.data.get("shards") or [])
        lanes = live_story.lanes(self.events)
        if lanes != self.lanes:
            self.lanes = new["lanes"] = lanes


def _kept(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the oldest checkpoint where there are too many: a long run has thousands, and few other events."""
    if len(events) <= EVENTS:
        return events
    oldest = next((place for place, event in enumerate(events[:-1]) if event["tone"] == "quiet"), 0)
    return [*events[:oldest], *events[oldest + 1 :]]


def _link(link: LinkSample | None) -> dict[str, Any] | None:
    """How a worker on another machine is reached."""
    if link is None:
        return None
    took, silent = json_number(link.took, 3), json_number(link.silent, 3)
    return {"node": link.node, "took": took, "silent": silent, "received": link.received, "sent": link.sent}


def throughput(histories: Sequence[Sequence[WorkerSample]]) -> Columns:
    """Rows a second of each worker at each moment that it was looked at, and the use of graphics processors then."""
    rows: dict[float, dict[str, Any]] = {}
    for history in histories:
        for before, sample in itertools.pairwise(history):
            found = rows.setdefault(sample.seconds, {"gpu": json_number(sample.gpu, 3)})
            found[str(sample.rank)] = _rate((before.pid, before.rows, before.seconds), sample)
    names = ["gpu", *(str(history[0].rank) for history in histories if history)]
    moments = sorted(rows)
    return {"seconds": [json_number(at, 8) for at in moments]} | {
        name: [rows[at].get(name) for at in moments] for name in names
    }


def _rate(before: tuple[int, int, float], sample: WorkerSample) -> float | None:
    """Between two looks at one process."""
    pid, rows, seconds = before
    if sample.pid != pid or sample.rows < rows or sample.seconds <= seconds:
        return None
    return json_number((sample.rows - rows) / (sample.seconds - seconds), 4)


def _row(record: Round) -> list[Any]:
    """To tell records apart: NaN would not be equal to itself."""
    return [value(record) for value in ROUND_COLUMNS.values()]


class LogTail:
    """The lines of a log that were not seen yet; a line without its end is left for the next look."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._number = path, -1, 0

    def new_lines(self) -> list[dict[str, Any]]:
        try:
            size = self._path.stat().st_size
            if size == self._offset:
                return []
            with self._path.open("rb") as file:
                start = max(0, size - TAIL) if self._offset < 0 or size < self._offset else self._offset
                file.seek(start)
                whole, newline, _ = file.read(size - start).rpartition(b"\n")
        except OSError:
            return []
        self._offset = start + len(whole) + len(newline)
        return [entry for line in whole.splitlines() if (entry := self._entry(line))][-LINES:]

    def _entry(self, line: bytes) -> dict[str, Any] | None:
        try:
            entry = json.loads(line)
            self._number += 1
            return {"number": self._number, "at": float(entry["at"]), "level": entry["level"], "text": entry["text"]}
        except (ValueError, KeyError, TypeError):
            return None
