"""Addresses: which pages there are, how one leads to another, and what an address may say.

Every view is drawn from its address, so reload, back button and shared links work:

    /                    Data       ?data=KEY&read=JSON&target=COLUMN   a table, how it is read, what to predict
                                    ?choose=table   another one; so is no address at all, unless the menu led here
    /train               Train      ?data=...  the form (with &like=RUN: that run's settings);  ?run=ID  the run
    /tune                Tune       ?data=...&study=JSON  how it is tested;  &model, alpha, ...  the model at hand
    /search              Search     ?data=...  the form of a search;  ?id=ID  the search
    /runs                Runs       ?compare=ID,ID
    /models              Models     ?model=NAME&version=N
    /system              System     for admins, where people have accounts
    /people              People     where people have accounts
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Literal

import streamlit as st
from streamlit.errors import StreamlitAPIException

ARRIVED = "places:arrived"
BY_PANEL = ("predict", "out", "model", "ratio", "alpha")  # parts that the Tune panel writes by itself, in the browser
SHOWN = "places:shown"
CHOOSE: dict[str, Any] = {"choose": "table"}  # the address at which the Data page lets one choose, whatever is at hand
TURN = "places:turn"
PLOTLY_ADDRESS = f"api/plotly.js?v={version('plotly')}"  # relative to the page's base: there may be a proxy in front
TITLES = {
    "data": ("Data", ":material/table_view:"),
    "train": ("Train", ":material/model_training:"),
    "tune": ("Tune", ":material/tune:"),
    "search": ("Search", ":material/manage_search:"),
    "runs": ("Runs", ":material/list_alt:"),
    "models": ("Models", ":material/deployed_code:"),
    "system": ("System", ":material/monitor_heart:"),
    "people": ("People", ":material/group:"),
}


def _elsewhere() -> None:
    """Stands in for a page that is only pointed to: Streamlit tells pages apart by their address."""


def page(name: str, view: Callable[[], None] = _elsewhere, hidden: bool = False) -> Any:
    """`hidden` ones are not in the menu."""
    title, icon = TITLES[name]
    shown: Literal["visible", "hidden"] = "hidden" if hidden else "visible"
    return st.Page(view, title=title, icon=icon, url_path=name, default=name == "data", visibility=shown)


def go(name: str, **address: str) -> None:
    """Leave for another page at once; not from a callback."""
    st.switch_page(page(name), query_params=address)


def link(name: str, label: str, icon: str | None = None, **address: str) -> None:
    """A link that a browser can open in another tab as well."""
    st.page_link(page(name), label=label, icon=icon, query_params=address)


def stay(**address: str) -> None:
    """Make this the address of the page we are on; fit for callbacks."""
    st.query_params.from_dict(address)
    st.session_state[TURN] = _number_of_turn(), address


def amend(**changes: str | None) -> None:
    """Change part of the address; None takes a part away.

    One step of the browser's history; a part that a widget keeps by itself (`bind`) is not touched where that can be.
    """
    known = st.query_params.to_dict()
    gone = [part for part, value in changes.items() if value is None and part in known]
    new = {part: value for part, value in changes.items() if value is not None and known.get(part) != value}
    if gone and (new or gone[1:]):
        stay(**{part: value for part, value in {**known, **new}.items() if part not in gone})
        return
    if gone:
        del st.query_params[gone[0]]
    elif new:
        st.query_params.update(new)
    st.session_state[TURN] = _number_of_turn(), st.query_params.to_dict()


def asked_for() -> dict[str, str]:
    """The address as the server has it: without what the browser writes into it by itself."""
    return _without_panel(st.query_params.to_dict())


def is_asked_for(address: dict[str, str]) -> bool:
    """Whether the browser asks with this address of a drawing, or with the one that the page gave itself after it.

    One that has not heard yet of a changed address asks with the old one, and would get the page of that.
    """
    given: dict[str, str] = st.session_state.get(TURN, (0, {}))[1]
    return asked_for() in (address, _without_panel(given))


def _without_panel(address: dict[str, str]) -> dict[str, str]:
    return {part: value for part, value in address.items() if part not in BY_PANEL}


def entered(name: str) -> None:
    """Note which page is drawn, before it is."""
    before = st.session_state.get(SHOWN, ("", ""))[1]
    st.session_state[SHOWN] = before, name


def is_on(name: str) -> bool:
    """Whether that page is the one that is drawn."""
    return bool(st.session_state.get(SHOWN, ("", ""))[1] == name)


def was_here() -> bool:
    """Whether the page that is drawn is the one that was drawn before it: nothing led here from another one."""
    before, now = st.session_state.get(SHOWN, ("", ""))
    return bool(before == now)


def arrived() -> None:
    """Let the browser's address say what the page shows: a link from a page to itself does not change it there."""
    address = st.query_params.to_dict()
    if st.session_state.get(ARRIVED) != address:
        st.session_state[ARRIVED] = address
        with contextlib.suppress(StreamlitAPIException):  # a part that a widget keeps up to date by itself
            st.query_params.from_dict(address)


def key(name: str) -> str:
    """The key of a widget that says something about the address: in each turn another widget.

    A browser repeats what all its widgets hold whenever it asks for something; what it still says of an earlier turn
    must not become the address again.
    """
    return f"{name}:{turn()}"


def chooses(name: str, shown: Any, choose: Callable[[Any], None], default: str = "") -> dict[str, Any]:
    """Key and callback of a widget that shows a part of the address and chooses another; `choose` changes the address.

    The callback of an earlier turn is called once more when its widget is said again: that is no choice, nor is what
    the widget shows already. Where something else has changed that part of the address, such as a button, it is another
    widget: until a browser has drawn it, it still says what the one before showed.

    A widget that has a default whether one is given or not takes what it shows as that: `default` is its name.
    Streamlit warns where such a one is told by the state of the session too.
    """
    number, own = turn(), key(name)
    times, before = st.session_state.get(f"{own}~", (0, shown))
    says = st.session_state.get(f"{own}.{times}", shown if default else None)
    if says != shown and (before != shown or default):
        times += 1
    st.session_state[f"{own}~"] = times, shown
    own = f"{own}.{times}"
    if default:
        return {"key": own, default: shown, "on_change": _chosen, "args": (number, own, shown, choose)}
    st.session_state[own] = shown
    return {"key": own, "on_change": _chosen, "args": (number, own, shown, choose)}


def _chosen(number: int, own: str, shown: Any, choose: Callable[[Any], None]) -> None:
    if not is_over(number) and (said := st.session_state[own]) != shown:
        choose(said)


def turn() -> int:
    """Which turn of the address this is: a new one where the back button or a link changed it, no choice here."""
    address = st.query_params.to_dict()
    number, known = st.session_state.get(TURN, (0, address))
    st.session_state[TURN] = number + (known != address), address
    return _number_of_turn()


def is_over(turn_: int) -> bool:
    """Whether a callback is of an earlier turn: what its widget says then is repeated, and no choice."""
    return turn_ != _number_of_turn()


def _number_of_turn() -> int:
    number: int = st.session_state.get(TURN, (0, {}))[0]
    return number
