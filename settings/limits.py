"""Sizes that decide how a run goes about its work, for those who do it and those who foresee it; no knobs."""

from __future__ import annotations

from shoal.errors import ConfigError, Remedy
from shoal.settings.config import RunConfig
from shoal.settings.strength import chooses_alpha
from shoal.settings.transforms import hashes_text
from shoal.settings.when import LOSSES, MODELS, MODULE, NETWORK

MB = 1 << 20
SMALL_FILE = 48 * MB  # below this, one process is done before others have started
BLOCK_BYTES = 8 * MB  # text in one block: large enough to amortise a request, small enough to balance and to redo
WIDE_BLOCK_BYTES = 64 * MB  # for wide tables: a block should have more rows than columns, or sums cost more than it
FEW_ROWS_BYTES = 1600  # a column, in blocks of tables with fewer rows than columns: about 160 rows
ROW_BYTES = 16 * MB  # of text in one row: what is longer has no line ends, or a quote that is never closed
MOST_COLUMNS = 200_000  # of a table: its names alone are some megabytes, and what is said of them some dozens
PACKED_TIMES, UNPACKED_LEAST = 200, 512 * MB  # a packed file becomes so many times its size at most, or so much
SHEET_ROWS = 1 << 20  # of a workbook's sheet, as Excel has it
MARKS_TIMES, MARKS_LEAST, MARKS_MOST = 4, 2_000_000, 20_000_000  # XML of shared texts: a byte of its packed size, all
BLOCK_LEVELS, MOST_LEVELS = 5_000, 20_000  # different texts of a column that are told apart: in a block, in all
MANY_LEVELS = 2**31 - 2  # the same where a fit keeps levels sparse
TEXT_COPIES = 8  # columns of numbers that a level and its name take as much memory as, with its model file, measured
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
MANY_COLUMNS = 500  # from which on a table with fewer rows than columns is solved from its rows
TUNING = 7  # copies of all rows that the choice of a penalty from them holds at a time, measured
LEFT, LEFT_MATRICES = 6, 6  # columns a row that an elastic net leaves at most, matrices of them at a time, measured
WIDEST_CELLS = 8_000_000  # values of a table wider than long up to which folds choose a penalty in seconds
MOST_CLASSES = 50  # of a target that one model tells apart
USUAL_POINTS = 100  # penalties that are tried where nobody says how many
HOLDING = 4  # copies of all rows that such a solution holds at a time, measured
SMALL_DATA = 4_000_000  # values up to which gradients in double precision cost nothing that one would notice
SHARD_BYTES = 64 * MB  # a worker shuffles a shard in memory
HELD_BYTES = 64 * MB  # of rows kept for testing: enough to measure a loss by
STUDIES_BYTES = 512 * MB  # of all studies that the dashboard has open, with the answers about them
JOB_PATIENCE = 600.0  # seconds that a job of a page goes on though nobody waits for it
NETWORK_WORKERS, WORKERS_A_CORE = 8, 4  # of a network's run: so many are started in any case, or for each core
TORCH_BYTES = 300 * MB  # of a worker that has imported PyTorch, measured
FEWEST_SHARD_ROWS, USUAL_SHARDS = 64, 16  # small data: a shard is worth a task from so many rows, more help nobody


def worker_count(config: RunConfig, size: int, cores: int) -> int:
    """Worker processes for a file of so many bytes; 0 for none, the run's own process does it."""
    small = size < SMALL_FILE and config.solver == "exact"  # the workers are what a gradient run is about
    if config.engine == "inline" or (config.engine == "auto" and small):
        return 0
    if config.model in (MODULE, NETWORK) and config.solver == "gradient":
        return min(config.workers or cores, max(NETWORK_WORKERS, WORKERS_A_CORE * cores))
    return config.workers or cores


def too_many_workers(config: RunConfig, there: int, cores: int) -> str:
    """Why a run of a network has fewer workers than somebody asked for; empty where it has them."""
    if config.engine in ("inline", "ray") or config.model not in (MODULE, NETWORK) or config.workers <= there:
        return ""
    return (
        f"{config.workers} workers were asked for, {there} are there: each is a process with PyTorch, of some "
        f"{TORCH_BYTES // MB} MB, and this machine has {cores} {'core' if cores == 1 else 'cores'}. More would take "
        "turns on them. Give more machines by --engine ray, or ask for fewer."
    )


def block_bytes(numbers: int) -> int:
    """Text in one block of a table with so many columns of numbers."""
    return max(BLOCK_BYTES, min(64 * numbers**2, WIDE_BLOCK_BYTES))


def most_block_bytes(numbers: int, size: int) -> int:
    """The same for a text of so many bytes: where rows are surely fewer than columns (a value takes 2 bytes at least),
    no sums are made of blocks, and small ones are read by all workers; but each costs something a column."""
    return (
        max(BLOCK_BYTES, min(FEW_ROWS_BYTES * numbers, WIDE_BLOCK_BYTES))
        if size <= 2 * numbers**2
        else WIDE_BLOCK_BYTES
    )


