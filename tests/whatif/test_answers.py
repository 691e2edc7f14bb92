"""What-ifs of one study against scikit-learn, refitted to the rows of every fold: columns, targets, models, importance."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shoal.data.encoding import Encoding
from shoal.data.terms import Number
from shoal.errors import ConfigError, DataError, StateError
from shoal.fitting.summing import sum_cells
from shoal.settings.values import config_from
from shoal.solve.moments import Moments
from shoal.tasks.train import coordinated
from shoal.whatif import answers as whatif
from shoal.whatif import courses
from shoal.whatif.answers import RATIOS, WhatIf
from shoal.whatif.cells import CellMoments
from shoal.whatif.courses import Point, Question
from shoal.whatif.folds import FoldChoice
from support.runs import SLOW, until

FOLDS = 5
NUMBERS, TEXTS = ["a", "b", "c", "d"], ["town"]
TIGHT: dict[str, Any] = {"tol": 1e-14, "max_iter": 1_000_000}


def table(rows: int = 230) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal([0, 5, 100, 0], [1, 2, 9, 1], size=(rows, 4)), columns=NUMBERS)
    frame["town"] = rng.choice(["Bonn", "Rom", "Wien"], rows)
    frame["y"] = 3 * frame.a - 2 * frame.b + 0.1 * frame.c + 2 * (frame.town == "Rom") + rng.normal(size=rows)
    frame.loc[rng.random(rows) < 0.1, "b"] = np.nan
    return frame


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="module")
def cells(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> CellMoments:
    folder = tmp_path_factory.mktemp("whatif")
    frame.to_csv(folder / "table.csv", index=False)
    knobs = {"file": str(folder / "table.csv"), "target": "y", "test_every": 7, "engine": "inline"}
    config = config_from(knobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(folder / "home"))
        with coordinated(config) as coordinator:
            return sum_cells(coordinator, coordinator.open(config), config, FoldChoice(FOLDS))


@pytest.fixture
def asked(cells: CellMoments) -> WhatIf:
    return WhatIf(cells)


def wide(p: int, n: int = 2000, folds: int = 10) -> CellMoments:
    """Sums of made-up rows, without a file."""
    rng = np.random.default_rng(p)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    y = X @ (rng.standard_normal(p) * (rng.random(p) < 0.3)) + rng.standard_normal(n)
    Z = np.column_stack((X, y))
    base = Encoding(tuple(Number(f"x{i}", 0.0) for i in range(p)), {}, "y")
    parts = tuple(Moments.of(Z[i::folds]) for i in range(folds))
    empty: tuple[dict[str, float], ...] = tuple({} for _ in range(folds + 1))
    return CellMoments(config_from({"target": "y"}), base, FoldChoice(folds), parts, Moments.empty(p + 1), empty)


# ------------------------------------------------------------------ the same from the rows


def pipeline(columns: tuple[str, ...], model: str, alpha: float, l1_ratio: float) -> Any:
    numbers, texts = ([c for c in columns if (c in TEXTS) == is_text] for is_text in (False, True))
    before = make_column_transformer(
        (SimpleImputer(strategy="median"), numbers), (OneHotEncoder(drop="first", sparse_output=False), texts)
    )
    last = {
        "linear": LinearRegression(), "ridge": Ridge(alpha=alpha, solver="svd"), "lasso": Lasso(alpha=alpha, **TIGHT),
        "elasticnet": ElasticNet(alpha=alpha, l1_ratio=l1_ratio, **TIGHT),
    }[model]  # fmt: skip
    return make_pipeline(before, StandardScaler(), last)


def refitted(frame: pd.DataFrame, question: Question, alpha: float) -> dict[str, Any]:
    """The coefficients and every score, each from the rows."""
    row = np.arange(len(frame))
    known, held = frame[row % 7 != 0], frame[row % 7 == 0]
    columns, target = list(question.columns), question.target

    def fit(rows: pd.DataFrame) -> Any:
        model = pipeline(question.columns, question.model, alpha, question.l1_ratio)
        return model.fit(rows[columns], rows[target])

    def error(model: Any, rows: pd.DataFrame) -> float:
        return float(((rows[target] - model.predict(rows[columns])) ** 2).mean())

    fold = known.index.to_numpy() % FOLDS
    errors = np.array([error(fit(known[fold != k]), known[fold == k]) for k in range(FOLDS)])
    whole = fit(known)
    return {
        "weights": whole[-1].coef_, "coefficients": whole[-1].coef_ / whole[1].scale_,
        "cv": errors.mean(), "se": errors.std(ddof=1) / np.sqrt(FOLDS),
        "train": error(whole, known), "test": error(whole, held),
        "r2": 1 - error(whole, held) / held[target].var(ddof=0),
    }  # fmt: skip


def assert_same(point: Point, theirs: dict[str, Any]) -> None:
    np.testing.assert_allclose(point.w, theirs["weights"], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(point.coef, theirs["coefficients"], rtol=1e-7, atol=1e-9)
    assert point.cv_mean == pytest.approx(theirs["cv"], rel=1e-8)
    assert point.cv_se == pytest.approx(theirs["se"], rel=1e-7)
    assert point.train.rmse == pytest.approx(np.sqrt(theirs["train"]), rel=1e-8)
    assert point.test is not None
    assert point.test.rmse == pytest.approx(np.sqrt(theirs["test"]), rel=1e-8)
    assert point.test.r2 == pytest.approx(theirs["r2"], rel=1e-7)
    assert point.certificate.relative < 1e-9


@pytest.mark.parametrize("model", ["linear", "ridge", "lasso", "elasticnet"])
@pytest.mark.parametrize(
    ("target", "left_out"), [("y", ()), ("y", ("a", "b")), ("y", ("town",)), ("d", ()), ("c", ("y", "town"))]
)
def test_columns_targets_and_models_are_those_of_a_refit(
    asked: WhatIf, frame: pd.DataFrame, model: str, target: str, left_out: tuple[str, ...]
) -> None:
    if target != "y" and asked.targets == ["y"]:
        pytest.fail("other targets were expected")
    question = asked.question(target, left_out, model, 0.3)
    course = asked.course(question)
    assert course is not None
    assert set(question.columns) == {*NUMBERS, *TEXTS, "y"} - {target, *left_out}
    ordered = question._replace(
        columns=tuple(sorted(question.columns, key=_in_order(asked.setting(question).encoding.names)))
    )
    for place in {0, len(course.alphas) // 2, len(course.alphas) - 1}:
        alpha = float(course.alphas[place])
        assert_same(asked.point(question, alpha), refitted(frame, ordered, alpha))


def _in_order(names: list[str]) -> Any:
    """Columns as the terms of the design have them."""
    return lambda column: next(i for i, name in enumerate(names) if name.split("=")[0] == column)


def test_between_two_stops_it_is_as_exact(asked: WhatIf, frame: pd.DataFrame) -> None:
    question = asked.question("y", (), "lasso")
    course = asked.course(question)
    assert course is not None
    alpha = float(np.sqrt(course.alphas[40] * course.alphas[41]))
    assert course.place(alpha) is None
    assert_same(asked.point(question, alpha), refitted(frame, question, alpha))


def test_best_and_one_standard_error_rule(asked: WhatIf) -> None:
    course = asked.course(asked.question("y", (), "lasso"))
    assert course is not None
    mean, se = course.cv.mean, course.cv.standard_error
    assert mean[course.cv.best] == mean.min()
    within = course.alphas[mean <= mean.min() + se[course.cv.best]]
    assert course.alphas[course.cv.one_se] == within.max()
    assert course.cv.one_se < course.cv.best  # stronger penalties come first


def test_importance_is_that_of_refits_without_the_column(asked: WhatIf, frame: pd.DataFrame) -> None:
    question = asked.question("y", ("d",), "lasso")
    alpha = 0.05
    found = asked.importance(question, alpha)
    assert set(found.rises) == {"a", "b", "c", "town"}
    assert found.error == pytest.approx(refitted(frame, question, alpha)["cv"], rel=1e-8)
    for column, rise in found.rises.items():
        without = question._replace(columns=tuple(c for c in question.columns if c != column))
        assert rise == pytest.approx(refitted(frame, without, alpha)["cv"] - found.error, rel=1e-6)
    assert asked.importance(question, alpha) is found


# ------------------------------------------------------------------ what is refused


def test_bad_questions_get_a_plain_sentence(asked: WhatIf) -> None:
    with pytest.raises(ConfigError, match="at least one column"):
        asked.question("y", [*NUMBERS, *TEXTS], "lasso")
    with pytest.raises(ConfigError, match="model"):
        asked.question("y", (), "forest")
    with pytest.raises(ConfigError, match="ratio"):
        asked.question("y", (), "elasticnet", 1.5)
    with pytest.raises(StateError, match="without gaps"):
        asked.course(asked.question("b", (), "lasso"))
    with pytest.raises(ConfigError, match="alpha"):
        asked.point(asked.question("y", (), "lasso"), -1.0)


def test_a_target_without_any_relation_is_said() -> None:
    Z = np.column_stack((np.tile([1.0, -1.0], 40), np.repeat([1.0, -1.0], 40)))
    base = Encoding((Number("x", 0.0),), {}, "y")
    parts = tuple(Moments.of(Z) for _ in range(4))
    empty: tuple[dict[str, float], ...] = tuple({} for _ in range(5))
    cells = CellMoments(config_from({"target": "y"}), base, FoldChoice(4), parts, Moments.empty(2), empty)
    asked = WhatIf(cells)
    with pytest.raises(DataError, match="No column is related"):
        asked.course(asked.question("y", (), "lasso"))


# ------------------------------------------------------------------ pace and threads


def test_an_answer_does_not_wait_for_its_curve_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = WhatIf(wide(30))
    held = threading.Event()
    follow = whatif.follow

    def slow(*arguments: Any) -> Any:
        held.wait(SLOW)
        return follow(*arguments)

    monkeypatch.setattr(whatif, "follow", slow)
    question = asked.question("y", (), "lasso")
    alpha = float(asked.alphas(question)[60])
    assert asked.course(question, 0.0) is None
    early = asked.point(question, alpha)
    held.set()
    course = asked.course(question)
    assert course is not None
    late = asked.point(question, alpha)
    np.testing.assert_allclose(early.w, late.w, rtol=1e-9, atol=1e-12)
    assert early.cv_mean == pytest.approx(late.cv_mean, rel=1e-10)
    assert early.cv_se == pytest.approx(late.cv_se, rel=1e-8)


def test_other_mixing_ratios_are_made_ahead_of_time() -> None:
    asked = WhatIf(wide(12))
    assert asked.course(asked.question("y", (), "elasticnet", 0.5)) is not None
    others = [asked.question("y", (), "elasticnet", ratio) for ratio in RATIOS]
    until(lambda: all(asked.ready(other) is not None for other in others))
    assert asked.ready(asked.question("y", (), "lasso")) is None


def test_many_hands_get_the_answers_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same from many threads, with so little memory for answers that most are made more than once."""
    monkeypatch.setattr(whatif, "KEPT_BYTES", 100_000)
    made = wide(20)
    asked, alone = WhatIf(made), WhatIf(made)
    wishes = [(ratio, out) for ratio in (0.2, 0.5, 0.8) for out in ((), ("x1",), ("x2", "x3"))]
    found: dict[Any, float] = {}
    problems: list[Exception] = []

    def hand(start: int) -> None:
        try:
            for ratio, out in wishes[start:] + wishes[:start]:
                course = asked.course(asked.question("y", out, "elasticnet", ratio), SLOW)
                assert course is not None
                found[ratio, out] = float(course.cv.mean.min())
        except Exception as error:  # noqa: BLE001 - told below
            problems.append(error)

    hands = [threading.Thread(target=hand, args=(start,)) for start in range(6)]
    for each in hands:
        each.start()
    for each in hands:
        each.join(SLOW)
    assert problems == []
    for ratio, out in wishes:
        course = alone.course(alone.question("y", out, "elasticnet", ratio))
        assert course is not None
        assert found[ratio, out] == float(course.cv.mean.min())


