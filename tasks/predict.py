"""Predictions for a file from a model file: columns by name, levels by text, one line a row."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.files import file_format
from shoal.data.kinds import Wanted
from shoal.data.notation.dates import ORDERS, has_times
from shoal.data.notation.numbers import notation_from
from shoal.data.notation.styles import order_of, style_of
from shoal.data.parts.heads import columns_of
from shoal.data.sniffing import detect_encoding
from shoal.data.summaries.columns import sampled, tallied
from shoal.data.terms import MISSING_LEVEL
from shoal.errors import ConfigError, DataError, Remedy, SourceChanged
from shoal.files.output import Output
from shoal.files.parts import parts_of, title
from shoal.files.table_style import Rewriting, RewrittenFile, table_style
from shoal.fitting.exact import words_told
from shoal.fitting.model_file import SavedModel, in_days, load_model, without_zeros
from shoal.passes.blocks import LOCATED, PredictLines
from shoal.results.answers.drift import SeenColumn
from shoal.results.answers.predictions import FilePredictions, UnpredictedRow, gone_told, is_as_if_gone, unknown_told
from shoal.results.model import WITH_DATES
from shoal.results.thresholds import check_threshold
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.sparse.prediction import write_predictions
from shoal.sparse.table import is_sparse
from shoal.sparse.texts.models import can_split, has_many
from shoal.sparse.texts.scores import predict_requests
from shoal.tasks.kept_columns import Beside, csv_line
from shoal.tasks.kept_text import cells_beside
from shoal.tasks.predict_rows import gaps_before, stand_in
from shoal.tasks.train import coordinated
from shoal.utils import Progress, silent
from shoal.words import date_text, list_text, listed, number, plural

FAR = 0.5  # of the range of a column in training, beyond which its values are told
ENCODED = 1 << 20  # bytes that tell whether a text is UTF-8
SHOWN = 3  # rows without a prediction that a warning names
LISTED = 100  # levels of a column that are counted one by one in JSON


def predict_file(
    model_path: Path,
    config: RunConfig,
    out: str | Path,
    progress: Progress = silent,
    interval: float | None = None,
    keep: Sequence[str] = (),
    threshold: float | None = None,
    summed: bool = False,
    like_file: bool = False,
) -> FilePredictions:
    """Write `row,prediction` for every data row; a row that could not be read has an empty prediction.

    With an interval such as 0.9 also `lower,upper`: the prediction less and plus the model's half-width at that level,
    or between two lines about it where it has bands of that level; of a yes/no model `set`, the values that are usual.
    Of a yes/no model `row,prediction,probability_YES`: that from the threshold on, of 0.5 if none is given. Of several
    classes the likeliest, and `probability_CLASS` of each.
    `summed`: also what its columns were like, in `seen`. `like_file`: written with the marks of the file.
    With columns to `keep`, or `all` of them, or `ids`, these stand before the prediction in place of the row's number.
    """
    output = Output(out, {"the file with the rows to predict for": config.file, "the model's own file": model_path})
    output.check()
    model = without_zeros(load_model(model_path, hashes=True))
    called_from = check_threshold(model.outcome, threshold)
    width, lines = (None, ()) if interval is None else model.interval_at(interval)
    if is_sparse(config):
        if keep or like_file:
            raise ConfigError("Sparse rows have no cells to stand beside predictions, and no marks. Leave these out.")
        with coordinated(config, progress) as coordinator:
            rows = write_predictions(model, coordinator, config, output, width, called_from)
        return FilePredictions(
            rows=rows, target=model.target, out=str(out), interval=interval, half_width=width,
            made=len(_made(model, width)), threshold=called_from if classes_of(model) else None,
        )  # fmt: skip
    config = _in_its_encoding(config, model)  # cells that are kept are read in it too
    with coordinated(config, progress) as coordinator, coordinator.cache.workshop() as folder:
        found = open_for(model, coordinator, config)  # a file that cannot be read leaves nothing behind
        beside = cells_beside(model, coordinator, config, keep, found, folder) if keep else None
        with output.open() as file:
            made = _made(model, width)
            style = table_style(_dialect(found), (*made, *classes_of(model)))
            written_to = RewrittenFile(file, Rewriting(style, len(made))) if like_file else file
            writing = _Writing(model, lines, coordinator, config, width, written_to, beside, called_from)
            dataset = coordinator.cache.mending(writing.go_on)
            if beside:
                beside.finish()
    answer = _answer(model, dataset, writing, interval)
    return dataclasses.replace(
        answer, out=str(out), kept=tuple(beside.keep.names) if beside else (), table=style,
        seen=_seen(model, dataset) if summed else {},
    )  # fmt: skip


def _answer(model: SavedModel, dataset: Dataset, writing: _Writing, interval: float | None) -> FilePredictions:
    """What is said of predictions that are written."""
    doubts, warnings = _said(model, dataset, writing)
    said = model.report.prediction_interval
    yes_or_no = bool(classes_of(model)) and not model.several
    return FilePredictions(
        rows=writing.rows, unseen_levels=writing.unseen,
        unknown_levels={name: dict(levels.most_common(LISTED)) for name, levels in writing.unknown.items()},
        bad_rows=writing.empty, target=model.target, out="", interval=interval,
        half_width=None if writing.lines else writing.width,
        bands=model.report.bands.level if model.report.bands else None,
        half_width_of=said.spread if said else "even", centre=said.centre if said else 1.0, several=model.several,
        yes=model.outcome.yes if model.outcome and yes_or_no else "",
        threshold=writing.threshold if yes_or_no else None, made=len(_made(model, writing.width)),
        not_predicted=(
            *(UnpredictedRow(bad.problem, line=bad.line, file=bad.part) for bad in dataset.manifest.bad_rows),
            *(UnpredictedRow(what, row=row) for row, what in writing.undefined),
        ),
        doubts=tuple(doubts), warnings=tuple(warnings),
    )  # fmt: skip


def _dialect(dataset: Dataset) -> dict[str, Any]:
    """That of the file; a point is its decimal mark where nothing tells, but for units or currencies: 6,1 kg."""
    dialect = dataset.manifest.dialect
    written = [column.written for column in dataset.number_columns if column.written and not column.is_date]
    marks = {notation.decimal for text in written if (notation := notation_from(text))}
    return {**dialect, "decimal": ","} if marks == {","} and dialect["delimiter"] != "," else dialect


def _seen(model: SavedModel, dataset: Dataset) -> dict[str, SeenColumn]:
    """What some rows from all over the file were like, by the bins of training."""
    design = model.file.design
    return tallied(design.columns, sampled(dataset, list(design.columns)), design.known_levels)


def _said(model: SavedModel, dataset: Dataset, writing: _Writing) -> tuple[list[str], list[str]]:
    """Why the predictions do not hold, and what else to know of them."""
    gone, warnings = dict[str, str](), list(dataset.notes)
    read = dataset.rows - dataset.manifest.bad_count
    for name in (*model.encoding.fills, *model.encoding.known):
        if missing := dataset.columns[name].missing:
            before, shown = gaps_before(model, name), stand_in(model, name)
            if is_as_if_gone(missing, read, before):
                gone[name] = gone_told(name, missing, read, before, shown)
            elif name in model.encoding.fills:
                warnings.append(f"Column '{name}' has no value in {plural(missing, 'row')}; {shown} stands in.")
    warnings += beyond_training(model, dataset)
    unknown = {name: {level: rows for level, rows in levels.items() if level != MISSING_LEVEL or name not in gone}
               for name, levels in writing.unknown.items()}  # fmt: skip
    unknown = {name: levels for name, levels in unknown.items() if levels}
    warnings += unknown_told(model.encoding.references, unknown, model.encoding.known)
    if writing.undefined:
        undefined = writing.empty - dataset.manifest.bad_count
        first = [f"row {row}: {what}" for row, what in writing.undefined[:SHOWN]]
        more = f"; and {undefined - len(first):,} more" if undefined > len(first) else ""
        warnings.append(
            f"{plural(undefined, 'row')} {'has' if undefined == 1 else 'have'} no prediction: {'; '.join(first)}{more}."
        )
    if empty := min(writing.empty, dataset.manifest.bad_count) - dataset.manifest.repeated:  # a note tells of those
        first = [bad.told for bad in dataset.manifest.bad_rows[:SHOWN]]
        more = f"; and {empty - len(first):,} more" if empty > len(first) else ""
        why = words_told(dataset) or "; ".join(first) + more
        warnings.append(
            f"{plural(empty, 'row')} could not be read and {'has' if empty == 1 else 'have'} no prediction: {why}."
        )
    return list(gone.values()), warnings


def beyond_training(model: SavedModel, dataset: Dataset) -> list[str]:
    """Columns whose values lie where no training row did: dates past either end, numbers by half their range."""
    notes = []
    for name, (low, high) in model.file.design.seen.items():
        column = dataset.columns.get(name)
        used = column is not None and name in model.encoding.columns
        if column is None or not used or column.minimum is None or column.maximum is None:
            continue
        dated = model.report.dates.get(name)
        room = 0.0 if dated is not None else FAR * (high - low)
        ends = [end for end, beyond in ((column.minimum, column.minimum < low - room),
                                        (column.maximum, column.maximum > high + room)) if beyond]  # fmt: skip
        if ends:
            shown = [number(at, 6) if dated is None else date_text(at, has_times(dated)) for at in (*ends, low, high)]
            notes.append(
                f"'{name}' goes to {' and '.join(shown[:-2])}; the model has seen {shown[-2]} to {shown[-1]}. "
                "Predictions beyond rest on its lines going on there."
            )
    return notes


class _Writing:
    """The predictions on their way to a file or pipe, block by block; what was written is not written again."""

    def __init__(
        self,
        model: SavedModel,
        lines: Sequence[SavedModel],
        coordinator: Coordinator,
        config: RunConfig,
        width: float | None,
        file: IO[bytes] | RewrittenFile,
        beside: Beside | None,
        threshold: float,
    ) -> None:
        self.model, self.coordinator, self.config, self.width, self.file = model, coordinator, config, width, file
        self.lines, self.beside, self.threshold = lines, beside, threshold
        self.blocks = self.rows = self.empty = self.unseen = 0
        self.unknown: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by column, the levels nobody trained with
        self.undefined: list[tuple[int, str]] = []  # rows that could be read and have no prediction; the first of them
        self.content = ""  # of the data set that the first ones are from
        made = _made(model, width)
        file.write(csv_line(beside.keep.beside(*made) if beside else ["row", *made]))

    def go_on(self) -> Dataset:
        """All that is left to be written."""
        dataset = open_for(self.model, self.coordinator, self.config)
        self.content = self.content or dataset.manifest.content
        if dataset.manifest.content != self.content:
            raise SourceChanged(f"'{title(self.config.file)}' changed while predictions were made for it. Try again.")
        left = _requests(self.model, self.lines, dataset, self.width, self.threshold)[self.blocks :]
        for lines in self.coordinator.swept("predicting", left):
            self.file.write(self.beside.joined(lines.text) if self.beside else lines.text)
            self.blocks, self.rows = self.blocks + 1, self.rows + lines.rows
            self.empty, self.unseen = self.empty + lines.empty, self.unseen + lines.unseen
            for name, levels in lines.unknown.items():
                self.unknown[name].update(levels)
            self.undefined += lines.undefined[: LOCATED - len(self.undefined)]
        return dataset


def _made(model: SavedModel, width: float | None) -> list[str]:
    """The columns that are predicted."""
    if not classes_of(model):
        return ["prediction"] if width is None else ["prediction", "lower", "upper"]
    of = classes_of(model) if model.several else (model.outcome.yes if model.outcome else "",)
    return ["prediction", *(f"probability_{name}" for name in of), *(["set"] if width is not None else [])]


def _requests(
    model: SavedModel, lines: Sequence[SavedModel], dataset: Dataset, width: float | None, threshold: float
) -> list[PredictLines]:
    classes = classes_of(model)
    times = _times(model)
    spread = model.report.prediction_interval.spread if model.report.prediction_interval else ""
    own, *ends = (predict_requests(suited(one, dataset), dataset) for one in (model, *lines))
    beside = list(zip(*ends, strict=True)) if ends else [()] * len(own)
    return [
        PredictLines(request, width, classes, times, threshold, spread, pair)
        for request, pair in zip(own, beside, strict=True)
    ]


def _times(model: SavedModel) -> bool | None:
    """Whether dates that are predicted have a time of day; None where numbers are."""
    dated = model.report.dates.get(model.target)
    return None if dated is None or model.file.version < WITH_DATES else has_times(dated)


def classes_of(model: SavedModel) -> tuple[str, ...]:
    """The values of a target that is yes or no, or has classes; none of other models."""
    return model.outcome.classes if model.outcome else ()


def suited(model: SavedModel, dataset: Dataset) -> SavedModel:
    """The model for the columns as they are: a file of an older program has dates in another unit."""
    return in_days(model, {column.name for column in dataset.number_columns if column.is_date})


def open_for(
    model: SavedModel, coordinator: Coordinator, config: RunConfig, days: bool = False, target: bool = False
) -> Dataset:
    """The columns of a file that the model needs, and the `target` if that is asked for, read as it needs them.

    Others are not looked at: nothing in them can keep a row from being predicted. `days`: dates may be numbers of days.
    """
    needed = [*model.numbers, *model.texts]
    known = config_from(model.file.config)  # what means that there is no value is the model's, unless it was said anew
    missing = known.missing if config.missing is None else config.missing
    config = dataclasses.replace(
        config, categorical=model.texts, numeric=model.numbers, missing=missing,
        also_missing=config.also_missing or known.also_missing, limits=config.limits or known.limits,
        one_spelling=config.one_spelling or known.one_spelling,
    )  # fmt: skip
    config = _in_its_encoding(config, model)
    _check_columns(config, needed)
    config = dataclasses.replace(config, dates=config.dates or _orders(model))  # of columns that are there
    there = [*needed, model.target] if target else needed
    many = frozenset(model.texts if has_many(model) else ())
    dataset = coordinator.open(config, Wanted(tuple(there), written(model), many))
    if can_split(model) and any(dataset.columns[name].more_levels for name in model.texts):
        dataset = coordinator.open(config, Wanted(tuple(there), written(model), frozenset(model.texts)))
    _check_types(dataset, model, days)
    return dataset


def _in_its_encoding(config: RunConfig, model: SavedModel) -> RunConfig:
    """With that of training, where a person said it and this file would have to be guessed too; else it is detected."""
    known = config_from(model.file.config).encoding
    paths = parts_of(config.file) if known and not config.encoding else []
    if not paths or not paths[0].is_file() or file_format(paths[0]) != "csv":
        return config
    with paths[0].open("rb") as file:
        sample = file.read(ENCODED)
    detected = detect_encoding(sample, at_end=len(sample) < ENCODED)
    return config if detected.startswith("utf") else dataclasses.replace(config, encoding=known)


def written(model: SavedModel) -> dict[str, str]:
    """How numbers were written in training; a file of an older program does not say."""
    return {name: text for name, text in model.file.design.written.items() if name in model.numbers}


def _orders(model: SavedModel) -> tuple[str, ...]:
    """The order that dates had in training, for those that could be read in several."""
    styles = {name: style_of(written) for name, written in model.report.dates.items() if name in model.numbers}
    return tuple(f"{name}={ORDERS[order_of(style)]}" for name, style in styles.items() if style is not None)


def _check_types(dataset: Dataset, model: SavedModel, days: bool) -> None:
    for name in model.numbers:
        column, wanted = dataset.columns[name], "dates" if name in model.report.dates else "numbers"
        if not column.is_number:
            raise DataError(f"The model needs {wanted} in column '{name}', got text. Correct the file.")
        if wanted == "dates" and not column.is_date and column.missing < dataset.rows and not days:
            raise DataError(
                f"The model needs dates in column '{name}', such as {model.report.dates[name]}, got numbers. "
                "Correct the file."
            )
        if model.file.version >= WITH_DATES and wanted == "numbers" and column.is_date:
            raise DataError(f"The model needs numbers in column '{name}', got dates. Correct the file.")
    for name in model.texts:
        if dataset.columns[name].more_levels:  # some rows' levels are not remembered, known ones among them
            raise DataError(
                f"Column '{name}' has too many different values to look them all up (more than "
                f"{len(dataset.columns[name].levels)}); the model knows {len(model.encoding.known[name])} of them. "
                "Split the file into smaller ones."
            )


def _check_columns(config: RunConfig, needed: list[str]) -> None:
    paths = parts_of(config.file)
    for path in paths:
        _check_part(path, config, needed, f"'{path.name}'" if len(paths) > 1 else "the file")


def _check_part(path: Path, config: RunConfig, needed: Sequence[str], called: str) -> None:
    if not path.is_file():
        raise DataError(f"Expected a file at '{path}', found none. Check the path.")
    names = columns_of(path, config.dialect)
    called_so = Wanted(tuple(needed)).called(names or ())
    absent = [name for name in needed if name not in called_so] if names is not None else []
    if absent and names:
        raise DataError(
            f"The model needs columns that {called} does not have: {listed(absent)}. "
            f"{called[:1].upper()}{called[1:]} has: {listed(names)}. Rename or add them.",
            Remedy.set(
                "Or, if they are not known when predicting, train the model without them", "exclude", list_text(absent)
            ),
        )
