"""What a model file says: the report of its fit, how columns become terms, the knobs and the data it came from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.files.packing import packed, unpacked
from shoal.lazy.classes import dataclass
from shoal.results.fit import FitReport
from shoal.results.network import StoredLayers
from shoal.results.plain import Malformed, plain, read

NAME = "shoal-model"
# What older programs read as well; and what they cannot, so that they say so. Models of dates without WITH_DATES have
# coefficients per second.
VERSION, WITH_PRODUCTS, WITH_DATES, WITH_LOSS, WITH_SHAPES, WITH_OFFSET, WITH_CLASSES, WITH_RARE = range(1, 9)
WITH_NETWORK, WITH_HASHES, WITH_PACKED = 9, 10, 11
VERSIONS = (
    VERSION,
    WITH_PRODUCTS,
    WITH_DATES,
    WITH_LOSS,
    WITH_SHAPES,
    WITH_OFFSET,
    WITH_CLASSES,
    WITH_RARE,
    WITH_NETWORK,
    WITH_HASHES,
    WITH_PACKED,
)

BY_HAND = "none"  # what stands in place of a checksum where a person has edited a file on purpose
END = 100  # bytes at the end of a model file, in which its checksum is
_LAST_FIELD = re.compile(rb'"%s": ?"([0-9a-f]{8})"\s*}\s*$' % sealed.CHECKSUM.encode())
ADVICE = (
    "Use another copy of it, or train again. Whoever has edited it on purpose puts "
    f'"{BY_HAND}" in place of its {sealed.CHECKSUM}.'
)


@dataclass(frozen=True)
class TrainingColumn:
    """What a column was like in training, to tell how far later rows are from it: of numbers the `edges` between bins
    of about as many rows each, of texts the commonest `levels`; `shares` are those of the bins, or of the levels and
    then of all others, among rows with a value."""

    rows: int  # that were looked at
    missing: float  # share of rows without a value
    shares: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()
    levels: tuple[str, ...] | None = None  # None of numbers
    mean: float | None = None
    deviation: float | None = None


@dataclass(frozen=True)
class Design:
    """The terms of the model as `data.encoding` writes them, and all levels of text columns that were seen; `usual` are
    those that most training rows have."""

    terms: tuple[dict[str, Any], ...] = ()
    known_levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    usual: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)  # columns of numbers, by an example of how they were written
    seen: dict[str, tuple[float, float]] = field(default_factory=dict)  # smallest and largest of each; dates in days
    columns: dict[str, TrainingColumn] = field(default_factory=dict)  # of files from before: none


@dataclass(frozen=True)
class OriginPart:
    """One of several files that are one table."""

    file: str
    rows: int
    content: str


@dataclass(frozen=True)
class Origin:
    """The data that a model was fitted to: the file's name, a fingerprint of its content, and its rows; and the same of
    each of several files that were one table."""

    file: str = ""
    content: str = ""
    rows: int = 0
    parts: tuple[OriginPart, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if name != "parts" or value}


@dataclass(frozen=True)
class ModelFile:
    """All that a model file says. `more` are names that this program does not know; they are kept."""

    report: FitReport
    design: Design
    config: dict[str, Any]
    data: Origin = Origin()
    version: int = VERSION
    layers: StoredLayers | None = None  # of a network, in place of coefficients
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return self.report.target

    def as_dict(self) -> dict[str, Any]:
        """The object that is written: what it is, the answer, how columns become terms, where it came from."""
        parts = {"design": plain(self.design), "config": self.config, "data": self.data.as_dict()}
        if self.layers is not None:
            parts["layers"] = plain(self.layers)
        return {"format": NAME, "version": self.version, **self.report.as_dict(), **parts, **self.more}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelFile:
        """Raises `Malformed` with the name of what is missing or wrong."""
        config = values.get("config") or {}
        if not isinstance(config, Mapping):
            raise Malformed("should be an object", "config")
        found = cls(
            FitReport.from_dict(values), read(Design, values.get("design"), "design"), dict(config),
            read(Origin, values.get("data") or {}, "data"), values.get("version", VERSION),
            read(StoredLayers, values["layers"], "layers") if "layers" in values else None,
        )  # fmt: skip
        known = replace(found, report=_short(found.report), design=Design()).as_dict()
        found.more.update({name: value for name, value in values.items() if name not in {*known, sealed.CHECKSUM}})
        return found


def _short(report: FitReport) -> FitReport:
    """The same with the same names to write, without the longest values."""
    return replace(report, coefficients={}, coefficients_standardized={})


def model_bytes(model: ModelFile) -> bytes:
    """What a model file holds: readable JSON, whose last field is a checksum of what the others say; of very many
    columns without a line for each."""
    values = model.as_dict()
    if (short := packed(values, WITH_PACKED)) is not None:
        return sealed.sealed(short, NAME, ascii=False) + b"\n"
    return sealed.sealed(values, NAME, lines=True, ascii=False) + b"\n"


def is_by_hand(path: Path) -> bool:
    """Whether a model file says that a person has edited it."""
    return (_object(path.read_bytes()) or {}).get(sealed.CHECKSUM) == BY_HAND


def checksum_at_end(data: bytes) -> str | None:
    """The checksum that a model file names, of which the last `END` bytes will do; None if it names none."""
    found = _LAST_FIELD.search(data[-END:])
    return found[1].decode() if found else None


def read_model(path: Path) -> dict[str, Any]:
    """The object in a model file, proven by its checksum; OSError as usual, DamagedFile if it is not what was written.

    Files of older versions have no checksum and are taken as they are; so is one that says it was edited by hand.
    """
    data = path.read_bytes()
    try:
        return _whole(sealed.proven(data, str(path), NAME, sealed.never_sealed), path)
    except DamagedFile as damage:
        found = _object(data)
        if found and found.pop(sealed.CHECKSUM, None) == BY_HAND:
            return _whole(found, path)
        what = damage.message if found else f"'{path}' is not a whole model file: {damage.message.partition(': ')[2]}"
        raise DamagedFile(f"{what} {ADVICE}", path=str(path)) from None


def _whole(values: dict[str, Any], path: Path) -> dict[str, Any]:
    try:
        return unpacked(values)
    except ValueError as error:
        raise DamagedFile(f"'{path}' is damaged: {error}.", path=str(path)) from None


def unproven(path: Path) -> dict[str, Any] | None:
    """What a damaged file seems to say, for a word on what it is; it has every right to be wrong."""
    return _object(path.read_bytes())


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
