"""Classes and functions by their names, and how another process, here or on another machine, comes to their code."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError

SCRIPT = "__main__"
Homes = frozenset[tuple[str, str]]  # modules, and the folder that each is imported from, or the file of a script
_here: dict[str, Path] = {}  # folders of another machine, and what stands in for them on this one


def reference(thing: Any, where: str) -> list[str]:
    """A class or function by its name, if that leads back to it."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    home = ""
    if module and name:
        home = _home(module)
        try:
            if functools.reduce(getattr, name.split("."), sys.modules.get(module)) is thing and home is not None:
                return [module, name, home]
        except AttributeError:
            pass
    raise ConfigError(
        f"Expected classes and functions that other processes can import by their names, got {name or thing!r} of "
        f"'{module}' as {where}. Define it at the top level of a file, not in a function or a notebook's cell."
    )


def named(found: list[str]) -> Any:
    """What a reference leads to."""
    module, name, home = found
    return functools.reduce(getattr, name.split("."), _imported(module, home))


def _home(module: str) -> str:
    """The folder to import a module from, or the file of a script; None where there is no file, as in a notebook."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == SCRIPT:
        return str(Path(file).resolve()) if file else None  # type: ignore[return-value]
    if module.partition(".")[0] in ("torch", "builtins", "shoal") or not file:
        return ""
    path = Path(file).resolve()
    depth = module.count(".") + (path.name == "__init__.py")
    return str(path.parents[depth])


def _imported(module: str, home: str) -> types.ModuleType:
    own = _here.get(home)
    if module == SCRIPT:
        return _script(str(own / Path(home).name) if own else home)
    home = str(own or home)
    if home and home not in sys.path and importlib.util.find_spec(module.partition(".")[0]) is None:
        sys.path.append(home)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"Expected to import '{module}' from '{home}', got: {error}. Put the code of the module back to where it "
            "was when the run was started."
        ) from None


@functools.cache
def _script(path: str) -> types.ModuleType:
    """A script as a module of another name, so that what stands behind `if __name__ == "__main__"` is not done."""
    name = "__shoal_main__"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ConfigError(f"Expected the script of the module at '{path}', found none. Put it back to resume the run.")
    module = importlib.util.module_from_spec(spec)
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------ on other machines


def homes_of(*found: Any) -> Homes:
    """Of all that descriptions name, what has a home."""
    return frozenset((module, home) for each in found for module, home in _named_in(each) if home)


def _named_in(found: Any) -> Iterator[tuple[str, str]]:
    inside = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list | tuple) else ()
    for key, value in inside:
        if key in ("class", "named") and isinstance(value, list | tuple) and len(value) == 3:
            yield str(value[0]), str(value[2])
        else:
            yield from _named_in(value)


def stand_in(home: str, folder: Path) -> None:
    """From now on, code that is at `home` on another machine is at `folder` here."""
    _here[home] = folder
