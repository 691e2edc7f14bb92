"""What happened in a run, told so that cause and effect are seen: who was lost, for how long, who came back."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from shoal.dashboard.parts.wording import duration
from shoal.metrics import Event

HERE, LOST = "here", "lost"
COMMAND = re.compile(r"Command (\w+)_worker rank=(\d+)")
TONES = {
    "lost": "bad", "error": "bad", "warning": "warn", "restarted": "good", "joined": "good",
    "command": "person", "checkpoint": "quiet",
}  # fmt: skip
DEEDS = {
    "kill": "is killed", "hang": "is made to hang", "slow": "is slowed down", "remove": "leaves when its work is done",
}  # fmt: skip
REQUESTS = {
    "pause": "Pause", "resume": "Go on", "stop": "Stop", "checkpoint": "Save a checkpoint",
    "add_worker": "Add a worker", "remove_worker": "Remove a worker",
}  # fmt: skip


def told(number: int, event: Event, before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """An event for a browser; `note` says how long it took to be noticed or to be made good."""
    seconds = event.seconds if math.isfinite(event.seconds) else None
    rank, text = event.rank, event.text
    if event.kind == "command" and (found := COMMAND.search(text)):
        rank = int(found[2])
    tone = TONES.get(event.kind, "plain")
    if event.kind == "command" and event.data.get("outcome") != "done":
        tone = "warn"
    return {
        "number": number,
        "seconds": None if seconds is None else round(seconds, 3),
        "kind": event.kind,
        "round": event.round,
        "rank": rank,
        "text": _plain(event),
        "note": _note(event, before) if seconds is not None else "",
        "tone": tone,
    }


def _plain(event: Event) -> str:
    """The words of commands as a person would say them."""
    if event.kind != "command":
        return event.text
    name, outcome = str(event.data.get("command", "")), str(event.data.get("outcome", ""))
    asked, _, _ = event.text.removeprefix("Command ").partition(":")
    if found := COMMAND.search(event.text):
        request = f"Worker {found[2]} {DEEDS.get(found[1], found[1])}"
    elif name == "set":
        request = f"Set {asked.removeprefix('set ').replace('_', ' ').replace('=', ' to ')}"
    else:
        request = REQUESTS.get(name, asked)
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
    """When each worker was here, and when it was lost and not yet back; `to` is None for what still lasts."""
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
        if rank is None or kind not in ("joined", "restarted", "lost", "left"):
            continue
        if before := open_.pop(rank, None):
            before["to"] = seconds
        if kind != "left":
            open_[rank] = {"rank": rank, "from": seconds, "to": None, "state": LOST if kind == "lost" else HERE}
            spans.append(open_[rank])
    return spans
