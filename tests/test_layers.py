"""Who may import whom: one line a folder, held by reading the source. `pytest -s tests/test_layers.py` prints the table.

A folder may import what its line names and nothing else of ours; the lines form no cycle. `errors`, `files`,
`home`, `lazy`, `tracing`, `utils` and `words` are free to all. `data` includes `data_pipeline.py`, which fronts it. Folders of one page know no other page.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = {"tests", "benchmarks", "tools", "examples", "docs", "build"}  # folders that are not part of the package
MADE = {"build", "dist", "site"}  # folders that are made from the rest
FREE = {"errors", "files", "home", "lazy", "tracing", "utils", "words"}

MATHEMATICS = "kernels losses models results solve solve.classes solve.rows"
ROWS = f"{MATHEMATICS} data data.first_look data.formats data.notation data.parts data.recipes data.shapes data.summaries data.texts settings"  # of tables
PAGE = "dashboard.fits dashboard.forms dashboard.http dashboard.parts dashboard.tables library metrics people plugins results results.answers runs search settings storage"
MAY_IMPORT: dict[str, str] = {
    "charts": "results.answers",
    "files": "kernels",
    "lazy": "",
    "tracing": "",
    "settings": "",
    "results": "",
    "results.answers": "results",
    "models": "settings",
    "losses": "models settings",
    "metrics": "models results",
    "plugins": "models",
    "worker": "",
    "kernels": "models",
    "steps": "models settings",
    "engines": "worker",
    "engines.cluster": "engines worker",
    "solve": "kernels models results",
    "solve.rows": "kernels models results solve",
    "solve.classes": "kernels models solve",
    "database": "",
    "queueing": "database",
    "travel": "database queueing",
    "shelf": "database queueing results",
    "storage": "database files metrics",
    "data.notation": "kernels",
    "data.formats": "plugins settings",
    "data.shapes": "data.notation models plugins settings",
    "data.texts": "settings",
    "data": "data.formats data.notation data.shapes data.texts kernels models plugins settings solve",
    "data.first_look": "data data.formats data.notation kernels settings",
    "data.summaries": "data models results results.answers",
    "data.recipes": "data data.notation data.texts kernels models",
    "data.parts": "data data.first_look data.formats data.notation data.recipes data.texts kernels settings solve",
    "whatif": ROWS,
    "passes": f"{ROWS} metrics plugins steps whatif worker",
    "parameters": "engines models passes steps worker",
    "coordinator": f"{ROWS} engines metrics parameters passes plugins steps worker",
    "fitting.guidance": f"{ROWS} coordinator passes worker",
    "fitting": f"{ROWS} coordinator fitting.guidance metrics passes plugins results.answers whatif worker",
    "fitting.classes": f"{ROWS} coordinator fitting fitting.guidance fitting.losses metrics passes worker",
    "fitting.losses": f"{ROWS} coordinator fitting fitting.guidance metrics passes worker",
    "allreduce": "coordinator engines models parameters passes settings steps worker",
    "fitting.looks": f"{ROWS} coordinator fitting fitting.guidance passes worker",
    "fitting.networks": f"{ROWS} coordinator fitting fitting.losses metrics passes worker",
    "fitting.robust": f"{ROWS} coordinator fitting fitting.losses metrics passes whatif worker",
    "sparse": f"{ROWS} coordinator fitting fitting.guidance fitting.looks fitting.losses metrics passes results.answers tuning whatif worker",
    "sparse.texts": f"{ROWS} coordinator fitting fitting.guidance metrics passes worker",
    "tuning": f"{ROWS} coordinator fitting fitting.classes fitting.losses fitting.robust metrics passes whatif worker",
    "networks": "data models passes results settings worker",
    "training.objectives": f"{ROWS} coordinator fitting fitting.classes fitting.looks fitting.losses fitting.networks metrics networks passes plugins sparse steps",
    "training": f"{ROWS} allreduce coordinator engines fitting metrics parameters passes plugins sparse steps storage training.objectives tuning worker",
    "planning": f"{ROWS} coordinator engines metrics passes steps storage training training.objectives worker",
    "runs": "database people queueing results results.answers settings storage training travel",
    "tasks": f"{ROWS} coordinator engines engines.cluster fitting fitting.classes fitting.looks fitting.losses fitting.robust metrics networks passes planning results.answers runs sparse sparse.texts storage tasks.outcomes training tuning whatif",
    "tasks.outcomes": f"{ROWS} coordinator fitting fitting.classes fitting.losses metrics passes results.answers tuning whatif worker",
    "backup": "database",
    "library.disk": "shelf",
    "library": "library.disk metrics people plugins queueing results results.answers runs settings shelf storage travel",
    "people": "database shelf",
    "people.oidc": "people",
    "report": f"{ROWS} charts coordinator fitting library results.answers sparse tasks whatif",
    "exports": "data data.shapes fitting losses models report results settings tasks",
    "search": "library metrics people plugins runs settings storage",
    "processes": "data database exports fitting library people queueing registry report runs search settings storage tasks travel whatif",
    "api": f"{ROWS} coordinator engines exports fitting fitting.classes fitting.losses fitting.robust metrics networks passes report results.answers runs sparse sparse.texts steps tasks tuning whatif worker",
    "client": "api results",
    "shoal": "api client fitting library registry results.answers settings tasks",
    "cli.team": "backup database library people processes queueing runs",
    "cli": "cli.team client dashboard.http data data.notation exports fitting library metrics people people.oidc registry results results.answers runs search serving settings shelf storage tasks",
    "dashboard.parts": "charts data.notation library people results results.answers runs settings",
    "registry": f"{ROWS} coordinator fitting library losses passes results results.answers tasks tasks.outcomes worker",
    "serving": "dashboard.api dashboard.http dashboard.monitoring data data.notation fitting library people registry settings tasks",
    "dashboard.fits": "dashboard.parts results results.answers runs settings",
    "dashboard.tables": "dashboard.parts data people results results.answers runs settings",
    "dashboard.forms": "dashboard.http dashboard.parts people plugins results.answers runs settings",
    "dashboard.http": "dashboard.tables exports library people people.oidc results.answers runs",
    "dashboard.data": PAGE,
    "dashboard.live": PAGE,
    "dashboard.train": f"{PAGE} dashboard.live",
    "dashboard.tune": f"{PAGE} models solve whatif",
    "dashboard.search": PAGE,
    "dashboard.api": f"{PAGE} dashboard.live dashboard.monitoring database exports fitting registry shoal tasks",
    "dashboard.runs": f"{PAGE} queueing training",
    "dashboard.models": f"{PAGE} charts data data.notation fitting losses registry shelf solve tasks",
    "dashboard.system": f"{PAGE} database kernels library.disk",
    "dashboard.people": PAGE,
    "dashboard.monitoring": f"{PAGE} dashboard.system database queueing shoal",
    "dashboard": " ".join(f"dashboard.{page}" for page in ["api", "data", "http", "live", "models", "forms", "monitoring", "parts", "people", "runs", "search", "system", "tables", "train", "tune"]) + " people",
    "main": "dashboard runs",
}  # fmt: skip
ENGINES = {"engines.inline", "engines.processes", "engines.simulated", "engines.cluster.engine"}  # concrete ones
NAME_ENGINES = {"tasks", "api", "engines", "engines.cluster", "planning"}  # may choose one
DETACHED = {"coordinator", "worker", "engines", "passes", "training.run"}  # work of other processes, not of pages
HEAVY = {
    "streamlit",
    "pandas",
    "sklearn",
    "scipy",
    "pyarrow",
    "plotly",
    "skops",
    "onnx",
    "onnxruntime",
    "optuna",
    "psycopg",
    "sqlalchemy",
    "torch",
    "safetensors",
}


@functools.cache
def modules() -> dict[str, Path]:
    """All modules of the package without its name in front: `coordinator`, `data.encoding`, `dashboard.live`, ..."""
    found = [path for path in sources() if path.suffix == ".py" and path.parts[0] not in OURS]
    return {dotted(path): ROOT / path for path in found}


def dotted(path: Path) -> str:
    return ".".join(part for part in path.with_suffix("").parts if part != "__init__") or "shoal"


def folder(name: str) -> str:
    """The line of the table that a module belongs to."""
    parent = modules()[name].parent.relative_to(ROOT)
    own = ".".join(parent.parts) if parent.parts else name
    return "data" if own == "data_pipeline" else own


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """All modules that a file imports, at any depth of nesting, as dotted names."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def own_imports(name: str) -> set[str]:
    """Our modules that a module imports, without the package's name; a folder counts only if it is more than its name."""
    found = {other.removeprefix("shoal.") for other in imports(modules()[name]) if other.startswith("shoal.")}
    return {other for other in found if other in modules() and other != name and not is_mere_folder(other)}


