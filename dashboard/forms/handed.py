"""What the Train and the Tune page hand to one another: the knobs of a run that tuning leaves as they are, as a part of
an address. What tuning itself chooses (model, penalty, columns left out, an exact fit) is not here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shoal.dashboard.forms.model_form import first_draft
from shoal.errors import ConfigError
from shoal.settings.config import RunConfig
from shoal.settings.values import page_config

STUDY = "study"  # the part of the address
NOTHING = "{}"  # of it, where all is as usual
ASKED = (
    "impute", "fill", "coding", "indicators", "standardize", "intercept", "test_every", "squares", "interactions",
    "weights", "weights_are", "transform",
)  # fmt: skip
# Tune's form does not ask for these; it says which came from Train, and keeps them.
KEPT = (
    "features", "max_levels", "min_level_rows", "test_fraction", "seed", "confidence", "bands", "robust", "register",
    "engine", "workers", "metrics", "rules",
)  # fmt: skip
KNOBS = (*ASKED, *KEPT)


def differing(values: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Of all that is said, the knobs that are not as both pages begin with for a table of so many rows."""
    usual = {**RunConfig().as_dict(), **first_draft(rows)}
    return {name: values[name] for name in KNOBS if name in values and values[name] != usual[name]}


def study_text(said: Mapping[str, Any]) -> str | None:
    """As in an address; None for nothing."""
    return json.dumps(said, separators=(",", ":"), sort_keys=True) if said else None


def handed_over(values: Mapping[str, Any], rows: int, before: str) -> str | None:
    """From Train to Tune: the knobs of a run, with the folds that Tune's address had `before`."""
    return study_text({**differing(values, rows), **folds_of(before)})


def knobs_of(text: str) -> dict[str, Any] | None:
    """The knobs of a part of an address, which says only what is not as usual; None where it cannot be understood."""
    try:
        said = json.loads(text)
        given = {name: said[name] for name in KNOBS if name in said}
        known = page_config("", given).as_dict()
    except (TypeError, ValueError, RecursionError, ConfigError):
        return None
    return {name: known[name] for name in given}


def folds_of(text: str) -> dict[str, Any]:
    """What a part of an address says of folds; nothing where it cannot be understood."""
    try:
        said = json.loads(text or "{}")
        return {name: said[name] for name in ("folds", "fold_by") if name in said}
    except (TypeError, ValueError, RecursionError):
        return {}
