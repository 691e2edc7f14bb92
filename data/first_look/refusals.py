"""What is said of a file that is no table as it was thought to be."""

from __future__ import annotations

from shoal.data.block_reader import BlockReport
from shoal.data.files import Source
from shoal.settings.limits import ROW_BYTES
from shoal.words import file_size


def ragged_message(source: Source, lines: int, report: BlockReport) -> str:
    """Of rows that most often have another number of fields; `lines` were read before the range of the report."""
    first = report.bad_rows[0]
    line = source.first_line + lines + first.line
    return (
        f"Most rows do not have the {len(source.layout.names)} fields of the table: line {line}: {first.what}. "
        "Check the delimiter and the quotes, and give them if they were not found right."
    )


def endless_message(source: Source, lines: int, report: BlockReport) -> str:
    return (
        f"Expected rows of at most {file_size(ROW_BYTES)}, but the one at line "
        f"{source.first_line + lines + report.lines:,} goes on for longer. "
        "Look for a quote that is never closed there, and check the quotes and line ends."
    )
