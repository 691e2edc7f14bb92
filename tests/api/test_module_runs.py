"""`shoal.train_module`: a run with a folder, seen and steered from outside, and a module that has learnt."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shoal
from shoal.cli.app import main
from shoal.networks import extra
from shoal.runs.launch import find_run
from support.gradient.nets import rows, small
from support.runs import run_home, until


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with run_home(tmp_path / "home", monkeypatch):
        yield


def test_a_run_is_seen_steered_resumed_and_forked(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = rows(600)
    module = small()
    before = module(torch.tensor(X, dtype=torch.float32)).detach()
    knobs: dict[str, Any] = {"test_every": 5, "engine": "inline", "learning_rate": 1e-4, "shards": 4}
    run = shoal.train_module(module, (X, y), wait=False, epochs=100_000, **knobs)
    until(lambda: bool(run.history))
    assert main(["send", run.id, "set", "learning_rate=0.01"]) == 0
    assert "done" in capsys.readouterr().out
    assert run.send("stop") == "done"
    run.wait()
    assert run.state == "stopped"
    assert main(["show", run.id]) == 0
    said = capsys.readouterr().out
    assert "Small has 279 parameters" in said
    assert "module model of Small" in said
    assert "first.weight" in said
    assert main(["show", run.id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["network"]["loss"] == "cross_entropy"
    forked = run.fork(epochs=int(run.history[-1].epoch) + 5).wait()
    assert forked.state == "finished"
    assert forked.report.test.rows == 120
    after = run.module(torch.tensor(X, dtype=torch.float32)).detach()
    assert run.module is module
    assert not torch.equal(before, after)
    again = shoal.module_run(run.id).module  # from its classes, attributes and tensors
    assert torch.equal(again.eval()(torch.tensor(X, dtype=torch.float32)), module.eval()(torch.tensor(X).float()))
    found = find_run(run.id)
    assert found is not None
    assert not found.model_path.exists()


def test_wrong_words_are_said_before_anything_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(50)
    for knobs, said in (
        ({"target": "y"}, "no knob 'target'"), ({"mode": "fast"}, "Expected mode"), ({"loss": "crossentropy"}, "loss"),
        ({"loss": "nll"}, "torch.nn.functional"),
    ):  # fmt: skip
        with pytest.raises(shoal.TrainingError, match=said):
            shoal.train_module(small(), data, **knobs)  # type: ignore[arg-type]
    with pytest.raises(shoal.TrainingError, match=r"torch\.nn\.Module"):
        shoal.train_module(np.mean, data)
    monkeypatch.setattr(extra.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(shoal.TrainingError, match=r"pip install 'shoal\[torch\]'"):
        shoal.train_module(small(), data)
    assert not (tmp_path / "home" / "runs").exists()


def test_rates_are_tried_without_touching_the_module() -> None:
    """Squares on a line, plain steps of all rows: beyond 2 / curvature they diverge, and the suggestion is well below."""
    random = np.random.default_rng(3)
    X = random.standard_normal((256, 4))
    y = X @ [1.0, -2.0, 0.5, 3.0]
    module = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Flatten(0)).double()
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    knobs: dict[str, Any] = {"step_rule": "sgd", "batch_size": 256, "mode": "ssp"}
    found = shoal.find_learning_rate(module, (X, y), highest=100.0, **knobs)
    curvature = 2 * np.linalg.eigvalsh(np.cov(np.c_[X, np.ones(256)].T, bias=True))[-1]
    assert found.rates[-1] > 2 / curvature  # it went on until the loss had grown for a while
    assert found.rates[-1] < 100
    assert found.suggested is not None
    assert 0.01 / curvature < found.suggested < 2 / curvature
    said = module(torch.tensor(X)).detach().numpy()
    assert found.losses[0] == pytest.approx(float(((said - y) ** 2).mean()))
    assert all(torch.equal(before[name], one) for name, one in module.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    again = shoal.find_learning_rate(module, (X, y), highest=100.0, **knobs)
    assert again == found
    assert shoal.find_learning_rate(small(), rows(600), steps=40).suggested is not None  # AdamW, 8 x 32 rows
    with pytest.raises(shoal.TrainingError, match="at least 10 steps"):
        shoal.find_learning_rate(module, (X, y), steps=3)
