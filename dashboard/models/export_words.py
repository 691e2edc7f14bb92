"""What the Export tab says of each format: name, purpose, an example, and the proof in words. It draws nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shoal.fitting.model_file import SavedModel
from shoal.tasks.explain_row import typical_row
from shoal.words import number, plural, power_of_ten

FORMATS = {
    "sql": ("SQL", "One SELECT that adds a column of predictions to your table, inside the database."),
    "python": ("Python", "One small file with a function predict(row). It needs nothing but Python."),
    "sklearn": ("scikit-learn", "A fitted Pipeline for data frames, in a file without pickle (skops)."),
    "onnx": ("ONNX", "A graph in double precision for ONNX runtimes: C++, C#, Java, JavaScript, phones."),
    "json": ("JSON", "The model file itself: readable by eye, and enough to predict in any language."),
}
MIME = {
    "sql": "application/sql", "python": "text/x-python", "sklearn": "application/octet-stream",
    "onnx": "application/octet-stream", "json": "application/json",
}  # fmt: skip
IN_EXAMPLE = 12  # columns of an example row; with more, a person is better served by the file itself


def file_name(model: str, version: int, to: str, file: str) -> str:
    """What a download is called; a Python file by a name that can be imported."""
    end = file[file.index(".") :] if to != "json" else ".json"
    if to != "python":
        return f"{model}-v{version}{end}"
    name = re.sub(r"\W", "_", model, flags=re.ASCII)
    return f"{'_' if name[:1].isdigit() else ''}{name}_v{version}{end}"


def example(to: str, name: str, model: SavedModel) -> str:
    """How the file is used, as one would type it."""
    if to == "sql":
        return f"sqlite3 data.db '.read {name}'"
    if to == "python":
        return f"from {name.removesuffix('.py')} import predict\npredict({_row(model)})"
    if to == "sklearn":
        return f'import skops.io\nskops.io.load("{name}", trusted=["numpy.dtype"]).predict(frame)'
    if to == "onnx":
        return (
            "import onnxruntime\n"
            f'session = onnxruntime.InferenceSession("{name}")\n'
            "session.run(None, {column: frame[[column]].to_numpy() for column in frame})"
        )
    return f"shoal predict {name} data.csv --out predictions.csv"


def _row(model: SavedModel) -> str:
    row = typical_row(model.encoding)
    return repr(row) if len(row) <= IN_EXAMPLE else "row"


def proven(proof: Mapping[str, Any]) -> str:
    """On what it was tried, and how far apart it was at most."""
    unseen = proof["rows_with_unseen"]
    rows = f"{plural(proof['rows'], 'row')}, {proof['rows_with_gaps']:,} of them with missing values"
    rows += f" and {unseen:,} with a level that the model does not know" if unseen else ""
    return f"Proven on {rows}. {difference(proof)}"


def difference(proof: Mapping[str, Any]) -> str:
    absolute, relative = proof["largest_difference"], proof["largest_relative"]
    if not absolute and not relative:
        return "Every prediction is the same to the last bit."
    return f"The largest difference is {_size(absolute)}, relative {_size(relative)}."


def _size(value: float) -> str:
    return "0" if not value else power_of_ten(value) if value < 0.01 else number(value)
