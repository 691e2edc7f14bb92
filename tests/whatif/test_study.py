"""Studies: sums of cells, buckets and rows against NumPy on the rows; columns and targets changed; folders."""

from __future__ import annotations

import dataclasses
import random
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.preprocessing import StandardScaler

from shoal.errors import ConfigError, DamagedFile, ResourceError, StateError
from shoal.files import sealed
from shoal.fitting.summing import make_study, sum_cells
from shoal.models import penalty_for
from shoal.settings.values import config_from
from shoal.solve.least_squares import needs_data
from shoal.solve.paths import solve
from shoal.tasks.train import coordinated
from shoal.whatif.curve import cross_validate
from shoal.whatif.folds import FoldChoice
from shoal.whatif.study import SUMMARY, Buckets, RowSample, Study, open_study, save_study
from support.harm.damage import cut, flip, swap, zero_page


def table(rows: int, gaps: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(rows)
    frame = pd.DataFrame(rng.normal([0, 5, 100, 0], size=(rows, 4)), columns=list("abcd"))
    frame["town"] = rng.choice(["Bonn", "Rom", "Wien"], rows)
    frame["y"] = frame.a - 2 * frame.b + 0.1 * frame.c + (frame.town == "Rom") + rng.normal(size=rows)
    if gaps:
        frame.loc[rng.random(rows) < 0.1, "b"] = np.nan
    return frame


def study_of(folder: Path, frame: pd.DataFrame, choice: FoldChoice | None = None, **knobs: object) -> Study:
    path = folder / "table.csv"
    frame.to_csv(path, index=False)
    config = config_from({"file": str(path), "target": "y", **knobs})
    with coordinated(config) as coordinator:
        return make_study(coordinator, coordinator.open(config), config, choice or FoldChoice(5))


def filled(frame: pd.DataFrame, columns: list[str], train: np.ndarray) -> np.ndarray:
    """Numbers with the training median in gaps, towns as 0/1 without the first."""
    X = pd.DataFrame({c: frame[c].fillna(frame.loc[train, c].median()) for c in columns if c != "town"})
    if "town" in columns:
        for town in ("Rom", "Wien"):
            X[town] = (frame.town == town).astype(float)
    return X.to_numpy()


def refitted(frame: pd.DataFrame, columns: list[str], target: str, alpha: float, folds: int) -> np.ndarray:
    """The error of each fold by scikit-learn, everything refitted on the other rows."""
    row, found = np.arange(len(frame)), []
    y = frame[target].to_numpy()
    for fold in range(folds):
        train = row % folds != fold
        X = filled(frame, columns, train)
        scaler = StandardScaler().fit(X[train])
        model = Lasso(alpha=alpha, tol=1e-14, max_iter=100_000).fit(scaler.transform(X[train]), y[train])
        found.append(np.mean((y[~train] - model.predict(scaler.transform(X[~train]))) ** 2))
    return np.array(found)


def test_columns_are_left_out_without_rows(tmp_path: Path) -> None:
    frame = table(300)
    cells = study_of(tmp_path, frame).cells
    assert cells.columns == ["a", "b", "c", "d", "town"]
    for chosen in (["a", "b", "c", "d", "town"], ["b", "town"], ["a", "d"], ["b"]):
        errors = cross_validate(cells.only(chosen), "lasso", [0.05], 1.0).errors[:, 0]
        np.testing.assert_allclose(errors, refitted(frame, chosen, "y", 0.05, 5), rtol=1e-9)
    with pytest.raises(ConfigError, match="got 'x'"):
        cells.only(["a", "x"])


def test_any_complete_numeric_column_becomes_the_target(tmp_path: Path) -> None:
    frame = table(300)
    cells = study_of(tmp_path, frame).cells
    assert cells.targets == ["a", "c", "d"]
    turned = cells.toward("c")
    assert sorted(turned.columns) == ["a", "b", "d", "town", "y"]
    for chosen in (["a", "b", "d", "town", "y"], ["y", "b"]):
        errors = cross_validate(turned.only(chosen), "lasso", [0.01], 1.0).errors[:, 0]
        numbers = [c for c in turned.columns if c in chosen]
        np.testing.assert_allclose(errors, refitted(frame, numbers, "c", 0.01, 5), rtol=1e-9)
    back = turned.toward("y")
    first, again = (cross_validate(c, "lasso", [0.05], 1.0).errors for c in (cells, back))
    np.testing.assert_allclose(first, again, rtol=1e-12)
    with pytest.raises(StateError, match="got 'b'"):
        cells.toward("b")


def test_a_target_with_gaps_is_not_exchanged(tmp_path: Path) -> None:
    frame = table(200, gaps=False)
    frame.loc[3, "y"] = np.nan
    cells = study_of(tmp_path, frame).cells
    assert cells.targets == []
    with pytest.raises(StateError, match="anew"):
        cells.toward("a")


def test_dropped_rows_do_not_come_back_unsaid(tmp_path: Path) -> None:
    cells = study_of(tmp_path, table(300), impute="drop").cells
    with pytest.raises(StateError, match="'b'"):
        cells.only(["a", "c"])
    assert cells.only(["a", "b"]).columns == ["a", "b"]


def base_rows(study: Study, frame: pd.DataFrame) -> np.ndarray:
    fill = {term.column: term.fill for term in study.cells.base.terms if type(term).__name__ == "Number"}
    columns = {
        "Number": lambda t: frame[t.column].fillna(fill[t.column]),
        "Indicator": lambda t: frame[t.column].isna().astype(float),
        "Level": lambda t: (frame[t.column] == t.level).astype(float),
    }
    return np.column_stack([*(columns[type(t).__name__](t) for t in study.cells.base.terms), frame.y])


def test_a_small_table_keeps_its_rows(tmp_path: Path) -> None:
    frame = table(400)
    study = study_of(tmp_path, frame, test_every=4)
    kept = np.arange(400) % 4 != 0
    expected = base_rows(study, frame)[kept]
    assert isinstance(study.sample, RowSample)
    assert study.buckets is None
    order, other = np.lexsort(study.sample.Z.T), np.lexsort(expected.T)
    np.testing.assert_array_equal(study.sample.Z[order], expected[other])
    np.testing.assert_array_equal(study.sample.cell[order], (np.arange(400)[kept] % 5)[other])


@pytest.mark.parametrize("by", ["row", "hash"])
def test_buckets_of_a_large_table_add_up(tmp_path: Path, by: str) -> None:
    frame = table(6000)
    study = study_of(tmp_path, frame, FoldChoice(5, by), test_every=10)
    buckets = study.buckets
    assert buckets is not None
    assert study.rows is None
    assert len(buckets.counts) == 200
    Z = base_rows(study, frame)[np.arange(6000) % 10 != 0]
    assert buckets.counts.sum() == len(Z)
    assert 3 < buckets.counts.min() < buckets.counts.max() < 60
    np.testing.assert_allclose(buckets.sums.sum(axis=0), (Z - buckets.origin).sum(axis=0), atol=1e-8)
    off = Z - buckets.origin
    np.testing.assert_allclose(buckets.squares.sum(axis=0), off.T @ off, rtol=1e-9, atol=1e-8)
    merged = study.cells.cells
    with coordinated(study.cells.config) as coordinator:
        config = study.cells.config
        plain = sum_cells(coordinator, coordinator.open(config), config, FoldChoice(5, by)).cells
    for one, other in zip(merged, plain, strict=True):
        assert one.n == other.n
        np.testing.assert_allclose(one.scatter, other.scatter, rtol=1e-10, atol=1e-8)
    part = buckets.take([2, 0, len(buckets.origin) - 1])
    np.testing.assert_array_equal(part.squares[7, 0, 1], buckets.squares[7, 2, 0])
    np.testing.assert_array_equal(part.sums[:, 2], buckets.sums[:, -1])


@pytest.mark.parametrize("rows", [300, 6000])
def test_a_study_is_the_same_from_its_folder(tmp_path: Path, rows: int) -> None:
    study = study_of(tmp_path, table(rows), test_every=7)
    save_study(tmp_path / "study", study)
    found = open_study(tmp_path / "study")
    assert found.content == study.content
    assert found.cells.columns == study.cells.columns
    assert found.cells.targets == study.cells.targets
    np.testing.assert_array_equal(found.cells.held.scatter, study.cells.held.scatter)
    one, other = (cross_validate(s.cells, "ridge", [3.0, 1.0], 0.0).errors for s in (study, found))
    np.testing.assert_array_equal(one, other)
    assert type(found.drawn_from) is type(study.sample)
    for field in dataclasses.fields(study.sample):  # type: ignore[arg-type]
        np.testing.assert_array_equal(getattr(found.drawn_from, field.name), getattr(study.sample, field.name))


def test_a_damaged_study_is_a_sentence(tmp_path: Path) -> None:
    save_study(tmp_path / "s", study_of(tmp_path, table(100)))
    (tmp_path / "s" / "cell_scatters.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DamagedFile, match=r"expected \d+ bytes, got 6\. Make the study anew") as said:
        open_study(tmp_path / "s")
    assert Path(said.value.path).name == "cell_scatters.npy"
    with pytest.raises(StateError, match="Make it anew"):
        open_study(tmp_path / "nowhere")


def test_a_study_with_a_knob_of_a_later_program_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    save_study(folder, study_of(tmp_path, table(100)))
    said = sealed.read(folder / SUMMARY, folder.name)
    sealed.write(folder / SUMMARY, {**said, "config": {**said["config"], "not_yet": 1}}, folder.name)
    with pytest.raises(StateError, match=r"not_yet.*Make it anew"):
        open_study(folder)


HARM: list[Callable[[Path, random.Random], None]] = [flip, zero_page, cut]


@pytest.mark.parametrize("harm", HARM)
def test_damage_anywhere_in_a_study_is_noticed(tmp_path: Path, harm: Callable[[Path, random.Random], None]) -> None:
    study = study_of(tmp_path, table(6000))
    save_study(tmp_path / "s", study)
    for path in sorted((tmp_path / "s").iterdir()):
        kept = path.read_bytes()
        for seed in range(4):
            harm(path, random.Random(seed))
            with pytest.raises(DamagedFile, match=path.name):
                open_study(tmp_path / "s")
            path.write_bytes(kept)
    swap(tmp_path / "s" / "bucket_sums.npy", tmp_path / "s" / "cell_means.npy")
    with pytest.raises(DamagedFile):
        open_study(tmp_path / "s")


def test_a_part_of_another_study_is_damage(tmp_path: Path) -> None:
    for name, choice in (("one", FoldChoice(5)), ("two", FoldChoice(5, "hash"))):
        save_study(tmp_path / name, study_of(tmp_path, table(300), choice))
    for name in ("study.json", "cell_counts.npy"):
        swap(tmp_path / "one" / name, tmp_path / "two" / name)
        with pytest.raises(DamagedFile):
            open_study(tmp_path / "one")
        swap(tmp_path / "one" / name, tmp_path / "two" / name)
    assert open_study(tmp_path / "one").cells.choice.by == "row"


def powers(rows: int = 200) -> tuple[pd.DataFrame, list[str]]:
    """x, x^2, x^3, x^4 far from zero: their moments have hardly a digit left for least squares."""
    rng = np.random.default_rng(5)
    x = np.round(4 + rng.random(rows), 6)
    frame = pd.DataFrame({f"x{k}": x**k for k in range(1, 5)})
    names = list(frame)
    frame["y"] = np.sin(3 * x) + 0.01 * rng.normal(size=rows)
    return frame, names


def test_columns_that_nearly_depend_are_solved_from_factors(tmp_path: Path) -> None:
    frame, names = powers()
    cells = study_of(tmp_path, frame).cells
    assert cells.factors is not None
    assert needs_data(dataclasses.replace(cells, factors=None).problem(0)[1])
    row = np.arange(len(frame))
    errors = cross_validate(cells, "linear", [0.0], 0.0).errors[:, 0]
    for fold in range(5):
        train = row % 5 != fold
        X, y = frame[names].to_numpy(np.longdouble), frame.y.to_numpy()
        Z = ((X - X[train].mean(axis=0)) / X[train].std(axis=0)).astype(float)
        model = LinearRegression().fit(Z[train], y[train])
        expected = np.mean((y[~train] - model.predict(Z[~train])) ** 2)
        assert errors[fold] == pytest.approx(expected, rel=1e-8)
    coarse = cross_validate(dataclasses.replace(cells, factors=None), "linear", [0.0], 0.0).errors[:, 0]
    assert np.abs(coarse / errors - 1).max() > 1e-7  # so the factors are what makes it right


def test_factors_survive_columns_and_folder(tmp_path: Path) -> None:
    frame, _ = powers()
    frame["town"] = np.where(np.arange(len(frame)) % 3 == 0, "Rom", "Wien")
    frame.loc[frame.index % 11 == 0, "x2"] = np.nan
    save_study(tmp_path / "s", study_of(tmp_path, frame))
    cells = open_study(tmp_path / "s").cells.only(["x1", "x3", "town"])
    assert cells.factors is not None
    encoding, problem = cells.problem()
    solution = solve(problem, penalty_for("ridge", 0.0, 0.0, problem.n))
    X = np.column_stack((frame.x1, frame.x3, frame.town == "Wien")).astype(np.longdouble)
    Z = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(float)
    expected, *_ = np.linalg.lstsq(np.column_stack((np.ones(len(Z)), Z)), frame.y.to_numpy(), rcond=None)
    assert encoding.names == ["x1", "x3", "town=Wien"]
    np.testing.assert_allclose(solution.w, expected[1:], rtol=1e-7)


def test_buckets_leave_out_empty_ones() -> None:
    from shoal.solve.moments import Moments

    parts = [Moments.of(np.array([[1.0, 2.0], [3.0, 5.0]])), Moments.empty(2), Moments.of(np.array([[0.0, 1.0]]))]
    buckets = Buckets.of(parts, np.array([1.0, 1.0]))
    assert buckets.counts.tolist() == [2.0, 1.0]
    np.testing.assert_allclose(buckets.squares[0], [[4.0, 8.0], [8.0, 17.0]])
    np.testing.assert_allclose(buckets.sums, [[2.0, 5.0], [-1.0, 0.0]])


def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    study = study_of(tmp_path, table(3000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(ResourceError, match="disk is full"):
            save_study(tmp_path / "study", study)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "study").iterdir()) == []


def test_terms_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    """Level b=c of column a, and level c of column a=b, are both called a=b=c."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=200), "a": rng.choice(["b=c", "z"], 200, p=[0.9, 0.1])})
    frame["a=b"] = rng.choice(["a", "c"], 200)
    frame["y"] = frame.x + 3.0 * (frame.a == "b=c") + rng.normal(size=200)
    cells = study_of(tmp_path, frame).cells.only(["x", "a"])
    share = dict(zip((term.key for term in cells.base.terms), cells.cells[0].mean, strict=False))
    assert share["level", "a", "b=c"] == pytest.approx((frame.a == "b=c")[::5].mean())