def test_the_thread_ends_when_there_is_nothing_to_do() -> None:
    asked = WhatIf(wide(8))
    asked.course(asked.question("y", (), "lasso"))
    until(lambda: not any(thread.name == "what-if" for thread in threading.enumerate()))
    assert asked.course(asked.question("y", (), "ridge")) is not None


def test_a_wish_that_was_given_up_and_comes_back_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """While its course was being made: for the page, the answer would have come only when its patience ended."""
    asked = WhatIf(wide(5))
    begun, held, made = threading.Event(), threading.Event(), asked._followed

    def slowly(question: Question) -> Any:
        begun.set()
        assert held.wait(SLOW)
        return made(question)

    monkeypatch.setattr(asked, "_followed", slowly)
    first, second = asked.question("y", (), "lasso"), asked.question("y", ("x1",), "lasso")
    assert asked.course(first, 0.0) is None
    assert begun.wait(SLOW)
    assert asked.course(second, 0.0) is None
    found: list[Any] = []
    hand = threading.Thread(target=lambda: found.append(asked.course(first, SLOW)))
    hand.start()
    until(lambda: first in asked._requests)
    held.set()
    hand.join(SLOW)
    assert not hand.is_alive()
    assert found[0] is not None


def test_courses_do_not_keep_the_problems_that_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "KEPT_BYTES", 200_000)
    asked = WhatIf(wide(20))
    settings = []
    for i in range(8):
        question = asked.question("y", (f"x{i}",), "ridge")
        assert asked.course(question, SLOW) is not None
        settings.append(weakref.ref(asked.setting(question)))
    gc.collect()
    assert len(asked._courses.found) > 4
    assert sum(setting() is not None for setting in settings) <= len(asked._settings.found) < 4


