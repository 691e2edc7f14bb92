"""Predictions that come in parts, as one array, and what is odd about them as warnings; nothing is computed here."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from shoal.api.frames import Unknown
from shoal.data.encoding import Encoding
from shoal.losses.named import loss_named
from shoal.models import Floats
from shoal.results.answers.predictions import unknown_told
from shoal.results.fit import FitReport


def without_prediction(of_file: bool, shaped: bool, offset: str = "") -> str:
    """Why rows may have none: only a file has rows that cannot be read, only some models need a logarithm or a column
    that is added to scores."""
    reasons = {
        "could not be read": of_file,
        "have a number without a logarithm or root": shaped,
        f"have no value of '{offset}' to add": bool(offset),
    }
    return " or ".join(reason for reason, possible in reasons.items() if possible)


def gathered(parts: Iterator[tuple[Floats, Unknown]], encoding: Encoding, none: str) -> Floats:
    """All predictions; what is odd about them is said once: levels that are not known by name, rows by their number."""
    found, unknown = list[Floats](), defaultdict[str, Counter[str]](Counter)
    for predictions, levels in parts:
        found.append(predictions)
        for name, counts in levels.items():
            unknown[name].update(counts)
    whole = np.concatenate(found) if found else np.zeros(0)
    unread = int(np.isnan(whole if whole.ndim == 1 else whole[:, 0]).sum())
    for said in unknown_told(encoding.references, unknown, encoding.known):
        warnings.warn(said, stacklevel=4)
    if unread:
        warnings.warn(f"{unread} rows {none}; their prediction is NaN.", stacklevel=4)
    return whole


def usual_sets(yes: Floats, labels: tuple[Any, ...], usual: float) -> Any:
    """The likelier value of each row, and the other one too where the likelier has no higher probability than usual;
    none where there is no probability."""
    found = np.empty(len(yes), object)
    for row, p in enumerate(yes.tolist()):
        likelier = (labels[int(p >= 0.5)],) if p == p else ()
        found[row] = labels if max(p, 1 - p) <= usual else likelier
    return found


def likeliest(shares: Floats, labels: tuple[Any, ...]) -> Any:
    """The likeliest of several classes of each row, None where there are no probabilities."""
    found, none = np.array(labels, object)[shares.argmax(axis=1)], np.isnan(shares[:, 0])
    if none.any():
        found[none] = None
        return found
    return np.array(found.tolist()) if len(found) else found


def likely_sets(shares: Floats, labels: tuple[Any, ...], usual: float) -> Any:
    """The likeliest class of each row, and all others whose probability is at least 1 less what is usual."""
    found = np.empty(len(shares), object)
    for row, own in enumerate(shares):
        kept = (1 - own <= usual) | (np.arange(len(own)) == own.argmax())
        found[row] = () if np.isnan(own[0]) else tuple(labels[k] for k in np.flatnonzero(kept))
    return found


def called(yes: Floats, labels: tuple[Any, ...], threshold: float) -> Any:
    """The yes of each row from the threshold on, None where there is no probability."""
    found = np.array(labels, object)[(yes >= threshold).astype(int)]
    if np.isnan(yes).any():
        found[np.isnan(yes)] = None
        return found
    return np.array(found.tolist()) if len(found) else found


def ends(found: Floats, width: float, report: FitReport) -> tuple[Floats, Floats]:
    """Of prediction intervals: as far away everywhere, or as rows spread there (`PredictionInterval.spread`)."""
    outcome = report.outcome
    if outcome is None:
        return found - width, found + width
    spread = report.prediction_interval.spread if report.prediction_interval else ""
    low, high = loss_named(outcome.loss, outcome.parameters).interval(found, width, spread)
    return np.asarray(low, np.float64), np.asarray(high, np.float64)
