"""A study: what a table says to every what-if, kept in a folder. Rows are summed in `fitting.summing`.

It holds the sums of fold cells, and what resampling needs: all training rows of a small table, else the sums of some
hundred random buckets of rows.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.encoding import Encoding, encoding_from
from shoal.errors import ConfigError, DamagedFile, ResourceError, StateError
from shoal.files import sealed
from shoal.files.checksums import Seal, mapped, written
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.values import config_from
from shoal.solve.moments import Moments
from shoal.utils import disk_errors
from shoal.whatif.cells import CellMoments, Factors
from shoal.whatif.folds import FoldChoice

NAME, VERSION = "shoal-study", 2
SUMMARY = "study.json"
HEADER = 4096  # bytes that the header of an array file may have; ours have 128


@dataclass(frozen=True, eq=False)
class Buckets:
    """Sums over the rows of each of B random parts of the training rows, of z = (base terms..., target) less origin:
    counts (B,), sums (B, q) and squares (B, q, q) of the products of any two."""

    origin: Array
    counts: Array
    sums: Array
    squares: Array

    @classmethod
    def of(cls, parts: Sequence[Moments], origin: Array) -> Buckets:
        filled = [part for part in parts if part.n]
        counts = np.array([part.n for part in filled])
        off = np.array([part.mean - origin for part in filled])
        squares = np.array([part.scatter for part in filled])
        for i in range(len(filled)):  # one at a time: all of them at once would take the memory twice
            squares[i] += counts[i] * np.outer(off[i], off[i])
        return cls(origin, counts, counts[:, None] * off, squares)

    def take(self, places: Sequence[int] | None) -> Buckets:
        """Some of the terms, as `CellMoments.places` names them."""
        if places is None:
            return self
        index = np.asarray(places, np.intp)
        return Buckets(
            self.origin[index], self.counts, self.sums[:, index], self.squares[:, index[:, None], index[None, :]]
        )


@dataclass(frozen=True, eq=False)
class RowSample:
    """All training rows Z (n, q) of (base terms..., target), and the fold cell of each."""

    Z: Array
    cell: npt.NDArray[np.int64]

    def take(self, places: Sequence[int] | None) -> RowSample:
        return self if places is None else RowSample(self.Z[:, np.asarray(places, np.intp)], self.cell)


@dataclass(frozen=True, eq=False)
class Study:
    """The cells, what is to be said about the columns, the mark of the data, and what resampling draws from."""

    cells: CellMoments
    notes: tuple[str, ...]
    content: str
    sample: Buckets | RowSample | None = None
    directory: Path | None = None  # where the sample is read from when it is first asked for
    seals: Mapping[str, Seal] = field(default_factory=dict)  # of the array files there

    @property
    def size(self) -> int:
        """Bytes of its arrays in its folder, which are mapped; 0 for one that is in none."""
        return sum(seal.size for seal in self.seals.values())

    @cached_property
    def drawn_from(self) -> Buckets | RowSample | None:
        """None where neither rows nor buckets were kept: there are too many columns for that."""
        if self.sample is not None or self.directory is None:
            return self.sample
        return _open_sample(self.directory, self.seals)

    @property
    def buckets(self) -> Buckets | None:
        return self.drawn_from if isinstance(self.drawn_from, Buckets) else None

    @property
    def rows(self) -> RowSample | None:
        return self.drawn_from if isinstance(self.drawn_from, RowSample) else None


# ---- in a folder


def save_study(directory: Path, study: Study) -> None:
    """Arrays first: the summary is there only when everything else is."""
    cells = study.cells
    if cells.places is not None:
        raise ValueError("expected the study as it was summed, got a part of it")
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with disk_errors("the sums of the folds"):
            seals = {name: _save(directory, name, array) for name, array in _arrays(study)}
            sealed.write(directory / SUMMARY, {**_summary(study), "arrays": seals}, of=directory.name)
    except (OSError, ResourceError):
        for path in directory.glob("*.npy"):  # on a full disk, a hundred MB that nobody can use
            path.unlink(missing_ok=True)
        raise


def _arrays(study: Study) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    cells = study.cells
    together = [*cells.cells, cells.held]
    yield "cell_counts", np.array([cell.n for cell in together])
    yield "cell_means", np.array([cell.mean for cell in together])
    yield "cell_scatters", np.array([cell.scatter for cell in together])
    if cells.factors:
        yield "factor_origin", cells.factors.origin
        yield "factor_triangles", np.array(cells.factors.triangles)
    if study.sample is not None:
        kind = "bucket" if isinstance(study.sample, Buckets) else "row"
        for part in dataclasses.fields(study.sample):
            yield f"{kind}_{part.name}", getattr(study.sample, part.name)


def open_study(directory: Path) -> Study:
    """The study of a folder, all of it proven; what is in its sample is only looked at when it is asked for."""
    try:
        summary = sealed.read(directory / SUMMARY, of=directory.name, older=lambda values: values.get("version") == 1)
        if (summary.get("format"), summary.get("version")) != (NAME, VERSION):
            raise StateError("Expected a study of this version of Shoal, got another. Make it anew.")
        seals = {name: Seal(*seal) for name, seal in summary["arrays"].items()}
        for name in seals:
            _load(directory, name, seals)
        cells = _cells(directory, summary, seals)
        return Study(cells, tuple(summary["notes"]), summary["content"], directory=directory, seals=seals)
    except DamagedFile as error:
        raise DamagedFile(f"{error.message} Make the study anew.", path=error.path, identity=error.identity) from None
    except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:  # a knob of a later program
        raise StateError(f"The study in '{directory.name}' cannot be read ({error}). Make it anew.") from None


def _summary(study: Study) -> dict[str, Any]:
    cells, base = study.cells, study.cells.base
    return {
        "format": NAME,
        "version": VERSION,
        "content": study.content,
        "notes": list(study.notes),
        "config": dataclasses.asdict(cells.config),
        "terms": base.as_list(),
        "known_levels": {name: list(levels) for name, levels in base.known.items()},
        "target": base.target,
        "drop_missing": base.drop_missing,
        "choice": dataclasses.asdict(cells.choice),
        "medians": [dict(medians) for medians in cells.medians],
        "gaps": sorted(cells.gaps),
    }


def _cells(directory: Path, summary: dict[str, Any], seals: Mapping[str, Seal]) -> CellMoments:
    arrays = [_load(directory, f"cell_{name}", seals) for name in ("counts", "means", "scatters")]
    *cells, held = (
        Moments(float(n), np.array(mean), np.array(scatter)) for n, mean, scatter in zip(*arrays, strict=True)
    )
    encoding = encoding_from(summary["terms"], summary["known_levels"])
    weights = summary["config"].get("weights", "")
    base = Encoding(encoding.terms, encoding.known, summary["target"], summary["drop_missing"], weights=weights)
    factors = None
    if "factor_origin" in seals:
        triangles = tuple(np.array(T) for T in _load(directory, "factor_triangles", seals))
        factors = Factors(np.array(_load(directory, "factor_origin", seals)), triangles)
    choice = FoldChoice(**summary["choice"])
    config = config_from(summary["config"])
    medians = tuple(summary["medians"])
    return CellMoments(config, base, choice, tuple(cells), held, medians, frozenset(summary["gaps"]), factors)


def _open_sample(directory: Path, seals: Mapping[str, Seal]) -> Buckets | RowSample | None:
    kinds: tuple[tuple[str, type[RowSample | Buckets]], ...] = (("row", RowSample), ("bucket", Buckets))
    for kind, sample in kinds:
        names = [f"{kind}_{part.name}" for part in dataclasses.fields(sample)]
        if names[0] in seals:
            return sample(*(_load(directory, name, seals) for name in names))
    return None


def _save(directory: Path, name: str, array: npt.NDArray[Any]) -> Seal:
    """As np.save, which does not tell why it could not write."""
    array, header = np.ascontiguousarray(array), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    with (directory / f"{name}.npy").open("wb", buffering=0) as file:
        return written(file, (np.frombuffer(header.getvalue(), np.uint8), array))


def _load(directory: Path, name: str, seals: Mapping[str, Seal]) -> npt.NDArray[Any]:
    """Mapped, and proven when this process first asks."""
    data = mapped(str(directory / f"{name}.npy"), *seals[name])
    header = io.BytesIO(data[:HEADER].tobytes())
    np.lib.format.read_magic(header)
    shape, _, dtype = np.lib.format.read_array_header_1_0(header)
    return data[header.tell() :].view(dtype).reshape(shape)
