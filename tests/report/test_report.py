"""The report of a model: its numbers against the model file and other programs, hostile names, data that is gone."""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import palmerpenguins
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shoal
from shoal.exports import report
from shoal.fitting.model_file import load_model, model_from
from shoal.library.saved_models import Version
from shoal.report.evidence import gathered
from shoal.report.page import html
from shoal.report.svg import Axis, Plot, sparkline
from support.tables import Answer, mounted
from support.tables import shoal as command

Floats = npt.NDArray[np.float64]
TARGET = "body_mass_g"
DRAWN = {"svg", "title", "line", "path", "rect", "text"}
PLAIN = DRAWN | {"html", "head", "meta", "style", "body", "h1", "h2", "h3", "p", "div", "span", "b", "figure", "figcaption",
                 "table", "thead", "tbody", "tr", "th", "td"}  # fmt: skip
SECTIONS = ["The model", "Coefficients", "Residuals", "Data", "Certificate", "Lineage"]


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path_factory.getbasetemp() / "home"))


class Page(HTMLParser):
    """Tags with their attributes, the text, headings, and tables as rows of cells, by the heading above them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.headings: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.notes: list[str] = []
        self._open: list[str] = []
        self._note = False
        self.feed(text)
        assert self._open == [], "tags that were not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag != "meta":
            self._open.append(tag)
        if tag in ("h2", "h3"):
            self.headings.append("")
        elif tag == "tr":
            self.tables.setdefault(self.headings[-1], []).append([])
        elif tag in ("td", "th"):
            self.tables[self.headings[-1]][-1].append("")
        self._note = tag == "div" and attributes.get("class") == "note"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._note = False

    def handle_data(self, data: str) -> None:
        inside = self._open[-1:]
        if inside in (["style"], ["title"]):
            return
        self.text += data
        if inside in (["h2"], ["h3"]):
            self.headings[-1] += data
        elif inside in (["td"], ["th"]):
            self.tables[self.headings[-1]][-1][-1] += data
        elif self._note:
            self.notes.append(data)

    def rows(self, heading: str) -> dict[str, dict[str, str]]:
        """The table below a heading, by the first cell of each row."""
        head, *rows = self.tables[heading]
        return {row[0]: dict(zip(head, row, strict=True)) for row in rows}

    def charts(self, class_: str) -> list[Floats]:
        """The points of each cloud of dots with these classes, in pixels."""
        found = [a["d"] or "" for tag, a in self.tags if tag == "path" and a.get("class") == class_]
        return [np.array(re.findall(r"M([-\d.]+) ([-\d.]+)h0", path), float) for path in found]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def harmless(text: str) -> Page:
    """The page, if it is closed in itself: no script, no handler, no address of another place."""
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= PLAIN
    attributes = {name for _, found in page.tags for name in found}
    assert not attributes & {"src", "href", "xlink:href", "style", "action", "srcset", "data"}
    assert not any(name.startswith("on") for name in attributes)
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    return page


# ------------------------------------------------------------------ models


def penguins() -> pd.DataFrame:
    return palmerpenguins.load_penguins()


def plain(rows: int = 83) -> pd.DataFrame:
    """Complete numbers, so that other programs need no preparation."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame(random.normal(size=(rows, 4)) * [1, 20, 0.1, 3] + [0, 5, 100, -2], columns=list("abcd"))
    frame["y"] = 2 * frame["a"] - frame["b"] / 10 + 7 * frame["c"] + random.normal(size=rows)
    return frame


