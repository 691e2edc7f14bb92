"""A model as an ONNX graph in float64, one input a column, from a few old operators; made without a converter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.data.shapes.expression import Expression, X
from shoal.data.terms import MISSING_LEVEL
from shoal.exports.base import (
    HIGHEST,
    ColumnValues,
    FactorColumn,
    LinearForm,
    NumberColumn,
    ShapedColumn,
    TextColumn,
    class_forms,
    column_forms,
    linear_form,
)
from shoal.fitting.model_file import SavedModel
from shoal.losses.layers import NetworkMean
from shoal.models import Array

OPERATORS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "floor": "Floor", "sqrt": "Sqrt", "sin": "Sin"}
OPSET, ML_OPSET, IR = 15, 2, 8  # of 2021: old enough for runtimes in use


class OnnxGraph:
    packages = ("onnx", "onnxruntime")
    runtime = "onnxruntime in float64"
    use = (
        "Each column is an input of shape (rows, 1): float64 for numbers (missing: NaN; dates: days since 1970), "
        "string for levels (missing: an empty string). The output is float64 and has shape (rows, 1); "
        "of several classes (rows, classes), the probabilities in the order of the model's classes."
    )

    def write(self, model: SavedModel, out: Path) -> None:
        import onnx

        if model.network is not None:
            made = network_graph(model, model.network)
        else:
            made = class_graph(class_forms(model)) if model.several else graph(linear_form(model))
        onnx.checker.check_model(made, full_check=True)
        out.write_bytes(made.SerializeToString(deterministic=True))

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
        feeds = {name: _tensor(values, name in model.texts) for name, values in rows.items()}
        (found,) = session.run(None, feeds)
        if found.dtype != np.float64:
            raise TypeError(f"expected float64, got {found.dtype}")
        return np.asarray(found if model.several else found[:, 0])


def _tensor(values: Sequence[float | str | None], is_text: bool) -> Any:
    if is_text:
        return np.array(["" if value is None else value for value in values], object)[:, None]
    return np.array([np.nan if value is None else value for value in values], np.float64)[:, None]


class _Builder:
    """Nodes in order; names of their own for tensors, which cannot be those of columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.mark = ":"
        while any(name.startswith(self.mark) for name in columns):
            self.mark += ":"

    def _fresh(self) -> str:
        return f"{self.mark}{len(self.nodes)}.{len(self.constants)}"

    def constant(self, value: Any, kind: type = np.float64) -> str:
        from onnx import numpy_helper

        name = self._fresh()
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def node(self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or self._fresh()
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output


def graph(form: LinearForm) -> Any:
    """prediction = where(missing, fills, numbers) @ coef + missing @ if_missing + one looked-up value a text column
    + products of such values."""
    build = _Builder(form.columns)
    parts, name = _parts(build, form), form.unused_name("prediction")
    if form.link == "identity":
        output = build.node("Sum", *parts, output=name)
    else:
        output = _mean(build, form.link, build.node("Sum", *parts), name)
    return _model(build, form, output, 1)


def class_graph(forms: Sequence[LinearForm]) -> Any:
    """The probabilities of several classes, (rows, K), from the score of each."""
    build = _Builder(forms[0].columns)
    scores = build.node("Concat", *(build.node("Sum", *_parts(build, form)) for form in forms), axis=1)
    output = build.node("Softmax", scores, output=forms[0].unused_name("probabilities"), axis=1)
    return _model(build, forms[0], output, len(forms))


def network_graph(model: SavedModel, network: NetworkMean) -> Any:
    """Design columns (rows, p), standardised, then layer by layer; no prediction where one of them has no value."""
    from onnx import TensorProto

    form = linear_form(replace(model, coef=np.zeros(len(model.encoding.terms))))
    build, name = _Builder(form.columns), form.unused_name("prediction")
    columns = build.node(
        "Concat", *(build.node("Sum", *_parts(build, one)) for one in column_forms(model)), axis=1
    )  # fmt: skip
    none = build.node("Cast", build.node("IsNaN", columns), to=TensorProto.DOUBLE)
    none = build.node("MatMul", none, build.constant(np.ones((len(network.centre), 1))))
    zero, hidden = build.constant([[0.0]]), build.node("Sub", columns, build.constant(network.centre[None]))
    hidden = build.node("Div", hidden, build.constant(network.scale[None]))
    for place, (W, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        hidden = build.node("Add", build.node("MatMul", hidden, build.constant(W.T)), build.constant(b[None]))
        if place < len(network.weights) - 1:
            below = build.node("Less", hidden, zero)
            hidden = build.node("Where", below, zero, hidden)
    score = build.node("Mul", hidden, build.constant([[network.target_scale]]))
    score = build.node("Add", score, build.constant([[network.target_centre]]))
    lacks, nothing = build.node("Greater", none, zero), build.constant([[np.nan]])
    if form.link == "identity":
        output = build.node("Where", lacks, nothing, score, output=name)
    else:
        output = _mean(build, form.link, build.node("Where", lacks, nothing, score), name)
    return _model(build, form, output, 1)


def _parts(build: _Builder, form: LinearForm) -> list[str]:
    """What is added up to a score."""
    parts = [build.constant([[form.intercept]])]
    if form.numbers:
        parts += _number_parts(build, form)
    parts += [_level_part(build, column) for column in form.texts]
    parts += [_shaped(build, column) for column in form.shapes]
    parts += [build.node("Mul", _side(build, part.left), _side(build, part.right)) for part in form.products]
    return parts


def _model(build: _Builder, form: LinearForm, output: str, width: int) -> Any:
    from onnx import TensorProto, helper

    def value(name: str, kind: int, width: int = 1) -> Any:
        return helper.make_tensor_value_info(name, kind, ["rows", width])

    inputs = [value(column.name, TensorProto.DOUBLE) for column in form.numbers]
    inputs += [value(column.name, TensorProto.STRING) for column in form.texts]
    outputs = [value(output, TensorProto.DOUBLE, width)]
    made = helper.make_graph(build.nodes, "shoal", inputs, outputs, build.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    return helper.make_model(made, opset_imports=opsets, ir_version=IR, producer_name="shoal")


def _mean(build: _Builder, link: str, score: str, output: str) -> str:
    """The mean of a score, by exponentials in float64."""
    power = build.node("Neg", score) if link == "logit" else score
    cut = build.node("Min", power, build.constant([[HIGHEST]]))
    if link == "log":
        return build.node("Exp", cut, output=output)
    one = build.constant([[1.0]])
    return build.node("Div", one, build.node("Add", one, build.node("Exp", cut)), output=output)


def _number_parts(build: _Builder, form: LinearForm) -> list[str]:
    """Infinities are missing as well, as in a data frame."""
    from onnx import TensorProto

    values = build.node("Concat", *(column.name for column in form.numbers), axis=1)
    missing = build.node("Or", build.node("IsNaN", values), build.node("IsInf", values))
    filled = build.node("Where", missing, build.constant([[c.fill for c in form.numbers]]), values)
    parts = [build.node("MatMul", filled, build.constant([[c.coefficient] for c in form.numbers]))]
    if any(column.if_missing for column in form.numbers):
        as_number = build.node("Cast", missing, to=TensorProto.DOUBLE)
        parts.append(build.node("MatMul", as_number, build.constant([[c.if_missing] for c in form.numbers])))
    return parts


def _side(build: _Builder, column: FactorColumn) -> str:
    """What a column gives to a product, (rows, 1)."""
    if isinstance(column, TextColumn):
        return _level_part(build, column)
    if isinstance(column, ShapedColumn):
        return _shaped(build, column)
    return build.node("Mul", _filled(build, column), build.constant([[column.coefficient]]))


def _shaped(build: _Builder, column: ShapedColumn) -> str:
    known: dict[Expression, str] = {X: _filled(build, column)}
    value = _expression(build, column.expression, known)
    if not column.levels:
        return build.node("Mul", value, build.constant([[column.coefficient]]))
    found = build.constant([[0.0]])
    for is_, adds in column.levels.items():
        same = build.node("Equal", value, build.constant([[is_]]))
        found = build.node("Where", same, build.constant([[adds]]), found)
    return found


def _expression(build: _Builder, expression: Expression, known: dict[Expression, str]) -> str:
    """Its nodes, (rows, 1); what comes several times is computed once."""
    if expression not in known:
        if isinstance(expression, tuple):
            name, *parts = expression
            inputs = [_expression(build, part, known) for part in parts]
            if name == "if<":
                known[expression] = build.node("Where", build.node("Less", *inputs[:2]), *inputs[2:])
            elif name == "log":
                above = build.node("Greater", inputs[0], build.constant([[0.0]]))
                known[expression] = build.node("Where", above, build.node("Log", *inputs), build.constant([[np.nan]]))
            else:
                known[expression] = build.node(OPERATORS[name], *inputs)
        else:
            known[expression] = build.constant([[float(expression)]])
    return known[expression]


def _filled(build: _Builder, column: NumberColumn | ShapedColumn) -> str:
    missing = build.node("Or", build.node("IsNaN", column.name), build.node("IsInf", column.name))
    return build.node("Where", missing, build.constant([[column.fill]]), column.name)


def _level_part(build: _Builder, column: TextColumn) -> str:
    """Text to place, place to value; the last place is for what is not known. Text to value would be float32."""
    levels = {**column.levels, "": column.levels.get(MISSING_LEVEL, column.other)}
    place = build.node(
        "LabelEncoder", column.name, domain="ai.onnx.ml", keys_strings=list(levels),
        values_int64s=list(range(len(levels))), default_int64=len(levels),
    )  # fmt: skip
    return build.node("Gather", build.constant([*levels.values(), column.other]), place)


FORMAT = OnnxGraph()
