"""Gradients, statistics and scores of modules against plain PyTorch, NumPy and scikit-learn."""

from __future__ import annotations

import copy
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, r2_score
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from shoal.errors import ConfigError, DataError
from shoal.models import Array
from shoal.networks.live import LiveModule, loaded
from shoal.networks.stored import read_module
from shoal.networks.storing import stored_module
from support.gradient.nets import flat, rows, small, stored
from support.training import Trainer


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def opened(module: nn.Module, data: Any, precision: str = "float64", **more: Any) -> LiveModule:
    return loaded(stored_module(module, data, **more), precision)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


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


def test_a_last_batch_of_one_row_teaches_batch_norm_nothing(tmp_path: Path) -> None:
    """Half a shard of three rows in batches of two: PyTorch refuses to normalise one row, which ended the run."""
    X, y = rows(6)
    live = opened(small(norm=True), (X, y))
    w = np.random.default_rng(0).standard_normal(live.size)
    gradient, value = live.gradient(X[:1], y[:1], w)
    assert not gradient.any()
    assert value == pytest.approx(live.gradient(X[[0, 0]], y[[0, 0]], w)[1] / 2)
    assert live.needs_company(X)
    assert not opened(small(), (X, y)).needs_company(X)
    knobs: dict[str, Any] = {"model": "module", "shards": 2, "epochs": 2, "tolerance": 0}
    file = stored(small(norm=True), (X, y))
    run = Trainer(tmp_path)
    found = run(file, "y", batch_size=2, **knobs)
    assert found.rounds[-1].round == 4
    assert found.rounds[-1].loss is not None
    assert math.isfinite(found.rounds[-1].loss)
    with pytest.raises(ConfigError, match="two rows or more"):
        run(file, "y", batch_size=1, **knobs)


def test_a_fault_of_a_persons_code_is_told_as_theirs_with_its_lines() -> None:
    X, y = rows(32)
    live = opened(small(), (X, y))
    live.module.first = nn.Linear(5, 12)
    for ask in (lambda: live.gradient(X, y, live.start), lambda: live.sums(X, y, live.start, {})):
        with pytest.raises(DataError, match=r"module, its loss or a row is at fault: .*32 rows.* RuntimeError") as told:
            ask()
        assert "in forward" in told.value.__notes__[0]


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
    labels = np.arange(20) % 3
    pairs = TensorDataset(torch.from_numpy(flat_rows).float(), torch.from_numpy(labels))
    late = np.where(np.arange(20) == 17, 3, labels)
    cases += [
        (net, (pixels, late), "labels from 0 to 2, .* got 3 as y of row 17"),
        (net, DataLoader(pairs), "Give its dataset"), (net, Endless(), "asked for one by one"),
        (net, [{"x": 1}] * 3, "items such as a dict"), (net, ((flat_rows, flat_rows), labels), "takes 2 positional arguments"),
        (net, (torch.from_numpy(flat_rows).to_sparse(), labels), "dense rows"),
    ]  # fmt: skip
    for module, data, said in cases:
        with pytest.raises(DataError, match=said):
            stored_module(module, data)
    with pytest.raises(DataError, match="y of the test rows of row 17"):
        stored_module(net, (pixels, labels), test=(pixels, late))
    stored_module(net, (pixels, np.where(late == 3, -7, late)), nn.CrossEntropyLoss(ignore_index=-7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(nn.Linear(36, 3))  # type: ignore[no-untyped-call]
        compiled = torch.compile(nn.Linear(36, 3))
    odd: list[tuple[Any, Any, str]] = [
        (nn.Linear(36, 3).half(), None, "float16"), (scripted, None, "scripted"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(36, 3)), None, "parametrizations"),
        (compiled, None, "compile_mode"), (nn.Linear, None, "call it"),
        (net, nn.CrossEntropyLoss, r"CrossEntropyLoss\(\)"),
    ]  # fmt: skip
    for module, loss, said in odd:
        with pytest.raises(ConfigError, match=said):
            stored_module(module, pairs, loss)


def test_yes_and_no_are_taken_as_whole_numbers_or_truths() -> None:
    X, _ = rows(40)
    yes = X[:, 0] > 0
    net = nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)).double()
    for targets in (yes, yes.astype(int), yes.astype(float)):
        live = opened(net, (X, targets), loss="binary_cross_entropy_with_logits")
        with torch.no_grad():
            wanted = nn.functional.binary_cross_entropy_with_logits(net(torch.tensor(X)), torch.tensor(yes).double())
        assert live.gradient(X, targets, flat(net))[1] / 40 == pytest.approx(float(wanted))
