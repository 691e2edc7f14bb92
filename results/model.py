"""What a model file says: the report of its fit, how columns become terms, the knobs and the data it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.results.fit import FitReport
from shoal.results.plain import Malformed, plain, read

NAME = "shoal-model"
VERSION, WITH_PRODUCTS = 1, 2  # what older programs read as well; and what they cannot, so that they say so


@dataclass(frozen=True)
class Design:
    """The terms of the model as `data.encoding` writes them, and all levels of text columns that were seen."""

    terms: tuple[dict[str, Any], ...] = ()
    known_levels: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """The data that a model was fitted to: the file's name, a fingerprint of its content, and its rows."""

    file: str = ""
    content: str = ""
    rows: int = 0


@dataclass(frozen=True)
class ModelFile:
    """All that a model file says. `more` are names that this program does not know; they are kept."""

    report: FitReport
    design: Design
    config: dict[str, Any]
    data: Origin = Origin()
    version: int = VERSION
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return self.report.target

    def as_dict(self) -> dict[str, Any]:
        """The object that is written: what it is, the answer, how columns become terms, where it came from."""
        parts = {"design": plain(self.design), "config": self.config, "data": plain(self.data)}
        return {"format": NAME, "version": self.version, **self.report.as_dict(), **parts, **self.more}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelFile:
        """Raises `Malformed` with the name of what is missing or wrong."""
        config = values.get("config") or {}
        if not isinstance(config, Mapping):
            raise Malformed("'config' should be an object")
        found = cls(
            FitReport.from_dict(values), read(Design, values.get("design"), "design"), dict(config),
            read(Origin, values.get("data") or {}, "data"), values.get("version", VERSION),
        )  # fmt: skip
        known = found.as_dict()
        found.more.update({name: value for name, value in values.items() if name not in known})
        return found
