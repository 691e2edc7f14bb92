"""What a person means by the knobs that are named: gradient steps, or something that has no effect and is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.cli.app import main
from shoal.errors import ConfigError
from shoal.settings.config import RunConfig
from shoal.settings.meaning import differing, effective, has_effect, implied, understood
from shoal.settings.text import as_yaml, command_line, from_yaml
from shoal.settings.values import config_from


def meant(**said: Any) -> RunConfig:
    return understood(config_from(said), said)


def test_a_knob_of_training_means_gradient_steps_and_that_is_said() -> None:
    said = {"epochs": 3, "learning_rate": 0.1}
    config = meant(**said)
    assert config.solver == "gradient"
    assert implied(said, config) == (
        "Trained by gradient steps (solver gradient), since only they have epochs and learning_rate."
    )
    assert implied({"solver": "gradient", **said}, meant(solver="gradient", **said)) == ""
    assert implied({}, meant()) == ""


@pytest.mark.parametrize(
    ("said", "remedies"),
    [
        ({"alpha": 2.0}, ["--model ridge"]),
        ({"alpha": 1.0, "model": "linear"}, ["--model ridge"]),  # as usual, and named all the same
        ({"l1_ratio": 0.3, "model": "ridge"}, ["--model elasticnet"]),
        ({"fill": 3.0}, ["--impute constant"]),
        ({"confidence": 0.9, "model": "lasso"}, ["--model linear"]),
        ({"epochs": 3, "solver": "exact"}, ["--solver gradient"]),
        ({"staleness": 3}, ["--mode ssp"]),
        ({"local_steps": 3, "mode": "ssp"}, ["--mode local"]),
        ({"step_rule": "adam", "mode": "local"}, ["--mode sync"]),
        ({"momentum": 0.5}, ["--step-rule momentum"]),
        ({"momentum": 0.5, "mode": "local"}, ["--step-rule momentum", "--mode sync"]),
        ({"decay": 0.5, "schedule": "cosine"}, ["--schedule exponential"]),
        ({"top_k": 0.2, "compression": "half"}, ["--compression topk"]),
        ({"finish_passes": 9, "tolerance": 0.0}, ["--tolerance 1e-06"]),
    ],
)
def test_what_has_no_effect_is_refused_with_the_flag_that_gives_it_one(
    said: dict[str, Any], remedies: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        meant(**said)
    assert [str(remedy).partition(" with ")[2].rstrip(".") for remedy in refused.value.remedies] == remedies
    assert refused.value.knobs[0] in said
    cure = dict(remedy.removeprefix("--").replace("-rule", "_rule").split() for remedy in remedies)
    meant(**{**said, **cure})


@pytest.mark.parametrize(
    "said",
    [
        {"alpha": 2.0, "model": "ridge"}, {"seed": 3}, {"workers": 2, "engine": "inline"}, {"fill": 1.0, "impute": "constant"},
        {"solver": "gradient", "epochs": 3, "mode": "ssp", "staleness": 2}, {"mode": "async"}, {"test_every": 5, "patience": 2},
    ],
)  # fmt: skip
def test_what_has_an_effect_or_harms_nobody_is_taken(said: dict[str, Any]) -> None:
    assert {**meant(**said).as_dict(), **said} == meant(**said).as_dict()


def test_every_need_gives_its_knob_an_effect() -> None:
    """A remedy that leaves the knob without one would send people in circles."""
    for name, knob in RunConfig.knobs().items():
        if needs := knob.metadata.get("needs"):
            training = {"solver": "gradient"} if knob.metadata.get("training") else {}
            assert has_effect(name, {**RunConfig().as_dict(), **training, **dict(needs)}), name


# ------------------------------------------------------------------ files that list everything, and forms


@pytest.mark.parametrize("other", [{"mode": "ssp"}, {"compression": "half"}, {"model": "ridge"}, {"engine": "ray"}])
def test_sums_among_workers_are_for_whole_gradients_of_networks_in_step(other: dict[str, Any]) -> None:
    asked = {"model": "mlp", "aggregation": "allreduce"}
    assert meant(**asked).aggregation == "allreduce"
    (knob, value), = other.items()  # fmt: skip
    with pytest.raises(ConfigError, match=f"got it with {knob} '{value}', where it has none"):
        meant(**{**asked, **other})


def test_a_file_with_every_knob_means_those_that_are_not_as_usual() -> None:
    text = as_yaml(config_from({"target": "y"}), everything=True)
    assert config_from(from_yaml(text)) == config_from({"target": "y"})
    values = config_from({}).as_dict()
    assert differing(values, config_from(values)) == {"solver"}


def test_yaml_is_understood_as_flags_are_and_refused_with_its_line() -> None:
    assert from_yaml("target: y\nepochs: 3\n") == {"target": "y", "epochs": 3, "solver": "gradient"}
    with pytest.raises(
        ConfigError, match=r"^Line 2: Expected alpha only where it has an effect, got it with model 'linear'"
    ):
        from_yaml("target: y\nalpha: 3\n")
    with pytest.raises(
        ConfigError, match=r"^Line 1: Expected model to be one of .*, got 'rigde'. Did you mean 'ridge'?"
    ):
        from_yaml("model: rigde\n")


def test_what_a_form_keeps_of_hidden_fields_is_in_no_text() -> None:
    hidden = config_from({"file": "a.csv", "target": "y", "alpha": 7.0, "epochs": 50, "fill": 2.0})
    assert effective(hidden) == config_from({"file": "a.csv", "target": "y"})
    assert command_line(hidden) == "shoal train a.csv --target y"
    assert as_yaml(hidden) == "file: a.csv\ntarget: y\n"
    ridge = config_from({"model": "ridge", "alpha": 7.0})
    assert effective(ridge) == ridge


# ------------------------------------------------------------------ where people say them


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i},{2 * i + i % 3}\n" for i in range(40)))
    return str(path)


def test_the_command_line_names_flag_and_choice(data: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["train", data, "--target", "y", "--model", "rigde"]) == 1
    assert (
        "Expected --model to be one of linear, ridge, lasso, elasticnet, logistic, multinomial, poisson, gamma, lognormal, huber, quantile, mlp, auto, got 'rigde'. Did you mean 'ridge'?"
        in (capsys.readouterr().err)
    )
    assert main(["train", data, "--target", "y", "--alpha", "1"]) == 1
    assert "Leave it out, or give it one with --model ridge." in capsys.readouterr().err
    file = tmp_path / "run.yaml"
    file.write_text("target: y\nmodel: ridge\nalpha: 3\n")
    assert main(["train", data, "--config", str(file), "--model", "linear"]) == 1
    assert "got it with model 'linear'" in capsys.readouterr().err
    assert main(["train", data, "--config", str(file), "--json"]) == 0


def test_python_means_the_same(data: str) -> None:
    with pytest.raises(ConfigError, match="got it with model 'linear'"):
        shoal.fit(data, target="y", alpha=3.0)
    with pytest.warns(
        UserWarning, match="Trained by gradient steps .* since only they have epochs. Say solver='gradient'"
    ):
        model = shoal.fit(data, target="y", epochs=2, engine="inline")
    assert model.report["solver"] == "gradient"
