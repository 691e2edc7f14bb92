"""Sizes of layers as people write them, and what a person means who asks for a network."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.cli.app import _parser
from shoal.cli.flags import config_of
from shoal.errors import ConfigError
from shoal.settings.layers import hidden_sizes
from shoal.settings.meaning import understood
from shoal.settings.text import as_yaml, command_line, from_yaml
from shoal.settings.values import config_from


def meant(**values: Any) -> Any:
    return understood(config_from({"model": "mlp", **values}), {"model", *values})


@pytest.mark.parametrize(
    ("text", "sizes"), [("auto", None), ("64,32", (64, 32)), (" 8 ", (8,)), ("[5, 4, 3]", (5, 4, 3))]
)
def test_sizes(text: str, sizes: tuple[int, ...] | None) -> None:
    assert hidden_sizes(text) == sizes
    assert config_from({"model": "mlp", "hidden": text}).hidden == text


@pytest.mark.parametrize("text", ["", "64,", "big", "-3", "0", "5000", "1,1,1,1,1,1,1,1,1", "6.5"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="Expected hidden to be auto or up to 8 sizes"):
        config_from({"model": "mlp", "hidden": text})


def test_a_list_in_yaml_is_sizes_too() -> None:
    assert hidden_sizes(config_from({"model": "mlp", "hidden": [64, 32]}).hidden) == (64, 32)
    assert hidden_sizes(config_from({"model": "mlp", "hidden": 16}).hidden) == (16,)


def test_a_network_means_gradient_steps_test_rows_and_an_end() -> None:
    config = meant()
    assert (config.solver, config.step_rule, config.tolerance) == ("gradient", "adamw", 0.0)
    assert config.test_fraction == 0.2
    assert config.patience > 0
    assert meant(test_every=5).test_fraction == 0.0
    assert meant(test_fraction=0.0).test_fraction == 0.0
    assert meant(epochs=3, patience=0).epochs == 3
    assert meant(step_rule="sgd").learning_rate == 0.0
    assert meant(mode="local").step_rule == "sgd"


def test_what_does_not_go_with_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="Expected solver gradient beside model mlp, got exact"):
        meant(solver="exact")
    with pytest.raises(ConfigError, match="Expected alpha only where it has an effect"):
        meant(alpha=1.0)
    with pytest.raises(ConfigError, match="Expected hidden only where it has an effect"):
        understood(config_from({"hidden": "8"}), {"hidden"})


@pytest.mark.parametrize(
    "values",
    [
        {}, {"epochs": 10}, {"mode": "local"}, {"mode": "ssp", "step_rule": "sgd"}, {"test_every": 4},
        {"patience": 0, "test_fraction": 0.0}, {"step_rule": "adam", "hidden": "8,4", "learning_rate": 0.5},
    ],
    ids=str,
)  # fmt: skip
def test_yaml_and_the_command_line_say_it_all(values: dict[str, Any]) -> None:
    """What is not said is what is usual for a network, not for a linear model."""
    config = meant(file="/t.csv", target="y", **values)
    assert config_from(from_yaml(as_yaml(config))) == config
    assert config_from(from_yaml(as_yaml(config, everything=True))) == config
    line = command_line(config)
    assert line is not None
    assert config_of(_parser().parse_args(line.split()[1:])) == config
