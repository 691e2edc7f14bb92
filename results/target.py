"""What a column to predict is taken for, and the model that suits it: said on pages, by `inspect` and by `auto`."""

from __future__ import annotations

from enum import StrEnum

from shoal.lazy.classes import dataclass


class TargetKind(StrEnum):
    """By its values alone."""

    YES_NO = "yes_no"
    CLASSES = "classes"
    TEXTS = "texts"
    DATE = "date"
    COUNTS = "counts"
    FEW_VALUES = "few_values"
    SKEWED = "skewed"
    NUMBER = "number"
    CONSTANT = "constant"


@dataclass(frozen=True)
class TargetLook:
    """The kind, the model that suits it (none where there is none), why, in a sentence or two, and others that do."""

    kind: str
    model: str
    why: str
    others: tuple[str, ...] = ()
