"""Models with a report, and the report as a browser reads it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import palmerpenguins
import pandas as pd

import shoal
from shoal.fitting.model_file import load_model
from support.tables import shoal as command

Floats = npt.NDArray[np.float64]
TARGET = "body_mass_g"
DRAWN = {"svg", "title", "line", "path", "rect", "text"}
PLAIN = DRAWN | {"html", "head", "meta", "style", "body", "h1", "h2", "h3", "p", "div", "span", "b", "figure", "figcaption",
                 "table", "thead", "tbody", "tr", "th", "td"}  # fmt: skip


SECTIONS = ["The model", "Coefficients", "Residuals", "Data", "Certificate", "Lineage"]


class Page(HTMLParser):
    """Tags with their attributes, the text, headings, and tables as rows of cells, by the heading above them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.headings: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.notes: list[str] = []
        self._open: list[str] = []
        self._note = False
        self.feed(text)
        assert self._open == [], "tags that were not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag != "meta":
            self._open.append(tag)
        if tag in ("h2", "h3"):
            self.headings.append("")
        elif tag == "tr":
            self.tables.setdefault(self.headings[-1], []).append([])
        elif tag in ("td", "th"):
            self.tables[self.headings[-1]][-1].append("")
        self._note = tag == "div" and attributes.get("class") == "note"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._note = False

    def handle_data(self, data: str) -> None:
        inside = self._open[-1:]
        if inside in (["style"], ["title"]):
            return
        self.text += data
        if inside in (["h2"], ["h3"]):
            self.headings[-1] += data
        elif inside in (["td"], ["th"]):
            self.tables[self.headings[-1]][-1][-1] += data
        elif self._note:
            self.notes.append(data)

    def rows(self, heading: str) -> dict[str, dict[str, str]]:
        """The table below a heading, by the first cell of each row."""
        head, *rows = self.tables[heading]
        return {row[0]: dict(zip(head, row, strict=True)) for row in rows}

    def charts(self, class_: str) -> list[Floats]:
        """The points of each cloud of dots with these classes, in pixels."""
        found = [a["d"] or "" for tag, a in self.tags if tag == "path" and a.get("class") == class_]
        return [np.array(re.findall(r"M([-\d.]+) ([-\d.]+)h0", path), float) for path in found]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def harmless(text: str) -> Page:
    """The page, if it is closed in itself: no script, no handler, no address of another place."""
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= PLAIN
    attributes = {name for _, found in page.tags for name in found}
    assert not attributes & {"src", "href", "xlink:href", "style", "action", "srcset", "data"}
    assert not any(name.startswith("on") for name in attributes)
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    return page


# ------------------------------------------------------------------ models


def penguins() -> pd.DataFrame:
    return palmerpenguins.load_penguins()


def plain(rows: int = 83) -> pd.DataFrame:
    """Complete numbers, so that other programs need no preparation."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame(random.normal(size=(rows, 4)) * [1, 20, 0.1, 3] + [0, 5, 100, -2], columns=list("abcd"))
    frame["y"] = 2 * frame["a"] - frame["b"] / 10 + 7 * frame["c"] + random.normal(size=rows)
    return frame


class Made:
    def __init__(self, folder: Path, frame: pd.DataFrame, target: str, knobs: dict[str, Any]) -> None:
        self.data, self.path, self.out = folder / "table.csv", folder / "model.json", folder / "report.html"
        frame.to_csv(self.data, index=False)
        self.frame, self.target = pd.read_csv(self.data), target
        shoal.fit(self.data, target, **knobs).save(self.path)
        self.contents: dict[str, Any] = load_model(self.path).file.as_dict()

    def report(self) -> Page:
        answer = command("export", self.path, "--to", "report", "--out", self.out)
        assert (answer.code, answer.err) == (0, ""), answer.err
        return harmless(self.out.read_text("utf-8"))


def along(pixels: Any, values: Any, tolerance: float = 0.06, up: bool = False) -> bool:
    """Whether pixels are a linear map of values: more to the right, or further up, which is fewer pixels."""
    slope, start = np.polyfit(values, pixels, 1)
    return bool(
        slope * (-1 if up else 1) > 0
        and np.abs(slope * np.asarray(values) + start - np.asarray(pixels)).max() < tolerance
    )
