"""Imports point down only: the table of docs/architecture.md, held by reading the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS: dict[int, set[str]] = {
    0: {"config", "errors", "utils", "plugins", "printing", "settings_text", "pairs"},
    1: {
        "models", "moments", "least_squares", "smooth", "sparse", "paths", "path_kernel", "native", "folds", "cross_validation", "tuned", "importance", "whatif", "intervals", "bootstrap", "conformal", "study_file", "inference", "csv_kernel", "dialects", "data_pipeline",
        "block_reader", "datasets", "design", "terms", "interactions", "metrics", "parquet_reader", "model_file", "explanations", "previews", "histograms", "generated_data",
        "search_space", "optimizers", "compression", "hash_ring", "policy", "scaling", "sampling",
    },
    2: {"worker", "block_requests", "fold_requests", "residual_requests", "array_requests", "shard_requests", "gradient_loop"},
    3: {"engines"},
    4: {
        "coordinator", "ingest", "shards", "profiling", "fitting", "reports", "objective", "tuning",
        "checkpoints", "storage", "callbacks", "run_folder", "run_log", "run_queue",
    },
    5: {
        "runs", "tune_run", "run_store", "run_process", "prediction", "explain_run", "diagnostics", "model_store", "engine_pool", "refits", "exports",
        "training", "conductor", "commands", "recorder", "following", "forks", "jobs",
        "search_course", "search_folder", "search_process", "run_index", "run_notes", "archives", "housekeeping", "forecast",
    },
    6: {"main", "dashboard", "cli", "cli_export", "cli_runs", "cli_tune", "cli_explain", "path_api", "cv_estimators", "array_fits", "cli_password", "cli_models", "cli_disk", "cli_search", "shoal", "estimators", "fitted_model", "frames"},
}  # fmt: skip
LAYER = {module: layer for layer, modules in LAYERS.items() for module in modules}
CHAINS = [("paths", "least_squares", "moments", "models"), ("block_reader", "data_pipeline", "dialects", "csv_kernel")]
CONCRETE = {"runs", "engine_pool", "estimators", "shoal", "cli", "engines"}  # may name an engine by its class
PACKAGES = ("engines", "exports", "storage", "dashboard")
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
    "sqlalchemy",
}


def modules() -> list[Path]:
    found = [*ROOT.glob("*.py"), *(p for folder in PACKAGES for p in ROOT.glob(f"{folder}/*.py"))]
    return sorted(p for p in found if p.name != "setup.py")


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path: Path) -> Iterator[str]:
    """All modules that a file imports, at any depth of nesting, as dotted names."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def package(name: str) -> str:
    return name.split(".")[0]


def own_imports(path: Path) -> set[str]:
    """The project's modules that a file imports: `engines.base`, `design`, ..."""
    known = {name_of(p) for p in modules()} | set(PACKAGES)
    return {name for name in imports(path) if name in known and name != name_of(path)}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_down(path: Path) -> None:
    own = package(name_of(path))
    assert own in LAYER, f"{own} has no place in the table of layers: give it one here and in docs/architecture.md"
    for name in own_imports(path):
        assert LAYER[package(name)] <= LAYER[own], f"{own} (layer {LAYER[own]}) imports {name}"


def test_no_cycles() -> None:
    graph = {name_of(p): own_imports(p) for p in modules()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in done:
            for other in graph.get(name, ()):
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain[0])
def test_chains_within_a_layer_are_not_turned_round(chain: tuple[str, ...]) -> None:
    for i, lower in enumerate(chain):
        above = set(chain[:i])
        assert not above & own_imports(ROOT / f"{lower}.py"), f"{lower} imports one above it"


def test_coordinator_knows_the_protocol_only() -> None:
    for path in [p for p in modules() if LAYER[package(name_of(p))] in (4, 5) and package(name_of(p)) not in CONCRETE]:
        named = {n for n in own_imports(path) if n.startswith("engines")}
        assert named <= {"engines", "engines.base"}, path


def test_only_composition_roots_name_a_concrete_engine() -> None:
    for path in modules():
        named = {n for n in own_imports(path) if n in ("engines.inline", "engines.processes")}
        assert not named or package(name_of(path)) in CONCRETE, f"{name_of(path)} names {named}"


def test_pages_import_neither_coordinator_nor_worker_nor_engine() -> None:
    for path in [p for p in modules() if package(name_of(p)) in ("main", "dashboard")]:
        forbidden = {n for n in own_imports(path) if package(n) in ("coordinator", "worker", "engines")}
        assert not forbidden, f"{name_of(path)} imports {forbidden}"


def loaded_by(module: str) -> set[str]:
    """What a fresh interpreter has loaded after importing a module."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def pages() -> list[str]:
    return [name_of(p) for p in modules() if package(name_of(p)) == "dashboard"]


def test_pages_do_not_load_them_by_a_detour() -> None:
    if not pages():
        pytest.skip("there are no pages yet")
    loaded = loaded_by(", ".join(pages()))
    assert not {package(n) for n in loaded} & {"coordinator", "worker", "engines"}


@pytest.mark.parametrize("module", ["worker", "block_requests", "engines.processes"])
def test_workers_load_numpy_and_little_else(module: str) -> None:
    loaded = {package(name) for name in loaded_by(module)}
    assert "numpy" in loaded
    assert not loaded & HEAVY


def test_command_line_starts_without_the_heavy_libraries() -> None:
    assert not {package(name) for name in loaded_by("cli")} & (HEAVY | {"numpy"})


def test_no_pickle_outside_the_channel_between_processes() -> None:
    for path in modules():
        if "pickle" in set(imports(path)):
            assert name_of(path) in ("worker", "engines.processes"), name_of(path)
