"""The first view of the Data page: drop a file, or open one from before, from the server's folder, or a sample."""

from __future__ import annotations

import os
import time
from itertools import islice

import streamlit as st

from shoal.dashboard.parts import places
from shoal.dashboard.parts.literal import entry, line, notice
from shoal.dashboard.tables import generation, recent, server_files
from shoal.dashboard.tables.choices import address_of
from shoal.dashboard.tables.samples import SAMPLES, Sample
from shoal.dashboard.tables.sources import find_table
from shoal.dashboard.tables.upload_box import upload_box
from shoal.files.parts import size_of
from shoal.lazy.classes import dataclass
from shoal.people.deeds import why_not
from shoal.people.rights import SERVICE, Verb
from shoal.words import ago, file_size, plural

SHOWN = 5  # files of a list; the rest is found by searching
SCAN_LIFE = 5.0  # seconds for which what a folder holds is taken as known


@dataclass(frozen=True)
class Offer:
    """A file in a list: its name as it is, and a few words about it."""

    key: str
    name: str
    about: str


def choose_view() -> None:
    st.title("What would you like to predict?", anchor=False)
    st.caption(
        "Bring a table. Shoal reads it, shows what is in it, and fits models of numbers, of yes or no and of counts "
        "whose answers it can prove. "
        "The file stays on this machine."
    )
    if refused := why_not(Verb.START, SERVICE):
        line(f"Files are sent by editors; you may look at what is here. {refused}")
    elif key := upload_box("Drop a CSV file here", key="upload"):
        places.stay(**address_of(key))
        st.rerun()
    if problem := st.session_state.pop("problem", None):
        notice("error", problem, "That did not work")
    _files()
    st.header("Try a sample", anchor=False)
    with st.grid(4, min_column_width=230):
        for sample in SAMPLES.values():
            _sample_card(sample)
        _generated_card()
    if server_files.folder() is None:
        line(_no_folder())


# ------------------------------------------------------------------ files from before, files of the server


def _files() -> None:
    """Two lists side by side, or one, or none."""
    if why := recent.damage():
        notice("warning", why)
    used = _recent_offers()
    has_folder = server_files.folder() is not None
    if not used and not has_folder:
        return
    slots = st.columns(bool(used) + has_folder)
    if used:
        with slots[0].container(border=True, height="stretch"):
            st.markdown("**Recently used**")
            _list("recent", used)
    if has_folder:
        with slots[-1].container(border=True, height="stretch"):
            _server_list()


def _recent_offers() -> list[Offer]:
    return list(islice((offer for seen in recent.recent() if (offer := _recent_offer(seen))), SHOWN))


def _recent_offer(seen: recent.Seen) -> Offer | None:
    table = find_table(seen.key)
    if table is None:
        return None
    parts = []
    if seen.rows is not None and seen.columns is not None:
        parts.append(f"{plural(seen.rows, 'row')} × {plural(seen.columns, 'column')}")
    parts += [file_size(size_of(str(table.path))), ago(time.time() - seen.at)]
    return Offer(seen.key, table.title, " · ".join(parts))


@st.cache_data(ttl=SCAN_LIFE, show_spinner=False)
def _server_files(folder: str) -> tuple[list[server_files.ServerFile], bool]:
    return server_files.listing()


def _server_list() -> None:
    st.markdown("**On this server**")
    files, whole = _server_files(str(server_files.folder()))
    if not files:
        st.caption("There is no file with a table in the server's folder (SHOAL_DATA) yet.")
        return
    wanted = st.text_input(
        "Find a file",
        placeholder=f"Find one of {len(files):,} files",
        label_visibility="collapsed",
        icon=":material/search:",
        key="file-search",
    )
    found = [file for file in files if wanted.casefold() in file.name.casefold()]
    _list("server", [_server_offer(file) for file in found[:SHOWN]])
    if not found:
        st.caption("No file has a name like that.")
    elif len(found) > SHOWN:
        st.caption(f"The newest {SHOWN} of {len(found):,}. Search to see others.")
    if not whole:
        st.caption(f"The folder is very large: only its first {server_files.MOST:,} entries were looked at.")


def _server_offer(file: server_files.ServerFile) -> Offer:
    several = f"{plural(file.parts, 'file')} as one table · " if file.parts else ""
    about = f"{several}{file_size(file.size)} · {ago(time.time() - file.changed)}"
    return Offer(file.key, f"{file.name}/" if file.parts else file.name, about)


def _list(kind: str, offers: list[Offer]) -> None:
    for offer in offers:
        with st.container(horizontal=True, vertical_alignment="center", wrap=False):
            entry(offer.name, offer.about)
            st.button("Open", key=f"{kind}:{offer.key}", on_click=places.stay, kwargs=address_of(offer.key))


def _no_folder() -> str:
    if given := os.environ.get("SHOAL_DATA"):
        return f"SHOAL_DATA is set to '{given}', which is not a folder here. Correct it to open files from it."
    return "To open files that are on the server, start Shoal with SHOAL_DATA set to the folder that holds them."


# ------------------------------------------------------------------ samples


def _sample_card(sample: Sample) -> None:
    with st.container(border=True, height="stretch"):
        st.markdown(f"**{sample.title}**")
        st.write(sample.about)
        st.caption(f"{sample.source}. Licence: {sample.licence}.")
        st.space("stretch")
        st.button(
            "Use this sample",
            key=f"sample:{sample.key}",
            on_click=places.stay,
            kwargs=address_of(sample.key),
            width="stretch",
        )


def _generated_card() -> None:
    with st.container(border=True, height="stretch"):
        st.markdown("**Generated**")
        st.write("A large table of made-up numbers, in the size of your choice, whose true coefficients are known.")
        st.caption("Made on this machine. Licence: free for any use.")
        st.space("stretch")
        with st.popover("Choose the size", width="stretch"):
            generation.size_form()
