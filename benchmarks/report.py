"""The findings as a table, with all that is needed to judge them; written as Markdown, printed as text."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.cases import Measurement

COLUMNS = ("what", "measured", "aim", "met", "median (lowest to highest)")
INTRODUCTION = (
    "Written by `make bench`. Ratios count, not seconds; the aim says which way is better. In the first part each",
    "contestant is a fresh process, all take turns within one run, and the files are in the page cache. Shoal starts",
    "without a cache of its own and writes float64 blocks. Memory: Pss_Anon + Pss_Shmem over all processes.",
    "Gradient training, the last part, is compared with its copy of the rows warm and its workers started;",
    "SGDRegressor has the same standardised float32 rows in memory, and the bare loop is NumPy over the same shards.",
    "How costs grow with rows and columns: [growth](growth.md).",
)
PACKAGES = ("numpy", "scipy", "polars", "pandas", "scikit-learn", "duckdb", "celer", "skglm")


def markdown(findings: Sequence[Measurement], circumstances: Sequence[str]) -> str:
    lines = [
        "# Benchmarks",
        "",
        *INTRODUCTION,
        "",
        *(f"- {line}" for line in circumstances),
        "",
        _row(COLUMNS),
        _row(["---"] * len(COLUMNS)),
        *(_row(cells(finding)) for finding in findings),
    ]
    return "\n".join(lines) + "\n"


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def text(findings: Sequence[Measurement]) -> str:
    """For a terminal: the last column has a line of its own under the others."""
    rows = [COLUMNS, *(cells(finding) for finding in findings)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS) - 1)]
    lines = []
    for *row, detail in rows:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        lines += [f"    {detail}"] if detail else []
    return "\n".join(lines)


def cells(finding: Measurement) -> tuple[str, ...]:
    aim = f"{'at least' if finding.at_least else 'at most'} {amount(finding.limit, finding.unit)}"
    measured = amount(finding.value, finding.unit)
    return finding.what, measured, aim, "yes" if finding.met else "NO", finding.detail


def amount(value: float, unit: str) -> str:
    return f"{value:.2f} x" if unit == "x" else f"{value:.4g} {unit}".strip()


def circumstances(repeats: int, others: float) -> list[str]:
    memory = psutil.virtual_memory().total / 1e9
    return [
        f"{datetime.now(UTC):%Y-%m-%d}; {repeats} repeats (start-up and new alphas: {3 * repeats})",
        f"{processor()}, {os.cpu_count()} cores, {memory:.0f} GB; {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}; " + ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        f"other programs took {others:.0%} of the cores meanwhile; much above 5 % blurs the figures",
    ]


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
