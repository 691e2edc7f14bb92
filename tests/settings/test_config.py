"""One schema for flags and YAML: nested names, `auto`, ranges, and plain words for what does not fit."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.settings.config import RunConfig
from shoal.settings.text import command_line
from shoal.settings.values import config_from, read_yaml

NESTED = """
file: houses.csv
target: price
solver: gradient
training:
  pipeline:
    batch_size: 512
    prefetch: auto
    max_memory: 0.6
  optimization:
    learning_rate: 0.05
    step_rule: momentum
    schedule: cosine
    mode: ssp
    staleness: 3
  resources:
    cpu_workers: 3
    io_queue_size: auto
"""


def test_the_groups_of_a_yaml_file_are_the_knobs_under_other_names(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(NESTED)
    assert config_from(read_yaml(path)) == RunConfig(
        file="houses.csv", target="price", solver="gradient", batch_size=512, prefetch=-1, max_memory=0.6,
        learning_rate=0.05, step_rule="momentum", schedule="cosine", mode="ssp", staleness=3, workers=3,
    )  # fmt: skip


def test_flat_and_nested_names_mean_the_same() -> None:
    flat = config_from({"batch_size": 64, "workers": "auto", "io_queue_size": 5})
    nested = config_from(
        {
            "training": {
                "pipeline": {"batch_size": 64},
                "resources": {"cpu_workers": "auto", "io_queue_size": 5},
            }
        }
    )
    assert flat == nested


def test_a_comma_within_names_and_words_survives_the_command_line() -> None:
    config = RunConfig(file="a.csv", target="y", exclude=("a, b", "c"), also_missing=("CRP=<0,5", "---", '"x"'))
    line = command_line(config)
    assert line is not None
    flags = dict(zip(*[iter(shlex.split(line)[3:])] * 2, strict=True))
    assert flags["--also-missing"] == '"CRP=<0,5",---,"""x"""'
    assert config_from({"file": "a.csv"} | {name[2:].replace("-", "_"): text for name, text in flags.items()}) == config


def test_what_a_config_says_of_itself_gives_it_back() -> None:
    config = RunConfig(file="a.csv", target="y", solver="gradient", callbacks=("x",), learning_rate=0.1)
    assert config_from(config.as_dict()) == config


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"training": {"pipeline": {"batch": 1}}}, "batch_size, prefetch, max_memory"),
        ({"training": {"elsewhere": {}}}, "elsewhere"),
        ({"training": 3}, "groups of knobs"),
        ({"training": {"optimization": {"speed": 3}}}, "speed"),
        ({"workers": 2, "training": {"resources": {"cpu_workers": 3}}}, "given twice"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"mode": "chaos"}, "sync, ssp, async, local"),
        ({"max_memory": 2}, "max_memory"),
        ({"patience": 3}, "test_every"),
        ({"momentum": 1}, "momentum"),
        ({"epochs": 1.5}, "epochs"),
        ({"alpha": "1,5"}, "alpha to be a number, got '1,5'. Write it with a point: 1.5"),
        ({"alpha": "1,5,2"}, "got '1,5,2'. Correct it"),
    ],
)
def test_what_does_not_fit_is_said_plainly(values: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config_from(values)