class Made:
    def __init__(self, folder: Path, frame: pd.DataFrame, target: str, knobs: dict[str, Any]) -> None:
        self.data, self.path, self.out = folder / "table.csv", folder / "model.json", folder / "report.html"
        frame.to_csv(self.data, index=False)
        self.frame, self.target = pd.read_csv(self.data), target
        shoal.fit(self.data, target, **knobs).save(self.path)
        self.contents: dict[str, Any] = load_model(self.path).contents

    def report(self) -> Page:
        answer = command("export", self.path, "--to", "report", "--out", self.out)
        assert (answer.code, answer.err) == (0, ""), answer.err
        return harmless(self.out.read_text("utf-8"))


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """A model and its page, each made once."""
    known: dict[str, Made] = {}

    def made(frame: Callable[[], pd.DataFrame], target: str, **knobs: Any) -> Made:
        key = f"{frame.__name__} {target} {sorted(knobs.items())}"
        if key not in known:
            known[key] = Made(tmp_path_factory.mktemp("report"), frame(), target, knobs)
        return known[key]

    return made


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
    assert list(table) == ["(intercept)", *contents["coefficients"]]
    assert number(table["(intercept)"]["coefficient"]) == pytest.approx(contents["intercept"], rel=1e-5, abs=1e-300)
    for name, value in contents["coefficients"].items():
        assert number(table[name]["coefficient"]) == pytest.approx(value, rel=1e-5)
        standardized = contents["coefficients_standardized"][name]
        assert number(table[name]["per std. dev."]) == pytest.approx(standardized, rel=1e-5)
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
            assert number(table[name][word]) == pytest.approx(found[key], rel=1e-5), (name, word)
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


def along(pixels: Any, values: Any, tolerance: float = 0.06, up: bool = False) -> bool:
    """Whether pixels are a linear map of values: more to the right, or further up, which is fewer pixels."""
    slope, start = np.polyfit(values, pixels, 1)
    return bool(
        slope * (-1 if up else 1) > 0
        and np.abs(slope * np.asarray(values) + start - np.asarray(pixels)).max() < tolerance
    )


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
    table = made.report().rows("With the pull of the penalty taken out")
    beta, error = by_least_squares(made, list("abcd"))
    half = error * stats.t.ppf(0.975, len(made.frame) - 5)
    for i, name in enumerate("abcd"):
        assert number(table[name]["in this model"]) == pytest.approx(made.contents["coefficients"][name], rel=1e-5)
        wanted = {"without penalty": beta[i], "std. error": error[i], "low": (beta - half)[i], "high": (beta + half)[i]}
        for word, value in wanted.items():
            assert number(table[name][word]) == pytest.approx(value, rel=2e-5), (name, word)


# ------------------------------------------------------------------ cross-validation and the path


ESTIMATORS: dict[str, Callable[[float], Any]] = {
    "linear": lambda alpha: LinearRegression(),
    "ridge": lambda alpha: Ridge(alpha, solver="cholesky"),
    "lasso": lambda alpha: Lasso(alpha, tol=1e-12, max_iter=1_000_000),
    "elasticnet": lambda alpha: ElasticNet(alpha, l1_ratio=0.7, tol=1e-12, max_iter=1_000_000),
}
ALPHA = {"linear": None, "ridge": 3.0, "lasso": 0.05, "elasticnet": 0.2}


def made_plain(kind: str, make: Callable[..., Made]) -> Made:
    knobs = {} if ALPHA[kind] is None else {"alpha": ALPHA[kind]}
    more = {"l1_ratio": 0.7} if kind == "elasticnet" else {}
    return make(plain, "y", model=kind, **knobs, **more)


def fold_errors(kind: str, alpha: float, frame: pd.DataFrame) -> Floats:
    """Mean squared errors of ten folds by row index, each refitted by scikit-learn."""
    X, y, fold = frame[list("abcd")].to_numpy(), frame["y"].to_numpy(), np.arange(len(frame)) % 10
    errors = []
    for k in range(10):
        model = make_pipeline(StandardScaler(), ESTIMATORS[kind](alpha)).fit(X[fold != k], y[fold != k])
        errors.append(np.mean((y[fold == k] - model.predict(X[fold == k])) ** 2))
    return np.array(errors)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_cross_validation_is_that_of_scikit_learn(kind: str, make: Callable[..., Made]) -> None:
    made = made_plain(kind, make)
    page = made.report()
    errors = fold_errors(kind, ALPHA[kind] or 0.0, made.frame)
    mean, error = errors.mean(), errors.std(ddof=1) / math.sqrt(10)
    said = re.search(r"mean squared error of this model is ([\d.e+-]+) ± ([\d.e+-]+)", page.text)
    assert said is not None
    assert float(said[1]) == pytest.approx(mean, rel=1e-5)
    assert float(said[2]) == pytest.approx(error, rel=1e-5)
    assert "83 training rows in 10 folds (by row index)" in page.text
    if kind == "linear":
        assert "The penalty and cross-validation" not in page.headings
        return
    table = page.rows("The penalty and cross-validation")
    own = table["this model"]
    assert number(own["alpha"]) == ALPHA[kind]
    assert number(own["mean squared error"]) == pytest.approx(mean, rel=1e-5)
    best, one_se = table["best: the smallest error"], table["1 SE: within one standard error"]
    for row in (best, one_se):
        errors = fold_errors(kind, number(row["alpha"]), made.frame)
        assert number(row["mean squared error"]) == pytest.approx(errors.mean(), rel=1e-4)
        assert number(row["standard error"]) == pytest.approx(errors.std(ddof=1) / math.sqrt(10), rel=1e-4)
    bound = number(best["mean squared error"]) + number(best["standard error"])
    assert number(best["mean squared error"]) <= number(own["mean squared error"]) * (1 + 1e-6)
    assert number(one_se["mean squared error"]) <= bound * (1 + 1e-6)
    assert number(one_se["alpha"]) >= number(best["alpha"])


