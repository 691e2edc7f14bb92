"""What happened in a run, told so that cause and effect are seen: who was lost, for how long, who came back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shoal.metrics import Event
from shoal.words import duration

HERE, LOST = "here", "lost"
TONES = {
    "lost": "bad", "error": "bad", "warning": "warn", "restarted": "good", "joined": "good",
    "command": "person", "checkpoint": "quiet",
}  # fmt: skip
DEEDS = {
    "kill_worker": "is killed", "hang_worker": "is made to hang", "slow_worker": "is slowed down",
    "remove_worker": "leaves when its work is done",
}  # fmt: skip
REQUESTS = {
    "pause": "Pause", "resume": "Go on", "stop": "Stop", "checkpoint": "Save a checkpoint",
    "add_worker": "Add a worker", "remove_worker": "Remove a worker",
    "shards": "Another number of parameter shards", "kill_shard": "Kill a parameter shard",
}  # fmt: skip


def told(number: int, event: Event, before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """An event for a browser; `note` says how long it took to be noticed or to be made good."""
    seconds = event.seconds if math.isfinite(event.seconds) else None
    tone = TONES.get(event.kind, "plain")
    if event.kind == "shards":
        tone = "good" if event.data.get("lost") is None else "bad"
    if event.kind == "command" and event.data.get("outcome") != "done":
        tone = "warn"
    return {
        "number": number,
        "seconds": None if seconds is None else round(seconds, 3),
        "kind": event.kind,
        "round": event.round,
        "rank": _rank(event),
        "text": _plain(event),
        "note": _note(event, before) if seconds is not None else "",
        "tone": tone,
        "mark": _mark(event),
        "slow": _slowed(event),
    }


def _mark(event: Event) -> str:
    """A few words beside the curves, where a person has changed their course; empty for what does not."""
    if event.kind != "command" or event.data.get("outcome") != "done":
        return ""
    name, arguments, before = str(event.data.get("command", "")), _arguments(event), event.data.get("before") or {}
    if name == "set":
        return ", ".join(
            f"{knob.replace('_', ' ')} {_from(before.get(knob))}{value}" for knob, value in arguments.items()
        )
    who = f"worker {_rank(event)}"
    if name == "slow_worker":
        return f"{who} slowed down" if _slowed(event) else f"{who} freed"
    words = {"add_worker": "a worker added", "remove_worker": "a worker removed", "kill_worker": f"{who} killed",
             "hang_worker": f"{who} made to hang"}  # fmt: skip
    return words.get(name, "")


def _from(value: Any) -> str:
    return f"{value:.3g} to " if isinstance(value, float) else f"{value} to " if value is not None else "to "


def _slowed(event: Event) -> float | None:
    """How many times as long a worker takes from now on: 0 for no longer than it has to; None for other events."""
    if event.kind != "command" or event.data.get("outcome") != "done" or event.data.get("command") != "slow_worker":
        return None
    try:
        factor = float(_arguments(event).get("factor", 4))
    except (TypeError, ValueError):
        return None
    return factor if factor > 1 else 0.0


def _rank(event: Event) -> int | None:
    """The worker that it is about: a command names it among its arguments."""
    named = str(_arguments(event).get("rank", ""))
    return int(named) if named.isdecimal() else event.rank


def _arguments(event: Event) -> dict[str, Any]:
    return dict(event.data.get("arguments") or {}) if event.kind == "command" else {}


def _plain(event: Event) -> str:
    """The words of commands as a person would say them."""
    if event.kind != "command":
        return event.text
    name, outcome = str(event.data.get("command", "")), str(event.data.get("outcome", ""))
    arguments, rank = _arguments(event), _rank(event)
    if name == "slow_worker" and rank is not None and _slowed(event) == 0:
        request = f"Worker {rank} is freed"
    elif name in DEEDS and rank is not None:
        request = f"Worker {rank} {DEEDS[name]}"
    elif name == "set" and arguments:
        pairs = [f"{knob.replace('_', ' ')} to {value}" for knob, value in arguments.items()]
        request = f"Set {' and '.join(pairs)}"
    else:
        request = REQUESTS.get(name, name.replace("_", " ").capitalize())
    return f"{request}, on request." if outcome == "done" else f"{request}: refused. {outcome}"


def _note(event: Event, before: Sequence[dict[str, Any]]) -> str:
    if event.kind == "lost":
        return _of_loss(event, before)
    if event.kind == "restarted" and (lost := _newest("lost", event.rank, before)):
        return f"Back after {duration(max(0.0, event.seconds - lost['seconds']))}."
    return ""


def _of_loss(event: Event, before: Sequence[dict[str, Any]]) -> str:
    parts = []
    deed = _newest("command", event.rank, before)
    came = max(
        (e["number"] for e in before if e["rank"] == event.rank and e["kind"] in ("joined", "restarted")), default=0
    )
    if deed and deed["number"] > came:
        parts.append(f"Noticed after {duration(max(0.0, event.seconds - deed['seconds']))}.")
    if redone := event.data.get("tasks_redone"):
        work = "1 batch" if redone == 1 else f"{redone:,} batches"
        parts.append(f"Its work ({work}) is handed over.")
    return " ".join(parts)


def _newest(kind: str, rank: int | None, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    found = (e for e in reversed(events) if e["kind"] == kind and e["rank"] == rank and e["seconds"] is not None)
    return next(found, None)


def lanes(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """When each worker was here, and when it was lost and not yet back; `to` is None for what still lasts, `slow` is
    how many times as long it takes by now."""
    spans: list[dict[str, Any]] = []
    open_: dict[int, dict[str, Any]] = {}
    latest = 0.0
    for event in events:
        kind, rank, seconds = event["kind"], event["rank"], event["seconds"]
        if seconds is None:
            continue
        if kind == "started":  # another process: the workers of the one before went with it
            for span in open_.values():
                span["to"] = max(span["from"], latest)
            open_ = {}
        latest = seconds
        if event.get("slow") is not None and rank in open_:
            open_[rank]["slow"] = event["slow"]
        if rank is None or kind not in ("joined", "restarted", "lost", "left"):
            continue
        if before := open_.pop(rank, None):
            before["to"] = seconds
        if kind != "left":
            open_[rank] = {"rank": rank, "from": seconds, "to": None, "state": LOST if kind == "lost" else HERE,
                           "slow": 0.0}  # fmt: skip
            spans.append(open_[rank])
    return spans
