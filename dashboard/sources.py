"""The table a page works on, by the short key that stands in the address: a sample or an upload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from dashboard import uploads
from dashboard.samples import SAMPLES, Sample, sample_at


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
    def target(self) -> str | None:
        """The column to predict, where we know what a sample is for."""
        return self.sample.target if self.sample else None


def find_table(key: str) -> Table | None:
    if sample := SAMPLES.get(key):
        return Table(key, sample.ensure(), sample)
    path = uploads.find(key)
    return Table(key, path) if path else None


def table_of(file: str) -> Table | None:
    """The table behind a run's file; None if it was neither uploaded here nor a sample, or is gone."""
    path = Path(file)
    if sample := sample_at(path):
        return Table(sample.key, sample.ensure(), sample)
    key = uploads.key_of(path)
    return find_table(key) if key else None


def go(**place: str) -> None:
    """Make this the address; every view is drawn from it, so back button, reload and shared links work."""
    st.query_params.from_dict(place)
