"""Gradients, statistics and scores of modules against plain PyTorch, NumPy and scikit-learn."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, r2_score
from torch import nn

from shoal.errors import DataError
from shoal.models import Array
from shoal.networks.live import LiveModule, loaded
from shoal.networks.stored import read_module
from shoal.networks.storing import stored_module
from support.gradient.nets import flat, rows, small


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def opened(module: nn.Module, data: Any, precision: str = "float64", **more: Any) -> LiveModule:
    return loaded(stored_module(module, data, **more), precision)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-6), ("float64", 1e-12)])
def test_the_gradient_of_a_batch_is_plain_pytorchs(precision: str, tolerance: float) -> None:
    X, y = rows(64)
    module = small(norm=True)
    live = opened(module, (X, y), precision)
    gradient, value = live.gradient(X, y, flat(module))
    kind = getattr(torch, precision)
    plain = copy.deepcopy(module).to(kind)
    loss = nn.functional.cross_entropy(plain(torch.tensor(X, dtype=kind)), torch.tensor(y))
    loss.backward()  # type: ignore[no-untyped-call]
    wanted = np.concatenate([one.grad.double().reshape(-1).numpy() for one in plain.parameters()])  # type: ignore[union-attr]
    np.testing.assert_allclose(gradient / 64, wanted, atol=tolerance * np.abs(wanted).max(), rtol=0)
    assert value / 64 == pytest.approx(float(loss.detach()), rel=tolerance)


def test_a_batch_knows_of_no_other_and_draws_by_its_place() -> None:
    X, y = rows(96)
    live, w = opened(small(norm=True, drop=0.5), (X, y)), flat(small())
    w = np.random.default_rng(0).standard_normal(live.size)

    def at(*place: int) -> Array:
        live.seed(*place)
        return live.gradient(X[:32], y[:32], w)[0]

    first = at(0, 1, 2, 3)
    live.seed(9)
    live.gradient(X[32:], y[32:], w + 1)
    assert np.array_equal(at(0, 1, 2, 3), first)
    assert not np.array_equal(at(0, 1, 2, 4), first)
    assert live.gradient(X[:0], y[:0], w)[1] == 0


def test_statistics_are_those_of_the_rows_at_these_weights() -> None:
    X, y = rows(256)
    module = small(norm=True).double()
    live = opened(module, (X, y))
    found = live.statistics([X[:128], X[128:]], flat(module))
    with torch.no_grad():
        hidden = module.again(torch.tanh(module.first(torch.tensor(X))) + module.shift).numpy()
    halves = hidden.reshape(2, 128, -1)
    np.testing.assert_allclose(found["norm.running_mean"], halves.mean(axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(found["norm.running_var"], halves.var(axis=1, ddof=1).mean(axis=0), rtol=1e-12)
    assert opened(small(), (X, y)).statistics([X], flat(small())) == {}


def test_scores_are_scikit_learns() -> None:
    X, y = rows(700)
    module = small().double()
    sums = opened(module, (X, y)).sums(X, y, flat(module), {})
    with torch.no_grad():
        output = module(torch.tensor(X))
    assert sums.score("accuracy") == accuracy_score(y, output.argmax(1).numpy())
    assert sums.loss / 700 == pytest.approx(float(nn.functional.cross_entropy(output, torch.tensor(y))), rel=1e-12)
    targets = np.column_stack((X[:, 0], X[:, 1] ** 2, X[:, 2]))
    live = opened(module, (X, targets))
    assert live.stored.score == "r2"
    wanted = r2_score(targets, output.numpy(), multioutput="variance_weighted")
    assert live.sums(X, targets, flat(module), {}).score("r2") == pytest.approx(wanted, rel=1e-9)
    yes = (X[:, :1] > 0).astype(float)
    logits = nn.Sequential(nn.Linear(6, 1)).double()
    live = opened(logits, (X, yes), loss=nn.BCEWithLogitsLoss())
    with torch.no_grad():
        said = logits(torch.tensor(X)).numpy() > 0
    assert live.sums(X, yes, flat(logits), {}).score(live.stored.score) == accuracy_score(yes > 0, said)


def test_rows_are_kept_as_they_are_or_refused() -> None:
    pixels = np.random.default_rng(1).integers(0, 255, (20, 1, 6, 6)).astype(np.uint8)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    file = stored_module(net, (pixels, np.arange(20) % 3))
    stored = read_module(file)
    assert (stored.data.dtype, stored.row.shape, stored.row.whole, stored.target.whole) == (
        "uint8", (1, 6, 6), False, True,
    )  # fmt: skip
    assert file == stored_module(net, [(pixels[i], i % 3) for i in range(20)])  # a Dataset of the same rows
    flat_rows = pixels.reshape(20, 36).astype(float)
    cases: list[tuple[Any, Any, str]] = [
        (net, (pixels, np.arange(19)), "as many targets"), (net, (pixels, np.full(20, math.nan)), "finite"),
        (net, (pixels, ["a"] * 20), "numbers"), (net, (flat_rows[:, :35], np.arange(20) % 3), "first 4 rows"),
        (nn.Linear(36, 1), (flat_rows, flat_rows[:, 0]), "different to the input size"), (net, pixels, "rows as"),
    ]  # fmt: skip
    for module, data, said in cases:
        with pytest.raises(DataError, match=said):
            stored_module(module, data)
