"""What a column to predict is taken for: real tables, ratings, counts, amounts, dates; and the words for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import shoal as package
from shoal.fitting.guidance.shape import CentralSums
from support.tables import shared

N = 1200
RNG = np.random.default_rng(5)
LATENT = RNG.normal(size=N)
COLUMNS: dict[str, tuple[Any, str, str]] = {
    "answer": (np.where(LATENT > 0, "ja", "nein"), "yes_no", "logistic"),
    "flag": ((LATENT > 0).astype(int), "yes_no", "logistic"),
    "one_or_two": (np.where(LATENT > 0, 2, 1), "yes_no", "logistic"),
    "city": (RNG.choice(["Oslo", "Bergen", "Hamar"], N), "classes", ""),
    "street": ([f"street {i}" for i in range(N)], "texts", ""),
    "day": (pd.to_datetime("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), "D"), "date", "linear"),
    "visits": (RNG.poisson(1.3, N), "counts", "poisson"),
    "rare": (RNG.poisson(0.1, N), "counts", "poisson"),
    "from_one": (1 + RNG.poisson(2.0, N), "counts", "poisson"),
    "rentals": (RNG.negative_binomial(1.2, 0.01, N), "counts", "poisson"),
    "rating_0_3": (RNG.choice(4, N, p=[0.2, 0.3, 0.3, 0.2]), "few_values", "linear"),
    "stars": (RNG.choice(np.arange(1, 6), N, p=[0.05, 0.1, 0.2, 0.4, 0.25]), "few_values", "linear"),
    "one_to_ten": (RNG.choice(np.arange(1, 11), N), "few_values", "linear"),
    "likert": (np.clip(np.round(3 + LATENT * 0.8), 1, 5), "few_values", "linear"),
    "quality": (np.clip(np.round(6 + LATENT), 3, 9), "few_values", "linear"),
    "points": (np.clip(np.round(55 + 20 * LATENT), 0, 100), "number", "linear"),
    "id": (np.arange(1, N + 1), "number", "linear"),
    "year": (RNG.integers(1970, 2020, N), "number", "linear"),
    "cost": (np.exp(5 + LATENT), "skewed", "gamma"),
    "time": (RNG.gamma(2.0, 30.0, N), "skewed", "gamma"),
    "dollars": (np.round(200_000 * np.exp(0.5 * LATENT)), "skewed", "gamma"),
    "height": (170 + 8 * LATENT, "number", "linear"),
    "change": (LATENT**3, "number", "linear"),
    "rain": (np.where(LATENT > 0, LATENT**2, 0), "number", "linear"),
    "same": (np.full(N, 7), "constant", ""),
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("looks") / "all.csv"
    pd.DataFrame({name: values for name, (values, _, _) in COLUMNS.items()}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_taken_for_what_they_are(table: Path, name: str) -> None:
    look = package.inspect(table, target=name)["target"]
    _, kind, model = COLUMNS[name]
    model = model or ("multinomial" if kind == "classes" and look["model"] else "")
    assert (look["kind"], look["model"]) == (kind, model), look["why"]
    assert f"'{name}'" in look["why"]


@pytest.mark.parametrize(
    ("file", "target", "kind"),
    [
        ("auto_mpg.csv", "mpg", "number"),
        ("auto_mpg.csv", "cylinders", "few_values"),
        ("auto_mpg.csv", "origin", "classes"),
        ("auto_mpg.csv", "name", "texts"),
        ("auto_mpg.csv", "weight", "number"),
        ("concrete.csv", -1, "number"),
        ("penguins.csv", "sex", "yes_no"),
        ("penguins.csv", "species", "classes"),
        ("penguins.csv", "body_mass_g", "number"),
        ("seattle_weather.csv", "weather", "classes"),
        ("seattle_weather.csv", "date", "date"),
        ("seattle_weather.csv", "wind", "number"),
    ],
)
def test_columns_of_real_tables(file: str, target: str | int, kind: str) -> None:
    path = shared("data", "regression", file)
    name = target if isinstance(target, str) else list(pd.read_csv(path, nrows=1))[target]
    look = package.inspect(path, target=name)["target"]
    assert look["kind"] == kind, look["why"]


def test_without_a_target_or_a_value_of_it_there_is_nothing_to_say(table: Path, tmp_path: Path) -> None:
    assert package.inspect(table)["target"] is None
    empty = tmp_path / "empty.csv"
    empty.write_text("x,y\n1,\n2,\n")
    assert package.inspect(empty, target="y")["target"] is None


def test_sums_of_blocks_have_the_skewness_of_all_values() -> None:
    values = np.exp(RNG.normal(size=1000)) + 1e5
    parts = [CentralSums.of(part) for part in np.array_split(values, [10, 10, 700])]
    total = CentralSums()
    for part in parts:
        total = total.merge(part)
    assert total.skewness == pytest.approx(stats.skew(values), rel=1e-6)
    assert total.variance == pytest.approx(values.var(), rel=1e-9)
    assert CentralSums.of(np.full(3, 2.0)).skewness == 0


@pytest.mark.parametrize(("effects", "model"), [("add", "linear"), ("multiply", "gamma")])
def test_a_long_tail_that_columns_add_up_to_asks_for_a_line(tmp_path: Path, effects: str, model: str) -> None:
    random = np.random.default_rng(3)
    days, ward = random.exponential(6.0, N), random.choice(["a", "b"], N)
    mean = (
        500 + 900 * days + 2000 * (ward == "b") if effects == "add" else 500 * np.exp(0.3 * days + 0.5 * (ward == "b"))
    )
    noise = random.normal(0, 100, N) if effects == "add" else 0.0
    cost = np.maximum(mean + noise, 1.0) * (1 if effects == "add" else random.gamma(9.0, 1 / 9.0, N))
    gaps = np.where(random.random(N) < 0.9, np.nan, random.normal(size=N))  # hardly a row has all columns
    path = tmp_path / "cost.csv"
    table = pd.DataFrame({"days": days, "ward": ward, "gaps": gaps, "cost": cost})
    table.assign(euros=(cost / 1.17).round(2)).to_csv(path, index=False)  # which knows it, and speaks for no model
    assert package.inspect(path, target="cost")["target"]["model"] == model
    table.to_csv(path, index=False)
    assert package.inspect(path, target="cost")["target"]["model"] == model
    told = [finding["kind"] for finding in package.inspect(path, target="cost")["findings"]]
    assert ("skewed_target" in told) == (model == "gamma")
    worse = package.fit(path, "cost", model="gamma", test_every=5).findings
    assert [one.values for one in worse if one.kind == "worse"] == ([("linear",)] if effects == "add" else [])
    fitted = package.fit(path, "cost", model="auto", test_every=5)
    assert not [one for one in fitted.findings if one.kind == "worse"]
