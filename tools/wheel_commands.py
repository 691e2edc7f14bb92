"""Steps of setuptools that put compiled C kernels into the wheel; how they are compiled is in `kernels/build.py`."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parents[1]


class BuildWithKernels(build_py):
    """Compiles the kernels for a wheel; an editable install compiles them on first use, beside their sources."""

    libraries: tuple[Path, ...] = ()

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)  # all of it goes into the wheel, also what is gone from here
        super().run()
        kernels = _kernels()
        folder = Path(self.build_lib) / "shoal" / "kernels" / "build"
        try:
            self.libraries = tuple(kernels.build_into(folder, name) for name in kernels.EXTRA_FLAGS)
        except kernels.ResourceError as error:
            self.warn(f"The wheel is made without compiled kernels; they will be compiled on first use. {error}")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *map(str, self.libraries)]


class PlatformWheel(bdist_wheel):
    """A wheel of this platform for any Python 3: the kernels are loaded by ctypes and know nothing of Python."""

    def run(self) -> None:
        self.run_command("build")
        compiled = bool(self.get_finalized_command("build_py").libraries)
        self.root_is_pure = not compiled
        self.distribution.has_ext_modules = lambda: compiled  # so that all of it is installed with platform libraries
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        return "py3", "none", platform


def _kernels() -> Any:
    """`shoal.kernels.build` of this very tree, which need not be installed, and whatever shoal is."""
    where = {"submodule_search_locations": [str(ROOT)]}
    spec = importlib.util.spec_from_file_location("shoal", ROOT / "__init__.py", **where)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["shoal"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["shoal"])
    return importlib.import_module("shoal.kernels.build")