@pytest.mark.parametrize("kind", ["ridge", "lasso", "elasticnet"])
def test_the_path_is_that_of_scikit_learn(kind: str, make: Callable[..., Made]) -> None:
    made = made_plain(kind, make)
    validation = gathered(load_model(made.path)).validation
    assert validation is not None
    path = validation.path
    assert path is not None
    assert path.chosen is not None
    assert path.alphas[path.chosen] == ALPHA[kind]
    assert (np.diff(path.alphas) < 0).all()
    assert 0 < path.chosen < len(path.alphas) - 1
    X, y = StandardScaler().fit_transform(made.frame[list("abcd")]), made.frame["y"]
    for place in (0, 20, path.chosen, len(path.alphas) - 1):
        wanted = ESTIMATORS[kind](float(path.alphas[place])).fit(X, y).coef_
        np.testing.assert_allclose(path.weights[place], wanted, rtol=1e-6, atol=1e-7)


def test_the_lines_of_the_path_are_drawn_where_they_belong(make: Callable[..., Made]) -> None:
    made = made_plain("lasso", make)
    page = made.report()
    path = gathered(load_model(made.path)).validation.path  # type: ignore[union-attr]
    assert path is not None
    lines = [(a["class"], np.array(re.findall(r"([-\d.]+) ([-\d.]+)", a["d"] or ""), float)) for tag, a in page.tags
             if tag == "path" and re.fullmatch(r"line c\d", a.get("class") or "")]  # fmt: skip
    drawn = {name: points for name, points in lines if len(points) == len(path.alphas)}  # the others are in the key
    assert len(drawn) == 4
    order = np.argsort(-np.abs(path.weights[path.chosen]))
    for place, j in enumerate(order):
        x, y = drawn[f"line c{place}"].T
        assert along(x, np.log(path.alphas))
        assert along(y, path.weights[:, j], 0.12, up=True)


# ------------------------------------------------------------------ residuals and data


@pytest.mark.parametrize("knobs", [{}, {"test_every": 4}])
def test_residual_charts_hold_every_row(knobs: dict[str, Any], make: Callable[..., Made]) -> None:
    made = make(plain, "y", model="linear", **knobs)
    page, frame = made.report(), made.frame
    predicted = made.contents["intercept"] + sum(c * frame[n] for n, c in made.contents["coefficients"].items())
    test = np.arange(len(frame)) % 4 == 0 if knobs else np.zeros(len(frame), bool)
    residual = frame["y"] - predicted
    for part, which in (("train", ~test), ("test", test)):
        clouds = page.charts(f"dot many {part}")
        if not which.any():
            assert clouds == []
            continue
        against, residuals = clouds
        assert len(against) == len(residuals) == which.sum()
        assert along(against[:, 0], predicted[which])
        assert along(against[:, 1], frame["y"][which], up=True)
        assert along(residuals[:, 1], residual[which], up=True)
    said = re.search(
        r"Half of the residuals lie between (\S+) and (\S+), nine in ten between (\S+) and (\S+)\.", page.text
    )
    assert said is not None
    wanted = np.quantile(residual, [0.25, 0.75, 0.05, 0.95])
    assert [float(x) for x in said.groups()] == pytest.approx(wanted.tolist(), rel=1e-4)


