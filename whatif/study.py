"""A study: what a table says to every what-if, kept in a folder. Rows are summed in `fitting.summing`.

It holds the sums of fold cells, and what resampling needs: all training rows of a small table, else the sums of some
hundred random buckets of rows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.encoding import Encoding, encoding_from
from shoal.errors import ResourceError, StateError
from shoal.models import Array
from shoal.settings.values import config_from
from shoal.solve.moments import Moments
from shoal.utils import disk_errors, write_atomically
from shoal.whatif.cells import CellMoments, Factors
from shoal.whatif.folds import FoldChoice

NAME, VERSION = "shoal-study", 1
SUMMARY = "study.json"


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

    @cached_property
    def drawn_from(self) -> Buckets | RowSample | None:
        """None where neither rows nor buckets were kept: there are too many columns for that."""
        if self.sample is not None or self.directory is None:
            return self.sample
        return _open_sample(self.directory)

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
            _save_arrays(directory, study)
            write_atomically(directory / SUMMARY, json.dumps(_summary(study), ensure_ascii=False).encode())
    except (OSError, ResourceError):
        for path in directory.glob("*.npy"):  # on a full disk, a hundred MB that nobody can use
            path.unlink(missing_ok=True)
        raise


def _save_arrays(directory: Path, study: Study) -> None:
    cells = study.cells
    together = [*cells.cells, cells.held]
    _save(directory, "cell_counts", np.array([cell.n for cell in together]))
    _save(directory, "cell_means", np.array([cell.mean for cell in together]))
    _save(directory, "cell_scatters", np.array([cell.scatter for cell in together]))
    if cells.factors:
        _save(directory, "factor_origin", cells.factors.origin)
        _save(directory, "factor_triangles", np.array(cells.factors.triangles))
    if study.sample is not None:
        kind = "bucket" if isinstance(study.sample, Buckets) else "row"
        for field in dataclasses.fields(study.sample):
            _save(directory, f"{kind}_{field.name}", getattr(study.sample, field.name))


def open_study(directory: Path) -> Study:
    """The study of a folder; its sample is only looked at when it is asked for."""
    try:
        summary = json.loads((directory / SUMMARY).read_bytes())
        if (summary.get("format"), summary.get("version")) != (NAME, VERSION):
            raise StateError("Expected a study of this version of Shoal, got another. Make it anew.")
        return Study(_cells(directory, summary), tuple(summary["notes"]), summary["content"], directory=directory)
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
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


def _cells(directory: Path, summary: dict[str, Any]) -> CellMoments:
    arrays = [_load(directory, f"cell_{name}") for name in ("counts", "means", "scatters")]
    *cells, held = (
        Moments(float(n), np.array(mean), np.array(scatter)) for n, mean, scatter in zip(*arrays, strict=True)
    )
    encoding = encoding_from(summary["terms"], summary["known_levels"])
    base = Encoding(encoding.terms, encoding.known, summary["target"], summary["drop_missing"])
    factors = None
    if (directory / "factor_origin.npy").exists():
        triangles = tuple(np.array(T) for T in _load(directory, "factor_triangles"))
        factors = Factors(np.array(_load(directory, "factor_origin")), triangles)
    choice = FoldChoice(**summary["choice"])
    config = config_from(summary["config"])
    medians = tuple(summary["medians"])
    return CellMoments(config, base, choice, tuple(cells), held, medians, frozenset(summary["gaps"]), factors)


def _open_sample(directory: Path) -> Buckets | RowSample | None:
    try:
        if (directory / "row_Z.npy").exists():
            return RowSample(*(_load(directory, f"row_{name}") for name in ("Z", "cell")))
        if (directory / "bucket_origin.npy").exists():
            return Buckets(*(_load(directory, f"bucket_{name}") for name in ("origin", "counts", "sums", "squares")))
    except (OSError, ValueError, EOFError) as error:
        raise StateError(f"The study in '{directory.name}' cannot be read ({error}). Make it anew.") from None
    return None


def _save(directory: Path, name: str, array: npt.NDArray[Any]) -> None:
    """As np.save, which does not tell why it could not write."""
    array = np.ascontiguousarray(array)
    with (directory / f"{name}.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def _load(directory: Path, name: str) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = np.load(directory / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return found
