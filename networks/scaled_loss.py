"""A loss of targets in units of their spread: networks learn numbers about 1, whatever a target is measured in."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ScaledTarget(nn.Module):
    """loss(output, target / scale), by the name of a function of `torch.nn.functional`."""

    def __init__(self, loss: str, scale: float) -> None:
        super().__init__()
        self.loss, self.scale = loss, scale

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        found: Tensor = getattr(torch.nn.functional, self.loss)(output, target / self.scale)
        return found