def test_the_normal_plot_is_scipys(make: Callable[..., Made]) -> None:
    made = make(plain, "y", model="linear")
    predicted = made.contents["intercept"] + sum(c * made.frame[n] for n, c in made.contents["coefficients"].items())
    cloud = next(c for c in made.report().charts("dot train") if len(c) == len(made.frame))
    places = stats.norm.ppf((np.arange(len(cloud)) + 0.5) / len(cloud))
    assert along(cloud[:, 0], places)
    assert along(cloud[:, 1], np.sort(made.frame["y"] - predicted), up=True)


def test_columns_are_described_as_pandas_does(make: Callable[..., Made]) -> None:
    made = make(penguins, TARGET)
    page, frame = made.report(), made.frame
    table = page.rows("Data")
    assert list(table) == list(frame.columns)
    used = frame[frame[TARGET].notna()]
    for name in frame:
        row = table[name]
        assert row["role"] == ("target" if name == TARGET else "used")
        assert number(row["missing"]) == frame[name].isna().sum()
        if frame[name].dtype == float or name == "year":
            wanted = {"min": frame[name].min(), "mean": used[name].mean(), "max": frame[name].max()}
            assert {k: number(row[k]) for k in wanted} == pytest.approx(wanted, rel=1e-5)
        else:
            counts = frame[name].value_counts()
            assert row["levels (rows)"] == ", ".join(f"{level} ({count:,})" for level, count in counts.items())
    assert (
        "344 rows read; 2 left out, as they had no value in the column to predict; 342 used for training" in page.text
    )


def with_gaps() -> pd.DataFrame:
    frame = plain()
    frame.loc[::7, "a"] = np.nan
    frame.loc[3::5, "y"] = np.nan
    return frame


@pytest.mark.parametrize("knobs", [{}, {"impute": "mean", "test_every": 3}, {"impute": "drop"}])
def test_means_are_of_the_values_that_are_there(knobs: dict[str, Any], make: Callable[..., Made]) -> None:
    made = make(with_gaps, "y", **knobs)
    frame = made.frame.dropna(subset=["y", "a"] if knobs.get("impute") == "drop" else ["y"])
    table = made.report().rows("Data")
    assert {n: number(table[n]["mean"]) for n in "abcdy"} == pytest.approx(frame.mean().to_dict(), rel=1e-5)
    assert number(table["a"]["missing"]) == made.frame["a"].isna().sum()
    test = np.arange(len(made.frame)) % 3 == 0 if "test_every" in knobs else np.zeros(len(made.frame), bool)
    filled = made.frame["a"][~test & made.frame["y"].notna()]
    assert number(table["a"]["if missing"]) == pytest.approx(filled.mean() if knobs else filled.median(), rel=1e-5)


def test_formula_and_lineage_in_words(make: Callable[..., Made], tmp_path: Path) -> None:
    made = make(plain, "y", model="ridge", alpha=3.0)
    text = made.report().text
    terms = {name: short for name, short in re.findall(r"([-\d.e]+) × (\w)", text)}  # noqa: C416
    assert {name: abs(v) for name, v in made.contents["coefficients"].items()} == pytest.approx(
        {name: float(value) for value, name in terms.items()}, rel=1e-5
    )
    folder = tmp_path / "v3"
    folder.mkdir()
    shutil.copy(made.path, folder / "model.json")
    card = {"run": "20260101-000000-abcd", "created": 0.0, "seconds": 1.25, "note": "for <b>them</b>", "created_": 1}
    (folder / "card.json").write_text(json.dumps({**card, "created": 86400.0}))
    report(folder / "model.json", tmp_path / "r.html")
    lineage = harmless((tmp_path / "r.html").read_text()).rows("Lineage")
    wanted = {"run": "20260101-000000-abcd", "saved": "1970-01-02 00:00:00 UTC", "training took": "1.25 s",
              "note": "for <b>them</b>", "fingerprint of the data": made.contents["data"]["content"],
              "data file": "table.csv", "solver": "exact"}  # fmt: skip
    assert {name: lineage[name]["value"] for name in wanted} == wanted
    (folder / "card.json").write_text("{")  # damaged: the report does without it
    report(folder / "model.json", tmp_path / "r.html")
    assert "run" not in harmless((tmp_path / "r.html").read_text()).rows("Lineage")


# ------------------------------------------------------------------ what may be wrong


