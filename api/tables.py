"""Tables in memory, of whatever library, as pandas data frames; what a model makes of their columns is in `frames`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.errors import DataError
from shoal.files.parts import joined
from shoal.settings.limits import MOST_COLUMNS
from shoal.utils import available_memory
from shoal.words import tidy_name


def as_frame(data: Any) -> Any | None:
    """A data frame of a table in memory; None for anything else, such as the path of a file.

    Taken are pandas data frames, whatever speaks Arrow (polars, pyarrow, DuckDB), arrays of two dimensions and sparse
    matrices, whose columns are called x0, x1, ..., dictionaries of columns, lists of dictionaries, and one row as a
    dictionary or a pandas Series.
    """
    frame = _as_it_is(data)
    if frame is None:
        return None
    names = {name: tidy_name(name) for name in frame.columns if isinstance(name, str)}
    changed = {name: tidy for name, tidy in names.items() if tidy != name}
    return frame.rename(columns=changed) if changed else frame


def path_of(data: Any) -> str:
    """The file, or the several that are one table, where a table is given by its place."""
    if isinstance(data, (str, Path)):
        return str(data)
    if isinstance(data, (list, tuple)) and data and all(isinstance(name, (str, Path)) for name in data):
        return joined(data)  # several files are one table
    raise TypeError(
        f"Expected the path of a file or a table in memory (pandas, polars, Arrow, an array with y beside it), "
        f"got {type(data).__name__}. Convert it."
    )


def _as_it_is(data: Any) -> Any | None:
    if _is_pandas(data, "DataFrame"):
        return data
    if _is_pandas(data, "Series"):
        return data.to_frame().T.infer_objects()
    if hasattr(data, "collect") and type(data).__module__.startswith("polars"):
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__"):
        import pyarrow

        return pyarrow.table(data).to_pandas()
    if isinstance(data, np.ndarray):
        return _of_array(data)
    if hasattr(data, "tocsr"):
        return _of_array(_filled(data))
    return _of_dictionaries(data)


def _is_pandas(data: object, name: str) -> bool:
    """Whether it is of that class, without importing pandas to find out."""
    kind = type(data)
    return kind.__module__.split(".")[0] == "pandas" and kind.__name__ == name


def _of_array(data: Any) -> Any:
    import pandas as pd

    if data.ndim != 2:
        raise DataError(
            f"Expected an array of two dimensions, rows and columns, got {data.ndim}. Reshape it: X.reshape(-1, 1) for "
            "one column."
        )
    return pd.DataFrame(data, columns=[f"x{j}" for j in range(data.shape[1])])


def _filled(data: Any) -> Any:
    """A sparse matrix with its zeros, for models that name each column; the estimators need none of that."""
    rows, columns = data.shape
    if columns > MOST_COLUMNS or 8 * rows * columns > available_memory() // 8:
        raise DataError(
            f"Expected a sparse matrix that fits into memory with its zeros, got {rows:,} x {columns:,}. "
            "Use shoal.Lasso, shoal.ElasticNet, shoal.Ridge or shoal.LinearRegression, whose fit keeps it sparse."
        )
    return data.toarray()


def _of_dictionaries(data: Any) -> Any | None:
    if isinstance(data, Mapping):
        one_row = not any(
            isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) for value in data.values()
        )
        rows: Any = [data] if one_row else data
    elif isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
        rows = list(data)
    else:
        return None
    import pandas as pd

    try:
        return pd.DataFrame(rows)
    except ValueError as error:
        raise DataError(f"The dictionary is not a table: {error}. Give all columns the same length.") from None


def with_target(data: Any, target: Any) -> tuple[Any, str]:
    """A data frame of columns and target, given apart as X and y, and the name that the target has in it."""
    frame = as_frame(data)
    if frame is None:
        raise TypeError(
            f"Expected a table beside a target that is no column's name, got {type(data).__name__}. "
            "Name the column of the file that is to be predicted."
        )
    values = np.asarray(target).reshape(-1) if np.ndim(target) == 2 and np.shape(target)[1] == 1 else np.asarray(target)
    return _beside(frame, values, "values of the target", tidy_name(str(getattr(target, "name", None) or "y")))


def with_weights(frame: Any, weights: Any) -> tuple[Any, str]:
    """A data frame with the weights of its rows as one more column, and the name that it has there."""
    if frame is None:
        raise TypeError(
            f"Expected the name of a column as sample_weight beside a file, got {type(weights).__name__}. "
            "Name the column of the file that has the weights."
        )
    return _beside(frame, np.asarray(weights, np.float64), "weights", "sample_weight")


def _beside(frame: Any, values: Any, what: str, name: str) -> tuple[Any, str]:
    import pandas as pd

    if values.shape != (len(frame),):
        raise DataError(
            f"Expected as many {what} as there are rows, {len(frame)}, got an array of shape {values.shape}. "
            "Give one value a row."
        )
    while name in frame.columns:
        name += "_"
    return frame.assign(**{name: pd.Series(values, index=frame.index)}), name
