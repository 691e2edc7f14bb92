"""The choice of a penalty by cross-validation, from the sums of cells: the answer of `shoal tune`; no row is read.

What is fitted in a fold is in `cells`, how its error is found in `curve`.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol

import numpy as np

from shoal.data.encoding import mapped
from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.models import Array, Certificate
from shoal.settings.limits import USUAL_POINTS
from shoal.settings.when import check_linear
from shoal.solve.least_squares import LeastSquares
from shoal.solve.moments import Moments, mean_squares, merge_all
from shoal.solve.paths import Path, Slopes, alpha_grid, certify_along, follow, weights_along
from shoal.solve.rows.dense import RowsAtHand
from shoal.whatif.cells import CellMoments
from shoal.whatif.curve import CrossValidation, fold_of
from shoal.whatif.folds import FoldChoice
from shoal.words import listed

MOST = 10_000  # alphas of a path; more say nothing more
PLACES = ("best", "one_se")


class FoldsOf(Protocol):
    """Who has the rows of folds."""

    @property
    def choice(self) -> FoldChoice: ...

    @property
    def columns(self) -> list[str]: ...


@dataclass(frozen=True, eq=False)
class Tuned:
    """The errors of all folds along the path of every mixing ratio, and the answers of all training rows along the
    path of the best one."""

    names: tuple[str, ...]  # of the design columns
    paths: tuple[Path, ...]  # of all training rows, one for each mixing ratio
    curves: tuple[CrossValidation, ...]
    certificate: Certificate  # the worst of all points of all paths, those of the folds among them
    train: tuple[Array, ...]  # mean squared errors on the training rows along each path
    test: tuple[Array, ...]  # and on the rows kept for testing
    target: Moments  # over the training rows
    held: Moments  # of the target over the rows kept for testing
    choice: FoldChoice
    notes: tuple[str, ...]

    @property
    def measure(self) -> str:
        """What errors are."""
        return "mean squared error"

    @property
    def chosen(self) -> int:
        """The place of the mixing ratio with the smallest error; of equals the first."""
        return int(np.argmin([curve.mean[curve.best] for curve in self.curves]))

    @property
    def path(self) -> Path:
        return self.paths[self.chosen]

    @property
    def curve(self) -> CrossValidation:
        return self.curves[self.chosen]

    def place(self, which: str) -> int:
        """Where `best` or `one_se` is on the path."""
        return self.curve.best if which == "best" else self.curve.one_se

    def alpha(self, which: str) -> float:
        return float(self.path.alphas[self.place(which)])

    def coefficients(self, which: str) -> dict[str, float]:
        """In the units of the file."""
        return dict(zip(self.names, self.path.coef[self.place(which)].tolist(), strict=True))

    def coefficients_standardized(self, which: str) -> dict[str, float]:
        return dict(zip(self.names, self.path.W[self.place(which)].tolist(), strict=True))

    def intercept(self, which: str) -> float:
        return float(self.path.intercepts[self.place(which)])

    def scores(self, which: str) -> dict[str, dict[str, float | int | None]]:
        """On the training rows, and on those that were kept for testing."""
        path, place = self.chosen, self.place(which)
        return {
            "train": _scores(self.target, float(self.train[path][place])),
            "test": _scores(self.held, float(self.test[path][place])),
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what `shoal tune --json` prints, less the times."""
        model, choice, certificate = self.path.model, self.choice, self.certificate
        return {
            "model": model,
            "l1_ratio": self.path.l1_ratio if model == "elasticnet" else None,
            **self.curve.as_dict(),
            **{which: self.alpha(which) for which in PLACES},
            "coefficients": {which: self.coefficients(which) for which in PLACES},
            "coefficients_standardized": {which: self.coefficients_standardized(which) for which in PLACES},
            "intercepts": {which: self.intercept(which) for which in PLACES},
            "scores": {which: self.scores(which) for which in PLACES},
            "n_features_kept": self.path.kept.tolist(),
            "l1_ratios": [self._ratio(i) for i in range(len(self.paths))] if model == "elasticnet" else [],
            "folds": choice.count,
            "folds_tested": len(self.curve.errors),
            "fold_by": choice.text,
            "rows": round(self.target.n),
            "certificate": dataclasses.asdict(certificate),
            "warnings": list(self.notes),
        }

    def _ratio(self, i: int) -> dict[str, Any]:
        curve = self.curves[i]
        best, one_se = (float(curve.alphas[place]) for place in (curve.best, curve.one_se))
        return {"l1_ratio": self.paths[i].l1_ratio, **curve.as_dict(), "best": best, "one_se": one_se}


