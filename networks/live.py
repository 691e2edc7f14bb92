"""A module in a process that computes with it: its gradient of a batch, its loss and score of rows.

The parameters come with every question; so do statistics of batches where rows are only looked at. Nothing that was
computed before decides an answer, so whoever is asked gives the same bits.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import traceback
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
from torch import Tensor, nn

from shoal.errors import DataError, TrainingError
from shoal.models import Array, Values
from shoal.networks.allocating import keep_memory
from shoal.networks.code import named
from shoal.networks.compiling import bound_memory, compiled, keep_compiled
from shoal.networks.computing import PLAIN, Computing
from shoal.networks.descriptions import rebuilt
from shoal.networks.saving_memory import keep_less
from shoal.networks.stored import RowShape, StoredModule, read_module, start_of

EVALUATED = 512  # rows that are looked at together
LONGEST = 500  # letters of what PyTorch or a person's code says of a fault
ALONE = (
    "Expected more than 1 value per channel"  # PyTorch's word on one row that batch norm has nothing to compare with
)
Statistics = Mapping[str, npt.NDArray[Any]]


@contextlib.contextmanager
def own_faults(doing: str) -> Iterator[None]:
    """What goes wrong in a person's module or loss, or with their rows, in plain words; the log has the trace."""
    try:
        yield
    except (TrainingError, MemoryError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a person's code may raise anything
        said = " ".join(str(error).split())[:LONGEST].rstrip(".")
        plain = DataError(
            f"The module, its loss or a row is at fault: {doing} failed with {type(error).__name__}: {said}. "
            "Mend it and train again; the log has the lines of code."
        )
        plain.add_note("".join(traceback.format_exception(error)))
        raise plain from None


class RowSums(NamedTuple):
    """What some rows come to; errors and targets by column of the target, where these are numbers."""

    rows: int
    loss: float
    right: float
    squares: float
    y: Array
    y_squares: Array

    def plus(self, other: RowSums) -> RowSums:
        return RowSums(
            self.rows + other.rows, self.loss + other.loss, self.right + other.right, self.squares + other.squares,
            self.y + other.y, self.y_squares + other.y_squares,
        )  # fmt: skip

    def score(self, kind: str) -> float | None:
        """The higher the better, 1 the best; None where there is none."""
        if not self.rows:
            return None
        if kind in ("accuracy", "yes", "probability"):
            return self.right / self.rows
        spread = float((self.y_squares - self.y**2 / self.rows).sum())
        return 1 - self.squares / spread if kind == "r2" and spread > 0 else None


@functools.lru_cache(4)
def live(file: str, precision: str, computing: Computing = PLAIN) -> LiveModule:
    """The module of a document, in a process that trains: loaded once."""
    keep_memory()
    torch.set_num_threads(1)  # a worker has one core, and sums over several threads have other last bits
    return loaded(file, precision, computing)


def loaded(file: str, precision: str, computing: Computing = PLAIN) -> LiveModule:
    return LiveModule(read_module(file), safetensors.torch.load(start_of(file)), precision, computing)


class LiveModule:
    def __init__(
        self, stored: StoredModule, tensors: Mapping[str, Tensor], precision: str, computing: Computing = PLAIN
    ) -> None:
        self.stored, self.dtype, self.computing = stored, getattr(torch, precision), computing
        self.device = torch.device(computing.device)
        bound_memory(computing)
        self.module = rebuilt(stored.module, tensors).to(self.device, self.dtype)
        self.loss = loss_of(stored.loss, tensors, self.dtype, self.device)
        self.keeps_less = computing.checkpointing and keep_less(self.module)
        self._compiled = compiled(self.module, computing)
        self._parameters = [(name, one) for name, one in self.module.named_parameters() if one.requires_grad]
        ends = np.cumsum([0, *(one.numel() for _, one in self._parameters)]).tolist()
        self._places = list(itertools.pairwise(ends))
        self.size = ends[-1]
        self.start: Array = np.zeros(self.size)  # as it was stored, whatever this process trains meanwhile
        for (_, one), (begin, end) in zip(self._parameters, self._places, strict=True):
            self.start[begin:end] = one.detach().double().reshape(-1).cpu().numpy()
        self._flat = torch.empty(self.size, dtype=self.dtype)  # where weights of any kind become those of the module
        self._learnt = [one for _, one in self._parameters]
        self._sources = [
            self._flat[begin:end].view(one.shape) for one, (begin, end) in zip(self._learnt, self._places, strict=True)
        ]
        self._taken: tuple[Array | None, list[int]] = None, []  # weights, and what the parameters were after them
        self._buffers = [(owner, name, one, one.clone()) for owner, name, one in _buffers(self.module)]
        self._versions = [one._version for _, _, one, _ in self._buffers]
        self._flags = [(one, one.training or not self.module.training) for one in self.module.modules()]

    # ---------------------------------------------------------------- one batch

    def seed(self, *place: int) -> None:
        """Before a gradient: of which batch it is decides what dropout and the like draw.

        `torch.manual_seed` also tells devices that are not there, and notes the whole stack each time: milliseconds.
        """
        number = int.from_bytes(blake2b(repr(place).encode(), digest_size=8).digest(), "big") >> 1
        torch.default_generator.manual_seed(number)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(number)

    def gradient(self, X: Values, y: Values, w: Array) -> tuple[Array, float]:
        """Summed over the rows: the gradient (size,) of their losses, and what these come to."""
        out = np.zeros(self.size)
        if not len(y):
            return out, 0.0
        self.take(w)
        self._as_it_came()
        self._learning()
        with own_faults(f"a batch of {len(y):,} {'row' if len(y) == 1 else 'rows'}"):
            loss = self._loss_of(X, y)
            if loss.requires_grad or len(y) > 1:
                loss.backward()  # type: ignore[no-untyped-call]
        for (_, one), (begin, end) in zip(self._parameters, self._places, strict=True):
            if one.grad is not None:
                out[begin:end] = one.grad.detach().reshape(-1).cpu().numpy()
                one.grad = None
        out *= len(y)
        return out, float(loss.detach()) * len(y)

    def _learning(self) -> None:
        for part, training in self._flags:
            if part.training != training:  # writing it takes ten times as long
                part.training = training

    def _loss_of(self, X: Values, y: Values) -> Tensor:
        """The mean of a batch. Of one row on which batch norm has nothing to say, nothing is learnt: a shard may have
        such a last batch."""
        try:
            return self._mean_loss(self._output(self._inputs(X)), self._targets(y))
        except ValueError as error:
            if len(y) > 1 or ALONE not in str(error):
                raise
        twice = [0, 0]
        with torch.no_grad():
            return self._mean_loss(self.module(*self._inputs(X[twice])), self._targets(y[twice]))

    def needs_company(self, X: Values) -> bool:
        """Whether nothing can be learnt from one row."""
        self._as_it_came()
        self._learning()
        try:
            with torch.no_grad():
                self.module(*self._inputs(X[:1]))
        except ValueError as error:
            return ALONE in str(error)
        finally:
            self._as_it_came()
        return False

    def _output(self, rows: Sequence[Tensor]) -> Tensor:
        """Of a batch that is learnt from; rows that are only looked at are computed plainly."""
        module = self._compiled if self._compiled is not None and len(rows[0]) == self.computing.full else self.module
        if not self.computing.mixed:
            return module(*rows)  # type: ignore[no-any-return]
        with torch.autocast(self.device.type, torch.bfloat16):
            output: Tensor = module(*rows)
        return output.to(self.dtype)

    def uncompiled(self) -> str:
        """Why the module cannot be compiled here; empty where it can. A try with a full batch of zeros, whose code
        other processes find on disk."""
        if self._compiled is None:
            return ""
        try:
            rows = np.zeros((self.computing.full, self.stored.row.size))
            self._learning()
            self._output(self._inputs(rows)).sum().backward()  # type: ignore[no-untyped-call]
            keep_compiled()
        except Exception as error:  # noqa: BLE001 - compilers and their tools fail in many ways
            return (str(error).strip().splitlines() or [type(error).__name__])[0]
        finally:
            self.module.zero_grad(set_to_none=True)
            self._as_it_came()
        return ""

    def take(self, w: Array) -> None:
        """Weights that nobody can write to are taken once for all batches that they are for."""
        taken, versions = self._taken
        if taken is w and not w.flags.writeable and versions == [one._version for one in self._learnt]:
            return
        self._flat.numpy()[:] = w
        with torch.no_grad():
            for one, source in zip(self._learnt, self._sources, strict=True):
                one.copy_(source)
        self._taken = w, [one._version for one in self._learnt]

    def _as_it_came(self) -> None:
        """Buffers as they were stored: no batch is to know of another one that this process saw before."""
        for place, (owner, name, one, start) in enumerate(self._buffers):
            if one._version != self._versions[place] or owner._buffers[name] is not one:
                with torch.no_grad():
                    one.copy_(start)
                owner._buffers[name] = one
                self._versions[place] = one._version

    def _mean_loss(self, output: Tensor, target: Tensor) -> Tensor:
        loss: Tensor = self.loss(output, target)
        return loss.mean() if loss.ndim else loss

    def _inputs(self, X: Values) -> tuple[Tensor, ...]:
        """What forward() is called with: the rows, or, of a module with several inputs, their part of each."""
        several = self.stored.row.inputs
        if not several:
            return (self._tensor(X, self.stored.row),)
        ends = itertools.accumulate(one.size for one in several)
        return tuple(self._tensor(X[:, end - one.size : end], one) for one, end in zip(several, ends, strict=True))

    def _targets(self, y: Values) -> Tensor:
        return self._tensor(y, self.stored.target)

    def _tensor(self, values: Values, of: RowShape) -> Tensor:
        """A copy: mapped rows cannot be written to, and its memory begins where it does in every process."""
        made = torch.empty(values.shape, dtype=torch.int64 if of.whole else self.dtype)
        made.numpy()[...] = values
        return made.reshape(len(values), *of.shape).to(self.device)

    # ---------------------------------------------------------------- rows that are only looked at

    def statistics(self, batches: Sequence[Values], w: Array) -> dict[str, npt.NDArray[Any]]:
        """Running statistics of normalising layers at w: means over these batches, whatever was seen on the way there.

        As Wu and Johnson (2021, "Rethinking batch in batchnorm") have it; by the name of the buffer, and empty for a
        module without such layers.
        """
        layers = {name: one for name, one in self.module.named_modules() if _keeps_statistics(one)}
        if not layers:
            return {}
        self.take(w)
        self._as_it_came()
        self.module.eval()
        usual = {name: one.momentum for name, one in layers.items()}
        for one in layers.values():
            one.reset_running_stats()
            one.momentum, one.training = None, True
        self.seed(0)
        with torch.no_grad():
            for batch in batches:
                self.module(*self._inputs(batch))
        found: dict[str, npt.NDArray[Any]] = {}
        for name, one in layers.items():
            one.momentum = usual[name]
            found |= {f"{name}.{key}" if name else key: of.cpu().numpy().copy() for key, of in one.named_buffers()}
        return found

    def sums(self, X: Values, y: Values, w: Array, statistics: Statistics) -> RowSums:
        """Of rows that are not trained on, or not any more."""
        self.take(w)
        self._as_it_came()
        self.module.eval()
        looking = own_faults(f"looking at {len(y):,} rows")
        with self._with(statistics), torch.no_grad(), looking:
            self.seed(0)
            total = self._sums(X[:0], y[:0])
            for start in range(0, len(y), EVALUATED):
                total = total.plus(self._sums(X[start : start + EVALUATED], y[start : start + EVALUATED]))
        return total

    def outputs(self, X: Values, w: Array) -> Array:
        """What the module says of rows (n, outputs), where it keeps no statistics of batches."""
        self.take(w)
        self._as_it_came()
        self.module.eval()
        with own_faults(f"looking at {len(X):,} rows"), torch.no_grad():
            self.seed(0)
            parts = [self.module(*self._inputs(X[at : at + EVALUATED])) for at in range(0, len(X), EVALUATED)]
            found: Array = torch.cat([one.double().reshape(len(one), -1) for one in parts]).cpu().numpy()
        return found

    def _sums(self, X: Values, y: Values) -> RowSums:
        nothing = np.zeros(self.stored.target.size)
        if not len(y):
            return RowSums(0, 0.0, 0.0, 0.0, nothing, nothing)
        output, target = self.module(*self._inputs(X)), self._targets(y)
        loss = float(self._mean_loss(output, target)) * len(y)
        kind = self.stored.score
        if kind == "r2":
            actual = target.double().reshape(len(y), -1).cpu().numpy()
            squares = float(((output.double().reshape(len(y), -1).cpu().numpy() - actual) ** 2).sum())
            return RowSums(len(y), loss, 0.0, squares, actual.sum(axis=0), (actual**2).sum(axis=0))
        return RowSums(len(y), loss, _right(kind, output, target), 0.0, nothing, nothing)

    @contextlib.contextmanager
    def _with(self, statistics: Statistics) -> Iterator[None]:
        """Buffers of these values; those that came are put back before the next batch."""
        known = dict(self.module.named_buffers())
        for name, values in statistics.items():
            known[name].copy_(torch.from_numpy(values))
        yield

    def tensors(self, w: Array, statistics: Statistics) -> dict[str, Tensor]:
        """All that a module of these parameters has, by the names of its `state_dict`."""
        self.take(w)
        self._as_it_came()
        with self._with(statistics):
            return {name: one.detach().cpu().clone().contiguous() for name, one in self.module.state_dict().items()}


def _right(kind: str, output: Tensor, target: Tensor) -> float:
    """How many rows are predicted correctly; of rows with several targets, the share of these."""
    if kind not in ("accuracy", "yes", "probability"):
        return 0.0
    if kind == "accuracy":
        hits = output.argmax(1) == target
    else:
        hits = (output > (0.0 if kind == "yes" else 0.5)) == (target > 0.5)
    return float(hits.double().reshape(len(target), -1).mean(1).sum())


def _keeps_statistics(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._NormBase) and module.running_mean is not None


def _buffers(module: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    for owner in module.modules():
        for name, one in owner._buffers.items():
            if one is not None:
                yield owner, name, one


def loss_of(found: Mapping[str, Any], tensors: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device) -> Any:
    """A loss that was stored: a function by its name, or a module; its tensors stand beside those of the module."""
    if "named" in found:
        return named(found["named"])
    own = {name.removeprefix("loss:"): one for name, one in tensors.items() if name.startswith("loss:")}
    return rebuilt(found["module"], own).to(device, dtype)
