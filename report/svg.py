"""Charts as SVG text: axes, lines, points, bands and bars; what is drawn, and in which words, is decided elsewhere.

Colours are classes of the page's style, so that a chart follows light, dark and print. All text is escaped here.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import field

from shoal.lazy.classes import dataclass
from shoal.report.html import escape
from shoal.words import shortened

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 72, 12, 14, 44  # room around the plot, in pixels
LARGEST = sys.float_info.max
Position = tuple[float, float]


def element(tag: str, inside: str = "", **attributes: str | float) -> str:
    """An element; `class_` stands for class, and text_anchor for text-anchor."""
    said = "".join(f' {name.rstrip("_").replace("_", "-")}="{_said(value)}"' for name, value in attributes.items())
    return f"<{tag}{said}>{inside}</{tag}>" if inside else f"<{tag}{said}/>"


def _said(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def text(words: str, x: float, y: float, class_: str = "", anchor: str = "start") -> str:
    return element("text", escape(words), x=x, y=y, text_anchor=anchor, **({"class_": class_} if class_ else {}))


def fitting(name: str, room: float) -> str:
    """A name cut in the middle until it is no wider than so many pixels: what is beyond is not seen in a picture."""
    most = min(len(name), round(room / 4))
    fits = (cut for n in range(most, 0, -1) if sum(map(_pixels, cut := shortened(name, n))) <= room)
    return next(fits, "…")


def _pixels(letter: str) -> float:
    """Of a wide font at the size of texts in pictures; most fonts are narrower."""
    if unicodedata.east_asian_width(letter) in "WF":
        return 12.5
    if letter in "mwMW@%…":
        return 12.0
    return 5.0 if letter in "fijlrt.,:;'|!()[]/- " else 9.0 if letter.isupper() else 7.8


def drawing(parts: Iterable[str], alt: str, width: float = WIDTH, height: float = HEIGHT, class_: str = "chart") -> str:
    """The whole picture, as wide as its place; `alt` is what is read out to those who do not see it."""
    inside = f"<title>{escape(alt)}</title>{''.join(parts)}"
    return element("svg", inside, class_=class_, viewBox=f"0 0 {width:g} {height:g}", role="img")


@dataclass(frozen=True)
class PlotAxis:
    """A range of values, laid out evenly or by powers of ten."""

    low: float
    high: float
    title: str
    is_log: bool = False

    @classmethod
    def around(cls, values: Iterable[float], title: str, room: float = 0.04) -> PlotAxis:
        """All finite values, with some room on both sides."""
        known = [value for value in values if math.isfinite(value)]
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        if not high > low:
            more = abs(low) / 2 or 1.0
            return cls(low - more, high + more, title)
        more = (high / 2 - low / 2) * (2 * room)
        return cls(max(low - more, -LARGEST), min(high + more, LARGEST), title)

    @classmethod
    def powers(cls, values: Iterable[float], title: str) -> PlotAxis:
        known = [value for value in values if math.isfinite(value) and value > 0]
        low, high = (min(known), max(known)) if known else (1.0, 10.0)
        return cls(low / 1.15, high * 1.15, title, is_log=True)

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        if self.is_log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)  # halves: a range may be no double

    def has(self, value: float) -> bool:
        return math.isfinite(value) and self.low <= value <= self.high

    def ticks(self, most: int) -> list[tuple[float, str]]:
        return self._powers(most) if self.is_log else self._even(most)

    def _powers(self, most: int) -> list[tuple[float, str]]:
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        if last - first < 1:
            return [(value, f"{value:.3g}") for value, _ in PlotAxis(self.low, self.high, "")._even(3) if value > 0]
        step = max(1, math.ceil((last - first + 1) / most))
        return [(10.0**k, f"{10.0**k:g}") for k in range(first, last + 1, step)]

    def _even(self, most: int) -> list[tuple[float, str]]:
        """Whole multiples of 1, 2 or 5 times a power of ten."""
        rough = (self.high / 2 - self.low / 2) / most * 2
        unit = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 0.0
        if not unit or not math.isfinite(rough):
            return [(self.low, f"{self.low:.3g}"), (self.high, f"{self.high:.3g}")]
        step = next((unit * k for k in (1, 2, 5) if unit * k >= rough * 0.999), unit * 10)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        digits = min(16, max(4, math.ceil(math.log10(max(abs(self.low), abs(self.high), step) / step)) + 1))
        whole = step >= 1 and max(abs(self.low), abs(self.high)) < 1e7
        values = [k * step for k in range(first, last + 1) if self.low <= k * step <= self.high]
        return [(value, f"{value:,.0f}" if whole else f"{value:.{digits}g}") for value in values]


@dataclass
class Plot:
    """A frame with two axes, and what is drawn in it, in that order. Points outside the frame are left out."""

    x: PlotAxis
    y: PlotAxis
    width: float = WIDTH
    height: float = HEIGHT
    parts: list[str] = field(default_factory=list)

    def across(self, value: float) -> float:
        return LEFT + self.x.share(value) * (self.width - LEFT - RIGHT)

    def up(self, value: float) -> float:
        return self.height - BOTTOM - self.y.share(value) * (self.height - TOP - BOTTOM)

    def _inside(self, points: Iterable[Position]) -> list[Position]:
        return [(x, y) for x, y in points if self.x.has(x) and self.y.has(y)]

    def dots(self, points: Iterable[Position], class_: str) -> None:
        """Each a line of no length with round ends: a tenth of the bytes of circles."""
        path = "".join(f"M{self.across(x):.1f} {self.up(y):.1f}h0" for x, y in self._inside(points))
        if path:
            self.parts.append(element("path", d=path, class_=f"dot {class_}"))

    def line(self, points: Iterable[Position], class_: str) -> None:
        path = " ".join(f"{self.across(x):.1f} {self.up(y):.1f}" for x, y in self._inside(points))
        if path:
            self.parts.append(element("path", d=f"M{path}", class_=f"line {class_}"))

    def spans(self, x: Sequence[float], low: Sequence[float], high: Sequence[float], class_: str) -> None:
        """An upright line from low to high at each x, cut off at the frame."""
        path = ""
        for at, a, b in zip(x, low, high, strict=True):
            if self.x.has(at) and math.isfinite(a) and math.isfinite(b):
                ends = (self.up(min(max(end, self.y.low), self.y.high)) for end in (a, b))
                path += f"M{self.across(at):.1f} {next(ends):.1f}V{next(ends):.1f}"
        if path:
            self.parts.append(element("path", d=path, class_=f"line {class_}"))

    def bars(self, edges: Sequence[float], counts: Sequence[float], class_: str, under: Sequence[float] = ()) -> None:
        """From zero, or on top of those `under` them."""
        for i, count in enumerate(counts):
            if count:
                foot = under[i] if under else 0.0
                left, right = self.across(edges[i]), self.across(edges[i + 1])
                bottom, top = self.up(foot), self.up(foot + count)
                width = max(0.5, right - left - 1)
                self.parts.append(element("rect", x=left, y=top, width=width, height=bottom - top, class_=class_))

    def upright(self, at: float, class_: str, words: str = "", row: int = 0) -> None:
        """A line over the whole height, with words beside it; rows of words are below one another."""
        if not self.x.has(at):
            return
        x = self.across(at)
        self.parts.append(element("line", x1=x, x2=x, y1=TOP, y2=self.height - BOTTOM, class_=class_))
        if words:
            room = 6.3 * len(words) + 8
            ends = x + room > self.width - RIGHT
            anchor, place = ("end", x - 4) if ends else ("start", x + 4)
            self.parts.append(text(words, place, TOP + 10 + 14 * row, "label", anchor))

    def level(self, at: float, class_: str) -> None:
        if self.y.has(at):
            y = self.up(at)
            self.parts.append(element("line", x1=LEFT, x2=self.width - RIGHT, y1=y, y2=y, class_=class_))

    def svg(self, alt: str) -> str:
        return drawing([*self._frame(), *self.parts], alt, self.width, self.height)

    def _frame(self) -> list[str]:
        bottom, right, middle = self.height - BOTTOM, self.width - RIGHT, (self.height - BOTTOM + TOP) / 2
        parts = []
        for value, words in self.y.ticks(5):
            y = self.up(value)
            parts.append(element("line", x1=LEFT, x2=right, y1=y, y2=y, class_="grid"))
            parts.append(text(words, LEFT - 6, y + 4, "tick", "end"))
        for value, words in self.x.ticks(5):
            x = self.across(value)
            parts.append(element("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="axis"))
            parts.append(text(words, x, bottom + 17, "tick", "middle"))
        parts.append(element("line", x1=LEFT, x2=right, y1=bottom, y2=bottom, class_="axis"))
        parts.append(text(shortened(self.x.title, 60), (LEFT + right) / 2, self.height - 8, "title", "middle"))
        turned = f"rotate(-90 10 {middle:.0f})"
        title = escape(shortened(self.y.title, 40))
        parts.append(element("text", title, x=10, y=middle, text_anchor="middle", class_="title", transform=turned))
        return parts


def sparkline(counts: Sequence[int], alt: str, width: int = 88, height: int = 22) -> str:
    """A small histogram without axes."""
    most = max(counts, default=0)
    if not most:
        return ""
    step = width / len(counts)
    path = "".join(
        f"M{i * step:.1f} {height}v{-max(1.0, count / most * (height - 1)):.1f}h{max(1.0, step - 1):.1f}V{height}z"
        for i, count in enumerate(counts) if count
    )  # fmt: skip
    return drawing([element("path", d=path, class_="bar train")], alt, width, height, "spark")
