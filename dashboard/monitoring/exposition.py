"""Figures as the text that Prometheus reads (version 0.0.4); what they are of is known to those who make them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from shoal.lazy.classes import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
IN_LABELS = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True)
class Figure:
    """One line: a value under the labels that tell it from others of its family."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    ending: str = ""  # of the name: the parts of a histogram have one


@dataclass(frozen=True)
class Family:
    """Figures of one name, with what they mean."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    figures: Sequence[Figure]


def single(name: str, kind: Literal["counter", "gauge"], help: str, value: float) -> Family:
    return Family(name, kind, help, [Figure(value)])


def by_label(
    name: str, kind: Literal["counter", "gauge"], help: str, label: str, values: Mapping[str, float]
) -> Family:
    return Family(name, kind, help, [Figure(value, {label: one}) for one, value in values.items()])


def text_of(families: Iterable[Family]) -> str:
    lines = []
    for family in families:
        lines += [
            f"# HELP {family.name} {_safe(family.help).translate(IN_HELP)}",
            f"# TYPE {family.name} {family.kind}",
        ]
        lines += [f"{family.name}{one.ending}{_labels(one.labels)} {number(one.value)}" for one in family.figures]
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """As Go reads it: whole numbers stay whole, others keep all their bits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_safe(value).translate(IN_LABELS)}"' for name, value in labels.items()) + "}"


def _safe(text: str) -> str:
    """Names of folders may hold bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()
