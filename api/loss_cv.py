"""A scikit-learn estimator of yes/no targets that chooses its penalty by cross-validation: all penalties and folds go
down together, by sweeps that they share."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from shoal.api.array_fits import SharedRows, check_squares, engine_on
from shoal.api.cv_estimators import SELECTIONS, USUAL_FOLDS
from shoal.api.estimators import check, check_workers, checked_weights, is_real, is_sparse_matrix
from shoal.api.loss_estimators import LogisticRegression
from shoal.api.sparse_fits import as_dense
from shoal.errors import TrainingError
from shoal.fitting.losses.rows import FAR
from shoal.lazy.classes import dataclass
from shoal.losses.logistic import Logistic
from shoal.models import Certificate, Floats
from shoal.passes.arrays import summed
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments, merge_all, plan_cells
from shoal.tuning.designs import FoldDesign, common_centre
from shoal.tuning.follow import Followed, PathFollower, PathRequest
from shoal.tuning.points import fold_tables
from shoal.utils import available_memory
from shoal.whatif.curve import CrossValidation
from shoal.whatif.folds import Cells
from shoal.whatif.penalty_choice import checked_ratios

__all__ = ["LogisticRegressionCV"]

MOST_CELLS = 4  # for each split; where splits cut the rows into more parts, these have no curvature each


@dataclass(frozen=True, eq=False)
class _Parts:
    """The cell of each row (n,), whose rows are in the same part of every split, and the cells that each split trains
    on and is tested on."""

    cell: Cells
    count: int
    trains: list[Cells]
    tests: list[Cells]

    @classmethod
    def of(cls, splits: Sequence[tuple[Any, Any]], n: int) -> _Parts:
        codes = np.zeros((n, len(splits)), np.int8)
        for fold, parts in enumerate(splits):
            for code, part in zip((1, 2), parts, strict=True):
                rows = np.asarray(part)
                rows = np.flatnonzero(rows) if rows.dtype == bool else np.arange(n)[rows]
                if not len(rows) or len(np.unique(rows)) < len(rows):
                    raise ValueError("Expected splits with rows to train on and to test on, each once. Correct cv.")
                codes[rows, fold] += code
        kinds, cell = np.unique(codes, axis=0, return_inverse=True)
        trains = [np.flatnonzero(kinds[:, fold] & 1) for fold in range(len(splits))]
        tests = [np.flatnonzero(kinds[:, fold] & 2) for fold in range(len(splits))]
        return cls(cell.reshape(-1).astype(np.int64), len(kinds), trains, tests)


def stratified(places: npt.NDArray[np.intp], k: int) -> list[tuple[Cells, Cells]]:
    """Every k-th row of each class, the rows of the second class counted on from those of the first: folds differ by
    one row at most, and so does either class in them."""
    order = np.argsort(places, kind="stable")
    return [(np.sort(np.delete(order, np.s_[fold::k])), np.sort(order[fold::k])) for fold in range(k)]


class LogisticRegressionCV(LogisticRegression):
    """`LogisticRegression` with C, and of several mixing ratios one, chosen by the log loss of cross-validation.

    Cs              those to try, or how many: from the data, from where the penalty leaves hardly anything, in equal
                    ratios
    cv              None for 5 folds or a number of folds: every cv-th row of each class, so that sorted rows do no harm
                    and each fold has its share of both; or a splitter, or an iterable of splits
    l1_ratio        0 for ridge, 1 for lasso; or several to choose from
    selection       "best", the smallest mean log loss over folds, or "one_se", the smallest C within one standard
                    error of it
    class_weight, fit_intercept, standardize, n_workers, engine    as of `LogisticRegression`, each by the training rows
                    of a fold

    Fitted beside coef_, intercept_, classes_: C_, l1_ratio_, best_C_, one_se_C_; Cs_ (m,) rising, or (ratios, m);
    log_loss_path_ (m, folds), or (ratios, m, folds); n_iter_, the sweeps over the rows for all of it; certificate_, the
    worst of all points and folds.

    >>> import numpy as np, shoal
    >>> x = np.arange(40.0)
    >>> model = shoal.LogisticRegressionCV(Cs=[0.001, 1.0]).fit(x[:, None], (x + 9 * (x % 3)) > 28)
    >>> model.C_, model.log_loss_path_.shape
    (1.0, (2, 5))
    """

    def __init__(
        self,
        Cs: int | Sequence[float] = 100,
        *,
        l1_ratio: float | Sequence[float] = 0.0,
        cv: Any = None,
        selection: str = "best",
        class_weight: Any = None,
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.Cs = Cs
        self.l1_ratio = l1_ratio  # type: ignore[assignment]
        self.cv = cv
        self.selection = selection
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose C by the splits of X (n, p) and y (n,) with two different values, at once with the fits to all rows;
        sample_weight (n,) says how much each row counts, in fits and in errors. Zeros of a sparse X are filled in."""
        ratios, given, count = self._wanted()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        X = as_dense(X) if is_sparse_matrix(X) else X
        check_classification_targets(y)
        weights = checked_weights(X, sample_weight)
        self.classes_, places = self._classes(y, weights)
        parts = _Parts.of(self._splits(X, y, places), len(X))
        followed = self._followed(X, places.astype(np.float64), weights, parts, PathRequest(
            "elasticnet", ratios, given, count,
        ))  # fmt: skip
        self._keep(followed, ratios)
        return self

    def _wanted(self) -> tuple[tuple[float, ...], Floats | None, int]:
        Cs: Any = self.Cs
        check("selection", self.selection, f"one of {', '.join(SELECTIONS)}", self.selection in SELECTIONS)
        check_workers(self.engine, self.n_workers)
        try:
            ratios = checked_ratios("elasticnet", self.l1_ratio)
        except TrainingError as error:
            raise ValueError(str(error)) from None
        if _is_count(Cs):
            check("Cs", Cs, "numbers greater than 0, or how many of them, at least 1", int(Cs) >= 1)
            return ratios, None, int(Cs)
        values = list(Cs) if isinstance(Cs, (Sequence, np.ndarray)) else []
        right = bool(values) and all(is_real(C) and 0 < C < np.inf for C in values)
        check("Cs", Cs, "numbers greater than 0, or how many of them, at least 1", right)
        return ratios, 1 / np.unique(np.array(values, np.float64)), len(values)

    def _classes(self, y: Any, weights: Floats | None) -> tuple[Any, npt.NDArray[np.intp]]:
        classes, places = np.unique(y, return_inverse=True)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: expected two classes, "
                f"got {len(classes)}."
            )
        counts = np.bincount(places, weights, len(classes))
        if len(classes) < 2 or not counts.all():
            only = classes[int(np.argmax(counts))]
            raise ValueError(f"Expected two classes, got one class: {only!r}. There is nothing to tell apart.")
        return classes, places

    def _splits(self, X: Any, y: Any, places: npt.NDArray[np.intp]) -> Sequence[tuple[Any, Any]]:
        cv: Any = self.cv
        if cv is not None and not isinstance(cv, Integral):
            found = list(check_cv(cv, y, classifier=True).split(X, y))
        else:
            k = USUAL_FOLDS if cv is None else int(cv)
            check("cv", cv, "None, a number of at least 2, a splitter or an iterable of splits", k >= 2)
            if len(X) < k:
                raise ValueError(
                    f"Expected at least as many rows as folds, got n_samples={len(X)} for {k} folds. Set cv lower."
                )
            found = stratified(places, k)
        if not found or (self.selection == "one_se" and len(found) < 2):
            raise ValueError("Expected splits, at least 2 for a standard error, got fewer. Correct cv.")
        return found

    def _followed(self, X: Any, y: Floats, weights: Floats | None, parts: _Parts, request: PathRequest) -> Followed:
        few = parts.count <= MOST_CELLS * len(parts.trains)
        plan_cells(X.shape[1] + 1, parts.count if few else 1, memory_for_exact(available_memory()), SOLVING)
        with (
            engine_on(self.engine, self.n_workers, *X.shape) as engine,
            SharedRows.shared(engine, X, y[:, None], weights) as rows,
            rows.beside(parts.cell) as cells,
        ):
            whole = rows.moments()
            check_squares(whole)
            if few:
                sums = rows.cell_moments(parts.cell, parts.count)
                pairs = [tuple(merge_all(sums[i] for i in side) for side in pair)
                         for pair in zip(parts.trains, parts.tests, strict=True)]  # fmt: skip
            else:
                pairs = [tuple(_moments(X, y, weights, np.isin(parts.cell, side)) for side in pair)
                         for pair in zip(parts.trains, parts.tests, strict=True)]  # fmt: skip
            designs = self._designs(parts, whole, pairs)
            centre, loss = common_centre(designs, whole.mean[:-1], FAR), Logistic()
            follower = PathFollower(
                lambda asked: rows.points(cells, loss, centre, asked), loss, designs, centre, parts.count, few
            )
            try:
                return follower.follow(request)
            except TrainingError as error:
                raise ValueError(str(error)) from None

    def _designs(self, parts: _Parts, whole: Moments, pairs: Sequence[Any]) -> list[FoldDesign]:
        every = np.arange(parts.count)
        tables = fold_tables([*parts.trains, every], [*parts.tests, np.zeros(0, np.int64)], parts.count)  # type: ignore[list-item]
        sums = [*pairs, (whole, Moments.empty(len(whole.mean)))]
        names = tuple(map(str, range(len(whole.mean) - 1)))
        found = []
        for (trained, tested), (train, test) in zip(tables, sums, strict=True):
            units = Standardisation.of(train, bool(self.fit_intercept), bool(self.standardize))
            columns = np.arange(len(names))
            found.append(FoldDesign(
                names, names, None, columns, train, units, trained, tested, test.n, self._of_classes(train),
            ))  # fmt: skip
        return found

    def _of_classes(self, train: Moments) -> tuple[float, float] | None:
        """What rows of the two classes count for, by the training rows of a fold."""
        if self.class_weight is None:
            return None
        share = float(train.mean[-1])
        rows = np.array([1 - share, share])
        if not rows.all():
            return None  # which is refused where its constant is asked for
        no, yes = (self._by_class(np.array([0, 1]), rows) / rows).tolist()
        return no, yes

    def _keep(self, followed: Followed, ratios: tuple[float, ...]) -> None:
        *folds, whole = followed.found
        ends = np.cumsum([0, *map(len, followed.grids)])
        errors = np.array([one.tested / one.design.test_n / 2 for one in folds])
        curves = [
            CrossValidation(grid, errors[:, a:b])
            for grid, a, b in zip(followed.grids, ends[:-1], ends[1:], strict=True)
        ]
        best = int(np.argmin([curve.mean[curve.best] for curve in curves]))
        curve = curves[best]
        one_se = curve.one_se if len(folds) > 1 else curve.best  # one error has no standard error
        place = curve.best if self.selection == "best" else one_se
        several = len(curves) > 1
        Cs, paths = [1 / one.alphas for one in curves], [one.errors.T for one in curves]
        self.Cs_ = np.array(Cs) if several else Cs[0]
        self.log_loss_path_ = np.array(paths) if several else paths[0]
        self.best_C_, self.one_se_C_ = (float(1 / curve.alphas[i]) for i in (curve.best, one_se))
        self.C_, self.l1_ratio_ = float(1 / curve.alphas[place]), ratios[best]
        at = slice(ends[best] + place, ends[best] + place + 1)
        coef, intercept = whole.design.raw(whole.b[at], whole.W[at])
        self.coef_, self.intercept_ = np.asarray(coef, np.float64), np.asarray(intercept, np.float64)
        worst = max(followed.found, key=lambda one: float(one.gap.max()))
        gap = float(worst.gap.max())
        self.certificate_: Certificate = Certificate("kkt", gap * worst.steepest, gap, "data")
        self.n_iter_, self.notes_ = followed.sweeps, ()


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _moments(X: Any, y: Floats, weights: Floats | None, rows: npt.NDArray[np.bool_]) -> Moments:
    return summed(np.column_stack((X[rows], y[rows])).astype(np.float64), None if weights is None else weights[rows])
