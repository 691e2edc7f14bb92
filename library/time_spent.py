"""Where the time of a run went, in words, and what to change; how runs are timed is in `metrics` and `training`.

Stages come from the report, or, of a run at work, from its events. What workers did comes from its rounds: each has the
shares of the time since the round on record before it, so that their sum is weighed by that time.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.errors import Remedy, StateError
from shoal.lazy.classes import dataclass
from shoal.queueing import team
from shoal.runs.commands import metrics_of
from shoal.words import duration, plural

if TYPE_CHECKING:
    from shoal.metrics import Event, LinkSample, Round, WorkerSample
    from shoal.runs.folder import Run

ROUNDS = 100_000  # of a run that are looked at; more are thinned evenly
EVENTS = 10_000
STAGES = {  # what is done in each, as after "to"
    "ingest": "read the file", "tune": "choose alpha by cross-validation", "moments": "sum over all rows",
    "spreads": "find the units of columns", "rows": "gather the rows", "factor": "factor the rows", "solve": "solve",
    "refine": "refine", "shards": "deal the rows to workers", "train": "train", "score": "score",
    "inference": "find intervals", "start": "start its programs",
}  # fmt: skip
BEFORE = (
    "ingest",
    "tune",
    "moments",
    "spreads",
    "rows",
    "factor",
    "solve",
    "refine",
    "shards",
)  # stages before training
BY_WORKERS = {
    "read": "read rows", "compute": "compute gradients", "wait": "wait", "apply": "sums and steps meanwhile (exchange)",
}  # fmt: skip
MUCH, SOME = 0.4, 0.15  # shares of the time that are worth a word; of what should cost next to nothing
WORTH = 1.0  # seconds; what took less is not worth a word
UNEVEN = 1.5  # times that the slowest worker's rows may be fewer than the fastest's, or its work more
LARGER = Remedy.choose("Make batches larger", "batch_size")
SELDOM = Remedy.set("Or make several steps for each message", "mode", "local")


@dataclass(frozen=True)
class Spent:
    """One of the things that time was spent on."""

    name: str
    seconds: float
    share: float  # of the whole that it is a part of


@dataclass(frozen=True)
class Advice:
    """What follows from it, and what can be done; as text for the command line."""

    said: str
    remedies: tuple[Remedy, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.said, *map(str, self.remedies)])


@dataclass(frozen=True)
class RunTime:
    """Parts of the whole run, parts of its workers' time, and what follows from them."""

    seconds: float  # of the whole run, without the time in the queue
    waited: float  # before it began, in the queue for the most part
    stages: list[Spent]  # the longest first
    workers: list[Spent]  # empty where there were no gradient steps
    advice: list[Advice]

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds, "waited": self.waited, "stages": [asdict(part) for part in self.stages],
            "workers": [asdict(part) for part in self.workers], "advice": list(map(str, self.advice)),
        }  # fmt: skip


class _Looks(NamedTuple):
    """Workers as they were seen last."""

    workers: Sequence[WorkerSample]
    links: Sequence[LinkSample]


def time_spent(run: Run, points: int = ROUNDS) -> RunTime:
    """From so many of its rounds at most. StateError if it has not come so far that anything can be said."""
    report = run.report
    rounds: list[Round] = []
    events: list[Event] = []
    looks = _Looks((), ())
    with metrics_of(run) as storage:
        if storage is not None:
            rounds, events = storage.rounds(points), storage.story(EVENTS)
            looks = _Looks(storage.workers(), storage.links())
    seconds = dict(report.timings) if report else _so_far(rounds, events)
    total = seconds.pop("total", 0.0) or sum(seconds.values())
    if not total:
        raise StateError(_nothing_timed(run))
    if spans := sum(_spans(rounds)):  # of all its processes, where it went on after one that was killed
        seconds["train"] = min(max(spans, seconds.get("train", 0.0)), total)
    if report and (start := _start(seconds, events)) > WORTH:
        seconds["start"] = start
    stages, workers, waited = _stages(seconds, total), _workers(rounds, seconds.get("train", 0.0)), _waited(run)
    saving = report.training.overhead.get("checkpoints", 0.0) if report and report.training else 0.0
    advice = _of_queue(waited, total)
    if seconds.get("train", 0.0) > WORTH:
        advice += _of_workers(workers, str(run.config.get("mode", "")), rounds, looks)
    advice += _of_stages(seconds, total, saving) + _of_losses(events)
    return RunTime(total, waited, stages, workers, advice or [_nothing(workers, stages, total)])


def _nothing_timed(run: Run) -> str:
    if run.is_active:
        return f"Run {run.id} has done nothing yet that took time. Ask again when it has begun."
    return f"Run {run.id} is {run.state}, and left nothing behind that says where its time went. {run.cause}".strip()


def _waited(run: Run) -> float:
    """From when it was launched to the first line of its log."""
    try:
        with (run.directory / "log.jsonl").open() as log:
            begun = float(json.loads(log.readline())["at"])
        return max(0.0, begun - (run.directory / "job.json").stat().st_mtime)
    except (OSError, ValueError, KeyError):
        return 0.0


def _start(seconds: Mapping[str, float], events: Sequence[Event]) -> float:
    """Of the time before training, what no stage took: programs that start, and PyTorch that they load."""
    began = next((event.seconds for event in events if event.kind == "started"), 0.0)
    return began - sum(seconds.get(name, 0.0) for name in BEFORE)


def _so_far(rounds: Sequence[Round], events: Sequence[Event]) -> dict[str, float]:
    """Of a run at work: what came before its first round, and its rounds."""
    began = next((event.seconds for event in events if event.kind == "started"), 0.0)
    last = rounds[-1].seconds if rounds else began
    return {"ingest": began, "train": max(0.0, last - began)}


