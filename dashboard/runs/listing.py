"""Which runs the list shows, in which order, and its table: from the address and the accounts. No Streamlit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.states import ARCHIVED, GROUPS, group_of, state_of
from shoal.library.accounts import Summary
from shoal.words import MODELS, ago, duration

SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "score": "Best score first",
    "distance": "Closest to the optimum first",
    "longest": "Longest first",
    "file": "By file",
    "state": "By state",
}
SIZES = (25, 50, 100)
EVERY = "all"  # no filter


@dataclass(frozen=True)
class View:
    """What the address asks of the list."""

    text: str = ""
    states: tuple[str, ...] = ()
    model: str = EVERY
    solver: str = EVERY
    archived: bool = False
    sort: str = "newest"
    page: int = 1
    size: int = SIZES[0]

    @property
    def address(self) -> dict[str, str]:
        """Only what is not as usual."""
        parts = {
            "q": self.text.strip(),
            "state": ",".join(self.states),
            "model": "" if self.model == EVERY else self.model,
            "solver": "" if self.solver == EVERY else self.solver,
            "archived": "yes" if self.archived else "",
            "sort": "" if self.sort == "newest" else self.sort,
            "page": "" if self.page == 1 else str(self.page),
            "size": "" if self.size == SIZES[0] else str(self.size),
        }
        return {name: value for name, value in parts.items() if value}


def view_of(address: Mapping[str, str]) -> View:
    """What does not fit, in an address that somebody mistyped, is as if it were not there."""
    return View(
        text=address.get("q", "").strip(),
        states=tuple(s for s in GROUPS if s in address.get("state", "").split(",")),
        model=_one_of(address.get("model"), MODELS, EVERY),
        solver=_one_of(address.get("solver"), wording.SOLVERS, EVERY),
        archived=address.get("archived") == "yes",
        sort=_one_of(address.get("sort"), SORTS, "newest"),
        page=_whole(address.get("page", ""), 1),
        size=size if (size := _whole(address.get("size", ""), SIZES[0])) in SIZES else SIZES[0],
    )


def _one_of(value: str | None, choices: Mapping[str, str], usual: str) -> str:
    return value if value is not None and value in choices else usual


def _whole(text: str, usual: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) < 7 and int(text) else usual


# ------------------------------------------------------------------ filter, sort, page


@dataclass(frozen=True)
class Listing:
    """One page of the list, and how many there are of each kind."""

    shown: list[Summary]
    found: int
    pages: int
    page: int
    counts: dict[str, int] = field(default_factory=dict)  # by kind of state, of what the other filters leave


def listing(runs: Sequence[Summary], view: View) -> Listing:
    rest = [run for run in runs if _fits(run, view)]
    counts = {kind: sum(group_of(run.state) == kind for run in rest) for kind in GROUPS}
    found = ordered([run for run in rest if not view.states or group_of(run.state) in view.states], view.sort)
    pages = max(1, -(-len(found) // view.size))
    page = min(view.page, pages)
    return Listing(found[(page - 1) * view.size : page * view.size], len(found), pages, page, counts)


def _fits(run: Summary, view: View) -> bool:
    if view.model not in (EVERY, run.model) or view.solver not in (EVERY, run.solver):
        return False
    words = view.text.casefold().split()
    if not words:
        return True
    told = f"{run.id} {run.file_name} {run.target or ''} {' '.join(run.tags)} {run.note}".casefold()
    return all(word in told for word in words)


def ordered(runs: list[Summary], sort: str) -> list[Summary]:
    """Runs about which nothing is known come last; of those that are equal, the newest first."""
    newest = sorted(runs, key=lambda run: run.id, reverse=True)
    if sort == "oldest":
        return newest[::-1]
    if sort == "score":
        return sorted(newest, key=lambda run: _known(score(run), downwards=True))
    if sort == "distance":
        return sorted(newest, key=lambda run: _known(run.distance))
    if sort == "longest":
        return sorted(newest, key=lambda run: _known(run.duration, downwards=True))
    if sort == "file":
        return sorted(newest, key=lambda run: (run.file_name.casefold(), run.target or ""))
    if sort == "state":
        return sorted(newest, key=lambda run: list(GROUPS).index(group_of(run.state)))
    return newest


def _known(value: float | None, downwards: bool = False) -> tuple[bool, float]:
    return value is None, 0.0 if value is None else -value if downwards else value


def score(run: Summary) -> float | None:
    """R² on rows that were kept for testing, if there were any."""
    return run.test_r2 if run.test_r2 is not None else run.train_r2


# ------------------------------------------------------------------ the table


def name_of(run: Summary) -> str:
    """What it is, in a few words: Ridge of price."""
    return f"{model_words(run)} of {run.target}" if run.target else model_words(run)


def model_words(run: Summary) -> str:
    return MODELS.get(run.model or "", run.model or "Unknown")


def penalty_words(run: Summary) -> str:
    return "" if run.alpha is None else f"alpha {run.alpha:g}"


def solver_words(run: Summary) -> str:
    if not run.is_gradient:
        return wording.SOLVERS.get(run.solver or "", "")
    return f"Gradient, {wording.MODES.get(run.mode or '', run.mode or '').lower()}"


def epoch_words(run: Summary) -> str:
    """How far: 3.2 of 10; more than were wanted are full passes of the finish."""
    if run.epochs_wanted is None:
        return ""
    done = run.epochs or 0.0
    return f"{done:.3g} of {run.epochs_wanted}" if done < run.epochs_wanted else f"{done:.3g}"


def state_words(run: Summary) -> list[str]:
    word = state_of(run.state).word
    return [ARCHIVED.word, word] if run.archived else [word]


def table(runs: Sequence[Summary], now: float | None = None) -> pd.DataFrame:
    """One row a run, with plain words as the names of columns."""
    at = time.time() if now is None else now
    return pd.DataFrame([_row(run, at) for run in runs])


def _row(run: Summary, now: float) -> dict[str, Any]:
    made = run.made
    return {
        "Open": "Restore" if run.archived else "Open",
        "State": state_words(run),
        "Model": model_words(run),
        "Solver": solver_words(run),
        "Predicts": run.target or "",
        "File": run.file_name,
        "R² test": run.test_r2,
        "Started": "" if made is None else ago(max(0.0, now - made)),
        "Took": "" if run.duration is None else duration(run.duration),
        "Tags": list(run.tags),
        "R² training": run.train_r2,
        "Epochs": epoch_words(run),
        "Distance": "" if run.distance is None else f"{run.distance:.1e}",
        "Penalty": penalty_words(run),
        "RMSE test": run.test_rmse,
        "RMSE training": run.train_rmse,
        "Note": run.note,
        "Exact time": None if made is None else datetime.fromtimestamp(made),
        "Run": run.id,
    }
