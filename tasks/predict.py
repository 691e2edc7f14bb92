"""Predictions for a file from a model file: columns by name, levels by text, one line a row."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import IO, Any

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.files import file_format, inspect_text
from shoal.data.parquet_reader import inspect_parquet
from shoal.data.terms import Number
from shoal.errors import DataError, SourceChanged
from shoal.files.output import Output
from shoal.fitting.exact import words_told
from shoal.fitting.model_file import SavedModel, load_model
from shoal.passes.blocks import Predict, PredictLines
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.solve.conformal import half_width_of
from shoal.tasks.train import coordinated
from shoal.utils import Progress, silent
from shoal.words import listed, plural


def predict_file(
    model_path: Path, config: RunConfig, out: str | Path, progress: Progress = silent, interval: float | None = None
) -> dict[str, Any]:
    """Write `row,prediction` for every data row; a row that could not be read has an empty prediction.

    With an interval such as 0.9 also `lower,upper`: the prediction less and plus the model's half-width at that level.
    """
    output = Output(out, {"the file with the rows to predict for": config.file, "the model's own file": model_path})
    output.check()
    model = load_model(model_path)
    width = None if interval is None else half_width_of(model.report.prediction_interval, interval)
    with coordinated(config, progress) as coordinator:
        open_for(model, coordinator, config)  # a file that cannot be read leaves nothing behind
        with output.open() as file:
            writing = _Writing(model, coordinator, config, width, file)
            dataset = coordinator.cache.mending(writing.go_on)
    rows, empty, unseen = writing.rows, writing.empty, writing.unseen
    warnings = list(dataset.notes)
    fills = {t.column: t.fill for t in model.encoding.terms if isinstance(t, Number)}
    for name, fill in fills.items():
        if dataset.columns[name].missing:
            warnings.append(
                f"Column '{name}' has no value in {dataset.columns[name].missing} rows; {fill:g} stands in."
            )
    if unseen:
        warnings.append(
            f"{unseen} rows have a level that the model was not trained with; its 0/1 columns are all 0 there."
        )
    if empty:
        why = words_told(dataset) or "; ".join(f"line {line}: {what}" for line, what in dataset.manifest.bad_rows[:3])
        warnings.append(
            f"{plural(empty, 'row')} could not be read and {'has' if empty == 1 else 'have'} no prediction: {why}."
        )
    return {"rows": rows, "unseen_levels": unseen, "bad_rows": empty, "target": model.target,
            "out": str(out), "interval": interval, "half_width": width, "warnings": warnings}  # fmt: skip


class _Writing:
    """The predictions on their way to a file or pipe, block by block; what was written is not written again."""

    def __init__(
        self, model: SavedModel, coordinator: Coordinator, config: RunConfig, width: float | None, file: IO[bytes]
    ) -> None:
        self.model, self.coordinator, self.config, self.width, self.file = model, coordinator, config, width, file
        self.blocks = self.rows = self.empty = self.unseen = 0
        self.content = ""  # of the data set that the first ones are from
        file.write(b"row,prediction\n" if width is None else b"row,prediction,lower,upper\n")

    def go_on(self) -> Dataset:
        """All that is left to be written."""
        dataset = open_for(self.model, self.coordinator, self.config)
        self.content = self.content or dataset.manifest.content
        if dataset.manifest.content != self.content:
            raise SourceChanged(f"'{self.config.file}' changed while predictions were made for it. Try again.")
        left = _requests(self.model, dataset, self.width)[self.blocks :]
        for lines in self.coordinator.swept("predicting", left):
            self.file.write(lines.text)
            self.blocks, self.rows = self.blocks + 1, self.rows + lines.rows
            self.empty, self.unseen = self.empty + lines.empty, self.unseen + lines.unseen
        return dataset


def _requests(model: SavedModel, dataset: Dataset, width: float | None) -> list[PredictLines]:
    place, fitted = str(dataset.directory), (model.encoding, model.coef, model.intercept)
    return [PredictLines(Predict(place, block, *fitted), width) for block in dataset.blocks]


def open_for(model: SavedModel, coordinator: Coordinator, config: RunConfig) -> Dataset:
    """The data set of a file with its columns read as the model needs them."""
    known = config_from(model.file.config)  # what means that there is no value is the model's, unless it was said anew
    missing = known.missing if config.missing is None else config.missing
    config = dataclasses.replace(
        config, categorical=model.texts, numeric=model.numbers, missing=missing,
        also_missing=config.also_missing or known.also_missing,
    )  # fmt: skip
    _check_columns(config, [*model.numbers, *model.texts])
    dataset = coordinator.open(config)
    _check_types(dataset, model)
    return dataset


def _check_types(dataset: Dataset, model: SavedModel) -> None:
    for name in model.numbers:
        if not dataset.columns[name].is_number:
            raise DataError(f"The model needs numbers in column '{name}', got text. Correct the file.")
    for name in model.texts:
        if dataset.columns[name].more_levels:  # some rows' levels are not remembered, known ones among them
            raise DataError(
                f"Column '{name}' has too many different values to look them all up (more than "
                f"{len(dataset.columns[name].levels)}); the model knows {len(model.encoding.known[name])} of them. "
                "Split the file into smaller ones."
            )


def _check_columns(config: RunConfig, needed: list[str]) -> None:
    path = Path(config.file).expanduser()
    if not path.is_file():
        raise DataError(f"Expected a file at '{path}', found none. Check the path.")
    if file_format(path) == "parquet":
        names = inspect_parquet(path, (), ()).layout.names
    else:
        names = inspect_text(path, config.dialect, (), ()).layout.names
    absent = [name for name in needed if name not in names]
    if absent:
        raise DataError(
            f"The model needs columns that the file does not have: {listed(absent)}. "
            f"The file has: {listed(names)}. Rename or add them."
        )
