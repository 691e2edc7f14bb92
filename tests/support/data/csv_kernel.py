"""Texts as the kernel reads them, and as Python does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings

from shoal.data.block_reader import BlockReport, read_range
from shoal.data.dialects import Dialect
from shoal.data.files import Source
from shoal.data.kinds import Layout
from shoal.kernels.csv_kernel import FieldKind
from shoal.worker import Worker
from support.tables import written

QUIET = settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Reading:
    """A text read as one range, with the kinds of its columns given."""

    def __init__(
        self, folder: Path, text: str | bytes, kinds: Sequence[FieldKind], dialect: Dialect, order: int = 0
    ) -> None:
        path = written(folder, text)
        layout = Layout(
            tuple(f"c{i}" for i in range(len(kinds))), tuple(kinds), (order,) * len(kinds), frozenset(range(len(kinds)))
        )
        source = Source(str(path), path.stat().st_size, dialect, layout, 0, 1)
        target = folder / "block.bin"
        self.report: BlockReport = read_range(source, 0, source.size, 0, str(target), 0, Worker().scratch)
        rows, width = self.report.rows, len(layout.numbers)
        raw = target.read_bytes()
        self.numbers = np.frombuffer(raw[: 8 * rows * width], np.float64).reshape(rows, width)
        self.codes = np.frombuffer(raw[8 * rows * width :], np.int32).reshape(len(layout.levels), rows)

    def texts(self) -> list[list[str]]:
        """Rows of texts, "" where missing."""
        columns = [
            [levels[code] if code >= 0 else "" for code in codes]
            for levels, codes in zip(self.report.levels, self.codes.tolist(), strict=True)
        ]
        return [list(row) for row in zip(*columns, strict=True)]


NO_MISSING = ("",)
