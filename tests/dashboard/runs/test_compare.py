"""Runs beside each other: what differs, curves, coefficients and downloads."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest

from shoal.dashboard.runs import (
    charts as compare_charts,
)
from shoal.dashboard.runs import (
    compare,
)
from shoal.dashboard.runs import (
    differences as comparison,
)
from shoal.home import runs_directory
from shoal.library import archives
from shoal.metrics import Round
from shoal.results.fit import FitReport
from shoal.runs.folder import Run
from shoal.settings.values import config_from
from support.dashboard.runs_page import EXACT, FIRST, SECOND, asked, choose, press
from support.pages import checked, open_page, said, widget


def test_compare_shows_only_what_differs(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST, SECOND), "Compare")
    assert asked(page, "compare") == f"{SECOND},{FIRST}"
    settings, results = (found.value for found in page.dataframe[:2])
    assert list(settings["Setting"]) == [
        "Model", "Penalty strength (alpha)", "Synchronisation", "How close to the optimum", "Between two checkpoints",
    ]  # fmt: skip
    assert list(settings["A"]) == ["Ridge", "20", "Asynchronous (async)", "1e-06", "0.01"]
    assert list(settings["B"]) == ["Linear", "–", "Synchronous (sync)", "0", "5"]
    for _, row in results.iterrows():
        assert row["A"] != row["B"], row["Result"]
    shown = dict(zip(results["Result"], results["A"], strict=True))
    result = Run(runs_directory() / SECOND).result
    assert result is not None
    assert float(shown["R² on test rows"]) == pytest.approx(result["test"]["r2"], rel=1e-5)
    assert "Training rows" not in shown
    legend = said(page)
    assert "A · Ridge, alpha 20, Asynchronous (async)" in legend
    assert "B · Linear, Synchronous (sync)" in legend
    assert len(page.get("plotly_chart")) == 5


def test_compare_along_epochs_and_time(three: list[Run]) -> None:
    for axis, title in {
        "round": "Round",
        "epoch": "Epoch",
        "time": "Seconds since the run began",
    }.items():
        page = open_page("runs", compare=f"{FIRST},{SECOND}", by=axis)
        figure = json.loads(page.get("plotly_chart")[0].proto.spec)
        assert figure["layout"]["xaxis"]["title"]["text"] == title
    page = checked(widget(page, "button_group", "Along").set_value("epoch").run())
    assert asked(page, "by") == "epoch"
    page = open_page("runs", compare=f"{FIRST},{SECOND}")  # seconds are usual: that is what one waits for
    loss = json.loads(page.get("plotly_chart")[0].proto.spec)["layout"]
    assert (loss["xaxis"]["title"]["text"], loss["yaxis"].get("type")) == ("Seconds since the run began", None)
    page = checked(widget(page, "toggle", "Log scale").set_value(True).run())
    assert asked(page, "scale") == "log"
    assert json.loads(page.get("plotly_chart")[0].proto.spec)["layout"]["yaxis"]["type"] == "log"


def test_exact_fits_are_compared_without_curves(three: list[Run]) -> None:
    page = open_page("runs", compare=f"{EXACT},{FIRST}")
    assert "A is an exact fit: solved in one go, with no steps and so no curves." in said(page)
    settings = page.dataframe[0].value.set_index("Setting")
    assert tuple(settings.loc["How to solve it"]) == ("Exact", "Gradient steps")
    assert "Momentum" not in settings.index  # as usual for the one that looks at it
    shutil.copytree(runs_directory() / EXACT, runs_directory() / "20260104-080000-0000004")
    page = open_page("runs", compare=f"{EXACT},20260104-080000-0000004")
    assert "the runs have the same settings" in said(page)
    assert "None of these runs has curves" in said(page)
    assert "None: all 3 are the same" in said(page)


def test_runs_that_cannot_be_compared(three: list[Run]) -> None:
    archives.archive(Run(runs_directory() / FIRST))
    page = open_page("runs", compare=f"{FIRST},{SECOND},20250101-000000-0000000,<b>x")
    assert f"The run {FIRST} is in the archive" in said(page)
    assert "The run 20250101-000000-0000000 is not on this machine" in said(page)
    assert "nothing to compare" in said(page)
    assert "<b>x" not in said(page)


def sides(**changes: list[Any]) -> list[comparison.Side]:
    """Sides of which each has one of the values of each knob."""
    count = len(next(iter(changes.values())))
    configs = [
        config_from({"file": "/d/t.csv", "target": "y", **{k: v[i] for k, v in changes.items()}}) for i in range(count)
    ]
    return comparison.sides(
        [(f"2026010{i}-080000-0000000", "finished", c.as_dict(), None) for i, c in enumerate(configs)]
    )


def test_names_say_what_differs() -> None:
    names = [side.title for side in sides(model=["ridge", "ridge", "lasso"], alpha=[0.1, 2.0, 2.0])]
    assert names == ["A · Ridge, alpha 0.1", "B · Ridge, alpha 2", "C · Lasso, alpha 2"]
    assert [side.name for side in sides(seed=[1, 2])] == ["seed 1", "seed 2"]
    assert [side.name for side in sides(model=["linear", "linear"])] == ["2026-01-00 08:00:00", "2026-01-01 08:00:00"]
    files = comparison.settings(sides(file=["/a/t.csv", "/b/t.csv"]))
    assert [found.values for found in files] == [("/a/t.csv", "/b/t.csv")]


def test_knobs_that_a_run_does_not_look_at_do_not_differ() -> None:
    assert comparison.settings(sides(alpha=[1.0, 2.0])) == []  # no penalty in a linear model
    assert comparison.settings(sides(batch_size=[64, 128])) == []  # nor batches in an exact fit
    found = comparison.settings(sides(solver=["gradient", "gradient"], batch_size=[64, 0]))
    assert [(line.what, line.values) for line in found] == [("Batch size", ("64", "automatic"))]


def test_coefficients_that_differ_most_come_first() -> None:
    made = [{"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.0, "b": 2.5, "d": 0.1}]
    two = comparison.sides(
        [
            (str(i), "finished", {}, FitReport(model="linear", target="y", intercept=0.0, coefficients=w))
            for i, w in enumerate(made)
        ]
    )
    spreads, count = comparison.coefficients(two)
    assert ([spread.name for spread in spreads], count) == (["c", "b", "d"], 4)
    assert spreads[0].values == (3.0, None)
    figure = compare_charts.coefficient_chart(spreads, two)
    assert list(figure.layout.yaxis.ticktext) == ["d", "b", "c"]
    assert "c: A 3; b: A 2, B 2.5; d: B 0.1" in compare_charts.describe_coefficients(spreads, two)


def a_round(number: int, **values: Any) -> Round:
    usual: dict[str, Any] = dict.fromkeys(Round.__dataclass_fields__, 0.0)
    return Round(**{**usual, "round": number, "phase": "steps", "validation": None, **values})


def test_curves_have_a_bottom_and_words() -> None:
    two = sides(model=["ridge", "lasso"])
    series = {"A": [a_round(1, distance=0.5), a_round(2, distance=0.0)], "B": [a_round(1, distance=None)]}
    distance = compare_charts.CURVES[1]
    figure = compare_charts.curve_chart(series, two, distance, "round")
    assert len(figure.data) == 1  # B never knew the optimum
    assert list(figure.data[0].y) == [0.5, compare_charts.FLOOR]
    assert figure.layout.yaxis.type == "log"
    assert compare_charts.describe_curve(series, two, distance) == (
        "Distance to the optimum of 1 runs, lower is better: A from 0.5 to 1e-16."
    )
    assert compare_charts.drawn(series, compare_charts.CURVES[2]) == {}


def test_downloads_hold_everything_and_no_formula(three: list[Run]) -> None:
    evil = "=cmd"
    runs = []
    for name, extra in ((FIRST, 0.0), (SECOND, 1.0)):
        run = Run(runs_directory() / name)
        assert run.report is not None
        report = replace(run.report, coefficients={evil: extra}, coefficients_standardized={evil: extra})
        runs.append((run.id, "finished", {**run.config, "target": evil}, report))
    text = compare.differences_csv(comparison.sides(runs))
    lines = text.splitlines()
    assert lines[0] == f"kind,what,{FIRST},{SECOND}"
    assert f"coefficient,'{evil},0.0,1.0" in lines
    assert not [line for line in lines if line.startswith("=") or ",=" in line]
    series = {"A": [a_round(1, loss=0.5)], "B": []}
    curves = compare.curves_csv(comparison.sides(runs), series).splitlines()
    assert curves == [
        "run,round,epoch,seconds,loss,distance,validation,rows_per_second",
        f"{FIRST},1,0.0,0.0,0.5,0.0,,0.0",
    ]
