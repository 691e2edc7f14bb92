"""How squares and interactions are asked for: in Python, YAML, flags and the form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.dashboard.forms.problems import problems_of
from shoal.dashboard.tables import uploads
from shoal.data.columns import base_encoding, choose_columns
from shoal.errors import ConfigError
from shoal.results.answers.table import ColumnLook, TableLook
from shoal.runs.forecast import TableShape
from shoal.runs.launch import list_runs
from shoal.settings.pairs import pair_text, split_pair
from shoal.settings.values import config_from
from support.data.encoding import saved
from support.data.products import PAIRS, frame
from support.pages import checked, open_page, said, settle, uploaded, widget
from support.tables import fitted, opened
from support.tables import shoal as command

# ------------------------------------------------------------------ how pairs are written


def test_pairs_are_cut_where_a_column_is_on_either_side() -> None:
    assert split_pair("a:b", ["a", "b"]) == ("a", "b")
    assert split_pair(" a : b ", ["a", "b"]) == ("a", "b")
    assert split_pair("time:of:day", ["time:of", "day"]) == ("time:of", "day")
    assert split_pair("time:of:day", ["time", "of:day"]) == ("time", "of:day")
    with pytest.raises(ConfigError, match='time:"of:day" or "time:of":day'):
        split_pair("time:of:day", ["time", "of:day", "time:of", "day"])
    assert split_pair('"time:of":day', ["time", "of:day", "time:of", "day"]) == ("time:of", "day")
    with pytest.raises(ConfigError, match="no such column beside 'a'"):
        split_pair("a:x", ["a", "b"])


@pytest.mark.parametrize(
    "names", [("a", "b"), ("a:b", "c"), ('say "x"', ":"), (" a", "a"), ('"', '""'), ("::", "a:"), ("b ", " a")]
)
def test_a_pair_as_text_comes_back(names: tuple[str, str]) -> None:
    others = [*names, "a", "b", "c", ":", "x", "b:c", "a:b:c"]
    (kept,) = config_from({"interactions": [names]}).interactions
    assert kept == pair_text(*names)
    assert split_pair(kept, others) == names


def test_python_and_yaml_may_give_two_names() -> None:
    assert config_from({"interactions": [("a:b", "c"), "d:e"]}).interactions == ('"a:b":c', "d:e")
    assert config_from({"interactions": "a:b, c:d"}).interactions == ("a:b", "c:d")
    for text in ("a", "a:", ":", ""):
        if text:
            with pytest.raises(ConfigError, match="two columns with a colon"):
                config_from({"interactions": [text]})


def test_columns_with_signs_in_their_names(tmp_path: Path) -> None:
    data = frame()[["a", "c", "y"]].rename(columns={"a": "a:b", "c": "c^2"})
    found = fitted(saved(tmp_path, data), "y", squares=["a:b"], interactions=["a:b:c^2"])
    assert list(found["coefficients"]) == ["a:b", "c^2", "a:b^2", "a:b:c^2"]


def test_a_pair_counts_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    found = fitted(saved(tmp_path, frame()), "y", interactions=["a:b", "b:a", "a:b"], features=["a", "b"])
    assert list(found["coefficients"]) == ["a", "b", "a:b"]


# ------------------------------------------------------------------ the command line, and what a run will need


def test_flags_yaml_and_python_say_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path, frame())
    answer = command("train", str(path), "--target", "y", "--squares", "a,c", "--interactions", "a:b,a:city", "--json")
    assert answer.code == 0, answer.err
    flags = json.loads(answer.out)["coefficients"]
    (tmp_path / "run.yaml").write_text("target: y\nsquares: [a, c]\ninteractions: ['a:b', [a, city]]\n")
    answer = command("train", str(path), "--config", str(tmp_path / "run.yaml"), "--json")
    assert json.loads(answer.out)["coefficients"] == flags
    assert shoal.fit(path, "y", squares=["a", "c"], interactions=[("a", "b"), ("a", "city")]).coefficients == flags
    wrong = command("train", str(path), "--target", "y", "--interactions", "a*b")
    assert wrong.code == 1
    assert "two columns with a colon between" in wrong.err
    assert "Traceback" not in wrong.err


@pytest.mark.parametrize("how", [{}, {"impute": "drop"}, {"coding": "full"}, {"features": ["a", "b", "c"]}])
def test_the_forecast_counts_the_columns_that_come(how: Mapping[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path, frame())
    pairs = [pair for pair in PAIRS if not how.get("features") or pair == "a:b"]
    config = config_from({"file": str(path), "target": "y", "squares": ["a"], "interactions": pairs, **how})
    dataset = opened(path)
    base = base_encoding(choose_columns(dataset, config), config)
    answer = command("inspect", str(path), "--json")
    shape = TableShape.of(TableLook.from_dict(json.loads(answer.out)), config, path.stat().st_size)
    assert shape.base == len(base.terms)
    found = fitted(path, "y", squares=["a"], interactions=pairs, **how)
    assert shape.design == len(found["coefficients"])
    assert not shape.plain


# ------------------------------------------------------------------ the form, and a row on the page of a model


def table_key() -> str:
    path = uploaded(frame(120).to_csv(index=False).encode(), "table.csv")
    return uploads.key_of(path) or ""


def test_the_form_offers_numbers_to_square_and_pairs_and_fits_them() -> None:
    page = settle(open_page("train", data=table_key(), target="y"))
    squares, pairs = (widget(page, "multiselect", label) for label in ("Squares of columns", "Products of two columns"))
    assert squares.options == ["a", "b", "c"]
    assert pairs.options == [":".join(pair) for pair in combinations(["a", "b", "c", "city", "size"], 2)]
    checked(squares.set_value(["a", "b"]).run())
    checked(widget(page, "multiselect", "Products of two columns").set_value(["a:city", "b:c"]).run())
    page = checked(widget(page, "multiselect", "Columns to leave out").set_value(["b"]).run())
    assert widget(page, "multiselect", "Squares of columns").value == ["a"]  # what is not used goes with its column
    assert widget(page, "multiselect", "Products of two columns").value == ["a:city"]
    assert "b" not in widget(page, "multiselect", "Squares of columns").options
    page = checked(page.button(key="start").click().run())
    settle(page)
    (run,) = list_runs()
    assert (run.config["squares"], run.config["interactions"]) == (["a"], ["a:city"])
    assert run.result is not None
    assert {"a^2", "a:city=Rome"} <= run.result["coefficients"].keys()


def test_the_form_says_what_is_wrong_with_a_pair_before_a_run() -> None:
    page = settle(open_page("train", data=table_key(), target="y"))
    page = checked(widget(page, "multiselect", "Products of two columns").set_value(["a:nowhere"]).run())
    assert "no such column beside" in said(page)
    assert page.button(key="start").disabled
    kinds = {"a": "numeric", "city": "categorical", "y": "numeric"}
    columns = tuple(ColumnLook(name, kind, 0, 3) for name, kind in kinds.items())
    found = TableLook(file="f", rows=9, dialect={}, columns=columns)
    for knobs, sentence in (
        ({"squares": ["city"]}, "Expected a column of numbers to square, got 'city'"),
        ({"interactions": ["a:a"]}, "two different columns in 'a:a'"),
        ({"interactions": ["a:y"]}, "The column to predict is in 'a:y'"),
    ):
        problems = problems_of(config_from({"file": "f", "target": "y", **knobs}), found)
        assert any(sentence in problem for problem in problems), problems
