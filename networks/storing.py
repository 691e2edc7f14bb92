"""A module, a loss and rows as a person has them, checked and stored: what cannot be trained is refused here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from shoal.errors import ConfigError, DataError
from shoal.networks.code import reference
from shoal.networks.descriptions import described
from shoal.networks.live import LiveModule
from shoal.networks.stored import RowPair, RowShape, RowValues, StoredModule, side_by_side, store_module, store_rows

FIRST = 4  # rows that a module is tried on before it is stored
SEVERAL = "the rows as (X, y), or a Dataset of such pairs"
OF_NUMBERS = {  # losses whose targets are numbers, however they are written, and what is told of them
    "binary_cross_entropy_with_logits": "yes", "BCEWithLogitsLoss": "yes",
    "binary_cross_entropy": "probability", "BCELoss": "probability",
}  # fmt: skip
OF_LABELS = {"cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss"}
IGNORED = -100  # a label of no class, as PyTorch has it


def stored_module(module: Any, data: Any, loss: Any = None, test: Any = None) -> str:
    """The file that a run is told of."""
    if not isinstance(module, nn.Module):
        raise ConfigError(f"Expected a torch.nn.Module to train, got {_called(module)}.")
    _check_kind(module)
    given, given_test = rows_of(data), rows_of(test) if test is not None else None
    if given_test is not None and given_test.inputs != given.inputs:
        raise DataError("Expected test rows with the inputs of the others, got other shapes or types of them.")
    arrays, of_test = given[:2], given_test[:2] if given_test is not None else None
    rows, row, target = store_rows(*arrays, of_test, given.inputs)
    said, tensors = described(module)
    parts = tuple((name, one.numel()) for name, one in module.named_parameters() if one.requires_grad)
    if not parts:
        raise ConfigError("Expected a module with parameters that learn, got none with requires_grad.")
    chosen = _usual_loss(target.whole) if loss is None else loss
    told, of_loss = _described_loss(chosen)
    if _name(chosen) in OF_NUMBERS:
        target = RowShape(target.shape, False)
    tensors = tensors | {f"loss:{name}": one for name, one in of_loss.items()}
    kept = {name: one.detach().cpu().clone().contiguous() for name, one in tensors.items()}
    found = StoredModule(
        type(module).__name__, said, told, _name(chosen), "loss", _precision(module), parts, row, target, rows
    )
    output = _tried(found, module, kept, arrays)
    _check_labels(chosen, output, target, arrays, of_test)
    score = _score(_name(chosen), output, found)
    return str(store_module(StoredModule(**{**vars(found), "score": score}), safetensors.torch.save(kept)))


def _check_kind(module: nn.Module) -> None:
    """Refuse what only looks like the module that a person wrote."""
    if hasattr(module, "_orig_mod"):
        raise ConfigError(
            "Expected the module itself, got what torch.compile made of it. Give that one, and compile_mode='default'."
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise ConfigError("Expected a module of Python classes, got a scripted one. Give the module that was scripted.")
    for name, part in module.named_modules():
        if hasattr(part, "parametrizations"):
            raise ConfigError(
                f"Expected a module without parametrizations (weight_norm, spectral_norm, ...), got some on '{name}'. "
                "Compute in forward() what they compute, or remove them with torch.nn.utils.parametrize."
            )
    kinds = {one.dtype for one in module.parameters() if one.is_floating_point()}
    if odd := sorted(str(kind).removeprefix("torch.") for kind in kinds - {torch.float32, torch.float64}):
        raise ConfigError(
            f"Expected parameters of float32 or float64, got {odd[0]}. Train module.float(); "
            "mixed_precision=True computes its layers in bfloat16."
        )


class GivenRows(NamedTuple):
    """Rows as a person gave them; several inputs stand side by side in X."""

    X: RowValues
    y: RowValues
    inputs: tuple[RowShape, ...] = ()


def rows_of(data: Any) -> GivenRows:
    """Arrays of a pair, or of what a Dataset holds: each of its items is asked for once."""
    if isinstance(data, tuple | list) and len(data) == 2:
        y = _array(data[1])
        if isinstance(data[0], tuple) and _are_inputs(data[0], len(y)):
            X, inputs = side_by_side([_array(values) for values in data[0]])
            return GivenRows(X, y, inputs)
        return GivenRows(_array(data[0]), y)
    if isinstance(data, DataLoader):
        raise DataError(f"Expected {SEVERAL}, got a DataLoader: batches are made here. Give its dataset.")
    if isinstance(data, IterableDataset):
        raise DataError(
            f"Expected {SEVERAL}, got an IterableDataset, whose rows cannot be asked for one by one. "
            "Give list(dataset) as it is, where its rows fit into memory."
        )
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, np.ndarray | Tensor | str):
        pairs = [data[index] for index in range(len(data))]
        odd = [one for one in pairs if not isinstance(one, tuple | list) or len(one) < 2]
        if odd or not pairs:
            what = f"items such as {_called(odd[0])}" if odd else "no items"
            raise DataError(f"Expected {SEVERAL}, got a {type(data).__name__} with {what}.")
        try:
            return _stacked(pairs)
        except ValueError as error:
            raise DataError(f"Expected rows of one shape, got several: {error}.") from None
    raise DataError(f"Expected {SEVERAL}, got {type(data).__name__}.")


def _are_inputs(values: tuple[Any, ...], rows: int) -> bool:
    """Whether these are arrays of as many rows as there are targets, and not the rows themselves."""
    return (
        len(values) > 1
        and all(isinstance(one, np.ndarray | Tensor) and one.ndim for one in values)
        and ({len(one) for one in values} == {rows} and (rows != len(values) or values[0].ndim > 1))
    )


def _stacked(items: Sequence[Any]) -> GivenRows:
    """Items (x, y), ((a, b), y) or (a, b, y), as Datasets of modules with several inputs have them."""
    y = np.stack([_array(item[-1]) for item in items])
    several = [tuple(item[0]) if len(item) == 2 and isinstance(item[0], tuple | list) else tuple(item[:-1])
               for item in items]  # fmt: skip
    if len({len(one) for one in several}) != 1:
        raise ValueError("some with more inputs than others")
    if len(several[0]) == 1:
        return GivenRows(np.stack([_array(one[0]) for one in several]), y)
    X, inputs = side_by_side([np.stack([_array(one) for one in column]) for column in zip(*several, strict=True)])
    return GivenRows(X, y, inputs)


def _array(values: Any) -> RowValues:
    if isinstance(values, tuple) and values and isinstance(values[0], np.ndarray | Tensor) and values[0].ndim > 1:
        raise DataError(
            f"Expected inputs of a module with a row for each target, got arrays of "
            f"{', '.join(f'{len(one):,}' for one in values)} rows."
        )
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise DataError("Expected dense rows, got a sparse tensor. Give tensor.to_dense(), if that fits.")
        dense: Tensor = values.detach().cpu()
        found: RowValues = (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
        return found
    return np.asarray(values)


def _called(thing: Any) -> str:
    """What a person gave, by its kind; of pairs and the like, what is in them."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}; call it"
    inside = f" of {len(thing)}" if isinstance(thing, tuple | list) else ""
    return f"a {type(thing).__name__}{inside}"


