"""Charts as pictures that stand by themselves: in a notebook, in a file, in a page of somebody else."""

from __future__ import annotations

import base64
import re
from html import escape
from pathlib import Path

from shoal.charts.effects import effects, not_zero
from shoal.files.output import Output
from shoal.lazy.classes import dataclass
from shoal.report.charts import coefficient_chart
from shoal.report.html import COLOURS, DRAWN
from shoal.results.fit import FitReport

WIDE = 640  # pixels that a picture is shown at


@dataclass(frozen=True)
class Picture:
    """An SVG with its own style and nothing from elsewhere; notebooks show it, `save` writes it."""

    svg: str
    words: str  # what it shows, for those who do not see it

    def save(self, path: str | Path) -> None:
        Output(path).write(self.svg.encode())

    def __repr__(self) -> str:
        return f"<Picture: {self.words}>"

    def _repr_html_(self) -> str:
        """As an image: what it is drawn with cannot touch the page around it."""
        data = base64.b64encode(self.svg.encode()).decode()
        source = f"data:image/svg+xml;base64,{data}"
        return f'<img alt="{escape(self.words)}" style="max-width:100%;width:{WIDE}px" src="{source}">'


def alone(svg: str) -> Picture:
    """A chart of the report as a picture by itself."""
    words = re.search(r"<title>(.*?)</title>", svg, re.DOTALL)
    styled = svg.replace(">", f"><style>{COLOURS}svg {{ background: var(--paper) }}{DRAWN}</style>", 1)
    whole = styled.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return Picture(whole, words[1] if words else "")


def coefficients_of(report: FitReport) -> Picture | None:
    """The largest coefficients per standard deviation, with their intervals; None where none is drawn."""
    named = report.inference.named() if report.inference else {}
    ends = {name: {"low": one.low, "high": one.high} for name, one in named.items()}
    shown = not_zero(effects(report.coefficients, report.coefficients_standardized, ends))
    return alone(coefficient_chart(shown, report.target)) if shown else None
