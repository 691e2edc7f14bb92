"""Made-up tables: on request only, the same from the same shape, with coefficients that a fit finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shoal.dashboard.tables import generation
from shoal.dashboard.tables.samples import generated
from shoal.data import generated as generated_data
from shoal.data.generated import Shape, generate
from shoal.errors import ConfigError, ResourceError
from shoal.settings.values import config_from
from shoal.tasks.train import train
from support.pages import checked, open_page, said, settle, widget


def test_a_generated_table_is_made_on_request_with_its_true_coefficients() -> None:
    page = open_page()
    widget(page, "number_input", "Rows").set_value(5_000)
    widget(page, "number_input", "Columns").set_value(6)
    page = settle(checked(page.run()))
    page = settle(settle(checked(page.button(key="generate").click().run())))
    assert page.query_params == {"data": "generated:5000x6"}
    assert "5,000 rows · 6 columns" in said(page)
    assert widget(page, "selectbox", "Column to predict").value == "y"
    truth = next(t.value for t in page.dataframe if "True coefficient" in t.value.columns)
    assert dict(zip(truth["Column"], truth["True coefficient"], strict=True)) == Shape(5_000, 6).coefficients
    assert generation._job_of(Shape(5_000, 6)) is not None


def test_a_fit_finds_the_true_coefficients() -> None:
    shape = Shape(20_000, 9)
    said_of_it = generate(shape, lambda stage, part: None)
    found = train(config_from({"file": str(shape.path), "target": "y", "engine": "inline"})).report
    bound = 5 * generated_data.NOISE / np.sqrt(shape.rows)
    assert set(found.coefficients) == set(said_of_it["coefficients"])
    for name, true in said_of_it["coefficients"].items():
        assert found.coefficients[name] == pytest.approx(true, abs=bound)
    assert found.intercept == pytest.approx(generated_data.INTERCEPT, abs=bound)
    assert found.train.rmse == pytest.approx(generated_data.NOISE, rel=0.03)
    assert [name for name, b in said_of_it["coefficients"].items() if b == 0] == ["x4", "x8"]


def test_the_same_shape_is_the_same_file() -> None:
    steps: list[float] = []
    shape = Shape(700_000, 4)
    generate(shape, lambda stage, part: steps.append(part))
    first = shape.path.read_bytes()
    shape.path.unlink()
    generate(shape, lambda stage, part: None)
    assert shape.path.read_bytes() == first
    assert len(steps) > 1  # told as it goes on
    assert steps == sorted(steps)
    assert steps[-1] == 1.0
    assert abs(len(first) / shape.bytes - 1) < 0.25  # what the page says of its size
    assert [path.name for path in shape.path.parent.iterdir()] == [shape.path.name]


def test_no_table_is_made_where_the_disk_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_data, "SPARE", 1 << 60)
    with pytest.raises(ResourceError, match="MB of free disk"):
        generate(Shape(1_000, 3), lambda stage, part: None)
    page = open_page()
    assert page.button(key="generate").disabled
    assert "of free disk" in said(page)


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (1_000, 1), (10**9, 2), (50_000_000, 2_000)])
def test_a_shape_out_of_reach_is_refused(rows: int, columns: int) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        Shape(rows, columns)


def test_an_address_alone_makes_nothing(home: Path) -> None:
    page = open_page(data="generated:400x3")
    assert "not here yet" in said(page)
    assert not (home / "jobs").exists()
    page = settle(settle(checked(page.button(key="generate").click().run())))
    assert "400 rows · 3 columns" in said(page)
    Shape(400, 3).path.unlink()
    page = settle(settle(checked(open_page(data="generated:400x3").button(key="generate").click().run())))
    assert "400 rows · 3 columns" in said(page)


def test_one_key_a_made_up_table() -> None:
    sample = generated("generated:500x3")
    assert sample is not None
    assert sample.path == Shape(500, 3).path
    assert [generated(key) for key in ("generated:0500x3", "generated:500", "generated-500x3", "made:500x3")] == [
        None
    ] * 4
