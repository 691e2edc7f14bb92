"""Modules as plain values and tensors: what comes back is what was given, and what cannot be written is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from shoal.errors import ConfigError
from shoal.networks.descriptions import described, rebuilt
from support.gradient.nets import small

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "own class": (lambda: small(norm=True), (4, 6)),
    "layers in a row": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding="same"), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(36, 3),
        ),
        (2, 1, 6, 6),
    ),
    "recurrent, with weak references": (lambda: nn.GRU(3, 4, 2), (5, 2, 3)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 3, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_module_comes_back_from_json_and_tensors(name: str) -> None:
    make, shape = MODULES[name]
    module = make().eval()
    said, tensors = described(module)
    again = rebuilt(json.loads(json.dumps(said)), tensors)
    assert str(again) == str(module)
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in module.named_parameters()]
    X = torch.randn(shape)
    for mine, theirs in zip(_all(again(X)), _all(module(X)), strict=True):
        assert torch.equal(mine, theirs)


def _all(output: Any) -> tuple[Tensor, ...]:
    return output if isinstance(output, tuple) else (output,)


def test_what_is_shared_stays_shared_and_what_is_fixed_stays_fixed() -> None:
    module = small()
    module.first.requires_grad_(False)
    again = rebuilt(*described(module))
    assert again.once_more is again.again
    assert not again.first.weight.requires_grad  # type: ignore[union-attr]
    assert again.first.weight is not module.first.weight  # type: ignore[union-attr]


class Odd(nn.Module):
    def __init__(self, thing: Any) -> None:
        super().__init__()
        self.thing = thing


def test_what_cannot_be_written_is_refused_by_name() -> None:
    class Local(nn.Module):
        pass

    hooked = nn.Linear(2, 2)
    hooked.register_forward_hook(lambda *_: None)
    cases: list[tuple[nn.Module, str]] = [
        (Local(), "Local"), (Odd(lambda x: x), "lambda"), (Odd(object()), "object as 'thing'"),
        (hooked, "hooks"), (nn.Sequential(nn.LazyLinear(3)), "whose parameters have a shape"),
    ]  # fmt: skip
    for module, said in cases:
        with pytest.raises(ConfigError, match=said):
            described(module)
