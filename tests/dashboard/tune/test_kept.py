"""What a model that is trained from the Tune page keeps of it, in its file and on its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shoal.dashboard.tune import studies
from shoal.dashboard.tune.keeping import kept
from shoal.dashboard.tune.state import TuneState, run_config
from shoal.fitting.model_file import load_model
from shoal.runs.launch import launch, launch_job
from shoal.settings.values import config_from
from shoal.words import number
from support.pages import open_page, said
from support.runs import ended


def test_a_trained_model_keeps_its_error_over_folds_its_intervals_and_its_test_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(160, 3)), columns=["a", "b", "c"])
    frame["y"] = 3 * frame.a - 2 * frame.b + rng.normal(size=160)
    frame.to_csv(tmp_path / "table.csv", index=False)
    config = config_from({"file": str(tmp_path / "table.csv"), "target": "y", "test_every": 4})
    made = launch_job("study", config, {"folds": 5, "fold_by": "hash"})
    assert ended(made) == "finished", made.error
    whatif = studies.opened(made.directory.name).whatif
    state = TuneState(model="ridge")
    question = state.question(whatif)
    course = whatif.course(question)
    assert course is not None
    best = float(course.alphas[course.cv.best])
    assert kept(whatif, question, best, "one_se").chosen == "by hand"  # the curve says otherwise
    run = launch(run_config(made, state.settings(question, best)), tuned=kept(whatif, question, best, "best"))
    assert ended(run) == "finished", run.error
    report = run.report
    assert report is not None
    found = report.cross_validation
    assert found is not None
    assert (found.folds, found.fold_by, found.chosen, found.best, found.alphas) == (5, "hash", "best", best, 100)
    assert found.mse == course.cv.mean[course.cv.best]
    assert found.rmse == pytest.approx(found.mse**0.5)
    assert report.test.rows
    assert [intervals.kind for intervals in report.intervals] == ["ridge", "debiased"]
    assert report.intervals[0].coefficients.keys() == report.coefficients.keys()
    for name, one in report.intervals[0].coefficients.items():
        assert one.low is not None
        assert one.high is not None
        assert one.low <= report.coefficients[name] <= one.high
    assert load_model(run.model_path).report.cross_validation == found
    page = open_page("train", run=run.id)
    assert {"R², cross-validated", "RMSE, cross-validated"} <= {metric.label for metric in page.metric}
    assert "5 folds by hash; mean squared error" in said(page)
    assert f"alpha {number(best)}: the lowest error of all alphas (100 tried)" in said(page)
