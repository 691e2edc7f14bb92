"""Weights of rows: whole ones are repeated rows, and statsmodels comes to the same; figures of the latter are made by
tools/statsmodels_references.py and kept in statsmodels.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.errors import TrainingError
from support.data.glm_tables import GlmTable, glm_tables, linear_tables, weights
from support.tables import fitted, shared

REFERENCES = json.loads((Path(__file__).parent / "statsmodels.json").read_text())["tables"]
SAID_OF_THE_FILE = ("timings", "run_id", "warnings", "rows_read", "rows_dropped", "filled", "certificate", "contents")
MODELS: dict[str, list[dict[str, Any]]] = {
    "linear": [{"impute": "mean"}, {"test_every": 4}, {"impute": "drop"}], "ridge": [{"alpha": 3.0, "test_every": 4}],
    "elasticnet": [{"alpha": 0.02}],
    "logistic": [{"test_every": 4}, {"shrink": "lasso", "alpha": 2.0}, {"class_weight": "balanced"}],
    "huber": [{"test_every": 4}, {"shrink": "ridge", "alpha": 2.0}], "quantile": [{"test_every": 4, "quantile": 0.37}, {"quantile": 0.83}],
    "poisson": [{"test_every": 4}], "gamma": [{}, {"shrink": "ridge", "alpha": 0.1}],
}  # fmt: skip
CASES = [(model, knobs) for model, all_knobs in MODELS.items() for knobs in all_knobs]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def made(n: int = 240) -> pd.DataFrame:
    """Numbers far from zero, gaps, levels that only rows of weight 0 have; one target for each model."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(size=n) + 50, "b": rng.normal(size=n), "c": rng.choice(list("xyz"), n)})
    eta = (frame["a"] - 50) * 0.5 + frame["b"] * 0.5 + (frame["c"] == "x")
    frame["w"] = rng.integers(0, 4, n)
    frame.loc[frame["w"] == 0, "c"] = "never"
    frame.loc[rng.random(n) < 0.1, "b"] = np.nan
    frame["number"], frame["logistic"] = eta + rng.normal(size=n), rng.random(n) < 1 / (1 + np.exp(-eta))
    frame["poisson"], frame["gamma"] = rng.poisson(np.exp(eta / 2)), rng.gamma(2.0, np.exp(eta / 2))
    return frame


def repeated(frame: pd.DataFrame, every: int) -> pd.DataFrame:
    """Each row as often as its weight says, so that rows kept for testing are those of rows kept for testing: first
    all of these, each followed by every - 1 rows of the others."""
    times = frame.index.repeat(frame["w"])
    if not every:
        return frame.loc[times].drop(columns="w")
    held, rest = (list(times[(times % every == 0) == test]) for test in (True, False))
    order: list[int] = []
    while held or rest:
        order += [held.pop(0) if held else -1, *(rest.pop(0) if rest else -1 for _ in range(every - 1))]
    return frame.reindex(order).drop(columns="w")  # -1: rows without a target, which count for nothing


