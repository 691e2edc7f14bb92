"""Networks and parameter shards on a cluster whose nodes have no disk in common: the bits of one process, through kills."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.api.module_runs import config_for
from shoal.engines.base import Engine
from shoal.errors import ConfigError, EngineError
from shoal.settings.values import config_from
from shoal.steps import placement
from shoal.training import recorder
from shoal.training.conductor import Conductor
from support.engine_requests import WhoAmI
from support.engines.yard import Yard
from support.runs import until
from support.training import At, Bench, Trainer

pytest.importorskip("ray", reason="Ray is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

KNOBS: dict[str, Any] = {"epochs": 3, "shards": 5, "batch_size": 16, "local_steps": 2, "tolerance": 0}
CODE = """
import torch

class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(self.first(x))))
"""


@pytest.fixture(scope="module")
def engine(yard: Yard) -> Iterator[Engine]:
    from shoal.engines.cluster.connection import Connection
    from shoal.engines.cluster.engine import RayEngine

    with RayEngine(2, Connection.to(yard.address), preload=["shoal.networks.live"]) as opened:
        until(lambda: len(set(opened.sweep([WhoAmI(0.1)] * 2))) == 2)
        yield opened


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(recorder, "BUDGET", math.inf)
    return Trainer(tmp_path)


def kill(run: Conductor) -> None:
    os.kill(next(iter(run.server.workers.values())).pid, signal.SIGKILL)


def here(run: Conductor) -> dict[int, int]:
    """The processes of both parameter shards, when they are there."""

    def looked() -> dict[int, int]:
        run.server.parameters.tick()
        found = {line["shard"]: line["pid"] for line in run.server.parameters.table() if line["state"] == "here"}
        return found if len(found) == 2 else {}

    found: dict[int, int] = until(looked)
    return found


def same(found: Bench, expected: Bench) -> None:
    assert [(r.round, r.loss, r.gradient_norm) for r in found.rounds] == [
        (r.round, r.loss, r.gradient_norm) for r in expected.rounds
    ]
    after, before = found.checkpoints.newest(), expected.checkpoints.newest()
    assert after is not None
    assert before is not None
    assert after.arrays["weights"].tobytes() == before.arrays["weights"].tobytes()


@pytest.mark.parametrize("mode", ["sync", "local"])
def test_a_module_whose_code_and_rows_are_on_no_node(
    mode: str, run: Trainer, engine: Engine, yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.networks.storing import stored_module

    (tmp_path / f"own_{mode}.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__(f"own_{mode}").Own()
    random = np.random.default_rng(5)
    X, y = random.standard_normal((400, 6)), random.integers(0, 3, 400)
    file = Path(stored_module(module, (X, y)))
    knobs = {**KNOBS, "model": "module", "mode": mode}
    expected = run(file, "y", **knobs)
    harmed = run(file, "y", engine=engine, callbacks=[At(round2=kill)], **knobs)
    assert harmed.events("lost")
    same(harmed, expected)
    assert harmed.report["network"] == expected.report["network"]
    key = file.parent.name
    # Each node that was at work has one of its own; a short run may be over before the second one has begun.
    homes = {path.parents[2] for path in yard.folder.glob(f"home-*/modules/{key}/{file.name}")}
    assert homes
    assert {path.parents[4] for path in yard.folder.glob(f"home-*/modules/{key}/code/0/own_{mode}.py")} == homes


def test_a_network_on_a_table_with_parameters_on_actors(
    run: Trainer, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "LEAST", 3)
    random = np.random.default_rng(3)
    frame = pd.DataFrame(random.normal(size=(500, 4)).round(4), columns=list("abcd"))
    frame["y"] = (np.sin(2 * frame["a"]) + frame["b"]).round(4)
    frame.to_csv(tmp_path / "t.csv", index=False)
    knobs = {**KNOBS, "model": "mlp", "hidden": "8", "step_rule": "adamw", "learning_rate": 0.01, "test_fraction": 0.2}
    expected = run(tmp_path / "t.csv", "y", **knobs)
    apart = list[int]()
    acts = {"round1": here, "round2": kill, "round5": lambda r: apart.append(r.server.parameters.steps_apart)}
    harmed = run(tmp_path / "t.csv", "y", engine=engine, parameter_shards=2, callbacks=[At(**acts)], **knobs)
    same(harmed, expected)
    assert apart[0] > 2
    assert harmed.report["network"] == expected.report["network"]
    assert harmed.report["test"] == expected.report["test"]


def test_parameter_shards_are_actors_with_the_bits_of_one_process(
    run: Trainer, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "LEAST", 3)
    random = np.random.default_rng(7)
    frame = pd.DataFrame(random.normal(size=(320, 20)).round(4), columns=[f"x{i}" for i in range(20)])
    frame["y"] = (frame["x0"] - frame["x7"] + 0.1 * random.normal(size=320)).round(4)
    frame.to_csv(tmp_path / "t.csv", index=False)
    knobs = {**KNOBS, "epochs": 6, "model": "lasso", "alpha": 0.1, "step_rule": "adam", "clip": 0.5, "mode": "sync"}
    expected = run(tmp_path / "t.csv", "y", **knobs)
    apart = list[int]()
    acts: dict[str, Any] = {
        "round2": here, "round5": lambda r: os.kill(here(r)[0], signal.SIGKILL), "round8": here,
        "round11": lambda r: r.send("kill_shard", shard=1), "round14": here,
        "round20": lambda r: apart.append(r.server.parameters.steps_apart),
    }  # fmt: skip
    harmed = run(tmp_path / "t.csv", "y", engine=engine, parameter_shards=2, callbacks=[At(**acts)], **knobs)
    assert apart[0] > 12
    assert len([event for event in harmed.events("shards") if "lost" in event.data]) == 2
    same(harmed, expected)


def test_what_a_node_does_not_have_is_said(yard: Yard, engine: Engine) -> None:
    from shoal.engines.cluster.actor import Introduction, versions
    from shoal.engines.cluster.crew import _compare

    with pytest.raises(EngineError, match=r"node 10.0.0.7 .* does not have torch.*pip install 'shoal\[torch\]'"):
        _compare(Introduction(1, "n", "10.0.0.7", versions(), "torch"))
    with pytest.raises(EngineError, match=r"has torch 1.0, here"):
        _compare(Introduction(1, "n", "10.0.0.7", versions() | {"torch": "1.0"}))
    with pytest.raises(ConfigError, match="Expected a network in mode sync without compression on one machine"):
        config_for({"aggregation": "allreduce", "engine": "ray"})
    assert config_from({"model": "mlp", "engine": "ray", "target": "y", "solver": "gradient"}).engine == "ray"
