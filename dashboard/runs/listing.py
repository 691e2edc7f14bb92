"""Which runs the list shows, in which order, and its table: from the address and the accounts. No Streamlit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.states import ARCHIVED, GROUPS, group_of, state_of
from shoal.lazy.classes import dataclass
from shoal.lazy.frames import pd
from shoal.library.accounts import Summary
from shoal.words import MODELS, ago, duration, epochs_told, number, shortened, tiny

SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "score": "Best score first",
    "distance": "Closest to the optimum first",
    "longest": "Longest first",
    "file": "By table",
    "search": "By search",
    "name": "By name",
    "state": "By state",
}
GROUPED: dict[str, Callable[[Summary], str]] = {
    "file": lambda run: run.file_name or "Unknown table",
    "search": lambda run: run.search or "In no search",
    "state": lambda run: GROUPS.get(group_of(run.state), run.state),
}
MOST_GROUPS = 12  # on a page
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
    ids: frozenset[str] = frozenset()  # of all that fit, on whatever page


def listing(runs: Sequence[Summary], view: View) -> Listing:
    rest = [run for run in runs if _fits(run, view)]
    counts = {kind: sum(group_of(run.state) == kind for run in rest) for kind in GROUPS}
    found = ordered([run for run in rest if not view.states or group_of(run.state) in view.states], view.sort)
    pages = max(1, -(-len(found) // view.size))
    page = min(view.page, pages)
    ids = frozenset(run.id for run in found)
    return Listing(found[(page - 1) * view.size : page * view.size], len(found), pages, page, counts, ids)


def _fits(run: Summary, view: View) -> bool:
    if view.model not in (EVERY, run.model) or view.solver not in (EVERY, run.solver):
        return False
    return run.has_words(view.text.split())


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
    if sort in ("search", "name"):
        return sorted(newest, key=lambda run: _text_known(run.search if sort == "search" else run.name))
    if sort == "state":
        return sorted(newest, key=lambda run: list(GROUPS).index(group_of(run.state)))
    return newest


def _known(value: float | None, downwards: bool = False) -> tuple[bool, float]:
    return value is None, 0.0 if value is None else -value if downwards else value


def _text_known(text: str | None) -> tuple[bool, str]:
    return not text, (text or "").casefold()


def score(run: Summary) -> float | None:
    """R² on rows that were kept for testing, if there were any."""
    return run.test_r2 if run.test_r2 is not None else run.train_r2


def groups(runs: Sequence[Summary], sort: str) -> list[tuple[str, list[Summary]]]:
    """Runs in their order, those of one table, search or state together with its name; all in one where nobody would
    see them any more."""
    if sort in GROUPED:
        found = [(title, list(own)) for title, own in itertools.groupby(runs, GROUPED[sort])]
        if len(found) <= MOST_GROUPS:
            return found
    return [("", list(runs))]


# ------------------------------------------------------------------ the table


def name_of(run: Summary) -> str:
    """What it is, in a few words: Ridge of price."""
    return f"{model_words(run)} of {run.target}" if run.target else model_words(run)


def model_words(run: Summary) -> str:
    return MODELS.get(run.model or "", run.model or "Unknown")


def solver_words(run: Summary) -> str:
    if not run.is_gradient:
        return wording.SOLVERS.get(run.solver or "", "")
    return f"Gradient, {run.mode}" if run.mode else "Gradient"


def headline_words(run: Summary) -> str:
    """The score of a model that has no R²: AUC 0.812."""
    return f"{run.headline.name} {number(run.headline.honest, 3)}" if run.headline else ""


def epoch_words(run: Summary) -> str:
    return "" if run.epochs_wanted is None else epochs_told(run.epochs or 0.0, run.epochs_wanted)


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
        "Name": shortened(run.name, 60),
        "State": state_words(run),
        "Model": model_words(run),
        "Solver": solver_words(run),
        "Predicts": run.target or "",
        "File": run.file_name,
        "R² test": run.test_r2,
        "Score": headline_words(run),
        "Started": "" if made is None else ago(max(0.0, now - made)),
        "Took": "" if run.duration is None else duration(run.duration),
        "Tags": list(run.tags),
        "R² training": run.train_r2,
        "Epochs": epoch_words(run),
        "Distance": "" if run.distance is None else tiny(run.distance),
        "Alpha": run.alpha,
        "Search": run.search or "",
        "RMSE test": run.test_rmse,
        "RMSE training": run.train_rmse,
        "Note": run.note,
        "Exact time": None if made is None else datetime.fromtimestamp(made),
        "Run": run.id,
    }
