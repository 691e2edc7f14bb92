"""Sizes that decide how a run goes about its work, for those who do it and those who foresee it; no knobs."""

from __future__ import annotations

from shoal.settings.config import RunConfig

MB = 1 << 20
SMALL_FILE = 48 * MB  # below this, one process is done before others have started
BLOCK_BYTES = 8 * MB  # text in one block: large enough to amortise a request, small enough to balance and to redo
WIDE_BLOCK_BYTES = 64 * MB  # for wide tables: a block should have more rows than columns, or sums cost more than it
ROW_BYTES = 16 * MB  # of text in one row: what is longer has no line ends, or a quote that is never closed
MOST_COLUMNS = 200_000  # of a table: its names alone are some megabytes, and what is said of them some dozens
PACKED_TIMES, UNPACKED_LEAST = 200, 512 * MB  # a packed file becomes so many times its size at most, or so much
SLICE_BYTES = 16 * MB  # rows of a Parquet file that are decoded at a time: one row group may be all of it
CHUNK_BYTES = 2 * MB  # rows that are worked on at a time: they stay in the cache
CELLS = 10  # residues of the row index that sums are kept for: leaves out every 2nd, 5th or 10th row at no cost
MOST_CELLS = 50  # the same, where a split asks for another number
CELL_BYTES = 4 * MB  # of all cells that come with one block: more would cost more than they save
MOMENT_BYTES = 64 * MB  # of one cell; wider tables are summed when a fit asks for it
SOLVING = 16  # matrices of columns x columns that an exact solution holds at a time besides its sums, measured
SHARE_FOR_EXACT = 0.75  # of the free memory that sums and solution may take together
POLISHED_CELLS = 2_000_000  # values up to which medians are sorted, and a linear model is refined, by one process
MOST_EXACT = 2000  # columns up to which the optimum is found beforehand: beyond, that takes longer than many passes
SMALL_DATA = 4_000_000  # values up to which gradients in double precision cost nothing that one would notice
SHARD_BYTES = 64 * MB  # a worker shuffles a shard in memory
HELD_BYTES = 64 * MB  # of rows kept for testing: enough to measure a loss by
JOB_PATIENCE = 600.0  # seconds that a job of a page goes on though nobody waits for it
FEWEST_SHARD_ROWS, USUAL_SHARDS = 64, 16  # small data: a shard is worth a task from so many rows, more help nobody


def worker_count(config: RunConfig, size: int, cores: int) -> int:
    """Worker processes for a file of so many bytes; 0 for none, the run's own process does it."""
    small = size < SMALL_FILE and config.solver == "exact"  # the workers are what a gradient run is about
    if config.engine == "inline" or (config.engine == "auto" and small):
        return 0
    return config.workers or cores


def block_bytes(numbers: int) -> int:
    """Text in one block of a table with so many columns of numbers."""
    return max(BLOCK_BYTES, min(64 * numbers**2, WIDE_BLOCK_BYTES))


def memory_for_exact(free: int) -> int:
    """Bytes that the sums and the solution of an exact fit may take of the free memory."""
    return int(SHARE_FOR_EXACT * free)


def most_unpacked(size: int) -> int:
    """Bytes that a packed file of this size may become; more is no table, but a way to fill a disk."""
    return max(PACKED_TIMES * size, UNPACKED_LEAST)


def cells_from_reading(numbers: int, test_every: int) -> int:
    """Residues of the row index that sums are kept for while a table is read; 0 if it is too wide for any."""
    one = 8 * numbers * (numbers + 1)
    wanted = test_every if 0 < test_every <= MOST_CELLS and CELLS % test_every else CELLS
    if one > MOMENT_BYTES:
        return 0
    return wanted if one * wanted <= CELL_BYTES else 1


def shard_count(rows: int, row_bytes: int, wanted: int = 0) -> int:
    """By the data only, never by the number of workers; `wanted` shards or more, if each is to fit into memory."""
    least = -(-rows * row_bytes // SHARD_BYTES)
    usual = min(wanted, rows) if wanted else min(rows // FEWEST_SHARD_ROWS, USUAL_SHARDS)
    return max(least, usual, 1)