def tune(
    cells: CellMoments,
    model: str,
    l1_ratio: float | Sequence[float] = 0.5,
    alphas: Iterable[float] | None = None,
    n_alphas: int | None = None,
    notes: Iterable[str] = (),
) -> Tuned:
    """The whole path in every fold, for every mixing ratio; alphas as given, or `n_alphas` of them from the data."""
    ratios = checked_ratios(model, l1_ratio)
    given, about_alphas = checked_alphas(model, alphas, n_alphas)
    encoding, problem = cells.problem()
    grids = [grid_for(problem, model, ratio, n_alphas) if given is None else given for ratio in ratios]
    # The arithmetic of a fold runs outside the interpreter's lock, so threads are enough for all cores.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as hands:
        whole = [hands.submit(follow, problem, model, grid, ratio) for ratio, grid in zip(ratios, grids, strict=True)]
        found = hands.map(lambda number: _answer(cells, number, model, ratios, grids), cells.tested)
        folds = dict(zip(cells.tested, found, strict=True))
    paths = tuple(path.result() for path in whole)
    held = mapped(cells.held, cells.base, encoding)
    return Tuned(
        tuple(encoding.names),
        paths,
        curves_of(grids, folds),
        worst_of(paths, folds),
        tuple(np.array([problem.rss(w) / problem.n for w in path.W]) for path in paths),
        tuple(mean_squares(held, path.coef, path.intercepts) if held.n else np.zeros(len(path.W)) for path in paths),
        merge_all(cell.take([-1]) for cell in cells.cells),
        held.take([-1]),
        cells.choice,
        (
            *notes,
            *about_alphas,
            *notes_of(cells, problem.n, len(encoding.names), still(problem, encoding.names), folds),
        ),
    )


def curves_of(grids: Sequence[Array], folds: Mapping[int, FoldAnswer]) -> tuple[CrossValidation, ...]:
    errors = zip(*(fold.errors for fold in folds.values()), strict=True)
    return tuple(CrossValidation(grid, np.array(found)) for grid, found in zip(grids, errors, strict=True))


def worst_of(paths: Sequence[Path], folds: Mapping[int, FoldAnswer]) -> Certificate:
    return max((*(fold.worst for fold in folds.values()), *(path.worst for path in paths)), key=_relative)


# ---- what is asked for


def checked_alphas(
    model: str, alphas: Iterable[float] | None, n_alphas: int | None
) -> tuple[Array | None, tuple[str, ...]]:
    """The given alphas, falling and each once, and what is to be said about them; None if the data shall tell them."""
    if alphas is not None and n_alphas is not None:
        raise ConfigError("Both alphas and a number of alphas are given; expected one of them. Drop one.")
    if model == "linear":
        if alphas is not None or n_alphas is not None:
            raise ConfigError("A linear model has no penalty, so there are no alphas to try. Choose ridge or lasso.")
        return np.zeros(1), ()
    if n_alphas is not None and not (_is_whole(n_alphas) and 1 <= n_alphas <= MOST):
        raise ConfigError(f"Expected a number of alphas from 1 to {MOST:,}, got {n_alphas!r}. 100 is usual.")
    if alphas is None:
        return None, ()
    values = list(alphas) if isinstance(alphas, Iterable) else [alphas]
    for value in values:
        if not (is_number(value) and math.isfinite(value) and value >= 0):
            raise ConfigError(f"Expected alphas to be finite numbers of at least 0, got {value!r}. Correct it.")
    if not values:
        raise ConfigError("Expected at least one alpha to try, got none. Name some, or leave it to the data.")
    falling = np.unique(np.array(values, np.float64))[::-1]
    twice = len(values) - len(falling)
    return falling, (f"{twice} of the alphas were given more than once; each is tried once.",) if twice else ()