def allowed_bad_rows(choice: str, rows: int, bad: int) -> int:
    """How many rows that cannot be read a fit lets pass, by `on_bad_rows`."""
    return {"stop": 0, "skip": bad}.get(choice, min(100, rows // 100))


def memory_for_exact(free: int) -> int:
    """Bytes that the sums and the solution of an exact fit may take of the free memory."""
    return int(SHARE_FOR_EXACT * free)


def solved_from_rows(rows: int, columns: int, sparse: bool, free: int) -> bool:
    """Whether an exact fit takes the rows themselves, because matrices of columns x columns would take longer, and they
    fit into the free memory; `sparse`: its penalty leaves few columns."""
    wide = columns > (MOST_EXACT if sparse else max(rows, MOST_EXACT)) or columns > max(rows, MANY_COLUMNS)
    return wide and HOLDING * 8 * rows * columns <= memory_for_exact(free)


def takes_rows(config: RunConfig, rows: int, columns: int, free: int) -> bool:
    """The same of a config: rows that count by weights, those of other losses, and those of coefficients that are held
    at 0 or more are always summed."""
    if config.weights or config.model in LOSSES or config.nonnegative:
        return False
    return solved_from_rows(rows, columns, config.model in ("lasso", "elasticnet"), free)


def has_gradient_way(config: RunConfig, columns: int) -> bool:
    """Whether gradient steps are a way to a model whose matrices of columns x columns are too large: they need such a
    matrix themselves where columns are few enough to know the optimum beforehand."""
    steps = not config.weights and config.model not in LOSSES
    return steps and config.solver == "exact" and columns > MOST_EXACT


def tuning_bytes(rows: int, columns: int, points: int, ratios: int = 1) -> int:
    """Of the choice of a penalty from the rows: copies of them, and for each mixing ratio the weights (points, columns)
    in two units, of all rows and of a fold, and those that are just made; besides matrices of the columns that a
    penalty leaves."""
    return 8 * (columns * (TUNING * rows + (4 * ratios + 2) * points) + LEFT_MATRICES * min(columns, LEFT * rows) ** 2)


def most_unpacked(size: int) -> int:
    """Bytes that a packed file of this size may become; more is no table, but a way to fill a disk."""
    return max(PACKED_TIMES * size, UNPACKED_LEAST)


def most_marks(size: int) -> int:
    """Elements and attributes in the texts that the cells of a workbook share, packed to this size; 100 bytes each."""
    return min(max(MARKS_TIMES * size, MARKS_LEAST), MARKS_MOST)


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


# ------------------------------------------------------------------ columns that are never filled in with zeros


def keeps_sparse(config: RunConfig) -> bool:
    """Whether columns of levels are never filled in with zeros: by what a person asks for, not by the table."""
    return config.max_levels > MOST_LEVELS or any(map(hashes_text, config.transform))


def sparse_bytes(values: int, columns: int, rows: int) -> int:
    """Of an exact fit to rows of so many values that are there, by the copies it makes."""
    return 60 * values + 160 * columns + 40 * rows


def check_sparse(config: RunConfig) -> None:
    """Refuse what there is for dense columns only, beside what only sparse ones can have."""
    if not keeps_sparse(config):
        return
    what = f"{_asked(config)}, which keeps them sparse,"
    if config.model not in MODELS or config.solver != "exact" or config.engine == "ray":
        raise ConfigError(
            f"Expected an exact fit of a {', '.join(MODELS[:-1])} or {MODELS[-1]} model on one machine beside {what} "
            f"got model {config.model}, solver {config.solver}, engine {config.engine}.", *_ways(config),
            knobs=["max_levels", "transform", "model", "solver", "engine"],
        )  # fmt: skip
    if config.nonnegative or config.robust != "none" or config.bands:
        odd = "nonnegative" if config.nonnegative else "robust" if config.robust != "none" else "bands"
        raise ConfigError(f"There is no {odd} beside {what} Leave one of them out.", knobs=[odd, "max_levels"])
    if chooses_alpha(config):
        raise ConfigError(
            f"Expected an alpha: none is chosen beside {what} got none for {config.model}.",
            Remedy.set("Give a number, such as", "alpha", 1.0), *_ways(config), knobs=["alpha", "max_levels"],
        )  # fmt: skip


def check_dense(config: RunConfig) -> None:
    """Refuse for a task that fills zeros in what only sparse columns can have."""
    if keeps_sparse(config):
        raise ConfigError(
            f"This cannot be worked out beside {_asked(config)}: exact fits at a given alpha (shoal train, shoal.fit) "
            "and predictions have a way for so many columns.", *_ways(config), knobs=["max_levels", "transform"],
        )  # fmt: skip


def _asked(config: RunConfig) -> str:
    hashes = [text for text in config.transform if hashes_text(text)]
    return f"transform {hashes[0]}" if hashes else f"max_levels above {MOST_LEVELS:,}"


def _ways(config: RunConfig) -> list[Remedy]:
    """What would do without."""
    if config.max_levels <= MOST_LEVELS:
        return []
    return [Remedy.set("Or leave columns of more levels out", "max_levels", MOST_LEVELS)]
