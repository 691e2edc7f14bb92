"""A network of layers on the columns of a table, as server and workers of a gradient run know it.

Nothing of it is on disk: each process makes the module anew from these few numbers, and the weights come with every
question. PyTorch is imported when the first batch is computed. What it says of rows of a file is in `losses.layers`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from shoal.lazy.classes import dataclass
from shoal.models import Array, Bools
from shoal.networks.computing import PLAIN, Computing
from shoal.networks.step_model import StepsOfModule
from shoal.networks.stored import RowShape, StoredModule, StoredRows
from shoal.results.network import StoredLayers

if TYPE_CHECKING:
    from torch import nn

    from shoal.networks.live import LiveModule

SQUARES, LOG_LOSS = "mse_loss", "binary_cross_entropy_with_logits"  # functions of torch.nn.functional
NO_ROWS = StoredRows("", 0, 0, "float64")
SMALL = ((500, (16,)), (2_000, (32, 16)), (50_000, (64, 32)))  # sizes up to so many training rows ...
LARGE = (128, 64)  # ... and beyond


def sizes_for(rows: float) -> tuple[int, ...]:
    """What `auto` stands for: few rows say little about many weights."""
    return next((sizes for most, sizes in SMALL if rows <= most), LARGE)


@dataclass(frozen=True)
class LayersModel(StepsOfModule):
    """Linear layers with max(0, x) in between, from `width` columns to one number."""

    width: int
    hidden: tuple[int, ...]
    loss: str
    target_scale: float  # what targets are divided by
    start_seed: int  # of the weights before the first step
    precision: str
    computing: Computing = PLAIN

    @property
    def live(self) -> LiveModule:
        return _live(self)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(out, in) of each layer."""
        return tuple((after, before) for before, after in pairwise((self.width, *self.hidden, 1)))

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Names as `torch.nn.Sequential` has them: functions without weights have a number as well."""
        found: list[tuple[str, int]] = []
        for place, (after, before) in enumerate(self.shapes):
            found += [(f"{2 * place}.weight", after * before), (f"{2 * place}.bias", after)]
        return tuple(found)

    def layers(self, w: Array) -> list[tuple[Array, Array]]:
        """Weights (out, in) and biases (out,) of each layer in the flat vector."""
        found, at = [], 0
        for after, before in self.shapes:
            end = at + after * before
            found.append((w[at:end].reshape(after, before), w[end : end + after]))
            at = end + after
        return found


def stored_layers(
    model: LayersModel, w: Array, centre: Array, scale: Array, idle: Bools, target_centre: float
) -> StoredLayers:
    """What a model file says of them; `idle` columns never varied, so nothing was learnt of them and they count 0."""
    layers = [(W.copy(), b) for W, b in model.layers(w)]
    layers[0][0][:, idle] = 0.0
    return StoredLayers(
        centre=tuple(centre.tolist()), scale=tuple(scale.tolist()),
        weights=tuple(tuple(tuple(row) for row in W.tolist()) for W, _ in layers),
        biases=tuple(tuple(b.tolist()) for _, b in layers),
        target_centre=target_centre, target_scale=model.target_scale,
    )  # fmt: skip


@lru_cache(4)
def _live(model: LayersModel) -> LiveModule:
    import torch  # here: whoever only sends it around needs none of it

    from shoal.networks.descriptions import described
    from shoal.networks.live import LiveModule
    from shoal.networks.scaled_loss import ScaledTarget

    torch.set_num_threads(1)  # a worker has one core, and sums over several threads have other last bits
    state = torch.get_rng_state()
    try:
        torch.manual_seed(model.start_seed)
        module = _module(model)
    finally:
        torch.set_rng_state(state)
    said, tensors = described(module)
    loss, of_loss = described(ScaledTarget(model.loss, model.target_scale))
    stored = StoredModule(
        "Network", said, {"module": loss}, model.loss, "loss", model.precision, model.parts,
        RowShape((model.width,), False), RowShape((1,), False), NO_ROWS,
    )  # fmt: skip
    tensors |= {f"loss:{name}": one for name, one in of_loss.items()}
    return LiveModule(stored, tensors, model.precision, model.computing)


def _module(model: LayersModel) -> nn.Module:
    from torch import nn

    parts: list[nn.Module] = []
    for after, before in model.shapes:
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