def is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def checked_ratios(model: str, l1_ratio: float | Sequence[float]) -> tuple[float, ...]:
    check_linear(model, "a path of penalties or cross-validation")
    ratios = list(l1_ratio) if isinstance(l1_ratio, (Sequence, np.ndarray)) else [l1_ratio]
    for ratio in ratios:
        if not (is_number(ratio) and 0 <= ratio <= 1):
            raise ConfigError(f"Expected l1_ratio from 0 (ridge) to 1 (lasso), got {ratio!r}. Give shares such as 0.5.")
    if not ratios:
        raise ConfigError("Expected at least one l1_ratio, got none. 0.5 is usual.")
    if len(ratios) > 1 and model != "elasticnet":
        raise ConfigError(f"Several mixing ratios are for elasticnet only; the model is {model}. Give one or none.")
    return tuple(dict.fromkeys(float(ratio) for ratio in ratios))


def grid_for(problem: Slopes, model: str, l1_ratio: float, n_alphas: int | None) -> Array:
    return alpha_grid(problem, model, l1_ratio, USUAL_POINTS if n_alphas is None else int(n_alphas))


# ---- the folds


class FoldAnswer(NamedTuple):
    """What one fold says: its errors for each mixing ratio, its worst certificate, and what is odd about it."""

    errors: list[Array]
    worst: Certificate
    flat: bool
    wide: bool
    still: set[str]


def _answer(cells: CellMoments, number: int, model: str, ratios: Sequence[float], grids: Sequence[Array]) -> FoldAnswer:
    encoding, fold = fold_of(cells, number)
    problem = fold.problem
    errors: list[Array] = []
    certificates: list[Certificate] = []
    for ratio, grid in zip(ratios, grids, strict=True):
        W = weights_along(problem, model, grid, ratio)
        errors.append(fold.errors(W))
        certificates += certify_along(problem, model, grid, ratio, W)
    worst = max(certificates, key=_relative)
    flat, wide = not problem.y_scatter > 0, problem.n <= len(problem.z)
    return FoldAnswer(errors, worst, flat, wide, still(problem, encoding.names))


def _relative(certificate: Certificate) -> float:
    return certificate.relative


def still(problem: LeastSquares | RowsAtHand, names: Sequence[str]) -> set[str]:
    """The columns that do not vary."""
    return {name for name, norm in zip(names, problem.norms.tolist(), strict=True) if norm == 0}


# ---- what is said


def notes_of(cells: FoldsOf, n: float, width: int, always: set[str], folds: Mapping[int, FoldAnswer]) -> list[str]:
    """About n training rows of so many design columns, of which some do `always` rest."""
    notes = []
    if always:
        notes.append(f"These columns do not vary, so that their weights are 0: {listed(sorted(always))}.")
    at_times = set().union(*(fold.still for fold in folds.values())) - always
    if at_times:
        notes.append(
            f"These columns do not vary over the training rows of some fold and have weight 0 there: "
            f"{listed(sorted(at_times))}."
        )
    if n <= width:
        notes.append(
            f"There are {width} columns and {n:.0f} training rows: with a weak penalty the model fits "
            "them exactly, whatever they say."
        )
    elif any(fold.wide for fold in folds.values()):
        notes.append("Some folds have no more training rows than columns; fewer columns or more folds would help.")
    flat = [str(i) for i, fold in folds.items() if fold.flat]
    if flat:
        notes.append(f"The target does not vary over the training rows of fold {listed(flat)}: its mean is the model.")
    left_out = sorted(set(range(cells.choice.count)) - set(folds))
    if left_out:
        shown = listed([str(fold) for fold in left_out])
        notes.append(
            f"All rows of fold {shown} are among those kept for testing: the mean is that of the other {len(folds)} "
            "folds. Folds by hash would share the rows evenly."
        )
    return notes + _about_groups(cells)


def _about_groups(cells: FoldsOf) -> list[str]:
    choice = cells.choice
    if choice.by != "group" or choice.column not in cells.columns:
        return []
    return [
        f"'{choice.column}' makes the folds and is also a column to predict from, though no fold has seen the values "
        "that it is tested on. Leave that column out."
    ]


def _scores(target: Moments, square: float) -> dict[str, float | int | None]:
    """R2 and RMSE from the mean squared error; None without rows, or for R2 without variation."""
    if not target.n > 0:
        return {"rows": 0, "r2": None, "rmse": None}
    scatter = float(target.scatter[0, 0])
    r2 = 1 - square * target.n / scatter if scatter > 0 else None
    return {"rows": round(target.n), "r2": r2, "rmse": math.sqrt(square)}
