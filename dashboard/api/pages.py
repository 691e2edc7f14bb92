"""Long lists in pages: so many at a time, and where to go on; a cursor is the id of the last one seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from shoal.dashboard.api.operations import ROOT, ApiRequest, Given
from shoal.dashboard.api.problems import Refusal

T = TypeVar("T")
PAGE: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50, "description": "how many at most"},
    "after": {"type": "string", "maxLength": 300, "description": "`next` of the page before"},
}


def page(
    asked: ApiRequest, entries: Sequence[T], id_of: Callable[[T], str], said: Callable[[T], dict[str, Any]], path: str
) -> Given:
    limit, after = asked.query["limit"], asked.query["after"]
    start = 0
    if after is not None:
        places = (i for i, entry in enumerate(entries) if id_of(entry) == after)
        start = next(places, -1) + 1
        if not start:
            raise Refusal(409, "Expected `after` to be `next` of an earlier page; that entry is gone. Begin anew.")
    shown = entries[start : start + limit]
    following = id_of(shown[-1]) if shown and start + limit < len(entries) else None
    headers = {}
    if following is not None:
        others = {name: value for name, value in asked.query.items() if value is not None}
        headers["Link"] = f'<{ROOT}{path}?{urlencode({**others, "after": following})}>; rel="next"'
    return Given({"items": [said(entry) for entry in shown], "next": following}, headers=headers)
