"""The Export tab of a saved version: every format with its proof and a download, and the report; made by processes."""

from __future__ import annotations

import hashlib
import html
import importlib.metadata
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.models import export_words as words
from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice, scroll_text, section
from shoal.dashboard.parts.waiting import watch
from shoal.errors import TrainingError
from shoal.files.parts import size_of, title
from shoal.fitting.model_file import SavedModel, load_model, not_there, own_data
from shoal.library.saved_models import Version
from shoal.results.model import ModelFile
from shoal.runs.launch import Run, launch_job
from shoal.settings.config import RunConfig
from shoal.settings.limits import SMALL_FILE
from shoal.settings.values import page_config
from shoal.words import file_size

SMALL_DOWNLOAD = 4 << 20  # bytes up to which a file goes through the page
SHOWN = 20_000  # characters of a file that the page shows
TEXTS = ("sql", "python")  # what is worth reading on the page
PACKAGES = ("skops", "scikit-learn", "onnx", "onnxruntime", "shoal")


def show(version: Version, file: ModelFile) -> None:
    try:
        model = load_model(version.own_model)
    except TrainingError as error:
        notice("error", wording.told(error), "This model cannot be exported")
        return
    line(
        "For programs that do not have Shoal. Each file is run by its own runtime on trial rows and compared with this "
        "model's predictions before it is offered."
    )
    _formats(version, model)
    section("For people")
    _report(version, file)


# ------------------------------------------------------------------ formats


def _formats(version: Version, model: SavedModel) -> None:
    run = _job("export", page_config(""), {**identity(version), "packages": installed()})
    if run is None:
        return
    if run.is_active:
        watch(run, "Making and proving the exports")
    elif result := run.result:
        for to, (title, about) in words.FORMATS.items():
            _card(version, model, run, to, title, about, result["formats"].get(to) or {})
        if any("refused" in found and not _is_for_others(model, to, found) for to, found in result["formats"].items()):
            _again("export", page_config(""), {**identity(version), "packages": installed()})
    else:
        notice("error", wording.told(run.error), "The exports could not be made")
        _again("export", page_config(""), {**identity(version), "packages": installed()})


def identity(version: Version) -> dict[str, str]:
    """The model file and its content: a name may be another model's later."""
    digest = hashlib.sha256(version.model_path.read_bytes()).hexdigest()[:24]
    return {"model": str(version.model_path), "content": digest}


def installed() -> dict[str, str]:
    """Versions of what exports are made with: with others, they are made and proven anew."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found


def _job(task: str, config: RunConfig, arguments: dict[str, Any]) -> Run | None:
    try:
        run = launch_job(task, config, arguments)
        return launch_job(task, config, arguments, anew=True) if run.state == "interrupted" else run
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "It could not be started")
        return None


def _again(task: str, config: RunConfig, arguments: dict[str, Any]) -> None:
    if st.button("Try again", key=f"{task}:again", icon=":material/refresh:"):
        launch_job(task, config, arguments, anew=True)
        st.rerun()


def _card(
    version: Version, model: SavedModel, run: Run, to: str, title: str, about: str, found: dict[str, Any]
) -> None:  # fmt: skip
    with st.container(border=True, key=f"export-{to}"):
        if "proof" not in found:
            _head(title, about)
            if _is_for_others(model, to, found):
                line(found["refused"])
                return
            notice("warning", found.get("refused") or "It was not made.", "Not offered")
            return
        name = words.file_name(version.name, version.number, to, found["file"])
        with st.container(horizontal=True, vertical_alignment="center", gap="medium", key=f"exported-{to}"):
            with st.container(width="stretch"):
                _head(title, about, words.proven(found["proof"]))
            download(run, found, name, words.MIME[to], f"Download {title}")
        with st.expander("How to use it", icon=":material/help:"):
            language = "bash" if to in ("sql", "json") else "python"
            st.code(words.example(to, name, model), language=language, wrap_lines=True)
            line(found["use"])
            if to in TEXTS:
                _text(run.directory / found["file"], to)


def _is_for_others(model: SavedModel, to: str, found: dict[str, Any]) -> bool:
    """Whether this kind of model has no such export: no failure, and trying again would not help."""
    return bool(why := not_there(model.report, f"Exports as {to}")) and found.get("refused") == why


def _head(title: str, about: str, proof: str = "") -> None:
    said = f'<div class="proof">{html.escape(proof)}</div>' if proof else ""
    st.html(
        f'<div class="shoal-export"><strong>{html.escape(title)}</strong>'
        f'<div class="about">{html.escape(about)}</div>{said}</div>'
    )


def download(run: Run, found: dict[str, Any], name: str, mime: str, label: str) -> None:
    """Through the page, or from the disk in pieces where it is large."""
    path = run.directory / found["file"]
    try:
        if found["bytes"] <= SMALL_DOWNLOAD:
            st.download_button(
                label, path.read_bytes(), name, mime, icon=":material/download:", on_click="ignore",
                key=f"download:{run.task}:{found['file']}",
            )  # fmt: skip
            return
        path.stat()
    except OSError:
        notice("warning", "The file is gone from the disk. Clean-up may have taken it.")
        return
    size = file_size(found["bytes"])
    st.link_button(f"{label} ({size})", f"api/{run.task}/{run.id}/{found['file']}", icon=":material/download:")


def _text(path: Path, to: str) -> None:
    section("The file itself")
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(SHOWN + 1)
    except OSError:
        line("The file is gone from the disk.")
        return
    scroll_text(text[:SHOWN], "The file itself")
    if len(text) > SHOWN:
        line(f"The first {SHOWN:,} characters; the download has all of it.")


# ------------------------------------------------------------------ the report


def _report(version: Version, file: ModelFile) -> None:
    about = (
        "One HTML page without scripts that needs no network: data, coefficients with intervals, the path of "
        "penalties, cross-validation, residuals, and where the model comes from."
    )
    with st.container(border=True, key="export-report"):
        if file.report.network and (why := not_there(file.report, "Reports")):
            _head("Report", about)
            line(why)
            return
        try:
            config = own_data(file.config)
        except TrainingError:
            config = page_config("")  # the report says that it knows nothing of the rows
        arguments = {**identity(version), "card": _card_digest(version)}
        run = _wanted(version, config, arguments, about)
        if run is None:
            return
        if run.is_active:
            _head("Report", about)
            watch(run, "Making the report")
        elif result := run.result:
            _made(version, run, result, about)
        else:
            _head("Report", about)
            notice("error", wording.told(run.error), "The report could not be made")
            _again("report", config, arguments)


def _card_digest(version: Version) -> str:
    """A note that was written since belongs into the report."""
    return hashlib.sha256(repr(version.known).encode()).hexdigest()[:24]


def _wanted(version: Version, config: RunConfig, arguments: dict[str, Any], about: str) -> Run | None:
    """Started by itself where rows are few; a large file is gone over when somebody asks for it."""
    size, key = size_of(config.file), f"report:go:{version.label}"
    if size > SMALL_FILE and not st.session_state.get(key):
        _head("Report", about)
        line(f"It goes over all rows of {title(config.file)} ({file_size(size)}) a few times.")
        if not st.button("Make the report", type="primary", icon=":material/description:", key=f"{key}:button"):
            return None
        st.session_state[key] = True
        st.rerun()
    return _job("report", config, arguments)


def _made(version: Version, run: Run, result: dict[str, Any], about: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key="exported-report"):
        with st.container(width="stretch"):
            _head("Report", about)
        download(run, result, f"{version.name}-v{version.number}-report.html", "text/html", "Download report")
    for text in result["notes"]:
        notice("info", text, "What the report is without")
