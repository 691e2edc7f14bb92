"""The wheel in an empty environment, used in a folder where the names of our modules are somebody else's."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import shoal
from support.installed import (
    ROOT,
    Installed,
    answer,
    call,
    copy_of_checkout,
    dashboard,
    environment,
    environment_variables,
    table,
    trapped_folder,
)

pytestmark = pytest.mark.timeout(600)  # many processes one after the other, perhaps on a busy machine


@dataclass
class Place:
    """Shoal from the wheel, and a folder to use it in."""

    wheel: Path
    installed: Installed
    folder: Path
    file: Path
    coefficients: dict[str, float]
    variables: dict[str, str]

    def run(self, *command: str | Path) -> str:
        return call(*command, cwd=self.folder, env=self.variables)

    def python(self, code: str) -> str:
        """With the current folder first on the import path, as in Jupyter."""
        return self.run(self.installed.python, "-c", code)

    def fitted(self, *flags: str) -> dict[str, float]:
        said = self.run(self.installed.shoal, "train", self.file, "--target", "y", "--json", *flags)
        found: dict[str, float] = json.loads(said)["coefficients"]
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The wheel is made from the source archive, so that shows as well whether that has everything."""
    folder = tmp_path_factory.mktemp("wheel")
    call(
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        folder / "dist",
        copy_of_checkout(folder / "source"),
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    file, coefficients = table(folder / "table.csv")
    return Place(
        wheel,
        environment(folder / "environment", wheel),
        trapped_folder(folder / "traps"),
        file,
        coefficients,
        environment_variables(folder / "home"),
    )


def test_the_wheel_is_for_this_platform_and_any_python(place: Place) -> None:
    _, version, python, abi, platform = place.wheel.stem.split("-")
    assert (version, python, abi) == (shoal.__version__, "py3", "none")
    assert platform != "any"
    names = zipfile.ZipFile(place.wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"shoal", f"shoal-{version}.dist-info"}
    kernels = [name for name in names if name.startswith("shoal/kernels/build/") and name.endswith(".so")]
    assert len(kernels) == len([name for name in names if name.endswith("_kernel.c")]) > 0


def test_the_wheel_has_every_file_of_the_package(place: Place) -> None:
    """C, JavaScript, styles and pictures too, wherever they were moved to."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {name.split(".")[1] for name in settings["packages"] if "." in name}
    files = {path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()}
    made = ("__pycache__", "kernels/build/")
    expected = {f"shoal/{path.relative_to(ROOT)}" for path in files if not any(part in str(path) for part in made)}
    expected |= {f"shoal/{path.name}" for path in ROOT.glob("*.py")} | {
        "shoal/py.typed",
        "shoal/.streamlit/config.toml",
    }
    shipped = {name for name in zipfile.ZipFile(place.wheel).namelist() if ".dist-info/" not in name}
    assert {name for name in shipped if not name.endswith(".so")} == expected


def test_the_command_line_fits_exactly_and_by_gradient_steps(place: Place) -> None:
    assert place.fitted() == pytest.approx(place.coefficients, rel=1e-9)
    assert place.fitted("--solver", "gradient", "--workers", "2") == pytest.approx(place.coefficients, rel=1e-5)


def test_in_python_no_module_of_ours_has_a_bare_name(place: Place) -> None:
    found = json.loads(
        place.python(f"""
import json, sys
from pathlib import Path
import shoal
exact = shoal.fit({str(place.file)!r}, target="y").coefficients
by_workers = shoal.fit({str(place.file)!r}, target="y", workers=2, engine="processes").coefficients
import utils
from streamlit.testing.v1 import AppTest
here = Path(shoal.__file__).parent
page = AppTest.from_file(str(here / "dashboard" / "app.py"), default_timeout=60).run()
loaded = {{name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}}
ours = [name for name, file in loaded.items() if Path(file).is_relative_to(here)]
print(json.dumps([exact, by_workers, utils.double(21), [str(e.value) for e in page.exception], len(page.main), ours]))
""")
    )
    exact, by_workers, doubled, exceptions, elements, ours = found
    assert exact == pytest.approx(place.coefficients, rel=1e-9)
    assert by_workers == exact
    assert doubled == 42
    assert exceptions == []
    assert elements > 0
    assert len(ours) > 50
    assert [name for name in ours if name.split(".")[0] not in ("shoal", "__main__")] == []  # the latter is the page


def test_the_dashboard_answers_and_draws_its_first_page(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "a home"
    command = [place.installed.shoal, "dashboard", "--port", "0", "--home", home]
    flags = ["--", "--server.scriptHealthCheckEnabled", "true"]
    with dashboard([*command, *flags], place.folder, place.variables, tmp_path / "said") as address:
        status, page = answer(f"{address}/")
        assert (status, "<title>" in page) == (200, True)
        assert answer(f"{address}/_stcore/script-health-check") == (200, "ok")
    log = (home / "dashboard.log").read_text()
    assert "A page failed" not in log


def test_without_compiled_kernels_they_are_built_in_the_users_own_folder(place: Place, tmp_path: Path) -> None:
    package, home = tmp_path / "packages" / "shoal", tmp_path / "home"
    shutil.copytree(place.installed.package, package, ignore=shutil.ignore_patterns("*.so"))
    before = sorted(package.rglob("*"))
    code = "from shoal.kernels.csv_kernel import library; from shoal.kernels.build import build; library(); print(build('csv_kernel'))"
    compiler = environment_variables(
        home, PATH="/usr/bin:/bin", PYTHONPATH=str(package.parent), PYTHONDONTWRITEBYTECODE="1"
    )
    built = Path(call(sys.executable, "-P", "-c", code, env=compiler).strip())
    assert built.parent == home / "kernels"
    assert sorted(package.rglob("*")) == before
