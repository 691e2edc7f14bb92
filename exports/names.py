"""The formats by name, for those who offer them: the module of each and the end of its files' names."""

from __future__ import annotations

FORMATS = {
    "sql": ("shoal.exports.sql", ".sql"),
    "python": ("shoal.exports.python_function", ".py"),
    "sklearn": ("shoal.exports.sklearn_pipeline", ".skops"),
    "onnx": ("shoal.exports.onnx_graph", ".onnx"),
    "json": ("shoal.exports.json_file", ".export.json"),
}
REPORT = "report"  # a page for people, which predicts nothing


def ending(to: str) -> str:
    """The end of a file's name that suits the format."""
    return ".html" if to == REPORT else FORMATS[to][1]
