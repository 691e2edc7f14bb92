"""An export and its proof: the file is run by its own runtime on trial rows and compared with Shoal's predictions."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from shoal.data_pipeline import design_rows
from shoal.errors import ConfigError, StateError, TrainingError
from shoal.exports.base import ColumnValues, Format, format_named
from shoal.exports.names import ending
from shoal.exports.sql import Sql
from shoal.exports.trial_rows import rows_with_gaps, rows_with_unseen, trial_rows
from shoal.files.output import Output
from shoal.fitting.model_file import SavedModel, load_model, usable
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.results.model import ModelFile
from shoal.settings.values import config_from
from shoal.tasks.predict import open_for
from shoal.tasks.workers import kept_coordinator
from shoal.words import listed

LOOSEST = 1e-9  # relative; whatever rounding may do, an export that is further off is refused


MOST_TERMS = 10_000  # of a model that is proven: trial rows are as many as levels, and have a number a term
SMALLEST = 1e-300  # means below are as good as 0
ALL = ("json", "sql", "python", "onnx", "sklearn")
WITH_LAYERS = ("json", "onnx")  # formats of networks
WITH_LOSSES = {
    "logit": ALL,
    "log": ALL,
    "identity": ALL,
    "softmax": ALL,
}  # formats that can say the mean of another loss, by its link


@dataclass(frozen=True)
class Proof:
    """What was compared before an export was handed out, and how far apart it was at most.

    `largest_difference` is in the target's unit, over the rows with ordinary values. `largest_relative` is over all
    rows: the difference as a share of |intercept| + sum |coefficient * value|, by which rounding can be measured
    where terms cancel as well.
    """

    rows: int
    largest_difference: float
    largest_relative: float
    what_was_compared: str
    rows_with_gaps: int  # rows without a value in some column
    rows_with_unseen: int  # rows with a level that the model does not know, in some column
    expects: str = ""  # what has to be done to values before, which files that Shoal reads need not

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"Proven on {self.rows:,} rows ({self.what_was_compared}): the largest difference is "
            f"{self.largest_difference:.1e}, relative {self.largest_relative:.1e}."
        )


def proven_export(source: Path | ModelFile, to: str, out: str | Path, table: str | None = None) -> Proof:
    """Write the model elsewhere, prove that file, and only then hand it out."""
    format_ = _with_table(format_named(to), table)
    model, output = model_and_output(source, out)
    formats = WITH_LAYERS if model.network else WITH_LOSSES.get(model.outcome.link, ()) if model.outcome else (to,)
    if to not in formats:
        model.check_linear(f"Exports as {to}")
    if len(model.encoding.terms) > MOST_TERMS:
        raise StateError(
            f"Expected a model of at most {MOST_TERMS:,} columns, got {len(model.encoding.terms):,}: it is proven on "
            "rows with each of its levels, which would not fit into memory. Its own file predicts by shoal predict."
        )
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        unproven = Path(folder) / (output.path.name if output.is_plain else f"export{ending(to)}")  # runtimes go by it
        try:
            format_.write(model, unproven)
            proof = prove(format_, unproven, model)
        except UnicodeEncodeError as error:
            raise StateError(
                f"The model has a name that is not valid text ({error.object!r:.60}). Rename it and train again."
            ) from None
        except (TrainingError, OSError, MemoryError):
            raise
        except Exception as error:  # of whatever library writes or runs the format
            raise StateError(f"The export cannot be run: {type(error).__name__}: {error}. {_REFUSED}") from error
        with unproven.open("rb") as made, output.open() as file:
            shutil.copyfileobj(made, file, 1 << 20)
    return proof


def model_and_output(source: Path | ModelFile, out: str | Path) -> tuple[SavedModel, Output]:
    """The model, and where what is made of it goes: not over the model's own file nor over its data."""
    own = {"the model's own file": source} if isinstance(source, Path) else {}
    Output(out, own).check()
    model = load_model(source) if isinstance(source, Path) else usable(source)
    trained_on = model.file.config.get("file")
    data = {"the data that the model was trained on": str(trained_on)} if trained_on else {}
    return model, Output(out, {**own, **data}).check()


def _with_table(format_: Format, table: str | None) -> Format:
    if table is None:
        return format_
    if not isinstance(format_, Sql):
        raise ConfigError("Expected the name of a table with the format sql only. Leave it out.")
    return Sql(table)


