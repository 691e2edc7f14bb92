"""What columns are worth to a model: by how much its error rises without each of them, or with its values shuffled."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.results.plain import plain

PERMUTATION = "permutation"


@dataclass(frozen=True, kw_only=True)
class ColumnWorth:
    """Rises of the error, the largest first: in folds without a column, or on rows that borrow it from others."""

    error: float | None  # with all columns
    rises: dict[str, float | None] = field(default_factory=dict)
    meaning: str = ""
    folds: int | None = None
    fold_by: str | None = None
    method: str | None = None
    part: str | None = None  # training or test rows
    rows: int | None = None

    @property
    def is_borrowed(self) -> bool:
        return self.method == PERMUTATION

    def shares(self) -> dict[str, float]:
        """Each rise as a share of the error."""
        return {name: (rise or 0.0) / (self.error or 1.0) for name, rise in self.rises.items()}

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if value is not None or name == "error"}
