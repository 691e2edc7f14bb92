"""What is known of a table before a fit, for all that look for something worth telling; nothing is looked for here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from shoal.data.dataset import Column, Dataset
from shoal.data.encoding import Encoding
from shoal.data.terms import Number
from shoal.fitting.guidance.leaks import ENOUGH, AgainstTarget
from shoal.fitting.guidance.profile import known_profile
from shoal.lazy.classes import dataclass
from shoal.settings.config import RunConfig
from shoal.settings.when import LOSSES
from shoal.solve.moments import Moments

SAME = 1e-9  # relative difference up to which two figures from sums are the same

_Profile = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Known:
    """What is known before a fit: sums of base terms and target over its rows, those of all pairs unless the table is
    too wide for that, and what a pass over the values said, if one was made."""

    dataset: Dataset
    config: RunConfig
    base: Encoding
    against: AgainstTarget
    moments: Moments | None  # of (base terms..., target)
    profile: _Profile = field(default_factory=dict)

    @classmethod
    def of(cls, dataset: Dataset, config: RunConfig, base: Encoding, moments: Moments) -> Known:
        """What a fit knows by the sums of its training rows, whatever its loss."""
        return cls(dataset, config, base, AgainstTarget.of(moments), moments, known_profile(dataset))

    @property
    def target(self) -> Column:
        return self.dataset.columns[self.config.target]

    @property
    def is_line(self) -> bool:
        """Whether numbers are fitted by squares: what speaks for another loss is not said beside one."""
        return self.target.type == "numeric" and self.config.model not in LOSSES

    @property
    def columns(self) -> list[Column]:
        """Those that the model uses."""
        return [self.dataset.columns[name] for name in self.base.columns]

    @property
    def numbers(self) -> dict[str, int]:
        """The columns of numbers, and their places among the terms."""
        return {term.column: i for i, term in enumerate(self.base.terms) if isinstance(term, Number)}

    def is_id(self, column: Column) -> bool:
        """As a pass over its values has it; else whether it counts the rows, which its spread alone tells."""
        if column.type != "numeric":
            return "id_like" in column.flags
        if (found := self.profile.get(column.name)) is not None:
            return bool(found.get("id_like"))
        rows = self.dataset.rows - self.dataset.manifest.bad_count
        if column.missing or column.minimum is None or column.maximum is None or rows <= ENOUGH:
            return False
        if self.against.n != rows or column.maximum - column.minimum != rows - 1:
            return False
        place = self.numbers.get(column.name)
        if place is None:  # it is used in other shapes only
            return False
        variance = float(self.against.spread[place]) / rows
        return math.isclose(variance, (rows**2 - 1) / 12, rel_tol=SAME)
