"""The numbers of a live run in words, for its tiles: how far, how long still, how good, how fast."""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.dashboard.parts.states import state_of
from shoal.runs.launch import Run
from shoal.words import duration, number, power_of_ten

RECENT = 20.0  # seconds of training that estimates rest on
LATEST = 2.0  # seconds that a rate is averaged over

_Columns = Mapping[str, Sequence[Any]]
Tile = list[Any]  # value, note, and where there is a bar, how much of it is filled


class Words:
    """Remembers when a stage of the preparation began, so that it can say how long it still takes."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._stage, self._since, self._at = "", 0.0, 0.0  # what is prepared, since when, from which share on

    def tiles(
        self, run: Run, state: str, cause: str, rounds: _Columns, lanes: Sequence[Mapping[str, Any]]
    ) -> dict[str, Tile]:
        if not rounds["round"]:
            return {"state": [state_of(state).word, ""], "progress": self._before(run, state, cause)}
        last = {name: values[-1] for name, values in rounds.items()}
        return {
            "state": [state_of(state).word, f"after {lasting(last['seconds'] or 0.0)} of training"],
            "progress": self._before(run, state, cause)
            if state in ("queued", "preparing")
            else self._progress(state, rounds, last),
            "loss": [number(last["loss"], 5), f"learning rate {number(last['learning_rate'], 3)}"],
            "validation": self._validation(last["validation"]),
            "distance": self._distance(last["distance"]),
            "speed": [number(rate(rounds)), f"round {last['round']:,}"],
            "workers": workers(last["workers"], state, lanes),
        }

    # ---------------------------------------------------------------- before the first round

    def _before(self, run: Run, state: str, cause: str) -> Tile:
        if state == "queued":
            return ["Waits for its turn", cause]
        if state not in ("preparing", "running", "stopping"):
            return ["–", ""]
        stage, fraction = run.progress
        fraction, now = min(1.0, max(0.0, fraction)), time.monotonic()
        if stage != self._stage:
            self._stage, self._since, self._at = stage, now, fraction
        return [f"{stage[:1].upper()}{stage[1:]}", self._still(now, fraction), fraction]

    def _still(self, now: float, fraction: float) -> str:
        done = fraction - self._at
        if done < 0.05 or fraction >= 1:
            return f"{fraction:.0%}"
        left = (now - self._since) * (1 - fraction) / done
        return f"{fraction:.0%}" + (f", about {lasting(left)} left" if left >= 1 else "")

    # ---------------------------------------------------------------- while it trains

    def _progress(self, state: str, rounds: _Columns, last: Mapping[str, Any]) -> Tile:
        epochs = self._config.get("epochs") or 0
        if last["finish"]:
            value, share = f"Full pass, epoch {last['epoch']:,.0f}", None
        else:
            value = f"Epoch {last['epoch']:,.1f} of {epochs:,}"
            share = min(1.0, last["epoch"] / epochs) if epochs else None
        left = time_left(rounds, self._config) if state == "running" else None
        return [value, f"about {lasting(left)} left" if left is not None and left >= 1 else "", share]

    def _validation(self, score: float | None) -> Tile:
        if score is not None:
            return [number(score, 5), "on rows kept for testing"]
        kept = self._config.get("test_every") or self._config.get("test_fraction")
        return ["–", "" if kept else "no rows kept for testing"]

    def _distance(self, distance: float | None) -> Tile:
        goal = self._config.get("tolerance") or 0
        note = f"goal {power_of_ten(goal)}" if goal else "no goal set"
        return (
            [power_of_ten(distance), note] if distance else ["–", "known in the full passes" if goal else "not known"]
        )


def lasting(seconds: float) -> str:
    """A long time for the eye; short ones as everywhere."""
    for name, length in (("days", 86_400), ("hours", 3_600)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {name}"
    return duration(seconds)


def workers(count: int, state: str, lanes: Sequence[Mapping[str, Any]]) -> Tile:
    if state not in ("running", "paused", "stopping"):
        return [f"{count}", "at the end"]
    lost = sum(lane["state"] == "lost" and lane["to"] is None for lane in lanes)
    return [f"{count}", f"{lost} lost, being replaced" if lost else "all here"]


def _from(rounds: _Columns, seconds: float) -> int:
    """Where the last so many seconds of training begin."""
    times = rounds["seconds"]
    return min(bisect.bisect_left(times, (times[-1] or 0.0) - seconds), len(times) - 1)


def rate(rounds: _Columns) -> float | None:
    """Rows a second, over the last moments."""
    found = [value for value in rounds["rows_per_second"][_from(rounds, LATEST) :] if value is not None]
    return sum(found) / len(found) if found else None


def time_left(rounds: _Columns, config: Mapping[str, Any]) -> float | None:
    """Seconds until the steps are done, or the full passes have come to the goal, at the pace of the last moments."""
    first, now = _from(rounds, RECENT), len(rounds["round"]) - 1
    passed = (rounds["seconds"][now] or 0.0) - (rounds["seconds"][first] or 0.0)
    if passed <= 0:
        return None
    finish = bool(rounds["finish"][now])
    if finish:
        left = _until_goal(rounds, config.get("tolerance") or 0.0, passed, first, now)
    else:
        done = rounds["epoch"][now] - rounds["epoch"][first]
        left = (config.get("epochs", 0) - rounds["epoch"][now]) * passed / done if done > 0 else None
    limit = config.get("max_seconds") or math.inf
    until_limit = limit - (rounds["seconds"][now] or 0.0)
    least = min(until_limit, math.inf if left is None else left)
    return max(0.0, least) if math.isfinite(least) else None


def _until_goal(rounds: _Columns, goal: float, passed: float, first: int, now: int) -> float | None:
    """The distance to the optimum falls by about the same factor a second."""
    before, last = rounds["distance"][first], rounds["distance"][now]
    if not goal or not before or not last or last >= before:
        return None
    return max(0.0, math.log(last / goal)) * passed / math.log(before / last)
