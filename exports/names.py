"""The formats by name, for those who offer them: the module of each and the end of its files' names."""

from __future__ import annotations

from pathlib import Path

FORMATS = {
    "sql": ("exports.sql", ".sql"),
    "python": ("exports.python_function", ".py"),
    "sklearn": ("exports.sklearn_pipeline", ".skops"),
    "onnx": ("exports.onnx_graph", ".onnx"),
    "json": ("exports.json_file", ".export.json"),
}
REPORT = "report"  # a page for people, which predicts nothing


def usual_path(model: Path, to: str) -> Path:
    """Where an export goes if nobody says: beside the model, with the end that suits the format."""
    return model.with_name(model.stem + (".html" if to == REPORT else FORMATS[to][1]))
