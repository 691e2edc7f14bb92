"""A module as plain values and named tensors, and back: classes by their names, attributes as JSON, nothing pickled.

    {"class": ["torch.nn.modules.linear", "Linear", ""], "attributes": {"in_features": 3, ...},
     "parameters": {"weight": "0.weight", "bias": "0.bias"}, "buffers": {}, "children": {...}}

Tensors are told by the first name that the module has for them, so that shared ones stay shared. The third part of a
class is the folder that it is imported from, or the file of a script; nothing for what every Python here can import.
What cannot be written so is refused in a sentence: a module that came back as another one would train all the same.
"""

from __future__ import annotations

import math
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from shoal.errors import ConfigError
from shoal.networks.code import named, reference

Description = dict[str, Any]
INSIDE = frozenset(vars(nn.Module()))  # what every module has; hooks among them
KEPT = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training"}


def described(module: nn.Module) -> tuple[Description, dict[str, Tensor]]:
    """Description values for JSON, and the tensors that they name."""
    writer = _Writer(module)
    return writer.module(module, ""), writer.tensors


def rebuilt(found: Description, tensors: Mapping[str, Tensor]) -> nn.Module:
    """The module of a description, with these tensors as its parameters and buffers."""
    return _Reader(tensors).whole(found)


# ------------------------------------------------------------------ writing


class _Writer:
    def __init__(self, whole: nn.Module) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._tensor_names: dict[int, str] = {}
        self._modules = {id(module): name for name, module in whole.named_modules()}
        for prefix, module in whole.named_modules():
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None and id(tensor) not in self._tensor_names:
                    self._take(f"{prefix}.{name}" if prefix else name, tensor)

    def _take(self, name: str, tensor: Tensor) -> None:
        if nn.parameter.is_lazy(tensor):
            raise ConfigError(
                f"Expected a module whose parameters have a shape, but '{name}' has none yet. Call the module once "
                "with a few rows before it is trained."
            )
        self._tensor_names[id(tensor)] = name
        self.tensors[name] = tensor

    def module(self, module: nn.Module, path: str) -> Description:
        if self._modules[id(module)] != path:
            return {"same": self._modules[id(module)]}
        own = vars(module)
        if any(own[name] for name in INSIDE - KEPT if name in own and name.endswith("hooks")):
            raise ConfigError(
                f"Expected a module without hooks, got some on '{path or type(module).__name__}': other processes do "
                "not have them. Do in forward() what they do, or remove them."
            )
        return {
            "class": reference(type(module), f"the class of '{path}'" if path else "the class of the module"),
            "training": module.training,
            "attributes": {
                name: self._plain(value, f"{path}.{name}" if path else name)
                for name, value in own.items()
                if name not in INSIDE
            },
            "parameters": {
                name: None if tensor is None else [self._tensor_names[id(tensor)], tensor.requires_grad]
                for name, tensor in module._parameters.items()
            },
            "buffers": {
                name: None if tensor is None else self._tensor_names[id(tensor)]
                for name, tensor in module._buffers.items()
            },
            "fleeting": sorted(module._non_persistent_buffers_set),
            "children": {
                name: None if child is None else self.module(child, f"{path}.{name}" if path else name)
                for name, child in module._modules.items()
            },
        }

    def _plain(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, bool | str) or type(value) in (int, float):
            return value if not isinstance(value, float) or math.isfinite(value) else {"number": str(value)}
        for kind, (fits, write) in self._kinds().items():
            if fits(value):
                return {kind: write(value, where)}
        raise ConfigError(
            f"Expected plain attributes in a module (numbers, texts, lists of them, tensors, other modules, functions "
            f"with a name), got {type(value).__name__} as '{where}'. Make it in forward(), or keep it outside."
        )

    def _kinds(self) -> dict[str, tuple[Callable[[Any], bool], Callable[[Any, str], Any]]]:
        return {
            "list": (lambda v: type(v) is list, self._several),
            "tuple": (lambda v: isinstance(v, tuple), self._several),  # sizes of tensors too
            "set": (lambda v: type(v) in (set, frozenset), lambda v, where: self._several(sorted(v), where)),
            "pairs": (
                lambda v: isinstance(v, dict),
                lambda v, where: [[self._plain(k, where), self._plain(x, where)] for k, x in v.items()],
            ),
            "weak": (lambda v: isinstance(v, weakref.ref), lambda v, where: self._plain(v(), where)),
            "module": (lambda v: id(v) in self._modules, lambda v, where: self._modules[id(v)]),
            "tensor": (lambda v: isinstance(v, Tensor), self._tensor),
            "dtype": (lambda v: isinstance(v, torch.dtype), lambda v, where: str(v).removeprefix("torch.")),
            "device": (lambda v: isinstance(v, torch.device), lambda v, where: str(v)),
            "named": (lambda v: isinstance(v, type | types.FunctionType | types.BuiltinFunctionType), self._named),
        }

    def _several(self, values: Any, where: str) -> list[Any]:
        return [self._plain(value, where) for value in values]

    def _tensor(self, tensor: Tensor, where: str) -> str:
        if id(tensor) not in self._tensor_names:
            self._take(where, tensor)
        return self._tensor_names[id(tensor)]

    def _named(self, thing: Any, where: str) -> list[str]:
        name = str(getattr(thing, "__name__", ""))
        for module in (torch.nn.functional, torch):  # what is built in has no home
            if thing is getattr(module, name, None):
                return [module.__name__, name, ""]
        return reference(thing, f"'{where}'")


