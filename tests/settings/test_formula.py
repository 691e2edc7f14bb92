"""Formulas: the knobs that they stand for, beside other knobs, and what is refused by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import shoal
from shoal.errors import ConfigError
from shoal.settings.formula import knobs_of
from shoal.settings.text import from_yaml
from shoal.settings.values import config_from
from support.tables import shoal as command

SAID: list[tuple[str, dict[str, Any]]] = [
    ("price ~ area * C(city, ref='Oslo') + log(lot)",
     {"target": "price", "features": ["area", "city", "lot"], "transform": ["lot=log"], "interactions": ["area:city"],
      "categorical": ["city"], "reference": ["city=Oslo"]}),
    ("y ~ . - id + np.log(x) - 1", {"target": "y", "exclude": ["id"], "transform": ["x=log+plain"], "intercept": False}),
    ("`the y`~a+I(a**2)+bs(b, df=5)+bins(c,4)*d",
     {"target": "the y", "features": ["a", "b", "c", "d"], "squares": ["a"], "transform": ["b=spline(4)", "c=bins(4)"],
      "interactions": ["c:d"]}),
    ("y ~ C(k, Treatment(reference=\"u v\")) + trend(t) + month(t) + Q('a b')",
     {"target": "y", "features": ["k", "t", "a b"], "transform": ["t=trend+month"], "categorical": ["k"],
      "reference": ["k=u v"]}),
    ("y ~ 0 + a", {"target": "y", "features": ["a"], "intercept": False}),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "knobs"), SAID)
def test_a_formula_is_another_way_to_say_knobs(formula: str, knobs: dict[str, Any]) -> None:
    assert knobs_of(formula) == knobs
    assert config_from({"formula": formula, "model": "ridge"}) == config_from({**knobs, "model": "ridge"})
    assert config_from(from_yaml(f"formula: {json.dumps(formula)}")) == config_from(knobs)


REFUSED = [
    ("y ~ a:b", "a is not there by itself"), ("log(y) ~ x", "a shape of it cannot be predicted"),
    ("y ~ a*b*c", "products of three columns"), ("y ~ poly(x, 2)", "poly() is not understood"),
    ("y ~ a + log(a) + b + b:log(a)", "would be of all its shapes (plain, log)"), ("y ~ a^2", "a square is I(a**2)"),
    ("y ~ I(a**2)", "a + I(a**2)"), ("y ~ I(a*b)", "I() is understood as a square only"), ("y ~ a +", "it ends where"),
    ("y ~ (a + b) * c", "expected a column, got '('"), ("y ~ bs(a, knots=3)", "'knots' in bs() is not understood"),
    ("y ~ C(a, Sum)", "'Sum' in C() is not understood"), ("y ~ a - b", "it goes with ."), ("y ~ 1", "names no column"),
    ("y ~ a ? b", "'? b' cannot be read"), ("a + b", "expected ~"), ("y ~ a | g", "'|' between columns"),
    ("y ~ log(a", "a ) is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "why"), REFUSED)
def test_what_knobs_cannot_say_is_refused_by_its_name(formula: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        knobs_of(formula)
    assert why in str(refused.value)
    assert refused.value.knobs == ("formula",)


def test_a_formula_stands_beside_other_knobs_unless_they_contradict_it() -> None:
    both = config_from({"formula": "y ~ a + C(b)", "categorical": "c", "target": "y"})
    assert both.categorical == ("c", "b")
    with pytest.raises(ConfigError, match="The formula says target 'y', and target is given as 'z'"):
        config_from({"formula": "y ~ a", "target": "z"})


def test_flags_and_python_take_a_formula(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1.0, 2, 4, 5, 7, 9], "b": list("uvuvvu"), "y": [1.0, 3, 2, 5, 4, 8]})
    table.to_csv(tmp_path / "t.csv", index=False)
    by_flags = command(
        "train", tmp_path / "t.csv", "--formula", "y ~ log(a) + C(b, ref='v')", "--out", tmp_path / "m.json"
    )
    assert by_flags.code == 0, by_flags.err
    found = shoal.fit(table, "y ~ log(a) + C(b, ref='v')")
    assert list(found.coefficients) == ["log(a)", "b=u"]
    assert shoal.load(tmp_path / "m.json").coefficients == pytest.approx(dict(found.coefficients))
