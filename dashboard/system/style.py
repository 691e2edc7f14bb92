"""How the System page looks: its style sheet and its bars."""

from __future__ import annotations

import html

STYLE = """<style>
.sys-meters { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(210px, 44%), 1fr)); gap: 0.75rem; }
.sys-card { border: 1px solid color-mix(in srgb, currentColor 16%, transparent); border-radius: 0.6rem;
  padding: 0.8rem 1rem; min-width: 0; }
.sys-name { font-size: 0.85rem; opacity: 0.75; }
.sys-value { font-size: 1.5rem; font-weight: 600; line-height: 1.35; font-variant-numeric: tabular-nums; }
.sys-more { font-size: 0.82rem; opacity: 0.75; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.sys-bar { height: 6px; border-radius: 3px; margin: 0.4rem 0 0.45rem; overflow: hidden;
  background: color-mix(in srgb, currentColor 13%, transparent); }
.sys-bar > i { display: block; height: 100%; border-radius: 3px; background: #169385; }
.sys-bar.high > i { background: #d55e00; }
.sys-title { font-weight: 600; overflow-wrap: anywhere; }
.sys-chip { display: inline-block; border-radius: 1rem; padding: 0.05rem 0.55rem; margin-left: 0.5rem;
  font-size: 0.78rem; font-weight: 500; }
.sys-table { width: 100%; max-width: 40rem; border-collapse: collapse; margin-top: 0.4rem;
  font-size: 0.85rem; font-variant-numeric: tabular-nums; }
.sys-table th { text-align: left; font-weight: 500; opacity: 0.7; }
.sys-table th, .sys-table td { padding: 0.15rem 0.6rem 0.15rem 0; border: 0; }
.sys-table .n { text-align: right; }
.sys-use { display: grid; grid-template-columns: minmax(0, 1fr) 6.5rem; column-gap: 1rem; align-items: baseline; }
.sys-use .sys-bar { grid-column: 1 / -1; margin: 0.35rem 0 0; }
.sys-use .sys-size { text-align: right; font-weight: 600; font-variant-numeric: tabular-nums; }
.sys-stays { text-align: center; }
.sys-facts { width: 100%; border-collapse: collapse; font-size: 0.9rem; }
.sys-facts th, .sys-facts td { text-align: left; vertical-align: top; border: 0; padding: 0.15rem 0; }
.sys-facts th { font-weight: 400; opacity: 0.75; width: 9.5rem; padding-right: 1rem; }
.sys-facts td { overflow-wrap: anywhere; }
[class*="st-key-use-"] { padding-bottom: 0.35rem; }
</style>"""


def bar(share: float, name: str, calm: bool = False) -> str:
    """A bar from 0 to 1; one that is nearly full warns, unless it is meant to be full."""
    percent = min(100.0, max(0.0, 100 * share))
    high = " high" if percent > 90 and not calm else ""
    return (
        f'<div class="sys-bar{high}" role="meter" aria-label="{html.escape(name)}" aria-valuemin="0" '
        f'aria-valuemax="100" aria-valuenow="{percent:.0f}"><i style="width: {percent:.1f}%"></i></div>'
    )
