"""The table a page works on, and how it is read: all from the address.

A table is a sample, a made-up table, an upload, or a file of the server's folder.
"""

from __future__ import annotations

import json
from dataclasses import field
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.tables import server_files, uploads
from shoal.dashboard.tables.samples import SAMPLES, Sample, generated, generated_at, sample_at
from shoal.errors import TrainingError
from shoal.lazy.classes import dataclass
from shoal.people.belongings import sees
from shoal.settings.config import DIALECT, RunConfig
from shoal.settings.values import page_config

READING = (
    *DIALECT,
    "parts",
    "on_bad_rows",
    "categorical",
    "numeric",
    "exclude",
    "reference",
)  # the knobs that an address may set


@dataclass(frozen=True)
class Table:
    """A file that the address may name."""

    key: str
    path: Path
    sample: Sample | None = None

    @property
    def title(self) -> str:
        return self.sample.title if self.sample else self.path.name

    @property
    def is_bundled(self) -> bool:
        """Whether everyone has it, on the first view."""
        return self.sample is not None and self.sample.contents is not None

    @property
    def target(self) -> str | None:
        """The column to predict, where we know what a sample is for."""
        return self.sample.target if self.sample else None


@dataclass(frozen=True)
class Asked:
    """What an address says of data: the table, the reading options that a person chose, the column to predict.

    `read` holds what differs from the defaults, among it what is about models of the table only: `exclude`, the
    columns that are left out, and `reference`, the levels that others are compared with.
    """

    table: Table
    read: dict[str, Any] = field(default_factory=dict)
    target: str | None = None

    @property
    def address(self) -> dict[str, str]:
        parts = {"data": self.table.key}
        if self.read:
            parts["read"] = json.dumps(self.read, separators=(",", ":"), sort_keys=True)
        if self.target and self.target != self.table.target:
            parts["target"] = self.target
        return parts

    @property
    def inspection(self) -> RunConfig:
        """The look at the file that this asks for; the same on every page, so that it is made once."""
        return page_config(self.table.path, _without(self.read, "exclude", "reference"))

    @property
    def guidance(self) -> RunConfig:
        """The same look, which also says what is worth knowing before the target is predicted from the columns left."""
        return page_config(self.table.path, {**self.read, "target": self.target})


def asked() -> Asked | None:
    """What the address asks for; None where it names no table that is here."""
    table = find_table(st.query_params.get("data", ""))
    if table is None:
        return None
    read = read_from(st.query_params.get("read", "{}"))
    return Asked(table, read, st.query_params.get("target") or table.target)


def read_from(text: str) -> dict[str, Any]:
    """The reading options of an address; none where somebody mistyped it. No other knob gets through."""
    try:
        values = json.loads(text)
        given = {knob: values[knob] for knob in READING if knob in values}
        known = page_config("", given).as_dict()
    except (TypeError, ValueError, RecursionError, TrainingError):
        return {}
    return tidy({knob: known[knob] for knob in given})


def tidy(read: dict[str, Any]) -> dict[str, Any]:
    """Only what differs from the defaults belongs in an address."""
    usual = RunConfig().as_dict()
    return {knob: value for knob, value in read.items() if value != usual[knob]}


def _without(read: dict[str, Any], *knobs: str) -> dict[str, Any]:
    return {knob: value for knob, value in read.items() if knob not in knobs}


def find_table(key: str) -> Table | None:
    if sample := SAMPLES.get(key):
        return Table(key, sample.ensure(), sample)
    if sample := generated(key):
        return Table(key, sample.path, sample) if sample.path.is_file() else None
    path = server_files.find(key) or uploads.find(key)
    return Table(key, path) if path and sees(path) else None


def table_of(file: str) -> Table | None:
    """The table behind a run's file; None for a file that pages may not open, or that is gone."""
    path = Path(file)
    sample = sample_at(path) or generated_at(path)
    key = sample.key if sample else uploads.key_of(path) or server_files.key_of(path)
    return find_table(key) if key else None
