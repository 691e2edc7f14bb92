"""Where a saved model comes from: its data, run, settings, and what proves it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.fits.trust import gradient_trust
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, section
from shoal.dashboard.tables.sources import Asked, table_of
from shoal.lazy.frames import pd
from shoal.library import accounts, archives
from shoal.library.saved_models import Version
from shoal.results.fit import FitReport
from shoal.results.model import ModelFile
from shoal.settings.config import RunConfig
from shoal.words import certificate, duration, plural

OUTSIDE = ("file", "out", "target", "register")  # said elsewhere
APART = {"test_every": "Kept for testing: one row in", "test_fraction": "Kept for testing: share of rows"}


def show(version: Version, file: ModelFile) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        _data(version, file)
        _run(version)
    with right:
        _settings(file)
        section("What proves it")
        line(proof(file.report))


def _data(version: Version, file: ModelFile) -> None:
    data, known = file.data, version.known
    path = (known.data.path if known else "") or str(file.config.get("file", ""))
    section("Data")
    with st.container(border=True):
        facts = {
            "File": data.file,
            "Rows": f"{data.rows:,}",
            "Fingerprint of the content": data.content,
            "Now": _standing(path),
        }
        line("\n".join(f"{name}: {value}" for name, value in facts.items()))
        table = table_of(path)
        if table:
            places.link("data", "Look at the data", icon=":material/table_view:", **Asked(table).address)


def _standing(path: str) -> str:
    try:
        seen = Path(path).stat()
    except OSError:
        return "the file is not where it was; the model does not need it"
    changed = time.strftime("%-d %b %Y %H:%M", time.localtime(seen.st_mtime))
    return f"the file is where it was, last changed {changed}"


def _run(version: Version) -> None:
    card = version.known
    section("Run")
    with st.container(border=True):
        if card is None:
            line("Which run it is from is not known, since its card cannot be read.")
            return
        solver = "exact" if card.solver != "gradient" else "gradient steps"
        made = time.strftime("%-d %b %Y %H:%M:%S", time.localtime(version.created))
        facts = {"Run": card.run or "unknown", "Solved by": solver, "Saved": made}
        if card.seconds:
            facts["It took"] = duration(card.seconds)
        if card.state == "stopped":
            facts["Ended"] = "stopped before it was finished"
        if card.copied_from:
            facts["Copied from"] = card.copied_from
        line("\n".join(f"{name}: {value}" for name, value in facts.items()))
        if version.run:
            places.link("train", "Open the run", icon=":material/model_training:", run=version.run.id)
        elif card.run and archives.is_archived(card.run):
            _archived(card.run)
        else:
            st.caption("The run was deleted; the model does not need it.")


def _archived(run_id: str) -> None:
    """What is known of a run that was packed away, and the way to it."""
    known = accounts.archived_summary(run_id)
    name = f" “{known.name}”" if known.name else ""
    line(f"The run{name} is in the archive; restore it to open it.")
    if known.forked_from:
        line(f"It was forked from {known.forked_from}.")
    places.link("runs", "Find it in the archive", icon=":material/unarchive:", q=run_id, archived="yes")


def _settings(file: ModelFile) -> None:
    section("Settings that differ from the usual")
    changed = differing(file.config)
    if not changed:
        line("None: everything is as the form proposes it.")
        return
    table = pd.DataFrame({"Setting": [named(k) for k in changed], "Value": [said(k, v) for k, v in changed.items()]})
    st.dataframe(table, hide_index=True, height="content")


def differing(config: dict[str, Any]) -> dict[str, Any]:
    """The knobs that somebody set: those whose value is not the default."""
    usual = RunConfig().as_dict()
    return {k: v for k, v in config.items() if k in usual and v != usual[k] and k not in OUTSIDE}


def named(knob: str) -> str:
    """What a knob is called where the form is not around it."""
    return APART.get(knob) or wording.LABELS.get(knob, knob)


def said(knob: str, value: Any) -> str:
    if value is None:
        return "automatic"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, str):
        return wording.choice_for(knob, value)
    return f"{value:g}"


def proof(report: FitReport) -> str:
    if found := report.training:
        title, _, text = gradient_trust(found)
        facts = f"{plural(found.rounds, 'round')}, {found.epochs:,.6g} epochs."
        return f"{title}. {text}\n{facts}"
    proven = report.certificate
    return certificate(proven.kind, proven.relative, proven.rests_on) if proven else "There is none in the model file."
