"""The bars of the System page."""

from __future__ import annotations

import html


def bar(share: float, name: str, calm: bool = False) -> str:
    """A bar from 0 to 1; one that is nearly full warns, unless it is meant to be full."""
    percent = min(100.0, max(0.0, 100 * share))
    high = " high" if percent > 90 and not calm else ""
    return (
        f'<div class="sys-bar{high}" role="meter" aria-label="{html.escape(name)}" aria-valuemin="0" '
        f'aria-valuemax="100" aria-valuenow="{percent:.0f}"><i style="width: {percent:.1f}%"></i></div>'
    )
