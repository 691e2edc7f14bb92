"""A run's own copy of the training rows: standardised, shuffled, in shards; made once and found again.

How rows are written and multiplied is in `passes.shards`; steps of training do not belong here.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.cache import Cache, digest
from shoal.data.dataset import Dataset, archived
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data_pipeline import Shards, held_path, shard_path
from shoal.errors import ConfigError, DamagedFile, DataError, Remedy, StateError
from shoal.files import sealed
from shoal.files.checksums import Seal, contents
from shoal.files.locks import hold
from shoal.home import MANIFEST, SHARDS
from shoal.losses.steps import RowExtras
from shoal.models import Array, Integers
from shoal.passes.shards import Deal, Dealt, Gather, Gathered, KnowShards, ShardProduct, dealt_path
from shoal.settings.limits import HELD_BYTES, shard_count
from shoal.solve.least_squares import Standardisation
from shoal.steps.hash_ring import Ring
from shoal.utils import disk_errors

DEALT = "dealt.npz"  # how many rows of each block went to each shard, for those who make one again
SEAL = "dealt"  # what that archive has to be, in the manifest
FORMAT = 2  # of shard files; another number means another cache key
SINGLE_RANGE = 1e30  # float32 holds values up to 3e38, and their products with weights need room
VECTORS = 4  # that power iteration carries along: a pass over the rows costs twice what it costs with one
LEAST_MARGIN, MOST_MARGIN = 0.01, 0.09  # by which the largest eigenvalue is overstated
CONVERGED = 1e-5  # relative residual that is rounding; one of 1 % may still belong to the second eigenvalue


# ------------------------------------------------------------------ the copy


def derive(
    coordinator: Coordinator, dataset: Dataset, encoding: Encoding, split: Split, units: Standardisation, *,
    shards: int = 0, dtype: str = "float32", seed: int = 0, partition: str = "hash",
    class_weight: tuple[float, ...] | None = None,
) -> Shards:  # fmt: skip
    """The shards of these rows: the cached ones if they are whole, else made in two passes.

    The first deals each block's rows out to shards, the second gathers each shard from the blocks and shuffles it.
    """
    if partition not in ("hash", "contiguous"):
        raise ConfigError(f"Expected partition to be hash or contiguous, got '{partition}'. Choose one of these.")
    beside = RowExtras(bool(encoding.weights) or class_weight is not None, encoding.offset is not None)
    row_bytes = (len(encoding.terms) + len(beside.names)) * np.dtype(dtype).itemsize
    count = shard_count(dataset.rows, row_bytes, shards)
    apart = [] if coordinator.engine.maps else ["apart", 3]  # machines that may have no disk in common
    rest: list[Any] = [count, dtype, seed, partition, FORMAT, *apart]
    if beside != RowExtras() or encoding.yes is not None:
        rest.append(_beside_key(encoding, class_weight))
    key = _key(dataset, encoding, split, units, rest)
    found = found_shards(coordinator.cache, coordinator.cache.directory / key)
    how = (
        coordinator, dataset, encoding, split, units, count, dtype, seed, partition, beside.names, class_weight, key,
    )  # fmt: skip
    if found is not None and apart:
        try:
            _ShardMaking(*how, coordinator.cache.directory / key).tell(
                Path(found.directory), _dealt_seal(found.directory)
            )
        except DamagedFile as error:
            coordinator.cache.discard(error)
            found = None
    if found is not None:
        return found
    with coordinator.cache.workshop() as workshop, disk_errors():
        folder = workshop / "shards"
        folder.mkdir()
        making = _ShardMaking(*how, workshop)
        made = {**asdict(making.shards(folder)), "directory": "", SEAL: making.seal}
        sealed.write(folder / MANIFEST, made, of=key)
        placed = found_shards(coordinator.cache, coordinator.cache.place(folder, key))
    if placed is None:
        raise StateError("The shards of the training rows were removed while they were made. Try again.")
    return placed


def _key(dataset: Dataset, encoding: Encoding, split: Split, units: Standardisation, rest: list[Any]) -> str:
    arrays = hashlib.blake2b(digest_size=12)
    for array in (units.centre, units.scale, units.constant):
        arrays.update(np.ascontiguousarray(array).tobytes())
    question = [
        dataset.directory.name, dataset.manifest.content, encoding.as_list(), dict(encoding.known), encoding.target,
        encoding.drop_missing, asdict(split), arrays.hexdigest(), float(units.y_mean).hex(), units.intercept, *rest,
    ]  # fmt: skip
    return f"{SHARDS}{digest(question)}"


def _beside_key(encoding: Encoding, class_weight: tuple[float, ...] | None) -> list[Any]:
    """What else decides what is written of a row beside its columns."""
    offset = encoding.offset
    return [
        encoding.yes, encoding.weights, float(encoding.weight_scale).hex(), asdict(offset) if offset else None,
        [float(share).hex() for share in class_weight or ()],
    ]  # fmt: skip


def found_shards(cache: Cache, directory: Path) -> Shards | None:
    """The shards in a folder, in use while the answer lives; damaged ones are removed, to be made anew."""
    try:
        shards = opened(directory)
    except OSError:
        return None
    except DamagedFile as error:
        cache.discard(error)
        return None
    return shards if hold(directory / MANIFEST, shards) else None


def opened(directory: Path) -> Shards:
    raw = sealed.read(directory / MANIFEST, of=directory.name)
    raw.pop(SEAL, None)
    several: dict[str, Any] = {name: tuple(raw[name]) for name in ("rows", "checksums", "beside") if name in raw}
    shards = Shards(**{**raw, **several, "directory": str(directory)})
    shards.check_sizes()
    return shards


def _dealt_seal(directory: str) -> Seal:
    """What the archive of how rows were dealt out has to be."""
    return Seal(*sealed.read(Path(directory) / MANIFEST, of=Path(directory).name)[SEAL])


class _ShardMaking:
    """The two passes over one data set."""

    def __init__(
        self, coordinator: Coordinator, dataset: Dataset, encoding: Encoding, split: Split, units: Standardisation,
        count: int, dtype: str, seed: int, partition: str, beside: tuple[str, ...],
        class_weight: tuple[float, ...] | None, key: str, workshop: Path,
    ) -> None:  # fmt: skip
        self.key, self.apart = key, not coordinator.engine.maps
        self.coordinator, self.dataset, self.encoding, self.split, self.units = (
            coordinator, dataset, encoding, split, units,
        )  # fmt: skip
        self.workshop, self.count, self.dtype, self.seed = workshop, count, dtype, seed
        self.dealt = workshop / key if self.apart else workshop  # a name that machines know again in a later run
        self.piles = count if partition == "hash" else 1  # in file order, a shard is a range of all rows
        self.width = len(encoding.terms)
        self.beside, self.class_weight = beside, class_weight
        self.seal: Seal | None = None  # of the archive of how rows were dealt out
        self.held_most = max(1, HELD_BYTES // ((self.width + len(beside)) * np.dtype(dtype).itemsize))

    def shards(self, folder: Path) -> Shards:
        self.dealt.mkdir(exist_ok=True)
        counts, checksums, nodes, largest_row = self._deal()
        if self.apart:
            self.seal = archived(folder / DEALT, counts=counts, checksums=checksums, nodes=np.array(nodes))
            self.tell(folder, self.seal)
        held, *shards = self._gather(str(folder), counts, checksums, nodes)
        if held.content is not None:
            held.content.tofile(held_path(str(folder)))
        return Shards(
            str(folder), tuple(made.rows for made in shards), self.width, self.dtype, held.rows, largest_row,
            tuple(made.checksum for made in shards), held.checksum, self.apart, self.beside,
        )  # fmt: skip

    def tell(self, folder: Path, seal: Seal) -> None:
        """Let machines that may have no disk in common know how each shard is made."""
        with np.load(io.BytesIO(contents(str(folder / DEALT), *seal))) as dealt:
            counts, checksums, nodes = dealt["counts"], dealt["checksums"], tuple(dealt["nodes"].tolist())
        _, *shards = self._gathers(str(folder), counts, checksums, nodes)
        self.coordinator.engine.brief(f"{self.key} {self.workshop}", lambda: KnowShards(self.key, tuple(shards)))

    def _deal(self) -> tuple[Integers, Integers, tuple[str, ...], float]:
        """Counts (blocks, piles + 1), the held rows last, with their checksums (blocks, piles + 1, 2); where each block
        was dealt; and the largest squared norm of a training row."""
        dealt: list[Dealt] = list(self.coordinator.swept("standardising", [*self._deals()]))
        counts = np.array([part.counts for part in dealt], np.int64).reshape(-1, self.piles + 1)
        checksums = np.array([part.checksums for part in dealt], np.int64).reshape(-1, self.piles + 1, 2)
        if not counts[:, :-1].any():
            raise DataError("Expected training rows, got none. Choose another target, or keep fewer rows for testing.")
        largest_row = max(part.largest_row for part in dealt)
        self._check_range(np.sqrt(largest_row), max(part.largest_target for part in dealt))
        return counts, checksums, tuple(part.node for part in dealt), largest_row

    def _deals(self) -> Iterator[Deal]:
        thin = max(1, self._expected_tests() // self.held_most)
        for block in self.dataset.blocks:
            target = dealt_path(str(self.dealt), block.index)
            yield Deal(
                str(self.dataset.directory), block, self.encoding, self.split, self.units, self.dtype, self.piles,
                self.seed, thin, target, self.beside, self.class_weight,
            )  # fmt: skip

    def _expected_tests(self) -> int:
        rows, split = self.dataset.rows, self.split
        return rows // split.every if split.every else int(rows * split.fraction)

    def _check_range(self, *largest: float) -> None:
        if self.dtype == "float32" and max(largest) > SINGLE_RANGE:
            raise ConfigError(
                f"Expected values up to {SINGLE_RANGE:g} for single precision, got {max(largest):.2g}. "
                "Scale the columns.",
                Remedy.set("Or use double precision", "precision", "float64"),
            )

    def _gather(
        self, folder: str, counts: Integers, checksums: Integers, nodes: tuple[str, ...]
    ) -> list[Gathered]:  # fmt: skip
        """What the rows kept for testing have come to, then each shard."""
        made: list[Gathered] = []
        for report in self.coordinator.engine.sweep(self._gathers(folder, counts, checksums, nodes)):
            made.append(report)
            self.coordinator.progress("shuffling", len(made) / (self.count + 1))
        return made

    def _gathers(
        self, folder: str, counts: Integers, checksums: Integers, nodes: tuple[str, ...]
    ) -> Iterator[Gather]:  # fmt: skip
        """One by one, since each names its part of every block; the held rows first, as they may be the most."""
        rest = (str(self.dealt), self.width, self.dtype)
        parts = functools.partial(_parts, counts, checksums)
        deal = next(self._deals()) if self.apart else None
        known = (deal, self.key)
        beside = len(self.beside)
        yield Gather(
            parts(self.piles), *rest, held_path(folder), None, self.held_most, *known, self.apart, beside, nodes
        )
        ring = Ring(range(self.coordinator.engine.workers))  # as the policy of a run has it
        owners = {shard: rank for rank, owned in ring.assign(self.count).items() for shard in owned}
        for shard, part in enumerate(self._ranges(parts, counts) if self.piles < self.count else self._piles(parts)):
            yield Gather(
                part, *rest, shard_path(folder, shard), (self.seed, shard), 0, *known, beside=beside, nodes=nodes,
                owner=owners[shard],
            )  # fmt: skip

    def _piles(self, parts: Callable[..., Integers]) -> Iterator[Integers]:
        """Each shard is a pile of every block."""
        return (parts(shard) for shard in range(self.count))

    def _ranges(self, parts: Callable[..., Integers], counts: Integers) -> Iterator[Integers]:
        """Each shard is equally many rows of the one pile of all blocks, in file order."""
        inside = counts[:, 0]
        before, total = np.cumsum(inside) - inside, int(inside.sum())
        ends = (np.clip(edge * total // self.count - before, 0, inside) for edge in range(self.count + 1))
        return (parts(0, first, last) for first, last in itertools.pairwise(ends))


def _parts(
    counts: Integers, checksums: Integers, pile: int, first: Integers | None = None, last: Integers | None = None
) -> Integers:
    """What `Gather` takes of a pile of every block: all of its rows, or those from `first` to `last`, if any."""
    start, rows = counts[:, :pile].sum(axis=1), counts[:, pile]
    first, last = np.zeros_like(rows) if first is None else first, rows if last is None else last
    blocks, totals = np.arange(len(counts)), counts.sum(axis=1)
    every = np.column_stack((blocks, totals, start, rows, first, last - first, checksums[:, pile]))
    return every[last > first]


# ------------------------------------------------------------------ what the rows say


def top_eigenvalue(coordinator: Coordinator, shards: Shards, passes: int = 8, seed: int = 0) -> float:
    """The largest eigenvalue of Xs'Xs/n, overstated by 1 to 9 %: practically an upper bound.

    Power iteration with a few vectors, of which all powers are kept (block Krylov): the largest Ritz value on their
    span. It never exceeds the eigenvalue, and nears it as fast where the next ones are close, since each of them
    will do. Its residual, which is far larger than its error, is the margin, within limits.
    """
    n, width = max(shards.total, 1), shards.width
    basis, image = np.empty((width, 0)), np.empty((width, 0))
    block = np.linalg.qr(np.random.default_rng(seed).standard_normal((width, min(VECTORS, width))))[0]
    value = residual = 0.0
    for _ in range(passes):
        product = _product(coordinator, shards, block) / n
        basis, image = np.hstack((basis, block)), np.hstack((image, product))
        value, residual = _top_ritz(basis, image)
        room = width - basis.shape[1]
        if residual <= CONVERGED * value or room == 0:
            break
        block = _orthogonal(basis, product)[:, :room]
    return value * (1 + float(np.clip(residual / value, LEAST_MARGIN, MOST_MARGIN))) if value > 0 else 0.0


def _product(coordinator: Coordinator, shards: Shards, V: Array) -> Array:
    """Xs'Xs V, the shards' parts added in their order."""
    total = np.zeros_like(V)
    for part in coordinator.swept("measuring curvature", [ShardProduct(shards, s, V) for s in range(len(shards.rows))]):
        total += part
    return total


def _top_ritz(basis: Array, image: Array) -> tuple[float, float]:
    """The largest Ritz value of A on an orthonormal basis Q, given A Q, and the norm of its residual."""
    small = basis.T @ image
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    rest = image @ vectors[:, -1] - values[-1] * (basis @ vectors[:, -1])
    return max(float(values[-1]), 0.0), float(np.linalg.norm(rest))


def _orthogonal(basis: Array, block: Array) -> Array:
    """The part of a block outside a basis, orthonormal; twice, since once leaves rounding."""
    for _ in range(2):
        block = np.linalg.qr(block - basis @ (basis.T @ block))[0]
    return block
