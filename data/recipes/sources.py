"""What a block was read from, as a document beside the manifest: a source, named by all that it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shoal.data.cache import digest
from shoal.data.dataset import Dataset
from shoal.data.dialects import dialect_from
from shoal.data.files import Source
from shoal.data.kinds import Layout
from shoal.data.notation.numbers import Notation
from shoal.files import sealed
from shoal.kernels.csv_kernel import FieldKind

SOURCES = "sources.json"


def source_key(source: Source) -> str:
    """A name for a source and the way it is read; two sources of one name give the same blocks."""
    return digest(as_plain(source))


def as_plain(source: Source) -> dict[str, Any]:
    layout = source.layout
    return {
        "path": source.path, "size": source.size, "data_start": source.data_start, "first_line": source.first_line,
        "dialect": source.dialect.as_dict(),
        "layout": {
            "names": list(layout.names), "kinds": [int(kind) for kind in layout.kinds], "styles": list(layout.styles),
            "fixed": sorted(layout.fixed), "notations": _by_text(layout.notations, asdict),
            "absent": _by_text(layout.absent, list), "written": _by_text(layout.written, str),
            "others": _by_text(layout.others, list), "unseen": sorted(layout.unseen), "order": list(layout.order),
            **({"many": sorted(layout.many)} if layout.many else {}),
            **({"limits": _by_text(layout.limits, str)} if layout.limits else {}),
            **({"one_spelling": sorted(layout.one_spelling)} if layout.one_spelling else {}),
            **({"without_na": sorted(layout.without_na)} if layout.without_na else {}),
        },
    }  # fmt: skip


def source_from(values: Mapping[str, Any]) -> Source:
    own = values["layout"]
    layout = Layout(
        tuple(own["names"]), tuple(FieldKind(kind) for kind in own["kinds"]), tuple(own["styles"]),
        frozenset(own["fixed"]), _by_number(own["notations"], lambda marks: Notation(**marks)),
        _by_number(own["absent"], tuple), _by_number(own["written"], str), _by_number(own["others"], tuple),
        frozenset(own["unseen"]), tuple(own["order"]), frozenset(own.get("many", ())),
        _by_number(own.get("limits", {}), str), frozenset(own.get("one_spelling", ())),
        frozenset(own.get("without_na", ())),
    )  # fmt: skip
    return Source(
        values["path"], values["size"], dialect_from(values["dialect"]), layout, values["data_start"],
        values["first_line"],
    )  # fmt: skip


def _by_text(values: Mapping[int, Any], plain: Any) -> dict[str, Any]:
    return {str(column): plain(value) for column, value in sorted(values.items())}


def _by_number(values: Mapping[str, Any], made: Any) -> dict[int, Any]:
    return {int(column): made(value) for column, value in values.items()}


def write_sources(directory: Path, key: str, sources: Mapping[str, Mapping[str, Any]]) -> None:
    """`key`: that of the data set in the folder."""
    sealed.write(directory / SOURCES, {"sources": dict(sources)}, of=key)


def add_sources(directory: Path, sources: Mapping[str, Mapping[str, Any]]) -> None:
    """The same rows may be in several files, or at another address than before; any of them will do."""
    known = read_sources(directory)
    if not sources.keys() <= known.keys():
        write_sources(directory, directory.name, {**known, **sources})


def read_sources(directory: Path) -> dict[str, dict[str, Any]]:
    """None of them in a data set that was made before there was this document."""
    try:
        found: dict[str, dict[str, Any]] = sealed.read(directory / SOURCES, of=directory.name)["sources"]
    except FileNotFoundError:
        return {}
    return found


def as_found(directory: Path, key: str) -> dict[str, dict[str, Any]]:
    """Those of a data set that has no name yet."""
    found: dict[str, dict[str, Any]] = sealed.read(directory / SOURCES, of=key)["sources"]
    return found


def sources_of(dataset: Dataset) -> dict[str, Source]:
    return {key: source_from(values) for key, values in read_sources(dataset.directory).items()}
