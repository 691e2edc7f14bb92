"""Makes the documentation site, build/site: the pages of docs/ and an API reference from docstrings; then checks it.

Nothing in it is loaded from elsewhere. What the pages say is in docs/, what the checks look for is in `site_check`.
"""

from __future__ import annotations

import html
import importlib
import os
import re
import shutil
import sys
from pathlib import Path

import pdoc.doc
import pdoc.render
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from tools.site_check import problems

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
PAGES = {  # in the order of the menu; the rest of docs/ follows
    "README.md": "Shoal",
    "docs/tutorial.md": "Tutorial",
    "docs/sources.md": "Sources of tables",
    "docs/reading.md": "Messy files",
    "docs/operations.md": "Operations",
    "docs/serving.md": "A model in service",
    "docs/api.md": "API for programs",
    "docs/whatif.md": "What if",
    "docs/outcomes.md": "Yes or no, counts",
    "docs/deploying.md": "Shipping",
    "docs/networks.md": "Networks",
    "docs/search.md": "Search",
    "docs/exports.md": "Exports",
    "docs/scaling.md": "What more machines would bring",
    "docs/limits.md": "What Shoal does not do",
    "docs/algorithms.md": "Algorithms",
    "docs/architecture.md": "Architecture",
    "docs/extending.md": "Extending",
}
LAST = {"CONTRIBUTING.md": "Contributing", "CHANGELOG.md": "Changes"}
# What people import: the API itself, and what plug-ins are made of.
MODULES = ["shoal", "shoal.errors", "shoal.settings.config", "shoal.plugins", "shoal.models", "shoal.steps.optimizers",
           "shoal.training.callbacks", "shoal.metrics"]  # fmt: skip
LOGO = "dashboard/logo.svg"
FILES = ["LICENSE", LOGO, "docs/images", "examples", "dashboard/tables/samples_data"]  # beside pages

STYLE = """
:root { color-scheme: light dark; --line: #dbe3e3; --soft: #f4f7f7; --link: #0b8378; --text: #1c2b2d; --page: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --line: #2c3b40; --soft: #19252a; --link: #5cc8bd; --text: #e6eeee; --page: #10181a; }
  .highlight span { filter: brightness(1.6) saturate(0.7); }
}
body { margin: 0; display: flex; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--page); }
nav { flex: 0 0 15rem; padding: 1.5rem; background: var(--soft); border-right: 1px solid var(--line); }
nav ul { list-style: none; padding: 0; margin: 0 0 1.5rem; }
nav a.here { font-weight: 650; color: inherit; }
main { flex: 1; min-width: 0; max-width: 56rem; padding: 1.5rem 2.5rem 4rem; }
a { color: var(--link); }
img { max-width: 100%; }
pre, code { font-family: ui-monospace, monospace; font-size: 0.9em; background: var(--soft); }
pre { padding: 0.8rem 1rem; overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
@media (max-width: 50rem) { body { display: block; } nav { border: 0; } main { padding: 1rem; } }
"""


def main(site: Path) -> None:
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir(parents=True)
    for name in FILES:
        copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        copied(ROOT / name, site / name)
    write_reference(site / "reference")
    (site / "style.css").write_text(STYLE + HtmlFormatter().get_style_defs(".highlight"), "utf-8")
    titles = pages()
    for source in titles:
        place = site / place_of(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page(source, titles), "utf-8")
    found = problems(site)
    if found:
        sys.exit("\n".join(["The site is not whole:", *found]))
    print(f"{len(titles)} pages and {len(MODULES)} modules: {site / 'index.html'}")


def pages() -> dict[str, str]:
    """All pages with their titles."""
    rest = [path for path in sorted((ROOT / "docs").glob("*.md")) if f"docs/{path.name}" not in PAGES]
    return PAGES | {f"docs/{path.name}": path.stem.replace("-", " ").capitalize() for path in rest} | LAST


def place_of(source: str) -> str:
    return "index.html" if source == "README.md" else source.removesuffix(".md") + ".html"


# ------------------------------------------------------------------ pages


def page(source: str, titles: dict[str, str]) -> str:
    up = "../" * source.count("/")
    links = [(place_of(other), title, other == source) for other, title in titles.items()]
    links.insert(len(PAGES), ("reference/shoal.html", "API reference", False))
    menu = "".join(
        f'<li><a href="{up}{place}"{" class=here" * here}>{html.escape(title)}</a></li>' for place, title, here in links
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(titles[source])}</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{up}style.css"></head>'
        f"<body><nav><ul>{menu}</ul></nav><main>{body(source)}</main></body></html>\n"
    )


def body(source: str) -> str:
    """A page's Markdown as HTML, with addresses on headings as GitHub makes them, and links between pages."""
    reader = MarkdownIt("commonmark", {"highlight": coloured}).enable("table")
    tokens = reader.parse((ROOT / source).read_text("utf-8"))
    taken: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", address(tokens[place + 1], taken))
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", link(source, str(child.attrGet("href"))))
    return str(reader.renderer.render(tokens, reader.options, {}))


def link(source: str, target: str) -> str:
    """Where a page links to, in the site: another page has another name there, a file of the repository the same."""
    path, hash_, place = target.partition("#")
    other = os.path.normpath(Path(source).parent / path) if path else source
    if "://" in target or other not in pages():
        return target
    return os.path.relpath(place_of(other), Path(place_of(source)).parent) + hash_ + place


def address(heading: Token, taken: dict[str, int]) -> str:
    text = "".join(child.content for child in heading.children or ())
    plain = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    taken[plain] = taken.get(plain, -1) + 1
    return f"{plain}-{taken[plain]}" if taken[plain] else plain


def coloured(code: str, language: str, _: str) -> str:
    """The inside of a block of code; one of no language is left to the renderer."""
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return ""
    return f'<pre class="highlight"><code>{highlight(code, lexer, HtmlFormatter(nowrap=True))}</code></pre>'


# ------------------------------------------------------------------ reference


def write_reference(folder: Path) -> None:
    """By pdoc; names that the package imports only when they are asked for are asked for first."""
    package = importlib.import_module("shoal")
    for name in package.__all__:
        setattr(package, name, getattr(package, name))
    package.__all__ = sorted(package.__all__, key=lambda name: (name[0].isupper(), name))  # functions first
    found = {name: pdoc.doc.Module(importlib.import_module(name)) for name in MODULES}
    for name, module in found.items():
        place = folder / f"{name.replace('.', '/')}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (1 + name.count("."))
        pdoc.render.configure(
            docformat="markdown", show_source=False, search=False, logo=up + LOGO, logo_link=f"{up}index.html"
        )
        place.write_text(without_dead_ends(pdoc.render.html_module(module, found)), "utf-8")
    pdoc.render.configure(search=False, logo=f"../{LOGO}", logo_link="../index.html")
    (folder / "index.html").write_text(pdoc.render.html_index(found), "utf-8")


def without_dead_ends(text: str) -> str:
    """pdoc links to inherited members that it does not show, such as the constructors of abstract classes."""
    anchors = set(re.findall(r'id="([^"]+)"', text))
    return re.sub(r'<a href="#([^"]+)"[^>]*>(.*?)</a>', lambda link: link[0] if link[1] in anchors else link[2], text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SITE)
