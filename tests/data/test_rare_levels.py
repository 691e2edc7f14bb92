"""Levels with few training rows as one level: against scikit-learn's encoder, in folds, exports and single rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import palmerpenguins
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import shoal
from shoal.coordinator import Coordinator
from shoal.engines.inline import InlineEngine
from shoal.errors import ConfigError
from shoal.fitting.model_file import load_model
from shoal.fitting.summing import sum_cells
from shoal.home import home
from shoal.settings.values import config_from
from shoal.tasks.explain_row import explain
from shoal.tasks.predict_rows import RowPredictor
from shoal.utils import silent
from shoal.whatif.curve import cross_validate
from shoal.whatif.folds import FoldChoice
from support.data.encoding import saved
from support.exports import ALL, RUN
from support.tables import fitted, written

LEAST = 8
NUMBERS, TEXTS = ["flipper", "culmen"], ["comment", "egg"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def penguins() -> pd.DataFrame:
    """Two text columns of the field notes with many rare levels: remarks, mostly none, and the day of the egg."""
    raw = palmerpenguins.load_penguins_raw()
    names = {"Flipper Length (mm)": "flipper", "Culmen Length (mm)": "culmen", "Comments": "comment",
             "Body Mass (g)": "mass", "Sex": "sex", "Species": "species"}  # fmt: skip
    found = raw.rename(columns=names)[[*names.values()]].assign(egg="day " + raw["Date Egg"].astype(str))
    found["species"] = found["species"].str.split().str[0]
    return found.dropna(subset=["mass", "sex"]).reset_index(drop=True)


def theirs(model: Any, scaled: bool = False) -> Any:
    one_hot = OneHotEncoder(min_frequency=LEAST, handle_unknown="infrequent_if_exist", sparse_output=False)
    texts = make_pipeline(SimpleImputer(strategy="constant", fill_value="__missing__"), one_hot)
    columns = make_column_transformer((SimpleImputer(strategy="median"), NUMBERS), (texts, TEXTS))
    return make_pipeline(columns, *([StandardScaler()] if scaled else []), model)


def new_rows() -> pd.DataFrame:
    """Kept, rare and never seen levels, and no value, of both columns."""
    data = penguins()
    rare = data["comment"].dropna().value_counts().index[-1]
    comments = [None, "Nest never observed with full clutch.", rare, "lost its ring", "__rare__"]
    eggs = [data["egg"].mode()[0], data["egg"].value_counts().index[-1], "day 3000-01-01", None]
    rows = pd.DataFrame([(c, e) for c in comments for e in eggs], columns=TEXTS)
    return rows.assign(flipper=np.linspace(170, 230, len(rows)), culmen=np.linspace(60, 30, len(rows)))


@pytest.mark.parametrize("coding", ["reference", "full", "drop_first"])
def test_predictions_are_those_of_the_encoder_of_scikit_learn(coding: str) -> None:
    data, rows = penguins(), new_rows()
    table = data[[*NUMBERS, *TEXTS, "mass"]]
    ours = shoal.fit(table, "mass", coding=coding, min_level_rows=LEAST)
    expected = theirs(LinearRegression()).fit(data, data["mass"])
    assert ours.predict(data) == pytest.approx(expected.predict(data), rel=1e-9)
    assert ours.predict(rows) == pytest.approx(expected.predict(rows), rel=1e-9)
    few = (data["egg"].value_counts() < LEAST).sum()
    assert any(f"'egg': {few} levels of fewer than 8 training rows (" in note for note in ours.warnings)
    named = [name for name in ours.coefficients if name.startswith("egg=")]
    assert len(named) == data["egg"].nunique() - few + (coding == "full")


def test_a_penalty_and_folds_refit_the_groups_as_a_pipeline_does(tmp_path: Path) -> None:
    data = penguins()
    path = saved(tmp_path, data[[*NUMBERS, *TEXTS, "mass"]])
    config = config_from({
        "file": str(path), "target": "mass", "model": "ridge", "coding": "full", "min_level_rows": LEAST,
    })  # fmt: skip
    with InlineEngine() as engine:
        coordinator = Coordinator(engine, home(), silent)
        cells = sum_cells(coordinator, coordinator.open(config), config, FoldChoice.parse(5, "row"))
    names = [set(cells.problem(fold)[0].names) for fold in range(5)]
    assert len({frozenset(one) for one in names}) > 1  # a level may be rare in some folds only
    expected = []
    for fold in range(5):
        train, test = data[data.index % 5 != fold], data[data.index % 5 == fold]
        known = theirs(Ridge(10.0, solver="svd"), scaled=True).fit(train, train["mass"])
        expected.append([float(((test["mass"] - known.predict(test)) ** 2).mean())])
    np.testing.assert_allclose(cross_validate(cells, "ridge", [10.0], 0.5).errors, expected, rtol=1e-8)


@pytest.mark.parametrize("to", ALL)
def test_exports_know_rare_and_unseen_levels(to: str, tmp_path: Path) -> None:
    data, rows = penguins(), new_rows()
    model = shoal.fit(data[[*NUMBERS, *TEXTS, "mass"]], "mass", min_level_rows=LEAST)
    path = tmp_path / f"m.{'skops' if to == 'sklearn' else to}"
    proof = model.export(to, path, **({"table": "rows"} if to == "sql" else {}))
    assert proof.rows_with_unseen > 0
    expected = theirs(LinearRegression()).fit(data, data["mass"]).predict(rows)
    found = shoal.load(path).predict(rows) if to == "json" else RUN[to](path, rows, "rows")
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.fixture(scope="module")
def classes_of_rare_levels(tmp_path_factory: pytest.TempPathFactory) -> shoal.FittedModel:
    """Fitted once: the fit takes far longer than any export of it."""
    data = penguins()[["flipper", "egg", "comment", "species"]]
    data["egg"] += data.index.astype(str)
    few = data[::3]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(tmp_path_factory.mktemp("home")))
        return shoal.fit(few, "species", model="multinomial", shrink="ridge", coding="full", min_level_rows=LEAST,
                         max_levels=1000)  # fmt: skip


@pytest.mark.parametrize("to", ALL)
def test_a_column_of_nothing_but_rare_levels_and_classes_are_exported(
    to: str, classes_of_rare_levels: shoal.FittedModel, tmp_path: Path
) -> None:
    model = classes_of_rare_levels
    assert "Adelie: egg=__rare__" in model.coefficients
    proof = model.export(to, tmp_path / "m.out", **({"table": "rows"} if to == "sql" else {}))
    assert proof.largest_relative < 1e-12


def test_a_yes_no_model_is_that_of_scikit_learn() -> None:
    data, rows = penguins(), new_rows()
    ours = shoal.fit(data[[*NUMBERS, *TEXTS, "sex"]], "sex", model="logistic", shrink="ridge", alpha=1.0,
                     coding="full", min_level_rows=LEAST, positive="MALE")  # fmt: skip
    known = theirs(LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000), scaled=True).fit(data, data["sex"])
    assert ours.predict_proba(rows)[:, 1] == pytest.approx(known.predict_proba(rows)[:, 1], rel=1e-5)


FEW = "city,x,w,y\n" + "".join(
    f"{('oslo', 'bergen', 'oslo', 'bergen', 'oslo', ('narvik', 'ålesund', '__rare__')[i // 6 % 3])[i % 6]},"
    f"{i % 11},{1 + i % 2},{i % 6 + i % 11 + i % 5}\n"
    for i in range(90)
)  # fmt: skip


def test_names_references_and_what_single_rows_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, FEW)
    found = fitted(path, "y", features=["city", "x"], min_level_rows=20)
    assert list(found["coefficients"]) == ["x", "city=oslo", "city=___rare___"]  # a file may have that very text
    assert found["references"] == {"city": "bergen"}
    (group,) = [term for term in found["contents"]["design"]["terms"] if term["type"] == "rare"]
    assert (group["kept"], group["grouped"]) == (["bergen", "oslo"], ["__rare__", "narvik", "ålesund"])
    note = (
        "Text column 'city': 3 levels of fewer than 20 training rows ('__rare__', 'narvik', 'ålesund') are together the "
        "level ___rare___, of 15 rows; so is every value that no training row has."
    )
    assert note in found["warnings"]
    chosen = fitted(path, "y", features=["city", "x"], min_level_rows=20, reference=["city=narvik"])
    assert chosen["references"] == {"city": "narvik"}
    model = shoal.fit(pd.read_csv(path)[["city", "x", "y"]], "y", min_level_rows=20)
    model.save(tmp_path / "m.json")
    known = load_model(tmp_path / "m.json")
    given = [{"city": city, "x": 3} for city in ("narvik", "tromsø", None)]
    answer = RowPredictor(known).predict(given)
    assert len(set(answer.predictions)) == 1
    assert not answer.notes
    part = next(part for part in explain(known, given[1]).parts if part.column == "city")
    assert part.adds == pytest.approx(found["coefficients"]["city=___rare___"], rel=1e-9)
    assert not part.unseen


def test_frequencies_count_as_rows_and_none_is_grouped_without_being_asked(tmp_path: Path) -> None:
    path = written(tmp_path, FEW)
    data = pd.read_csv(path)
    again = saved(tmp_path, data.loc[data.index.repeat(data["w"])].drop(columns="w"), "again.csv")
    once = fitted(path, "y", weights="w", weights_are="frequency", min_level_rows=8)
    often = fitted(again, "y", min_level_rows=8)
    assert list(once["coefficients"]) == list(often["coefficients"])
    assert once["coefficients"] == pytest.approx(often["coefficients"], rel=1e-9)
    plain = fitted(path, "y", features=["city", "x"])
    assert not any("rare___" in name for name in plain["coefficients"])
    assert plain["coefficients"] == fitted(path, "y", features=["city", "x"], min_level_rows=5)["coefficients"]


def test_products_of_texts_are_refused_beside_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set min_level_rows to 0"):
        fitted(written(tmp_path, FEW), "y", interactions=["city:x"], min_level_rows=8)