def _stages(seconds: dict[str, float], total: float) -> list[Spent]:
    parts = [Spent(STAGES.get(name, name), spent, spent / total) for name, spent in seconds.items()]
    other = total - sum(seconds.values())
    if other > 0.005 * total:
        parts.append(
            Spent("write and all else" if "start" in seconds else "start, write and all else", other, other / total)
        )
    return sorted(parts, key=lambda part: -part.seconds)


def _spans(rounds: Sequence[Round]) -> list[float]:
    """The time since the round before; none where a run that was resumed begins to count anew."""
    return [0.0, *(max(0.0, after.seconds - before.seconds) for before, after in itertools.pairwise(rounds))]


def _workers(rounds: Sequence[Round], train: float) -> list[Spent]:
    """Of the time of all workers together: reading rows, gradients, waiting; and what the server took meanwhile."""
    spans = _spans(rounds)
    whole = sum(spans)
    if not whole:
        return []

    def share(name: str) -> float:
        return sum(span * float(getattr(record, name)) for span, record in zip(spans, rounds, strict=True)) / whole

    seconds = train or whole
    return [Spent(words, share(name) * seconds, share(name)) for name, words in BY_WORKERS.items()]


# ------------------------------------------------------------------ what follows


def _of_workers(parts: Sequence[Spent], mode: str, rounds: Sequence[Round], looks: _Looks) -> list[Advice]:
    if not parts:
        return []
    read, _, wait, apply = (part.share for part in parts)
    found = []
    if read > SOME:
        said = f"Workers read rows for {read:.0%} of their time: the shards do not stay in memory."
        found.append(
            Advice(said, (Remedy.set("Halve them", "precision", "float32"), Remedy.say("Or use fewer workers")))
        )
    if apply > MUCH:
        said = f"Sums and steps took {apply:.0%} of the time, and workers waited for them."
        found.append(Advice(said, (LARGER, SELDOM)))
    elif wait > MUCH:
        found.append(_of_waiting(f"Workers waited for {wait:.0%} of their time", mode, rounds, looks))
    return found


def _of_waiting(said: str, mode: str, rounds: Sequence[Round], looks: _Looks) -> Advice:
    if mode == "sync" and (slow := _of_a_slow_one(looks.workers)):
        return Advice(f"{said}, {slow}.", (Remedy.set("Let nobody wait for each step of the slowest", "mode", "ssp"),))
    if looks.links:
        took = max(link.took for link in looks.links)
        said = f"{said}; a message to the farthest node and back takes {1000 * took:.1f} ms."
        return Advice(said, (SELDOM, Remedy.set("Or send smaller ones", "compression", "topk")))
    pace = (rounds[-1].round - rounds[0].round) / max(sum(_spans(rounds)), 1e-9)
    said = f"{said}: with {pace:,.0f} rounds a second, each is too short for its messages."
    return Advice(said, (LARGER, SELDOM))


def _of_a_slow_one(workers: Sequence[WorkerSample]) -> str:
    """Of one that all others wait for, by its rows or, where all have as many, by how long it took for them."""
    rows = [sample.rows for sample in workers if sample.rows]
    if len(rows) > 1 and max(rows) > UNEVEN * min(rows):
        return f"and the fastest did {max(rows) / min(rows):.1f} times the rows of the slowest"
    busy = sorted((1 - sample.wait, sample.rank) for sample in workers)
    if len(busy) > 1 and busy[-1][0] > max(UNEVEN * busy[-2][0], busy[-2][0] + SOME):
        (others, _), (slowest, rank) = busy[-2:]
        said = f"for worker {rank} above all: it was at work for {slowest:.0%} of its time"
        return f"{said}, the others for {others:.0%} at most"
    return ""


def _of_queue(waited: float, total: float) -> list[Advice]:
    if waited < max(WORTH, SOME * total):
        return []
    more = Remedy.set("Let runs go side by side", "workers", "1")
    if team.is_set():
        more = Remedy.say("More run hosts make it shorter")
    return [Advice(f"Before it began it waited {duration(waited)} in the queue.", (more,))]


def _of_stages(seconds: dict[str, float], total: float, saving: float) -> list[Advice]:
    found = []
    for name, again in (("ingest", "Another fit of the same file finds it read"), ("shards", "Another run finds them"),
                        ("start", "Longer runs pay for it once")):  # fmt: skip
        spent = seconds.get(name, 0.0)
        if spent > max(MUCH * total, WORTH):
            said = f"To {STAGES[name]} took {duration(spent)}, {spent / total:.0%} of it all."
            found.append(Advice(said, (Remedy.say(again),)))
    train = seconds.get("train", 0.0)
    if saving > max(SOME * train, WORTH):
        said = f"Checkpoints took {duration(saving)}, {saving / train:.0%} of the time of the steps."
        found.append(Advice(said, (Remedy.choose("Write fewer", "checkpoint_seconds"),)))
    return found


def _of_losses(events: Sequence[Event]) -> list[Advice]:
    lost = sum(event.kind == "lost" for event in events)
    if not lost:
        return []
    who = f"{plural(lost, 'worker')} {'was' if lost == 1 else 'were'}"
    return [Advice(f"{who} lost on the way; what they were at was done again.")]


def _nothing(workers: Sequence[Spent], stages: Sequence[Spent], total: float) -> Advice:
    if total < 2 * WORTH:
        return Advice(f"It took {duration(total)} in all: there is little to gain.")
    if not workers:
        return Advice(f"Nothing stands out; most of it was to {stages[0].name}.")
    said = f"Nothing stands out: workers computed for {workers[1].share:.0%} of their time."
    return Advice(said, (Remedy.say("What makes it faster are more of them; `shoal plan` tells up to how many"),))
