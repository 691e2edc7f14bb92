"""How workers on other machines are reached, as the records of a run say it."""

from __future__ import annotations

from shoal.lazy.classes import dataclass


@dataclass(frozen=True)
class LinkSample:
    """The way to a worker on another machine at one moment."""

    seconds: float
    rank: int
    node: str
    took: float  # seconds for a question and its answer, usually
    silent: float  # seconds that an answer is missing for
    received: int  # bytes so far
    sent: int