HOSTILE = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", "' onload='x", '" onload="x', "</title><b>",
           "</style><i>", "--><script>x</script>", "]]>", "a\x00b\x07", "ünï 🐟", "javascript:alert(1)", "x" * 300]  # fmt: skip


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    names = [name for name in HOSTILE if "\x00" not in name]
    frame = pd.DataFrame(random.normal(size=(120, len(names))), columns=names)
    frame["<u>level</u>"] = random.choice(names, 120)
    frame["</h1><script>y"] = frame[names[0]] + random.normal(size=120)
    made = Made(tmp_path, frame, "</h1><script>y", {"model": "ridge", "alpha": 1.0})
    page = made.report()
    for name in names:
        assert name in page.rows("Coefficients")
        assert f"<u>level</u>={name}" in made.contents["coefficients"] or name == min(names)
    assert page.text.strip().startswith("Ridge model of </h1><script>y\n")


def test_hostile_model_files_stay_text(tmp_path: Path) -> None:
    """Texts that no table could hold, and a file that says little."""
    terms = [{"type": "number", "column": name, "fill": 0.0} for name in HOSTILE]
    contents = {
        "format": "shoal-model", "version": 1, "model": "<b>kind</b>", "target": "</title><script>x</script>",
        "intercept": 1.0, "coefficients": dict.fromkeys(HOSTILE, 2.0), "alpha": None,
        "coefficients_standardized": dict.fromkeys(HOSTILE, 2.0),
        "design": {"terms": terms, "known_levels": {}}, "train": {"rows": 3}, "warnings": ["<i>note</i>"],
        "rows_dropped": {"<u>": 2}, "config": {"file": "<a href=x>.csv", "<knob>": "<value>"},
        "data": {"file": "<p>", "rows": 3, "content": "<q>"}, "certificate": {}, "inference": None,
    }  # fmt: skip
    notes = report(contents, tmp_path / "m.html")
    page = harmless((tmp_path / "m.html").read_text("utf-8"))
    assert page.notes[:1] == list(notes)
    assert page.notes[1:] == ["<i>note</i>"]
    for word in ("<p>", "<q>", "</title><script>x</script>", "as they <u>"):
        assert word in page.text
    surrogate = {**contents, "target": "bad \udcff name"}
    report(surrogate, tmp_path / "s.html")
    assert "bad \\udcff name" in harmless((tmp_path / "s.html").read_text("utf-8")).text


def test_without_its_data_a_report_says_so(make: Callable[..., Made], tmp_path: Path) -> None:
    frame = plain()
    made = Made(tmp_path, frame, "y", {"model": "lasso", "alpha": 0.1})
    whole = made.report()
    made.data.unlink()
    answer = command("export", made.path, "--to", "report", "--out", made.out)
    assert answer.code == 0
    wanted = "This report is without what the rows would say. The file that the model was trained on, table.csv, is not where it was."
    assert answer.out == f"written to {made.out}\nnote: {wanted}\n"
    page = harmless(made.out.read_text())
    assert page.notes == [wanted]
    assert not {"Residuals", "The penalty and cross-validation"} & set(page.headings)
    assert page.tables["Coefficients"] == whole.tables["Coefficients"]
    assert page.rows("Data")["a"]["holds"] == "numbers"
    frame.assign(a=frame["a"] + 1).to_csv(made.data, index=False)
    found = command("export", made.path, "--to", "report", "--out", made.out, "--json").json
    assert found["format"] == "report"
    assert found["notes"] == [
        "This report is without what the rows would say. table.csv is not what it was when the model was trained."
    ]
    made.data.write_bytes(b"\x00\x01\x02")
    assert len(command("export", made.path, "--to", "report", "--out", made.out, "--json").json["notes"]) == 1