def is_mere_folder(name: str) -> bool:
    path = modules()[name]
    return path.name == "__init__.py" and len(parsed(path).body) == 1


def test_imports_are_those_of_the_table() -> None:
    lines = {folder(name) for name in modules()} - FREE
    assert lines <= set(MAY_IMPORT), "these have no line in the table: give them one here and in the docs"
    wrong = []
    for name in modules():
        own = folder(name)
        allowed = {own, *MAY_IMPORT.get(own, "").split(), *FREE}
        if others := {other for other in own_imports(name) if folder(other) not in allowed}:
            wrong.append(f"{name} imports {others}; '{own}' may import {sorted(allowed)}")
    assert not wrong, "\n".join(wrong)


def test_the_table_has_no_cycle_and_no_line_too_many() -> None:
    graph = {own: set(line.split()) for own, line in MAY_IMPORT.items()}
    without_cycle(graph)
    assert set(MAY_IMPORT) | FREE == {folder(name) for name in modules()}
    print("\n".join(f"{own:18} {line or '-'}" for own, line in MAY_IMPORT.items()))


def test_modules_form_no_cycle() -> None:
    without_cycle({name: own_imports(name) for name in modules()})


def without_cycle(graph: dict[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in done:
            for other in graph.get(name, ()):
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@functools.cache
def sources() -> list[Path]:
    """All Python, JavaScript and C of the project, tests and tools included."""
    tops = [path for path in ROOT.iterdir() if not path.name.startswith(".") and path.name not in MADE]
    found = [inner for top in tops for inner in ([top] if top.is_file() else top.rglob("*"))]
    return sorted(path.relative_to(ROOT) for path in found if path.suffix in (".py", ".js", ".c", ".h"))


def test_folders_stay_small() -> None:
    folders = Counter(path.parent for path in sources() if path.suffix == ".py")
    limits = {Path(): 12}
    assert {str(folder): count for folder, count in folders.items() if count > limits.get(folder, 15)} == {}


UNMIRRORED: dict[str, str] = {}  # folders whose tests are elsewhere, and why


def test_tests_have_the_folders_of_the_package() -> None:
    """Whoever changes a folder finds its tests in the one of that name."""
    folders = {".".join(path.relative_to(ROOT).parts[:-1]) for path in modules().values()} - {""}
    tested = {
        ".".join(path.parts[1:-1]) for path in sources() if path.name.startswith("test_") and path.parts[0] == "tests"
    }
    inside = {name for name in folders if any(one == name or one.startswith(f"{name}.") for one in tested)}
    assert folders - inside - set(UNMIRRORED) == set(), "make that folder in tests/, or say here why not"
    assert set(UNMIRRORED) <= folders - inside, "these have their tests now"


def test_files_stay_small() -> None:
    lines = {str(path): (ROOT / path).read_text("utf-8").count("\n") for path in sources()}
    assert {path: count for path, count in lines.items() if count > 400} == {}


def test_every_name_of_a_class_means_one_thing() -> None:
    """Classes and type aliases of the package, and no class of benchmarks and tools has the name of one of them."""
    where: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in parsed(path).body:
            for own in _names_of_types(node):
                where.setdefault(own, []).append(name)
    assert {own: names for own, names in where.items() if len(names) > 1} == {}
    for path in sources():
        if path.parts[0] in ("benchmarks", "tools") and path.suffix == ".py":
            classes = [node for node in parsed(ROOT / path).body if isinstance(node, ast.ClassDef)]
            assert not where.keys() & {node.name for node in classes}, path


def _names_of_types(node: ast.stmt) -> Iterator[str]:
    """The class that a statement defines, or the public alias: a name such as `Rows`; constants are in capitals."""
    if isinstance(node, ast.ClassDef):
        found = node.name
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        found = node.targets[0].id
    else:
        return
    if isinstance(node, ast.ClassDef) or (found[0].isupper() and not found.isupper()):
        yield found


def test_the_package_list_is_the_folders() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    inits = {name for name, path in modules().items() if path.name == "__init__.py"} - {"shoal"}
    assert settings["packages"] == ["shoal", *(f"shoal.{name}" for name in sorted(inits))]
    without = {path.parent for path in modules().values()} - {modules()[name].parent for name in [*inits, "shoal"]}
    assert not without, "folders without __init__.py"


def test_no_folder_has_the_name_of_another_module() -> None:
    """`streamlit run main.py` puts the root on the import path, where a `queue/` would hide the one of Python."""
    names = {name.split(".")[0] for name in modules()} - {"main", "shoal"}
    assert not names & sys.stdlib_module_names


HOME = re.compile(r"""\bhome\(\)\}?( */|\.(?!parents\b|mkdir\b))|environ.get\(.SHOAL_HOME""")  # a path below it is made


def test_only_home_spells_what_is_below_it() -> None:
    others = {name: path for name, path in modules().items() if name != "home"}
    spelled = [name for name, path in others.items() if HOME.search(path.read_text("utf-8"))]
    assert not spelled, "give that path a name in home.py"


# ------------------------------------------------------------------ who knows engines, and what is loaded


def test_only_composition_roots_name_a_concrete_engine() -> None:
    for name in modules():
        named = own_imports(name) & ENGINES
        assert not named or folder(name) in NAME_ENGINES, f"{name} names {named}"


def test_the_coordinator_and_training_know_the_protocol_only() -> None:
    for name in modules():
        if folder(name) in ("coordinator", "fitting", "parameters", "training"):
            assert {other for other in own_imports(name) if folder(other) == "engines"} <= {"engines.base"}, name


def loaded_by(*names: str) -> set[str]:
    """What a fresh interpreter has loaded after importing our modules of these names."""
    code = f"import sys, {', '.join(f'shoal.{name}' for name in names)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_fit_in_python_loads_nothing_that_explains_or_sums_up_a_model() -> None:
    """Loading takes a good part of a small fit's time."""
    loaded = loaded_by("api.fitted_model")
    others = ("whatif", "api.summary", "tasks.explain", "passes.folds")
    assert not {name for name in loaded if name.removeprefix("shoal.").startswith(others)}
    assert "statistics" not in loaded


def test_pages_do_not_load_what_works_on_data_by_a_detour() -> None:
    loaded = loaded_by(*(name for name in modules() if name.startswith("dashboard")))
    ours = {name.removeprefix("shoal.") for name in loaded if name.startswith("shoal.")}
    assert not {name for name in ours if name in DETACHED or folder(name) in DETACHED}
    assert not loaded & {"pandas", "pyarrow"}  # with the first table that a page shows


def test_pages_that_only_read_folders_load_no_part_of_a_fit() -> None:
    loaded = loaded_by(
        *(f"dashboard.{page}.page" for page in ("data", "train", "runs", "system")), "dashboard.live.view"
    )
    assert not loaded & {
        "shoal.data.files",
        "shoal.data_pipeline",
        "shoal.tasks.train",
        "shoal.fitting.exact",
        "shoal.fitting.inspection",
    }


def test_no_module_of_ours_has_a_bare_name() -> None:
    bare = {name.split(".")[0] for name in modules()} - {"shoal"}
    assert not loaded_by("cli.app", "api.estimators", "processes.run", "dashboard.app") & bare


def test_workers_load_numpy_and_little_else() -> None:
    loaded = {other.split(".")[0] for other in loaded_by("worker", "passes.blocks", "engines.processes")}
    assert "numpy" in loaded
    assert not loaded & HEAVY


LIGHT = (
    "cli.app", "cli.search", "files.sealed", "settings.limits", "runs.forecast", "runs.launch", "runs.scheduling", "processes.run",
    "processes.scheduler", "search.folder",
)  # fmt: skip


def test_the_command_line_starts_and_runs_are_scheduled_without_heavy_libraries() -> None:
    loaded = loaded_by(*LIGHT)
    assert not {other.split(".")[0] for other in loaded} & (HEAVY | {"numpy"})
    assert "http.client" not in loaded, "servers of files are asked by those who read them"


def test_no_pickle_outside_the_channel_between_processes() -> None:
    for name, path in modules().items():
        assert "pickle" not in imports(path) or name in ("worker", "engines.processes"), name


def written(path: Path) -> Iterator[str]:
    """The dotted names that a file assigns to, items of them included: `self.server.w`, `server.workers[]`."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield ast.unparse(node)


def test_the_server_is_asked_and_never_written_to() -> None:
    """Whoever wants something of a parameter server says so by its verbs; its steering is the conductor's to write."""
    for name, path in modules().items():
        names = {target for target in written(path) if name != "coordinator"}
        assert not {target for target in names if ".server." in f".{target}"}, name
        steering = {target for target in names if ".steering." in f".{target}"}
        assert not steering or name == "training.conductor", f"{name}: {steering}"
