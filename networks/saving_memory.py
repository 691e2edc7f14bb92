"""Gradient checkpointing of a module that this process made for itself: the same gradients with less kept of a batch.

A chain of n layers (`nn.Sequential`) is cut into about sqrt(n) stretches; of each only what goes in is kept, and on the
way back it is computed again, with the same random numbers. Layers that remember something between batches in buffers
of their own, other than statistics for later, would not compute the same twice and are left as they are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def keep_less(module: nn.Module) -> bool:
    """Let the outermost chains of a module keep less; whether there are any."""
    chains = list(_chains(module))
    for chain in chains:
        length = math.ceil(math.sqrt(len(chain)))
        stretches = [nn.Sequential(*list(chain)[start : start + length]) for start in range(0, len(chain), length)]
        chain.forward = functools.partial(_forward, stretches)  # type: ignore[method-assign]
    return bool(chains)


def _chains(module: nn.Module) -> Iterator[nn.Sequential]:
    if type(module).forward is nn.Sequential.forward and isinstance(module, nn.Sequential) and len(module) > 1:
        yield module
        return
    for child in module.children():
        yield from _chains(child)


def _forward(stretches: Sequence[nn.Sequential], x: Tensor) -> Tensor:
    for stretch in stretches:
        again = stretch[0].training and not any(map(_remembers, stretch.modules()))
        x = checkpoint(_computed, stretch, x, use_reentrant=False) if again else stretch(x)
    return x


def _computed(stretch: nn.Sequential, x: Tensor) -> Tensor:
    """What goes in is needed once more as it was, so layers that write into it get a copy."""
    writes = any(getattr(layer, "inplace", False) for layer in stretch.modules())
    found: Tensor = stretch(x.clone() if writes else x)
    return found


def _remembers(layer: nn.Module) -> bool:
    norm = isinstance(layer, nn.modules.batchnorm._NormBase)
    return not norm and any(one is not None for one in layer._buffers.values())
