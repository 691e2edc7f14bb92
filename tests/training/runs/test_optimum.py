"""Gradient training finds the optimum in every mode, for wide tables too, and is honest where it is not reached."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.engines.base import Engine
from shoal.errors import Reason
from shoal.settings.limits import MOST_EXACT
from shoal.training.objectives import squares
from support.tables import SHARED, fitted, shared
from support.training import MODES, Trainer, Vector, data, reference_of, table, wampler

ALPHAS = {  # some weights of the lasso are 0
    ("concrete", "ridge"): 3.0, ("concrete", "lasso"): 0.7, ("penguins", "ridge"): 3.0, ("penguins", "lasso"): 25.0,
    ("generated", "ridge"): 3.0, ("generated", "lasso"): 0.2,
}  # fmt: skip


# ------------------------------------------------------------------ the right answer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", ["linear", "ridge", "lasso"])
@pytest.mark.parametrize("name", ["concrete", "penguins", "generated"])
def test_every_mode_finds_the_optimum_of_scikit_learn(
    name: str, model: str, mode: str, run: Trainer, place: Path
) -> None:
    path, target = data(name, place)
    knobs = {"model": model, "alpha": ALPHAS.get((name, model), 1.0)}
    found = run(path, target, mode=mode, **knobs)
    reference = reference_of(path, target, found, **knobs)
    assert reference.distance(found.w) <= 1e-6
    assert reference.distance_of(found.report) <= 1e-6
    assert found.report["distance_to_optimum"] == pytest.approx(reference.distance(found.w), abs=1e-8)
    assert (found.done.state, found.done.reason, found.report["converged"]) == ("finished", Reason.CONVERGED, True)
    assert not found.report["not_converged"]
    assert not [text for text in found.report["warnings"] if "converged" in text]
    if model == "lasso":
        kept = {name for name, w in found.report["coefficients"].items() if w}
        exact = fitted(path, target, **knobs)["coefficients"]
        assert kept == reference.kept == {name for name, w in exact.items() if w}
        assert kept != set(reference.names)
    ledger = found.report["ledger"]  # that of the last phase
    assert ledger["batches"] == ledger["epochs"] * ledger["batches_of_an_epoch"]


@pytest.mark.parametrize("mode", MODES)
def test_workers_find_the_optimum_of_scikit_learn(
    mode: str, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("concrete", place)
    found = run(path, target, engine=engines(2), mode=mode, model="elasticnet", alpha=0.3)
    reference = reference_of(path, target, found, model="elasticnet", alpha=0.3)
    assert reference.distance_of(found.report) <= 1e-6
    assert found.report["converged"]


@pytest.mark.parametrize("knobs", [
    {"intercept": False}, {"standardize": False}, {"intercept": False, "model": "lasso", "alpha": 20.0},
    {"standardize": False, "model": "ridge", "alpha": 100.0}, {"test_every": 4, "model": "lasso", "alpha": 20.0},
    {"coding": "full", "model": "ridge", "alpha": 2.0}, {"precision": "float32", "model": "ridge", "alpha": 30.0},
    {"partition": "contiguous", "shards": 3}, {"epochs": 0},
], ids=lambda knobs: "-".join(map(str, knobs.items())))  # fmt: skip
def test_whatever_the_columns_the_optimum_is_that_of_scikit_learn(
    knobs: dict[str, Any], run: Trainer, place: Path
) -> None:
    """Penguins: levels, missing levels and missing numbers."""
    path, target = data("penguins", place)
    found = run(path, target, **knobs, **easier(knobs))
    assert found.report["converged"], found.report["warnings"]
    assert reference_of(path, target, found, **knobs).distance_of(found.report) <= 1e-6


def easier(knobs: dict[str, Any]) -> dict[str, Any]:
    """Columns far from zero, or of very different units, are near to dependent without what makes them alike."""
    if not knobs.get("intercept", True):
        return {"features": ["species", "island", "sex"]}
    return {} if knobs.get("standardize", True) else {"features": ["bill_length_mm", "bill_depth_mm", "sex"]}


def test_stored_references_of_scikit_learn(run: Trainer, place: Path) -> None:
    """Coefficients that were computed elsewhere, by another version, with its own reading of the file."""
    stored = json.loads(shared("data", "regression", "concrete.reference.json").read_text())
    details = stored["codings"]["drop_first"]
    for name, expected in details["models"].items():
        found = run(
            SHARED / "data" / "regression" / "concrete.csv", stored["target"], features=stored["features"],
            model=name.split("_")[0], alpha=1.0 if expected["alpha"] is None else expected["alpha"], test_every=5,
            l1_ratio=expected.get("l1_ratio") or 0.5,
        )  # fmt: skip
        theirs = np.array(expected["coef_standardised"])
        np.testing.assert_allclose(found.w, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())
        assert found.report["test"]["r2"] == pytest.approx(expected["test_r2"], abs=1e-5)


# ------------------------------------------------------------------ honest where it is hard


def filip() -> tuple[Vector, Vector]:
    """Like NIST's: a polynomial of the tenth degree over the same range."""
    random = np.random.default_rng(0)
    x = np.linspace(-8.8, -3.1, 82) + 0.01 * random.standard_normal(82)
    return np.column_stack([x**k for k in range(1, 11)]), 0.85 + 0.07 * np.sin(x) + 0.003 * random.standard_normal(82)