# ------------------------------------------------------------------ the loss


def _usual_loss(whole: bool) -> Callable[..., Tensor]:
    found: Callable[..., Tensor] = torch.nn.functional.cross_entropy if whole else torch.nn.functional.mse_loss
    return found


def _described_loss(loss: Any) -> tuple[dict[str, Any], Mapping[str, Tensor]]:
    if isinstance(loss, str):
        if not callable(getattr(torch.nn.functional, loss, None)):
            raise ConfigError(
                f"Expected a function of torch.nn.functional as the loss, such as cross_entropy, got '{loss}'."
            )
        return {"named": ["torch.nn.functional", loss, ""]}, {}
    if isinstance(loss, nn.Module):
        said, tensors = described(loss)
        return {"module": said}, tensors
    if isinstance(loss, type):
        raise ConfigError(f"Expected a loss, got the class {loss.__name__}. Call it: {loss.__name__}().")
    if not callable(loss):
        raise ConfigError(f"Expected a loss(output, target), or its name, got {type(loss).__name__}.")
    name = _name(loss)
    if getattr(torch.nn.functional, name, None) is loss:
        return {"named": ["torch.nn.functional", name, ""]}, {}
    return {"named": reference(loss, "the loss")}, {}


def _name(loss: Any) -> str:
    if isinstance(loss, str):
        return loss
    return type(loss).__name__ if isinstance(loss, nn.Module) else str(getattr(loss, "__name__", loss))


