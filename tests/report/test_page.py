"""Every kind of model has a whole report, with the intervals of its file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from shoal.fitting.model_file import load_model
from shoal.library.saved_models import Version
from shoal.words import term_shown
from support.report import SECTIONS, TARGET, Floats, Made, along, harmless, number, penguins, plain
from support.tables import Answer
from support.tables import shoal as command

# ------------------------------------------------------------------ models


KINDS: dict[str, dict[str, Any]] = {
    "linear": {},
    "ridge": {"model": "ridge", "alpha": 5.0, "test_every": 5},
    "lasso": {"model": "lasso", "alpha": 30.0, "indicators": True},
    "elasticnet": {"model": "elasticnet", "alpha": 2.0, "l1_ratio": 0.3, "test_fraction": 0.25, "coding": "full"},
    "gradient": {"solver": "gradient", "model": "ridge", "alpha": 2.0, "epochs": 3, "engine": "inline"},
    "gradient linear": {"solver": "gradient", "epochs": 2, "engine": "inline"},
    "squares": {"model": "lasso", "alpha": 10.0, "squares": ["year"], "interactions": ["species:bill_depth_mm"]},
    "no intercept": {"intercept": False, "impute": "drop"},
    "no penalty": {"model": "ridge", "alpha": 0.0},
    "all zero": {"model": "lasso", "alpha": 1e9},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_has_a_whole_report(kind: str, make: Callable[..., Made]) -> None:
    made = make(penguins, TARGET, **KINDS[kind])
    page, contents = made.report(), made.contents
    assert [h for h in page.headings if h in SECTIONS] == SECTIONS
    assert page.notes == contents["warnings"]
    table = page.rows("Coefficients")
    assert list(table) == ["(intercept)", *map(term_shown, contents["coefficients"])]
    assert number(table["(intercept)"]["coefficient"]) == pytest.approx(contents["intercept"], rel=1e-5, abs=1e-300)
    for name, value in contents["coefficients"].items():
        assert number(table[term_shown(name)]["coefficient"]) == pytest.approx(value, rel=1e-5)
        standardized = contents["coefficients_standardized"][name]
        assert number(table[term_shown(name)]["per std. dev."]) == pytest.approx(standardized, rel=1e-5)
    scores = page.rows("Scores")
    for part, words in (("train", "training rows"), ("test", "test rows")):
        if contents[part]["rows"]:
            assert number(scores[words]["rows"]) == contents[part]["rows"]
            assert number(scores[words]["RMSE"]) == pytest.approx(contents[part]["rmse"], rel=1e-5)
            assert number(scores[words]["R²"]) == pytest.approx(contents[part]["r2"], rel=1e-5, abs=1e-9)
    assert contents["data"]["content"] in page.text
    assert "no path of penalties" in page.text or "exact fits" in page.text
    assert made.out.stat().st_size < 200_000


def test_the_intervals_of_a_linear_model_are_those_of_its_file(make: Callable[..., Made]) -> None:
    made = make(penguins, TARGET)
    page, inference = made.report(), made.contents["inference"]
    table = page.rows("Coefficients")
    for name, found in [("(intercept)", inference["intercept"]), *inference["coefficients"].items()]:
        for word, key in (("std. error", "std_error"), ("t", "t"), ("p", "p_value"), ("low", "low"), ("high", "high")):
            assert number(table[term_shown(name)][word]) == pytest.approx(found[key], rel=1e-5), (name, word)
    assert "95 % give an interval that holds the true coefficient" in page.text
    drawn = [a for tag, a in page.tags if tag == "line" and (a.get("class") or "").startswith("interval ")]
    spread = {
        n: made.contents["coefficients_standardized"][n] / made.contents["coefficients"][n]
        for n in inference["coefficients"]
    }
    ordered = sorted(spread, key=lambda name: -abs(made.contents["coefficients_standardized"][name]))
    lows = [inference["coefficients"][name]["low"] * spread[name] for name in ordered]
    highs = [inference["coefficients"][name]["high"] * spread[name] for name in ordered]
    assert along([float(a["x1"] or "nan") for a in drawn], lows)
    assert along([float(a["x2"] or "nan") for a in drawn], highs)


def by_least_squares(made: Made, names: list[str]) -> tuple[Floats, Floats]:
    """Coefficients and standard errors, from all rows at once."""
    X = np.column_stack([np.ones(len(made.frame)), made.frame[names]])
    y = made.frame[made.target].to_numpy()
    beta, *_ = np.linalg.lstsq(X, y, rcond=None)
    variance = ((y - X @ beta) ** 2).sum() / (len(y) - X.shape[1])
    return beta[1:], np.sqrt(np.diag(variance * np.linalg.inv(X.T @ X)))[1:]


@pytest.mark.parametrize("knobs", [{"model": "lasso", "alpha": 0.4}, {"model": "ridge", "alpha": 9.0}])
def test_intervals_without_the_penalty_are_those_of_least_squares(
    knobs: dict[str, Any], make: Callable[..., Made]
) -> None:
    made = make(plain, "y", **knobs)
    table = made.report().rows("With the shrinkage of the penalty removed")
    beta, error = by_least_squares(made, list("abcd"))
    half = error * stats.t.ppf(0.975, len(made.frame) - 5)
    for i, name in enumerate("abcd"):
        assert number(table[name]["in this model"]) == pytest.approx(made.contents["coefficients"][name], rel=1e-5)
        wanted = {"without penalty": beta[i], "std. error": error[i], "low": (beta - half)[i], "high": (beta + half)[i]}
        for word, value in wanted.items():
            assert number(table[name][word]) == pytest.approx(value, rel=2e-5), (name, word)


# ------------------------------------------------------------------ saved models by name


def exported(*arguments: str | Path) -> Answer:
    answer = command("export", *arguments)
    assert (answer.code, answer.err) == (0, ""), answer.err
    return answer


def test_saved_models_go_by_name(make: Callable[..., Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for number_, alpha in ((1, 3.0), (2, 9.0)):
        version = Version("penguins", number_)
        version.directory.mkdir(parents=True)
        shutil.copy(make(plain, "y", model="ridge", alpha=alpha).path, version.model_path)
        (version.directory / "card.json").write_text(json.dumps({"run": f"run-{number_}"}))
    assert exported("penguins", "--to", "python").out.startswith("written to penguins-v2.py\nProven on 1,000 rows")
    assert exported("penguins:1", "--to", "json").out.startswith("written to penguins-v1.export.json\n")
    assert load_model(tmp_path / "penguins-v1.export.json").report.alpha == 3.0
    assert exported("penguins:1", "--to", "report").out == "written to penguins-v1.html\n"
    assert harmless((tmp_path / "penguins-v1.html").read_text()).rows("Lineage")["run"]["value"] == "run-1"
    exported("penguins", "--to", "report", "--out", tmp_path / "new" / "r.html")
    assert (tmp_path / "new" / "r.html").exists()
    assert not [p for p in (tmp_path / "home" / "models").rglob("*") if p.suffix in (".py", ".html", ".export")]
    for wrong in ("penguins:3", "pinguin", "penguins:x"):
        answer = command("export", wrong, "--to", "sql")
        assert (answer.code, answer.is_plain()) == (1, True)


def test_what_a_terminal_obeys_is_spelled_out() -> None:
    from shoal.report.html import escape
    from shoal.report.svg import text

    assert escape("a\x1b[31m<b>") == "a\\u001b[31m&lt;b&gt;"
    assert "\x1b" not in text("a\x1b[31m", 0, 0)
