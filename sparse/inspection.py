"""What is in a file of sparse rows: how many values, which columns have most of them, what the label looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Column
from shoal.files.parts import absolute
from shoal.fitting.guidance.shape import CentralSums, TargetShape
from shoal.fitting.histograms import TOP, histogram
from shoal.fitting.looks.proposal import proposed
from shoal.models import Array, Integers
from shoal.passes.losses import MOST_VALUES, TargetSeen
from shoal.results.answers.table import ColumnLook, SparseLook, TableLook
from shoal.results.target import TargetLook
from shoal.settings.config import RunConfig
from shoal.settings.when import MODELS
from shoal.sparse.table import LABEL, SparseTable, column_name, open_table

AS_NUMBER = "Sparse rows have linear models only, which predict it as a number: scores, not probabilities or counts."


def looked_at_sparse(coordinator: Coordinator, config: RunConfig) -> TableLook:
    """From blocks that are kept; of the columns only the ones with most values are named."""
    table = open_table(coordinator, config)
    labels, lengths, indices, counts = _counted(table)
    label = _label_column(labels)
    size = table.rows * len(indices)
    first = np.argsort(-counts, kind="stable")[:TOP]
    look = SparseLook(
        columns=len(indices),
        last=column_name(table.columns - 1) if table.columns else "",
        values=table.values,
        share=table.values / size if size else 0.0,
        empty_rows=int((lengths == 0).sum()),
        most_in_row=int(lengths.max(initial=0)),
        frequent=tuple((column_name(int(indices[i])), int(counts[i])) for i in first.tolist()),
    )
    return TableLook(
        file=absolute(config.file), rows=table.rows, dialect={}, columns=(label,), sparse=look,
        target=_target_look(label, labels),
    )  # fmt: skip


def _counted(table: SparseTable) -> tuple[Array, Integers, Integers, Integers]:
    """All labels (m,), the values of each row (m,), the indices that occur, and the rows that have each of these; what
    it takes follows from the values, since one index may be two thousand millions."""
    indices, counts = np.zeros(0, np.int32), np.zeros(0, np.int64)
    labels, lengths = [np.zeros(0)], [np.zeros(0, np.int64)]
    for part in table.parts():
        own, times = np.unique(part.indices, return_counts=True)
        indices, place = np.unique(np.concatenate((indices, own)), return_inverse=True)
        counts = np.bincount(place, np.concatenate((counts, times)), len(indices)).astype(np.int64)
        labels.append(np.array(part.labels))
        lengths.append(part.counts)
    return np.concatenate(labels), np.concatenate(lengths), indices.astype(np.int64), counts


def _label_column(labels: Array) -> ColumnLook:
    low, high = float(labels.min()), float(labels.max())
    return ColumnLook(
        LABEL, "numeric", distinct=len(np.unique(labels)), min=low, max=high,
        flags=("constant",) if low == high else (), histogram=tuple(histogram(labels, low, high).tolist()),
    )  # fmt: skip


def _target_look(column: ColumnLook, labels: Array) -> TargetLook:
    """By the rules for columns of cells; where another loss would suit, it is said that there is none."""
    values, rows = np.unique(labels, return_counts=True)
    with np.errstate(over="ignore", invalid="ignore"):
        shape = TargetShape(CentralSums.of(labels), CentralSums.of(np.log(labels[labels > 0])))
        whole = bool((labels == np.round(labels)).all())
    first = rows[:MOST_VALUES].astype(np.float64)
    seen = TargetSeen(values[:MOST_VALUES], first, first, len(values) > MOST_VALUES, whole)
    asked = Column(LABEL, "numeric", 0, 0, float(values[0]), float(values[-1]), distinct=len(values))
    found = proposed(asked, seen, shape)
    if not found.model or found.model in MODELS:
        return found
    return replace(found, model=MODELS[0], why=f"{found.why} {AS_NUMBER}", others=())