def _score(loss: str, output: Tensor, found: StoredModule) -> str:
    """What is told of rows beside their loss, by what goes in and comes out."""
    if loss in OF_NUMBERS:
        return OF_NUMBERS[loss]
    if found.target.whole:
        return "accuracy" if output.ndim == len(found.target.shape) + 2 else "loss"
    return "r2" if output.shape[1:] == torch.Size(found.target.shape) else "loss"


def _check_labels(loss: Any, output: Tensor, target: RowShape, arrays: RowPair, of_test: RowPair | None) -> None:
    """Refuse labels that the module has no output for: a run would stumble over them on its way."""
    if not target.whole or _name(loss) not in OF_LABELS or output.ndim != len(target.shape) + 2:
        return
    classes, ignored = output.shape[1], int(getattr(loss, "ignore_index", IGNORED))
    for what, (_, labels) in (("y", arrays), ("y of the test rows", of_test or arrays)):
        odd = (labels < 0) | (labels >= classes)
        odd &= labels != ignored
        if odd.any():
            row = int(np.argmax(odd.reshape(len(labels), -1).any(axis=1)))
            raise DataError(
                f"Expected labels from 0 to {classes - 1}, as the module has {classes} outputs, got "
                f"{labels[odd].reshape(-1)[0]} as {what} of row {row}. Number the classes from 0 on, or give the "
                "module an output for each."
            )


# ------------------------------------------------------------------ a try


def _precision(module: nn.Module) -> str:
    kinds = {one.dtype for one in module.parameters()}
    return "float64" if kinds == {torch.float64} else "float32"


def _tried(found: StoredModule, module: nn.Module, tensors: Mapping[str, Tensor], arrays: RowPair) -> Tensor:
    """The stored module on the first rows: it is to say what the given one says, and to have a loss and a gradient."""
    first = [values[:FIRST] for values in arrays]
    X, y = (values.reshape(len(values), -1) for values in first)
    threads = torch.get_num_threads()
    state = torch.get_rng_state()
    try:
        live = LiveModule(found, tensors, found.precision)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("error")  # of shapes that are made to fit: the loss would be another one
            output = _output(live.module, live._inputs(X))
            loss = live.loss(output, live._targets(y))
        if not isinstance(loss, Tensor) or not bool(torch.isfinite(loss).all()):
            raise DataError(f"Expected a loss that is a finite number, got {loss} of the first rows.")
        _compare(module, live, X, output)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, UserWarning) as error:
        text = str(error).strip().splitlines()[0]
        raise DataError(
            f"The module was tried on the first {len(y)} rows (X of shape {first[0].shape}, y {first[1].shape}) and "
            f"could not tell their loss ({found.loss_name}): {text}"
        ) from None
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
    return output


def _output(module: nn.Module, inputs: Sequence[Tensor]) -> Tensor:
    module.eval()
    torch.manual_seed(0)
    output = module(*inputs)
    if not isinstance(output, Tensor):
        raise DataError(
            f"Expected a module that returns one tensor, got {_called(output)}. Return torch.cat() or stack() of what "
            "there is; the loss can take it apart."
        )
    return output


def _compare(module: nn.Module, live: LiveModule, X: RowValues, output: Tensor) -> None:
    flags = [(one, one.training) for one in module.modules()]
    device = next(module.parameters()).device
    with torch.no_grad():
        given = _output(module, [one.to(device) for one in live._inputs(X)]).cpu()
    for one, training in flags:
        one.training = training
    if not torch.allclose(given.to(output.dtype), output, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise DataError(
            "The module says something else when it is made anew from its classes, attributes and tensors: it keeps "
            "state elsewhere. Keep all of it in attributes, parameters and buffers."
        )