@pytest.mark.parametrize(("name", "mode"), [
    ("wampler1", "local"), ("wampler2", "sync"), ("wampler3", "ssp"), ("wampler4", "sync"), ("wampler5", "async"),
    ("filip", "sync"), ("filip", "async"),
])  # fmt: skip
def test_problems_too_hard_for_gradients_are_not_called_converged(
    name: str, mode: str, run: Trainer, tmp_path: Path
) -> None:
    X, y = filip() if name == "filip" else wampler(int(name[-1]))
    path = table(tmp_path / "hard.csv", X, y)
    found = run(path, "y", mode=mode, finish_passes=700)
    coef = np.array(list(found.report["coefficients"].values()))
    truth = np.linalg.lstsq((X - X.mean(0)) / X.std(0), y - y.mean())[0] / X.std(0)
    if name != "filip":  # NIST's certified values
        np.testing.assert_allclose(truth, 0.1 ** np.arange(1, 6) if name == "wampler2" else np.ones(5), rtol=1e-4)
    assert np.abs(coef / truth - 1).max() > 1e-3, "it is not so hard after all"
    assert found.report["converged"] is False
    said = [text for text in found.report["warnings"] if "not converged" in text]
    assert len(said) == 1
    assert "exact" in said[0]
    assert said == [found.report["not_converged"]]
    assert "not converged" in found.done.cause
    assert found.done.reason == Reason.NOT_CONVERGED
    assert found.done.state == "finished"


def test_wampler1_of_nist_itself(run: Trainer) -> None:
    found = run(shared("data", "nist", "Wampler1_expanded.csv"), "y", finish_passes=700)
    assert not found.report["converged"]
    assert any("not converged" in text for text in found.report["warnings"])


@pytest.mark.parametrize("problem", ["Norris", "Longley"])
def test_who_says_converged_has_the_certified_coefficients(problem: str, run: Trainer) -> None:
    certified = json.loads(shared("data", "nist", "certified.json").read_text())[problem]["certified"]
    found = run(shared("data", "nist", f"{problem}.csv"), "y", finish_passes=20_000)
    ours = np.array([found.report["intercept"], *found.report["coefficients"].values()])
    truth = np.array([value["estimate"] for value in certified])
    spread = np.abs(ours[1:] - truth[1:]) / np.abs(truth[1:])
    if found.report["converged"]:
        assert spread.max() <= 1e-3
    else:
        assert any("not converged" in text for text in found.report["warnings"])
    if problem == "Norris":
        assert found.report["converged"]


# ------------------------------------------------------------------ wide tables


@pytest.mark.parametrize(("model", "mode"), [
    ("linear", "sync"), ("linear", "async"), ("ridge", "ssp"), ("ridge", "local"), ("lasso", "sync"), ("lasso", "async"),
    ("elasticnet", "sync"), ("elasticnet", "local"),
])  # fmt: skip
def test_without_the_exact_optimum_runs_still_end_there(
    model: str, mode: str, run: Trainer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(squares, "MOST_EXACT", 5)
    path, target = data("concrete", place)
    knobs = {"model": model, "alpha": 0.5}
    found = run(path, target, mode=mode, **knobs)
    reference = reference_of(path, target, found, **knobs)
    assert (found.done.cause, found.report["converged"]) == ("converged", True)
    assert reference.distance_of(found.report) <= 1e-6
    assert any("upper bounds" in text for text in found.report["warnings"])
    if model == "linear":  # nothing bounds the distance; the slope is what is known
        assert found.report["distance_to_optimum"] is None
        slope = np.abs(reference.X.T @ (reference.target - reference.X @ found.w)).max()
        assert slope <= 1e-6 * np.abs(reference.X.T @ reference.target).max()
    else:
        assert reference.distance(found.w) <= found.report["distance_to_optimum"] + 1e-12


@pytest.mark.parametrize("knobs", [{"intercept": False}, {"standardize": False}, {"test_every": 3}, {}], ids=str)
def test_wide_tables_have_the_units_of_narrow_ones(
    knobs: dict[str, Any], run: Trainer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(squares, "MOST_EXACT", 2)
    path, target = data("penguins", place)
    found = run(path, target, model="elasticnet", alpha=0.5, **knobs, **easier(knobs))
    assert found.report["converged"], found.done.cause
    reference = reference_of(path, target, found, model="elasticnet", alpha=0.5, **knobs)
    assert reference.distance_of(found.report) <= 1e-6


def test_more_columns_than_the_exact_solver_takes_on(run: Trainer, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    X = random.standard_normal((90, MOST_EXACT + 50)).round(3)
    path = table(tmp_path / "wide.csv", X, (X[:, :5].sum(axis=1) + 0.1 * random.standard_normal(90)).round(4))
    knobs = {"model": "lasso", "alpha": 0.3}
    found = run(path, "y", epochs=2, tolerance=1e-6, **knobs)
    reference = reference_of(path, "y", found, **knobs)
    assert found.report["converged"], found.done.cause
    assert reference.distance_of(found.report) <= 1e-6
    assert {name for name, w in found.report["coefficients"].items() if w} == reference.kept


@pytest.mark.parametrize(("knobs", "words"), [
    ({}, "depend on one another (rank 2 of 3"),
    ({"model": "lasso", "alpha": 0.05}, "share the weight"),
])  # fmt: skip
def test_a_run_on_dependent_columns_says_so_though_it_converges(
    knobs: dict[str, Any], words: str, run: Trainer, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 200))
    rows = np.column_stack((a, b, 2 * a, a - b + rng.normal(size=200)))
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b,twice,y", comments="", fmt="%.17g")
    found = run(tmp_path / "t.csv", "y", **knobs)
    assert found.report["converged"]
    assert not found.report["unique"]
    (note,) = (text for text in found.report["warnings"] if words in text)
    assert "smallest norm" not in note  # which steps do not promise