def numbers(said: Any, place: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(said, dict):
        for name, value in said.items():
            if name not in SAID_OF_THE_FILE:
                yield from numbers(value, f"{place}.{name}")
    elif isinstance(said, (list, tuple)):
        for i, value in enumerate(said):
            yield from numbers(value, f"{place}[{i}]")
    elif isinstance(said, (int, float)):
        yield place, float(said)


@pytest.mark.parametrize(("model", "knobs"), CASES, ids=[f"{m}-{'-'.join(map(str, k))}" for m, k in CASES])
def test_whole_weights_are_repeated_rows(model: str, knobs: dict[str, Any], tmp_path: Path) -> None:
    frame = made()
    target = model if model in frame else "number"
    wide = frame[["a", "b", "c", "w", target]]
    wide.to_csv(tmp_path / "weighted.csv", index=False)
    repeated(wide, knobs.get("test_every", 0)).to_csv(tmp_path / "repeated.csv", index=False)
    one = fitted(tmp_path / "weighted.csv", target, model=model, weights="w", weights_are="frequency", **knobs)
    other = fitted(tmp_path / "repeated.csv", target, model=model, **knobs)
    found, expected = dict(numbers(one)), dict(numbers(other))
    assert found.keys() == expected.keys()
    assert len(expected) >= 20
    for place, value in expected.items():
        if "sweeps" not in place:
            assert found[place] == pytest.approx(value, rel=1e-10, abs=1e-10), place
    assert one["rows_dropped"]["no_weight"] == (wide["w"] == 0).sum()


@pytest.fixture(scope="module")
def tables() -> dict[str, GlmTable]:
    return {table.name: table for table in (*linear_tables(shared("data")), *glm_tables(shared("data")))}


@pytest.mark.parametrize("kind", ["frequency", "importance"])
@pytest.mark.parametrize("name", REFERENCES)
def test_equal_to_statsmodels(name: str, kind: str, tables: dict[str, GlmTable], tmp_path: Path) -> None:
    table, said = tables[name], REFERENCES[name]
    theirs = said["weights"][kind]
    table.frame.assign(times=weights(len(table.frame), kind)).to_csv(tmp_path / "table.csv", index=False)
    found = fitted(tmp_path / "table.csv", table.target, model=table.model, weights="times", weights_are=kind)
    estimates = [found["inference"]["intercept"], *(found["inference"]["coefficients"][n] for n in said["names"][1:])]
    np.testing.assert_allclose([e["estimate"] for e in estimates], theirs["coefficients"], rtol=1e-6)
    np.testing.assert_allclose([e["std_error"] for e in estimates], theirs["std_errors"], rtol=1e-7)
    if found["inference"]["residual_df"] is not None:
        assert found["inference"]["residual_df"] == theirs["df"]
    if "outcome" in found and theirs["log_likelihood"] is not None:
        assert found["outcome"]["log_likelihood"] == pytest.approx(theirs["log_likelihood"], rel=1e-10)


def test_a_scale_of_importance_changes_nothing() -> None:
    frame = made().assign(w=lambda f: 0.3 + f["w"])
    one, other = (
        shoal.fit(frame[["a", "b", "number"]], "number", "ridge", alpha=2.0, sample_weight=scale * frame["w"])
        for scale in (1.0, 1e-4)
    )
    assert one.coefficients["a"] == pytest.approx(other.coefficients["a"], rel=1e-12)
    assert one.scores["train"]["rows"] == other.scores["train"]["rows"] == len(frame)
    assert "weighted by 'sample_weight' as importance" in one.warnings[0]


def test_folds_by_group_are_those_of_repeated_rows(tmp_path: Path) -> None:
    frame = made().assign(group=lambda f: f.index % 7)[["a", "b", "c", "group", "w", "number"]]
    many = frame.loc[frame.index.repeat(frame["w"])].drop(columns="w")
    how = {"alphas": [1.0, 0.1, 0.01], "folds": 5, "fold_by": "group:group", "exclude": ["group"]}
    one = shoal.tune(frame, "number", weights="w", weights_are="frequency", **how)
    other = shoal.tune(many, "number", **how)
    np.testing.assert_allclose(one.cv_mean, other.cv_mean, rtol=1e-10)
    assert one.best_model().coefficients == pytest.approx(other.best_model().coefficients, rel=1e-9)


REFUSED = [
    ({"weights": "nowhere"}, "nowhere"),
    ({"weights": "c"}, "Expected numbers in 'c' to weight rows by, got text such as"),
    ({"weights": "b"}, "Expected weights of 0 or more in 'b'"),
    ({"weights": "number"}, "cannot be the weights of rows as well"),
    ({"weights": "w", "features": ["a", "w"]}, "cannot be the weights of rows and among the features"),
    ({"weights": "half", "weights_are": "frequency"}, "Expected whole numbers in 'half'"),
    ({"weights": "nothing"}, "No training row has a weight above 0 in 'nothing'"),
    ({"weights_are": "frequency"}, "Expected weights_are only where it has an effect"),
]


@pytest.mark.parametrize(("knobs", "said"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_cannot_weight_rows_is_said(knobs: dict[str, Any], said: str, tmp_path: Path) -> None:
    made().assign(half=0.5, nothing=0).to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(TrainingError, match=said):
        shoal.fit(tmp_path / "table.csv", "number", **knobs)


def test_a_model_file_and_its_exports_say_that_rows_were_weighted(tmp_path: Path) -> None:
    made()[["a", "b", "c", "w", "number"]].to_csv(tmp_path / "table.csv", index=False)
    model = shoal.fit(tmp_path / "table.csv", "number", weights="w")
    model.save(tmp_path / "model.json")
    again = shoal.load(tmp_path / "model.json")
    assert any("weighted by 'w'" in note for note in again.warnings)
    assert "w" not in again.coefficients
    again.export("sql", tmp_path / "model.sql")
    assert "by a weighted linear model" in (tmp_path / "model.sql").read_text()
    again.predict(pd.DataFrame({"a": [50.0], "b": [0.0], "c": ["x"]}))
