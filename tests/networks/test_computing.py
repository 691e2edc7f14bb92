"""How gradients are computed: decisions for machines of all kinds, and what each way does to a gradient."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from shoal.errors import ConfigError
from shoal.models import Array
from shoal.networks import compiling
from shoal.networks.computing import Computing, computing_for
from shoal.networks.live import LiveModule, loaded
from shoal.networks.storing import stored_module
from shoal.settings.config import RunConfig
from support.gradient.nets import rows


@dataclass
class StandIn:
    """In place of `torch.cuda`, for machines that this one is not."""

    there: bool = False
    half: bool = True

    def is_available(self) -> bool:
        return self.there

    def is_bf16_supported(self) -> bool:
        return self.half


ASKED = RunConfig(model="mlp", mixed_precision=True, gpu_memory_fraction=0.9, workers=2, compile_mode="default")


@pytest.mark.parametrize(
    ("gpus", "precision", "wanted", "said"),
    [
        (StandIn(), "float32", Computing(True, False, "default", 32), ["gpu_memory_fraction"]),
        (StandIn(), "float64", Computing(False, False, "default", 32), ["float64", "gpu_memory_fraction"]),
        (StandIn(True), "float32", Computing(True, False, "default", 32, "cuda", 0.9 / 3), []),
        (StandIn(True, False), "float32", Computing(False, False, "default", 32, "cuda", 0.9 / 3), ["bfloat16"]),
    ],
    ids=["processors", "double precision", "a GPU", "an old GPU"],
)
def test_what_a_machine_does_not_have_is_said(
    gpus: StandIn, precision: str, wanted: Computing, said: list[str]
) -> None:
    found, notes = computing_for(ASKED, precision, 32, gpus)
    assert found == wanted
    assert len(notes) == len(said)
    assert all(word in note for word, note in zip(said, notes, strict=True))


def test_a_gpu_that_is_asked_for_by_name_has_to_be_there() -> None:
    with pytest.raises(ConfigError, match="found none"):
        computing_for(replace(ASKED, device="cuda"), "float32", 32, StandIn())
    assert computing_for(replace(ASKED, device="cpu"), "float32", 32, StandIn(True))[0].device == "cpu"
    assert computing_for(RunConfig(model="mlp"), "float32", 32, StandIn())[0] == Computing()


def test_a_process_takes_its_share_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[float] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", taken.append)
    compiling.bound_memory(Computing(device="cuda", gpu_share=0.3))
    compiling.bound_memory(Computing(device="cuda"))
    compiling.bound_memory(Computing(gpu_share=0.3))
    assert taken == [0.3]


# ------------------------------------------------------------------ gradients


class Chain(nn.Module):
    """Chains within a module: dropout and functions in place, statistics, and a layer that remembers."""

    def __init__(self, deep: int = 3) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for _ in range(deep):
            parts += [nn.Linear(6, 6), nn.ReLU(inplace=True), nn.BatchNorm1d(6), nn.Dropout(0.4, inplace=True)]
        self.chain = nn.Sequential(*parts, Counting())
        self.last = nn.Sequential(nn.Linear(6, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(self.chain(x))
        return found


class Counting(nn.Module):
    """Computes something else each time it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls.clone()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(compiling.CACHE, raising=False)


def live(module: nn.Module, precision: str = "float32", **computing: Any) -> LiveModule:
    module = copy.deepcopy(module)  # which is tried as it is stored, and may remember it
    return loaded(stored_module(module, rows(64)), precision, Computing(**computing))


def gradient(found: LiveModule, count: int = 32) -> Array:
    X, y = rows(64)
    found.seed(1, 2, 3)
    return found.gradient(X[:count], y[:count], found.start)[0]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_checkpointing_gives_the_same_bits_and_keeps_less(precision: str) -> None:
    torch.manual_seed(0)
    module = Chain()
    plain, less = live(module, precision), live(module, precision, checkpointing=True)
    assert less.keeps_less
    assert not plain.keeps_less
    for count in (32, 17, 32):
        assert np.array_equal(gradient(plain, count), gradient(less, count))
    assert kept(less) < 0.75 * kept(plain)
    X, y = rows(64)
    statistics = plain.statistics([X], plain.start)
    assert plain.sums(X, y, plain.start, statistics).loss == less.sums(X, y, less.start, statistics).loss


def kept(found: LiveModule) -> int:
    """Bytes of what a batch leaves behind for the way back."""
    total = 0

    def pack(one: torch.Tensor) -> torch.Tensor:
        nonlocal total
        total += one.nbytes
        return one

    X, _ = rows(64)
    found.module.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
        found.module(*found._inputs(X))
    return total


def test_a_module_without_a_chain_has_nothing_to_keep_less_of() -> None:
    torch.manual_seed(0)
    module = nn.Linear(6, 3)
    found = live(module, checkpointing=True)
    assert not found.keeps_less
    assert np.array_equal(gradient(found), gradient(live(module)))


def test_mixed_precision_is_near_and_leaves_precision_and_scores_alone() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))
    plain, mixed = live(module), live(module, mixed=True)
    exact, near = gradient(plain), gradient(mixed)
    assert not np.array_equal(exact, near)
    np.testing.assert_allclose(near, exact, atol=0.03 * np.abs(exact).max(), rtol=0)
    assert {one.dtype for one in mixed.module.parameters()} == {torch.float32}
    assert np.array_equal(gradient(live(module, mixed=True)), near)
    X, y = rows(64)
    assert plain.sums(X, y, plain.start, {}).loss == mixed.sums(X, y, plain.start, {}).loss
    assert np.array_equal(gradient(live(module, mixed=True, checkpointing=True)), near)


@pytest.mark.filterwarnings("default::DeprecationWarning")  # of PyTorch itself
def test_a_module_that_cannot_be_compiled_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config as inductor

    monkeypatch.setattr(inductor.cpp, "cxx", ("no-such-compiler",))
    torch._dynamo.reset()
    module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    found = live(module, compile_mode="default", full=32)
    assert "compiler" in found.uncompiled().lower()
    assert live(module).uncompiled() == ""