def test_a_point_between_is_right_where_columns_add_up_to_another() -> None:
    """A total beside its parts: with the fast solver, a column that depends on others may have to take their place."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 6))
    X[:, 5] = X[:, 0] + X[:, 1] + X[:, 2]
    y = X[:, 5] + 0.3 * X[:, 3] + rng.standard_normal(400)
    parts = tuple(Moments.of(np.column_stack((X, y))[i::5]) for i in range(5))
    base = Encoding(tuple(Number(f"x{i}", 0.0) for i in range(6)), {}, "y")
    empty: tuple[dict[str, float], ...] = tuple({} for _ in range(6))
    asked = WhatIf(CellMoments(config_from({"target": "y"}), base, FoldChoice(5), parts, Moments.empty(7), empty))
    question, row = asked.question("y", (), "lasso"), np.arange(400)
    assert asked.course(question, 20) is not None
    for alpha in (0.03, 0.0058):
        errors = []
        for fold in range(5):
            train = row % 5 != fold
            model = make_pipeline(StandardScaler(), Lasso(alpha=alpha, **TIGHT)).fit(X[train], y[train])
            errors.append(np.mean((y[~train] - model.predict(X[~train])) ** 2))
        assert asked.point(question, alpha).cv_mean == pytest.approx(np.mean(errors), rel=1e-9)


def test_the_first_model_does_not_wait_for_the_folds(cells: CellMoments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "WIDE", 3)
    asked = WhatIf(cells)
    question = asked.question("y", (), "lasso")
    first = asked.first_point(question, 0.05)
    assert np.isnan(first.cv_mean)
    assert asked.progress(question) == 0
    whole = asked.point(question, 0.05)
    np.testing.assert_array_equal(first.coef, whole.coef)
    assert asked.first_point(question, 0.05).cv_mean == whole.cv_mean > 0
    assert asked.course(question) is not None
    assert asked.progress(question) == 1


# ------------------------------------------------------------------ what is held


def test_folds_of_a_wide_table_are_not_kept_and_answer_the_same(
    cells: CellMoments, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = WhatIf(cells)
    question = kept.question("y", (), "lasso")
    first = kept.course(question)
    monkeypatch.setattr(courses, "FOLDS_BYTES", 0)
    fresh = WhatIf(cells)
    second = fresh.course(question)
    assert first is not None
    assert second is not None
    assert second.cv.errors.tobytes() == first.cv.errors.tobytes()
    assert fresh.point(question, 0.07).cv_mean == kept.point(question, 0.07).cv_mean
    assert "_folds" in vars(kept.setting(question))
    assert "_folds" not in vars(fresh.setting(question))
    assert fresh.setting(question).size == kept.setting(question)._bytes(1) < kept.setting(question)._bytes(FOLDS)


def test_a_course_that_nobody_wants_any_more_is_given_up_between_two_folds(cells: CellMoments) -> None:
    whatif_ = WhatIf(cells)
    question = whatif_.question("y", (), "lasso")
    done: list[int] = []
    still = whatif_._stand_still

    def between() -> None:
        done.append(1)
        if len(done) == 2:
            whatif_.close()
        still()

    whatif_._stand_still = between  # type: ignore[method-assign]
    assert whatif_.course(question, 0.0) is None
    until(lambda: whatif_._worker is None)
    assert len(done) == 2
    assert whatif_.ready(question) is None
