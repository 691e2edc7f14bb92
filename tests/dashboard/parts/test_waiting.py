"""A page that waits for a job says so to it, and one that comes back to a job that was given up starts it again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.sources import Asked, Table
from shoal.errors import Reason
from shoal.runs import awaiting
from shoal.runs.launch import launch_job
from shoal.settings import limits
from support.dashboard.data_page import columns_of
from support.gates.orders import Orders
from support.pages import checked, open_page, said, settle, uploaded
from support.runs import ended


def only_the_bar(directory: str) -> None:
    from pathlib import Path

    from shoal.dashboard.parts.waiting import watch
    from shoal.runs.launch import Run

    watch(Run(Path(directory)), "Waiting")


def the_address() -> None:
    import streamlit as st

    from shoal.dashboard.parts import places

    st.json(places.asked_for())


def drawn_then_amended() -> None:
    import streamlit as st

    from shoal.dashboard.parts import places

    drawn = places.asked_for()
    found = [places.is_asked_for(drawn)]
    places.amend(read="other")  # as a form does after the bar was drawn
    found.append(places.is_asked_for(drawn))
    st.query_params["read"] = "of a browser that has not heard of it"
    st.json([*found, places.is_asked_for(drawn)])


def test_an_address_that_the_page_gave_itself_after_the_bar_is_no_reason_to_go_on_waiting() -> None:
    page = AppTest.from_function(drawn_then_amended)
    page.query_params.update({"data": "penguins"})
    assert json.loads(checked(page.run()).json[0].value) == [True, True, False]


def test_what_the_panel_writes_into_the_address_is_no_reason_to_go_on_waiting() -> None:
    page = AppTest.from_function(the_address)
    page.query_params.update({"data": "penguins", "target": "year", "alpha": "best", "model": "lasso", "out": "[]"})
    assert json.loads(checked(page.run()).json[0].value) == {"data": "penguins", "target": "year"}


def test_a_page_renews_what_it_waits_for_and_starts_again_what_nobody_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(tmp_path / "gates", monkeypatch)
    path = uploaded(b"a,y\n1,2\n2,4\n3,7\n", "table.gated")
    key = uploads.key_of(path)
    assert key
    orders.hold("read")
    with monkeypatch.context() as short:
        short.setattr(limits, "JOB_PATIENCE", 0.1)
        left = launch_job("inspect", Asked(Table(key, path)).inspection)
        assert ended(left) == "interrupted"
        assert left.standing.reason == Reason.UNAWAITED

    page = open_page("data", data=key)
    assert "Reading the file" in said(page)
    assert left.is_active  # the same job, at work again
    mark = left.directory / awaiting.NAME
    os.utime(mark, (0, 0))
    checked(AppTest.from_function(only_the_bar, args=(str(left.directory),)).run())  # what a browser asks for by itself
    assert mark.stat().st_mtime > 0

    orders.let_go("read")
    page = settle(page)
    assert list(columns_of(page)["Column"]) == ["a", "y"]
