"""The Models page on which version serves: the check before it is the champion, the way back, and drift."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from shoal.dashboard.tables.recent import known_tables
from shoal.library import alias_history, aliases
from shoal.library.saved_models import Version
from shoal.registry.drift import record
from shoal.settings.config import RunConfig
from shoal.tasks.predict import predict_file
from support.dashboard.models_page import NAME, open_model
from support.pages import checked, said, settle, widget


def test_a_version_becomes_the_champion_by_a_check_and_the_way_back_is_there() -> None:
    aliases.give(Version(NAME, 1), "champion")
    page = open_model("Versions", 2)
    assert f"{NAME}@champion is version 1." in said(page)
    table = next(table.key for table in known_tables() if "penguins" in table.title.lower())
    page = checked(widget(page, "selectbox", "Score on").set_value(table).run())
    page = settle(checked(widget(page, "button", "Promote if not worse").click().run()))
    worse = "stays version 1" in said(page)
    assert worse or f"{NAME}@champion is version 2 now" in said(page)
    assert aliases.resolve(f"{NAME}@champion").number == (1 if worse else 2)
    aliases.give(Version(NAME, 3), "champion", "anna", "<b>by hand</b>")
    page = open_model("Versions", 3)
    assert f"This version is {NAME}@champion." in said(page)
    moves = next(frame.value for frame in page.dataframe if "Who" in frame.value)
    assert moves.iloc[0][["Alias", "Version", "Who"]].tolist() == ["champion", 3, "anna"]
    page = checked(widget(page, "button", "Roll the champion back").click().run())
    assert aliases.resolve(f"{NAME}@champion").number == (1 if worse else 2)
    assert alias_history.moves(NAME)[-1].who == "dashboard"


def test_drift_is_shown_or_why_there_is_none(home: Path, tmp_path: Path) -> None:
    assert "Nothing has been predicted with this version yet" in said(open_model("Drift", 1))
    version, config = Version(NAME, 1), RunConfig(file=str(tmp_path / "new.csv"))
    table = pd.read_csv(next((home / "samples").rglob("penguins*.csv")))
    table.assign(bill_length_mm=table["bill_length_mm"] + 30).to_csv(tmp_path / "new.csv", index=False)
    found = predict_file(version.model_path, config, tmp_path / "out.csv", summed=True)
    assert record(version.model_path, found.seen) == ""
    page = open_model("Drift", 1)
    assert "Far from training (large)" in said(page)
    shown = page.dataframe[0].value
    assert shown.iloc[0][["Column", "Drift"]].tolist() == ["bill_length_mm", "large"]
    assert "train again with rows of now" in said(page)