# ------------------------------------------------------------------ reading


class _Reader:
    """Modules first, then their attributes, which may name any of them."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._given, self._tensors = tensors, dict[str, Tensor]()
        self._modules: dict[str, nn.Module] = {}
        self._later: list[tuple[nn.Module, Description]] = []

    def whole(self, found: Description) -> nn.Module:
        made = self._module(found, "")
        for module, attributes in self._later:
            vars(module).update({name: self._value(value) for name, value in attributes.items()})
        return made

    def _module(self, found: Description, path: str) -> nn.Module:
        if "same" in found:
            return self._modules[found["same"]]
        kind = named(found["class"])
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            raise ConfigError(f"Expected the class of a module as '{found['class'][1]}', got something else.")
        made: nn.Module = kind.__new__(kind)
        nn.Module.__init__(made)
        self._modules[path] = made
        vars(made)["training"] = found["training"]
        made._parameters.update({name: self._parameter(one) for name, one in found["parameters"].items()})
        made._buffers.update({name: one and self._tensor(one) for name, one in found["buffers"].items()})
        made._non_persistent_buffers_set.update(found["fleeting"])
        for name, child in found["children"].items():
            made._modules[name] = child and self._module(child, f"{path}.{name}" if path else name)
        self._later.append((made, found["attributes"]))
        return made

    def _parameter(self, found: list[Any] | None) -> nn.Parameter | None:
        if found is None:
            return None
        name, learns = found
        if name not in self._tensors:
            self._tensors[name] = nn.Parameter(self._given[name].detach().clone(), requires_grad=learns)
        return self._tensors[name]  # type: ignore[return-value]

    def _tensor(self, name: str) -> Tensor:
        return self._tensors.setdefault(name, self._given[name].detach().clone())

    def _value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, inside),) = value.items()
        several: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set}
        if kind in several:
            return several[kind](self._value(one) for one in inside)
        readers: dict[str, Callable[[Any], Any]] = {
            "number": float, "device": torch.device, "named": named, "tensor": self._tensor,
            "pairs": lambda pairs: {self._value(key): self._value(one) for key, one in pairs},
            "weak": lambda one: weakref.ref(self._value(one)),
            "module": self._modules.__getitem__,
            "dtype": lambda name: getattr(torch, name),
        }  # fmt: skip
        return readers[kind](inside)