def prove(format_: Format, path: Path, model: SavedModel) -> Proof:
    """Run what was written and compare; refused where it differs by more than rounding."""
    rows, ordinary = trial_rows(model)
    theirs = np.asarray(format_.run(path, model, rows), np.float64)
    ours, scale = own_predictions(model, rows)
    if theirs.shape != ours.shape:
        raise StateError(f"Expected {len(ours)} predictions of the export, got {theirs.size}. {_REFUSED}")
    both = np.isnan(theirs) & np.isnan(ours)  # rows without a prediction, such as a logarithm of 0
    difference = np.where((theirs == ours) | both, 0.0, np.abs(theirs - ours))
    scale = np.where(both, 1.0, scale if ours.ndim == 1 else scale[:, None])
    by_score = difference
    scale = scale + 1 if model.outcome else scale  # exponentials and divisions round as well
    if model.outcome and model.outcome.link == "log":  # a mean is as far off, in parts of itself, as its score
        apart = np.abs(np.log(np.maximum(theirs, SMALLEST)) - np.log(np.maximum(ours, SMALLEST)))
        by_score = np.where(both, 0.0, apart)
    relative = np.divide(by_score, scale, out=np.where(by_score == 0, 0.0, np.inf), where=scale > 0)
    worst = np.unravel_index(np.argmax(np.where(np.isnan(relative), np.inf, relative)), relative.shape)
    if not relative[worst] <= tolerance(_summed(model)):
        raise StateError(
            f"The export does not predict what the model predicts: in trial row {worst[0]} it gives "
            f"{theirs[worst]:.17g}, the model {ours[worst]:.17g}. {_REFUSED}"
        )
    compared = f"missing values, every level, an unseen level and extremes; {format_.runtime} against shoal predict"
    gaps, unseen = rows_with_gaps(rows), rows_with_unseen(rows, model.encoding.known)
    largest = float(difference[ordinary].max()), float(relative.max())
    return Proof(len(ours), *largest, compared, gaps, unseen, _expected(model))


def use_of(to: str, proof: Proof) -> str:
    """How to use a file of that format, for a person."""
    return " ".join(filter(None, (format_named(to).use, proof.expects)))


def _expected(model: SavedModel) -> str:
    """No format but our own reads texts in one spelling, and what it does not know it takes for no level at all."""
    names = [f"'{name}'" for name in model.texts if name in model.one_spelling]
    return (
        f"It expects texts of {listed(names)} in small letters, without blanks around and with one between words; of "
        "others it knows nothing."
        if names else ""
    )  # fmt: skip


def tolerance(terms: int) -> float:
    """What rounding can do: two sums of n products in any order are within (2 n + 2) eps of the sum of their sizes;
    twice that, as constants may be read with an error in their last digit."""
    return min(LOOSEST, 4 * (terms + 4) * float(np.finfo(np.float64).eps))


def _summed(model: SavedModel) -> int:
    """How many products a prediction is the sum of, one layer after the other."""
    layers = model.network.weights if model.network else ()
    return int(model.coef.shape[-1] + sum(W.shape[1] for W in layers))


_REFUSED = "It was not kept. Please report this with the model file."


def own_predictions(model: SavedModel, rows: ColumnValues) -> tuple[Array, Array]:
    """What `shoal predict` says for the rows, and for each |intercept| + sum |coefficient * value|.

    The rows go through a Parquet file, which holds any name, text and double as it is.
    """
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        path = Path(folder) / "trial.parquet"
        _write_parquet(model, rows, path)
        config = config_from({"file": str(path), "engine": "inline", "on_bad_rows": "stop"})
        with kept_coordinator(config, folder=Path(folder)) as coordinator:
            dataset = open_for(model, coordinator, config, days=True)
            parts = [p for p, _ in coordinator.predict(dataset, *model.fitted)]
            chunks = [
                chunk.X for block in dataset.blocks for chunk in design_rows(model.encoding, dataset, block, False)
            ]
    if model.network is not None:
        return np.concatenate(parts), model.network.sizes(np.concatenate(chunks))
    scale = np.abs(np.concatenate(chunks)) @ np.abs(model.coef).T + np.abs(model.fitted[2])
    # a probability of several classes goes by the difference of two scores
    return np.concatenate(parts), scale if scale.ndim == 1 else 2 * scale.max(axis=1)


def _write_parquet(model: SavedModel, rows: ColumnValues, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    kinds = {name: pyarrow.string() if name in model.texts else pyarrow.float64() for name in rows}
    table = pyarrow.table({name: pyarrow.array(values, kinds[name]) for name, values in rows.items()})
    pyarrow.parquet.write_table(table, path)
