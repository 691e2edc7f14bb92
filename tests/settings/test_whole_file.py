"""One file of training settings for models of all kinds: what has no meaning for one is said in a line, not refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.cli.app import main
from shoal.errors import ConfigError
from shoal.settings.config import RunConfig
from shoal.settings.meaning import differing, implied, left_out, understood, with_file
from shoal.settings.text import as_yaml, from_yaml, idle_in
from shoal.settings.values import config_from

WHOLE = (Path(__file__).parents[2] / "examples" / "training.yaml").read_text("utf-8")
OF_NETWORKS = "mixed_precision, gradient_checkpointing, compile_mode, gpu_memory_fraction"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i % 17},{2 * (i % 17) + i % 3}\n" for i in range(80)))
    path = tmp_path / "whole.yaml"
    path.write_text(WHOLE)
    return path


def meant(file: Path, **knobs: Any) -> tuple[RunConfig, str]:
    values = with_file(file, knobs)
    config = config_from(values)
    found = understood(config, {*differing(values, config), *knobs})
    return found, left_out(values, found)


def test_a_network_takes_all_of_it(file: Path) -> None:
    config, note = meant(file, model="mlp")
    assert (config.prefetch, config.io_queue_size, config.batch_size, config.workers) == (2, 1000, 0, 0)
    assert config.mixed_precision
    assert config.gradient_checkpointing
    assert (config.compile_mode, config.gpu_memory_fraction, config.max_memory) == ("reduce-overhead", 0.9, 0.8)
    assert (note, config.epochs) == ("", 100)


@pytest.mark.parametrize("model", ["linear", "lasso", "logistic"])
def test_a_model_by_steps_leaves_out_what_is_of_networks(model: str, file: Path) -> None:
    config, note = meant(file, model=model)
    assert (config.solver, config.prefetch, config.io_queue_size) == ("gradient", 2, 1000)
    assert note == f"Left out, since it has no effect on a {model} model: {OF_NETWORKS}."
    assert config == config_from({"model": model, "solver": "gradient", "prefetch": 2, "io_queue_size": 1000})
    assert "since only they have prefetch and io_queue_size." in implied({"prefetch", "io_queue_size"}, config)


@pytest.mark.parametrize(
    "knobs", [{"model": "quantile"}, {"model": "linear", "solver": "exact"}, {"model": "auto"}], ids=str
)
def test_an_exact_fit_leaves_out_all_that_is_of_steps(knobs: dict[str, Any], file: Path) -> None:
    config, note = meant(file, **knobs)
    assert config == config_from(knobs)
    assert note == (
        f"Left out, since it has no effect on a {knobs['model']} model that is fitted exactly: prefetch, "
        f"io_queue_size, {OF_NETWORKS}."
    )


def test_one_that_is_named_alone_asks_for_no_steps() -> None:
    config = config_from({"mixed_precision": True})
    assert understood(config, {"mixed_precision"}) == RunConfig()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"compile_mode": "fastest"}, "reduce-overhead"),
        ({"device": "tpu"}, "auto, cpu, cuda"),
        ({"mixed_precision": "yes"}, "true or false"),
        ({"io_queue_size": -1}, "io_queue_size"),
        ({"gpu_memory_fraction": 1.5}, "gpu_memory_fraction"),
        ({"training": {"resources": {"gpu_memory": 1}}}, "gpu_memory_fraction"),
    ],
)
def test_what_does_not_fit_is_refused_all_the_same(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config_from(wrong)


def test_the_command_line_and_python_take_the_file_as_it_stands(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(file.with_name("t.csv"))
    assert main(["train", table, "--target", "y", "--solver", "exact", "--config", str(file), "--json"]) == 0
    assert f"fitted exactly: prefetch, io_queue_size, {OF_NETWORKS}." in capsys.readouterr().err
    with pytest.warns(UserWarning, match=f"Left out, since it has no effect on a linear model: {OF_NETWORKS}."):
        model = shoal.fit(table, "y", config=file, engine="inline", epochs=1, solver="gradient")
    assert model.report["solver"] == "gradient"
    assert shoal.fit(table, "y", config={"model": "ridge"}, alpha=1.0).report["model"] == "ridge"
    assert shoal.fit(table, "y", "lasso", config={"model": "ridge", "alpha": 0.5}).report["model"] == "lasso"


def test_a_page_takes_the_text_as_it_stands_and_says_what_is_idle() -> None:
    assert config_from(from_yaml(WHOLE)).solver == "gradient"
    assert idle_in(WHOLE) == f"Left out, since it has no effect on a linear model: {OF_NETWORKS}."
    assert idle_in(f"model: mlp\n{WHOLE}") == ""
    assert as_yaml(config_from(from_yaml(WHOLE))) == "solver: gradient\nprefetch: 2\nio_queue_size: 1000\n"
    assert "mixed_precision: true" in as_yaml(config_from(from_yaml(f"model: mlp\n{WHOLE}")))
