"""The frame of a report: one HTML page with its style, tables and paragraphs; every text is escaped here.

No script, nothing from elsewhere; readable in light, dark and print, on a wide screen and on a narrow one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as escaped
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.words import seen, short

COLOURS = """
:root { color-scheme: light dark; --ink: #1c2b2d; --quiet: #5b6b6e; --paper: #ffffff; --card: #f4f7f7; --rule: #dbe3e3;
  --train: #0b8378; --test: #d55e00; --blue: #2f76b3; --grey: #8a979a; --warn: #a86a00; --warn-card: #fdf6e7 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eeee; --quiet: #a3b3b5; --paper: #10181a; --card: #19252a;
  --rule: #2c3b40; --train: #2fb5a7; --test: #f08a3c; --blue: #63a8e0; --grey: #7c8b8e; --warn: #f0b64a;
  --warn-card: #2b2413 } }
@media print { :root { --ink: #000000; --quiet: #444444; --paper: #ffffff; --card: #f6f6f6; --rule: #cccccc;
  --train: #0b8378; --test: #d55e00; --blue: #2f76b3; --grey: #8a979a; --warn: #7a4d00; --warn-card: #fdf6e7 } }
"""
PAGE = """
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2.2rem 1.2rem 4rem; max-width: 62rem; color: var(--ink); background: var(--paper);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere }
h1 { margin: 0 0 .3rem; font-size: 1.9rem; line-height: 1.2; font-weight: 650 }
h2 { margin: 2.6rem 0 .6rem; padding-top: .7rem; border-top: 1px solid var(--rule);
  font-size: 1.25rem; font-weight: 620 }
h3 { margin: 1.2rem 0 .3rem; font-size: 1rem; font-weight: 600 }
p { margin: .45rem 0; max-width: 48rem }
.lead { font-size: 1.05rem }
.small { color: var(--quiet); font-size: .88rem }
.note { margin: .5rem 0; padding: .55rem .8rem; max-width: 48rem; border-left: 4px solid var(--warn);
  background: var(--warn-card); border-radius: 5px }
.formula { padding: .8rem 1rem; background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; font-size: .86rem; line-height: 1.7 }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .7rem; margin: 1rem 0 }
.card { padding: .6rem .9rem; border: 1px solid var(--rule); border-radius: 8px; background: var(--card) }
.card b { display: block; font-size: 1.45rem; font-weight: 620; line-height: 1.35 }
.card span { color: var(--quiet); font-size: .85rem }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 23rem), 1fr)); gap: .4rem 1.6rem }
figure { margin: .8rem 0; break-inside: avoid; min-width: 0 }
figcaption { color: var(--quiet); font-size: .88rem; max-width: 44rem }
.wide { max-width: 36rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem; font-variant-numeric: tabular-nums;
  overflow-wrap: break-word }
th { border-bottom: 1px solid var(--grey); color: var(--quiet); font-weight: 600; vertical-align: bottom }
th, td { padding: .22rem .8rem .22rem 0; text-align: left }
td { border-bottom: 1px solid var(--rule); vertical-align: top; max-width: 24rem }
td:first-child { min-width: 6.5rem } td.long { min-width: 10rem; overflow-wrap: anywhere }
th.n, td.n { text-align: right } td.n { white-space: nowrap }
tr { break-inside: avoid } thead { display: table-header-group }
svg.chart { display: block; width: 100%; height: auto }
svg.spark { width: 5.5rem; height: 1.4rem; vertical-align: middle }
"""
DRAWN = """
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--quiet) }
svg text.name { fill: var(--ink) }
svg text.label { fill: var(--ink); paint-order: stroke; stroke: var(--paper); stroke-width: 4px;
  stroke-linejoin: round }
