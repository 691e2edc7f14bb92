"""Tables that a person can choose from on any page: samples, and what was uploaded or looked at lately."""

from __future__ import annotations

from shoal.dashboard.tables.recent import recent
from shoal.dashboard.tables.samples import SAMPLES
from shoal.dashboard.tables.sources import Table, find_table

MOST = 30


def known_tables() -> list[Table]:
    """The latest first, then the samples; each once."""
    keys = dict.fromkeys([*(seen.key for seen in recent()), *SAMPLES])
    found = (find_table(key) for key in keys)
    return [table for table in found if table][:MOST]