def test_what_cannot_be_had_is_left_out_and_said(tmp_path: Path) -> None:
    """Too few rows for folds: all else is there."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [1.0, 3.0]})
    page = Made(tmp_path, frame, "y", {"model": "ridge", "alpha": 1.0}).report()
    assert {"Residuals", "Data"} <= set(page.headings)
    constant = pd.DataFrame({"a": np.arange(30.0), "y": 4.0})
    (tmp_path / "c").mkdir()
    page = Made(tmp_path / "c", constant, "y", {"model": "lasso", "alpha": 1.0}).report()
    assert any("no path" in note for note in page.notes)
    assert "Residuals" in page.headings


def test_many_rows_are_sampled_and_many_columns_are_thinned(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    names = [f"x{i}" for i in range(90)]
    frame = pd.DataFrame(random.normal(size=(4000, 90)), columns=names)
    frame["y"] = frame[names] @ random.normal(size=90) + random.normal(size=4000)
    made = Made(tmp_path, frame, "y", {"model": "lasso", "alpha": 0.01})
    page = made.report()
    assert "2,000 of 4,000 rows, a fair sample" in page.text
    assert "The 40 largest of 90; the table has all." in page.text
    assert "The 60 largest are drawn." in page.text
    assert len(page.rows("Coefficients")) == 91
    assert made.out.stat().st_size < 400_000


def test_a_full_disk_is_one_sentence(make: Callable[..., Made], tmp_path: Path) -> None:
    made = make(plain, "y", model="linear")
    with mounted(tmp_path / "disk", 1) as disk:
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass
        for to in ("report", "json"):
            answer = command("export", made.path, "--to", to, "--out", disk / "out")
            assert (answer.code, answer.is_plain()) == (1, True), answer.err
            assert "disk is full" in answer.err
        assert [entry.name for entry in disk.iterdir()] == ["filler"]


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
    assert load_model(tmp_path / "penguins-v1.export.json").contents["alpha"] == 3.0
    assert exported("penguins:1", "--to", "report").out == "written to penguins-v1.html\n"
    assert harmless((tmp_path / "penguins-v1.html").read_text()).rows("Lineage")["run"]["value"] == "run-1"
    exported("penguins", "--to", "report", "--out", tmp_path / "new" / "r.html")
    assert (tmp_path / "new" / "r.html").exists()
    assert not [p for p in (tmp_path / "home" / "models").rglob("*") if p.suffix in (".py", ".html", ".export")]
    for wrong in ("penguins:3", "pinguin", "penguins:x"):
        answer = command("export", wrong, "--to", "sql")
        assert (answer.code, answer.is_plain()) == (1, True)


# ------------------------------------------------------------------ the drawing itself


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-3, 7e6), (1e6, 1e6 + 3), (-1e308, 1.7e308), (5, 5), (0, 0), (1e-320, 2e-320), (-1e-9, 1e-9), (0.1, 0.10001)],
)  # fmt: skip
def test_axes_hold_their_values_and_ticks(low: float, high: float) -> None:
    axis = Axis.around([low, high, math.nan, math.inf], "x")
    ticks = axis.ticks(5)
    assert 2 <= len(ticks) <= 13
    assert all(axis.low <= value <= axis.high for value, _ in ticks)
    assert len({words for _, words in ticks}) == len(ticks)
    assert 0 <= axis.share(low) <= axis.share(high) <= 1


def test_axes_of_powers() -> None:
    axis = Axis.powers([1e-3, 0.0, 100.0], "alpha")
    assert [words for _, words in axis.ticks(5)] == ["0.001", "0.1", "10"]
    assert axis.share(0.1) - axis.share(0.01) == pytest.approx(axis.share(100) - axis.share(10))
    assert Axis.powers([], "none").ticks(5)


def test_points_outside_are_left_out_and_text_is_escaped() -> None:
    plot = Plot(Axis(0, 1, "<x>"), Axis(0, 1, "<y>"))
    plot.dots([(0.5, 0.5), (2, 0.5), (math.nan, 0.1), (0.2, -math.inf)], "train")
    plot.upright(0.5, "mark", "<b>")
    svg = plot.svg("<alt>")
    assert svg.count("h0") == 1
    assert not re.search(r"<(x|y|b|alt)>", svg)
    assert sparkline([0, 0], "nothing") == ""


def test_numbers_that_are_no_numbers_do_not_stop_a_report(make: Callable[..., Made]) -> None:
    """Where a coefficient is not determined, its interval is unknown."""
    made = make(plain, "y", model="linear")
    contents = json.loads(json.dumps(made.contents))
    contents["inference"]["coefficients"]["a"] |= {
        "std_error": None,
        "t": None,
        "p_value": None,
        "low": None,
        "high": None,
    }
    page = harmless(html(model_from(contents), gathered(model_from(contents)), {}))
    assert page.rows("Coefficients")["a"]["low"] == ""
