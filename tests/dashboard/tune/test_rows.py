"""The Tune page of a table with more columns than its sliders take: the curve of the command line, and its model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shoal.dashboard.tables import uploads
from shoal.dashboard.tune import rows
from shoal.runs.folder import find_run
from support.dashboard.train_page import address
from support.pages import checked, now_on, open_page, said, settle, uploaded, widget
from support.tables import shoal


def test_a_wide_table_has_the_curve_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PANEL", 500)
    random = np.random.default_rng(2)
    frame = pd.DataFrame(random.standard_normal((60, 620)).round(3), columns=[f"gene_{j}" for j in range(620)])
    frame["y"] = (2 * frame["gene_3"] - frame["gene_9"] + 0.2 * random.standard_normal(60)).round(3)
    path = uploaded(frame.to_csv(index=False).encode(), "genes.csv")
    page = settle(open_page("tune", data=uploads.key_of(path) or "", target="y"))
    assert rows.ABOUT in said(page).replace("&#x27;", "'")
    told = shoal("tune", str(path), "--target", "y", "--test-every", "5", "--json").json
    shown = {metric.label: metric.value for metric in page.metric}
    assert shown["Best alpha"] == f"{told['best']:.6g}"
    assert shown["Weights other than 0"].endswith("of 620")
    page = settle(now_on(page.button(key="tune:train").click().run()))
    run = find_run(address(page, "run"))
    assert run is not None
    assert run.result is not None, run.error
    assert run.result["cross_validation"]["mse"] == pytest.approx(min(told["cv_mean"]), rel=1e-9)


def test_another_model_is_asked_for_by_name_and_kept_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PANEL", 500)
    random = np.random.default_rng(4)
    frame = pd.DataFrame(random.standard_normal((60, 520)).round(3), columns=[f"g{j}" for j in range(520)])
    frame["y"] = frame["g1"] + 0.1
    path = uploaded(frame.to_csv(index=False).encode(), "genes.csv")
    page = settle(open_page("tune", data=uploads.key_of(path) or "", target="y", ratio="nonsense"))
    page = settle(checked(widget(page, "selectbox", "Model").set_value("ridge").run()))
    assert address(page, "model") == "ridge"
    assert {metric.label: metric.value for metric in page.metric}["Weights other than 0"] == "520 of 520"
