"""Modules with several inputs, as forward() names them: rows given in each of the usual ways, beside plain PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from shoal.errors import DataError
from shoal.networks.live import loaded
from shoal.networks.stored import read_module, side_by_side
from shoal.networks.storing import stored_module


class Both(nn.Module):
    """Numbers, and the level of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.levels, self.norm = nn.Linear(6, 8), nn.Embedding(5, 8), nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 1)

    def forward(self, numbers: Tensor, level: Tensor) -> Tensor:
        found: Tensor = self.last(torch.relu(self.norm(self.numbers(numbers.flatten(1)) + self.levels(level))))
        return found


class Items(Dataset[Any]):
    def __init__(self, *parts: Tensor) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, row: int) -> Any:
        numbers, level, y = (part[row] for part in self.parts)
        return (numbers, level), y


class Mixed(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        return self.items[row]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))


def parts(rows: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    numbers, level = torch.randn(rows, 2, 3, generator=random), torch.randint(0, 5, (rows,), generator=random)
    return numbers, level, numbers.sum((1, 2))[:, None] + level[:, None]


def test_rows_of_several_inputs_come_in_any_usual_way_and_have_the_gradient_of_pytorch() -> None:
    torch.manual_seed(2)
    net, (numbers, level, y) = Both(), parts()
    files = {
        stored_module(net, data, "mse_loss")
        for data in (((numbers, level), y), TensorDataset(numbers, level, y), Items(numbers, level, y))
    }
    (file,) = files
    live, X = loaded(file, "float32"), read_module(file).data.open("X")
    found, value = live.gradient(np.asarray(X[:16]), y[:16].numpy()[:, 0], live.start)
    loss = nn.functional.mse_loss(net.train()(numbers[:16], level[:16]), y[:16])
    loss.backward()
    wanted = np.concatenate([one.grad.numpy().ravel() for one in net.parameters() if one.grad is not None])
    np.testing.assert_allclose(found, 16 * wanted, rtol=1e-6, atol=1e-5)
    assert value == pytest.approx(16 * float(loss.detach()), rel=1e-6)
    assert live.statistics([np.asarray(X)], live.start)["norm.running_mean"].shape == (8,)


def test_inputs_are_kept_as_they_are_or_refused() -> None:
    numbers, level, y = parts()
    odd = torch.full_like(level, 2**24 + 1)  # single precision lacks it
    joined, _ = side_by_side([numbers.numpy(), odd.numpy()])
    assert joined.dtype == np.float64
    assert (joined[:, 6] == 2**24 + 1).all()
    stored = read_module(stored_module(Both(), ((numbers, level), y), "mse_loss", test=((numbers, level), y)))
    assert stored.data.dtype == "float32"
    with pytest.raises(DataError, match=r"up to 2\^53"):
        stored_module(Both(), ((numbers, level + 2**54), y), "mse_loss")


@pytest.mark.parametrize(
    ("data", "test", "message"),
    [
        (lambda n, k, y: ((n, k[:-1]), y), None, "a row for each target"),
        (lambda n, k, y: ((n, k), y), lambda n, k, y: (n, y), "inputs of the others"),
        (lambda n, k, y: Mixed([((n[0], k[0]), y[0]), (n[1], y[1])]), None, "more inputs than others"),
    ],
)
def test_what_does_not_fit_together_is_told(data: Any, test: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        stored_module(Both(), data(*parts()), "mse_loss", test and test(*parts()))
