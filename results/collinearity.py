"""Columns that go together, and what that does to their coefficients; types without NumPy, and the words for them."""

from __future__ import annotations

from dataclasses import field

from shoal.lazy.classes import dataclass
from shoal.words import listed, number, term_shown

HIGH = 10.0  # variance inflation from which on a coefficient is hard to tell: its error is three times as large
NAMED = 5  # columns in one sentence


@dataclass(frozen=True)
class ColumnGroup:
    """Design columns of which each goes with another one, and the largest correlation among them."""

    columns: tuple[str, ...]
    correlation: float


@dataclass(frozen=True)
class Collinearity:
    """Variance inflation by design column: 1 / (1 - R2) of it regressed on the others; None where that has no end."""

    inflation: dict[str, float | None] = field(default_factory=dict)
    groups: tuple[ColumnGroup, ...] = ()

    def sentences(self, condition: float | None) -> list[str]:
        """What a person has to know of it; nothing where columns are apart."""
        said = [
            f"{_quoted(group.columns)} say nearly the same (correlation up to {group.correlation:.3g})."
            for group in self.groups
        ]
        high = {name: value for name, value in self.inflation.items() if value is not None and value >= HIGH}
        ordered = sorted(high, key=lambda name: -high[name])[:NAMED]
        if ordered:
            which = listed([f"'{term_shown(name)}' ({number(high[name], 3)})" for name in ordered], NAMED)
            more = f" and {len(high) - len(ordered):,} more" if len(high) > len(ordered) else ""
            said.append(
                f"Coefficients that the other columns make hard to tell, by their variance inflation: {which}{more}. "
                "Predictions are not worse for it; a penalty or fewer columns would steady the coefficients."
            )
        if said and condition is not None:
            said.append(f"The condition number of all columns together is {number(condition, 3)}.")
        return said


def _quoted(names: tuple[str, ...]) -> str:
    return listed([f"'{term_shown(name)}'" for name in names], NAMED)