.grid { stroke: var(--rule) } .axis { stroke: var(--grey) } .zero { stroke: var(--grey); stroke-dasharray: 4 4 }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round }
.dot { fill: none; stroke-width: 4; stroke-linecap: round } .dot.many { stroke-width: 3.4; stroke-opacity: .55 }
.train { stroke: var(--train) } .test { stroke: var(--test) } .blue { stroke: var(--blue) }
rect.train, .bar.train { fill: var(--train); stroke: none } rect.test { fill: var(--test); stroke: none }
.mark { stroke: var(--ink); stroke-width: 1.2 } .mark.dashed { stroke-dasharray: 5 4 }
.faint { stroke: var(--grey); stroke-opacity: .45; stroke-width: 1.1 }
.interval { stroke-width: 3; stroke-opacity: .45 }
.c0 { stroke: #0b8378 } .c1 { stroke: #d55e00 } .c2 { stroke: #3987c9 } .c3 { stroke: #cc79a7 }
.c4 { stroke: #e69f00 } .c5 { stroke: #56b4e9 } .c6 { stroke: #8f6bb8 } .c7 { stroke: #9c7a3c }
"""  # all that pictures by themselves need beside the colours
AROUND = """
.key { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .2rem 0; font-size: .85rem }
.key svg { width: 1.1rem; height: .7rem; margin-right: .35rem }
@media print { body { padding: 0; max-width: none; font-size: 11pt } .scroll { overflow: visible } }
"""
STYLE = "".join((COLOURS, PAGE, DRAWN, AROUND))
LONG = 28  # characters from which on a text gets room in a table
# The page may draw its own style and nothing else, whatever a browser would take for an address in it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def escape(text: str) -> str:
    """Text of a file as text of a page; what a terminal would obey is spelled out, as a report may be printed there."""
    return escaped(seen(text))


@dataclass(frozen=True)
class Html:
    """Text that is HTML already; all else is escaped."""

    text: str


def paragraph(words: str, class_: str = "") -> str:
    return f"<p{_class(class_)}>{escape(words)}</p>" if words else ""


def note(words: str) -> str:
    return f"<div class='note'>{escape(words)}</div>"


def heading(words: str, level: int = 2) -> str:
    return f"<h{level}>{escape(words)}</h{level}>"


def figure(svg: str, caption: str, class_: str = "", key: str = "") -> str:
    return f"<figure{_class(class_)}>{svg}{key}<figcaption>{escape(caption)}</figcaption></figure>" if svg else ""


def charts(figures: Iterable[str]) -> str:
    return f"<div class='charts'>{''.join(figures)}</div>"


def key(entries: Sequence[tuple[str, str]]) -> str:
    """Names with the colour of their line."""
    made = (
        f"<span><svg viewBox='0 0 18 10'><path d='M0 5H18' class='line {class_}'/></svg>{escape(name)}</span>"
        for name, class_ in entries
    )
    return f"<div class='key'>{''.join(made)}</div>"


def cards(entries: Sequence[tuple[str, str]]) -> str:
    """A few figures that are seen first: value and what it is."""
    made = (f"<div class='card'><b>{escape(value)}</b><span>{escape(what)}</span></div>" for what, value in entries)
    return f"<div class='cards'>{''.join(made)}</div>"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Numbers to the right, as short as in the tables of the command line; all else is text."""
    right = [not any(isinstance(row[i], (str, Html)) for row in rows) for i in range(len(head))]

    def line(tag: str, cells: Sequence[Any]) -> str:
        pairs = zip(right, cells, strict=True)
        made = (f"<{tag}{_class('n' if n else _width(cell))}>{_cell(cell)}</{tag}>" for n, cell in pairs)
        return f"<tr>{''.join(made)}</tr>"

    body = "\n".join(line("td", row) for row in rows)
    return f"<div class='scroll'><table><thead>{line('th', head)}</thead><tbody>\n{body}</tbody></table></div>"


def _width(value: Any) -> str:
    return "long" if isinstance(value, str) and len(value) > LONG else ""


def _cell(value: Any) -> str:
    if isinstance(value, Html):
        return value.text
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape("" if value is None else short(value))


def _class(name: str) -> str:
    return f" class='{name}'" if name else ""


def page(title: str, parts: Iterable[str]) -> str:
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )
