"""What things are called on the pages: names of knobs, models, flags and reasons in plain words."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from config import RunConfig

MODELS = {"linear": "Linear", "ridge": "Ridge", "lasso": "Lasso", "elasticnet": "Elastic net"}
ABOUT_MODELS = {
    "linear": "Least squares, no penalty. Gives standard errors and intervals for every coefficient.",
    "ridge": "Shrinks all coefficients a little. Steady when columns say nearly the same thing.",
    "lasso": "Shrinks coefficients, and sets those that matter little to exactly zero.",
    "elasticnet": "Between ridge and lasso: picks columns, but keeps groups of similar ones together.",
}
LABELS = {
    "target": "Column to predict",
    "model": "Model",
    "alpha": "Penalty strength (alpha)",
    "l1_ratio": "Share of lasso (l1_ratio)",
    "features": "Columns to use",
    "exclude": "Columns to leave out",
    "categorical": "Read as names",
    "numeric": "Read as numbers",
    "coding": "Text columns become",
    "max_levels": "Most levels of a text column",
    "impute": "A missing number becomes",
    "fill": "That number",
    "indicators": "Mark missing numbers with a column of their own",
    "test_every": "Every how many rows",
    "test_fraction": "Share of rows",
    "seed": "Seed",
    "intercept": "Fit an intercept",
    "standardize": "Standardise the columns",
    "confidence": "Confidence of the intervals",
    "engine": "Who does the work",
    "workers": "Worker processes (0: one a core)",
    "delimiter": "Between fields",
    "decimal": "Decimal mark",
    "thousands": "Between groups of digits",
    "encoding": "Text encoding",
    "header": "First row",
    "quote": "Around fields",
    "comment": "Comment lines begin with",
    "skip_lines": "Lines above the table",
    "missing": "Texts that mean missing",
    "on_bad_rows": "Rows that cannot be read",
}
CHOICES = {
    "drop_first": "one column a level, without the first",
    "full": "one column for every level",
    "median": "the column's median",
    "mean": "the column's mean",
    "constant": "a number of your choice",
    "drop": "nothing: leave that row out",
    "auto": "found out from the size of the file",
    "inline": "one process",
    "processes": "worker processes",
    "limit": "leave out a few (up to 1 %, at most 100)",
    "stop": "stop at the first one",
    "skip": "leave out all of them",
}
TYPES = {"numeric": "number", "datetime": "date", "categorical": "names", "text": "free text"}
FLAGS = {
    "constant": "always the same value",
    "mostly_missing": "more than half missing",
    "leading_zeros": "leading zeros: a code, not a quantity?",
    "high_cardinality": "too many different texts to use",
    "id_like": "nearly every row differs: a row number or key?",
    "leak": "gives the target away",
}
DROPPED = {
    "bad_row": "could not be read",
    "target_missing": "no value in the column to predict",
    "feature_missing": "a value is missing in another column",
}
STAGES = {
    "ingest": "read the file",
    "moments": "sum over all rows",
    "solve": "solve",
    "factor": "factor the rows",
    "refine": "refine",
    "score": "score",
    "inference": "intervals",
}
_FLAG_IN_TEXT = re.compile(r"\s*\bwith --on-bad-rows skip|\s*\(?--on-bad-rows skip\)?")


def help_for(knob: str) -> str:
    """The config's own words for a knob, as a sentence."""
    fields = {field.name: field for field in dataclasses.fields(RunConfig)}
    text: str = fields[knob].metadata["help"].replace("--impute constant", "that choice")
    return f"{text[0].upper()}{text[1:]}."


def default_of(knob: str) -> Any:
    return getattr(RunConfig(), knob)


def for_page(message: str) -> str:
    """A message that names a flag of the command line, with the place on the page instead."""
    return _FLAG_IN_TEXT.sub(" (Reading options: rows that cannot be read)", message)


def number(value: float | None, digits: int = 4) -> str:
    """A number for the eye."""
    if value is None:
        return "–"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}"


def power_of_ten(value: float) -> str:
    """3e-17 as people write it, in one piece that no line break tears."""
    digits, exponent = f"{value:.0e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10{raised}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "under 1 ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def certificate(found: dict[str, Any]) -> str:
    """What the certificate proves, in two sentences."""
    basis = "all rows of the data" if found["rests_on"] == "data" else "the sums over all rows (moments)"
    relative = found["relative"]
    size = "exactly 0" if not relative else f"at most {power_of_ten(relative)}"
    if found["kind"] == "duality_gap":
        meaning = f"No other coefficients can be better by more than this share of the starting loss: {size}."
    else:
        meaning = f"At the best fit the slope of the loss is zero; here, as a share of its starting size, it is {size}."
    return f"{meaning} Checked on {basis}."


def is_exact(found: dict[str, Any]) -> bool:
    """Whether the certificate is as small as double precision lets one hope for."""
    return found["relative"] is not None and found["relative"] < 1e-8
