"""What is wrong with a site of HTML files: links that lead nowhere, and anything that is loaded from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"src", "srcset", "poster", "data"}  # attributes whose address a browser fetches by itself
IN_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class _Page(HTMLParser):
    """The addresses of one page: its own anchors, where it links to, what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = in_style(text)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name == "href" and value:
                (self.loads if tag == "link" else self.links).append(value)
            elif name in LOADS and value:
                self.loads.append(value)


def in_style(text: str) -> list[str]:
    return [first or second for first, second in IN_STYLE.findall(text)]


def problems(site: Path) -> list[str]:
    """A line for each; an empty list if the site is whole."""
    pages = {path: _Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        found += [f"{where}: loads {address} from elsewhere" for address in page.loads if is_elsewhere(address)]
        for address in (*page.loads, *page.links):
            if not is_elsewhere(address) and not address.startswith(("data:", "mailto:")):
                found += leads_nowhere(path, address, pages, where)
    for path in site.rglob("*.css"):
        style = in_style(path.read_text("utf-8"))
        found += [
            f"{path.relative_to(site)}: loads {address} from elsewhere" for address in style if is_elsewhere(address)
        ]
    return found


def is_elsewhere(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def leads_nowhere(path: Path, address: str, pages: dict[Path, _Page], where: Path) -> list[str]:
    parts = urlsplit(address)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        return [f"{where}: {address} is not there"]
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return [f"{where}: {address} has no such place"]
    return []
