"""Numbers with leading zeros: told before a fit and beside it, read as names on request, and the same when predicting."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal as api
from shoal.results.findings import Finding, FindingKind
from shoal.results.plain import read
from support.data.encoding import saved
from support.tables import fitted, shoal

SAID = "'plz' has leading zeros, as postal codes have (01067): codes, not quantities? If so, read it as names"
PLACES = ["01067", "04109", "10115", "50667", "99084"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Prices by place, a key of rows, and zero-led decimals that are no codes."""
    random = np.random.default_rng(3)
    area, place = random.normal(100, 20, 200).round(2), random.integers(0, 5, 200)
    price = 3 * area + np.array([0, 40, -20, 90, 5])[place] + random.normal(size=200)
    data = pd.DataFrame({
        "customer": [f"{i:06d}" for i in random.permutation(200)], "plz": [PLACES[i] for i in place],
        "area": [f"{value:07.2f}" for value in area], "price": price,
    })  # fmt: skip
    return saved(tmp_path, data)


def told(path: Path, *flags: str) -> list[Finding]:
    answer = shoal("inspect", path, "--json", *flags)
    assert answer.code == 0, answer.err
    found = (read(Finding, finding) for finding in answer.json["findings"])
    return [finding for finding in found if finding.kind == FindingKind.ZERO_LED]


def test_codes_are_told_with_and_without_a_target_and_beside_the_fit(path: Path) -> None:
    (found,) = told(path)
    assert found.columns == ("customer", "plz")
    assert "'customer', 'plz' have leading zeros" in shoal("inspect", path).out
    (found,) = told(path, "--target", "price")  # where a key of rows is told as such
    assert found.columns == ("plz",)
    assert f"{SAID} with --categorical plz." in shoal("inspect", path, "--target", "price").out
    assert f"{SAID} with --categorical plz." in shoal("train", path, "--target", "price").out
    (found,) = told(path, "--target", "plz")  # a column to predict as well
    assert found.columns == ("plz",)


@pytest.mark.parametrize("flags", [("--numeric", "plz"), ("--categorical", "plz")])
def test_who_has_said_what_they_are_is_not_asked_again(path: Path, flags: tuple[str, str]) -> None:
    assert [found.columns for found in told(path, *flags)] == [("customer",)]
    assert told(path, "--target", "price", *flags) == []
    assert SAID not in shoal("train", path, "--target", "price", *flags).out


def test_names_with_and_without_their_zeros_are_not_the_same_and_that_is_said(path: Path, tmp_path: Path) -> None:
    report = fitted(path, "price", categorical="plz", exclude="customer")
    assert "findings" not in report
    assert {"plz=04109", "plz=50667"} <= report["coefficients"].keys()
    model = api.fit(path, target="price", categorical=["plz"], exclude=["customer"])
    new = tmp_path / "new.csv"
    new.write_text("plz,area\n04109,100\n4109,100\n10115,100\n", "utf-8")  # of numbers alone, as far as one can see
    with pytest.warns(UserWarning, match="'4109' is not '04109': leading zeros are a part of names"):
        known, bare, other = model.predict(new)
    at = {"(intercept)": report["intercept"], **report["coefficients"]}
    assert known == pytest.approx(at["(intercept)"] + 100 * at["area"] + at["plz=04109"])
    assert bare == pytest.approx(at["(intercept)"] + 100 * at["area"])
    assert other == pytest.approx(at["(intercept)"] + 100 * at["area"] + at["plz=10115"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict(pd.DataFrame({"plz": ["04109"], "area": [100.0]})) == pytest.approx([known])


@pytest.mark.parametrize(("names", "said"), [
    (["Summe Q1", "Summe Q2"], "'part' has 'Summe Q1', 'Summe Q2': rows that are sums of others?"),
    (["Total"], "'part' has 'Total': rows that are sums of others? If so, take them out of the file."),
    (["Average"], ""), (["Totally new"], ""),
])  # fmt: skip
def test_names_of_totals_among_others_are_told(tmp_path: Path, names: list[str], said: str) -> None:
    rows = "".join(f"{['male', 'female', *names][i % (2 + len(names))]},{i % 7},{i * i % 11}\n" for i in range(60))
    path = tmp_path / "parts.csv"
    path.write_text("part,a,y\n" + rows, "utf-8")
    for command in (("inspect", path), ("inspect", path, "--target", "y"), ("train", path, "--target", "y")):
        out = shoal(*command).out
        assert said in out
        assert bool(said) == ("sums of others" in out)
