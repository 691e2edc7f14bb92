"""Files of the server's folder: those, and no others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.dashboard.tables import server_files, sources
from support.dashboard.data_page import columns_of
from support.pages import checked, open_page, said, settle
from support.tables import written


def test_files_of_the_servers_folder_are_listed_newest_first_and_opened(folder: Path) -> None:
    (folder / "sub").mkdir()
    for i, name in enumerate(["old.csv", "sub/new.tsv", "x.PARQUET", "notes.md", ".hidden.csv", "run.py"]):
        written(folder, "a\ty\n1\t2\n2\t3\n", name)
        os.utime(folder / name, (1000 + i, 1000 + i))
    found, whole = server_files.listing()
    assert [file.name for file in found] == ["x.PARQUET", "sub/new.tsv", "old.csv"]
    assert whole
    page = open_page()
    page = checked(page.text_input(key="file-search").set_value("NEW").run())
    assert [b.key for b in page.button if b.key and b.key.startswith("server:")] == ["server:file:sub/new.tsv"]
    page = settle(checked(page.button(key="server:file:sub/new.tsv").click().run()))
    assert list(columns_of(page)["Column"]) == ["a", "y"]


def test_a_large_folder_is_looked_at_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_files, "MOST", 10)
    for i in range(15):
        written(folder, "a\n1\n", f"t{i}.csv")
    found, whole = server_files.listing()
    assert (len(found), whole) == (10, False)


@pytest.mark.parametrize(
    "name",
    [
        "../secret.csv", "sub/../../secret.csv", "link.csv", "linked/secret.csv", "round.csv", "sub", "sub/", "", ".",
        ".hidden.csv", ".git/x.csv", "pipe.csv", "notes.md", "zero\0.csv", "//etc/passwd", "gone.csv", "x" * 5000,
    ],
)  # fmt: skip
def test_nothing_outside_the_folder_can_be_opened(folder: Path, tmp_path: Path, name: str) -> None:
    secret = written(tmp_path, "a,y\n1,2\n", "secret.csv")
    for place in ("sub", ".git"):
        (folder / place).mkdir()
    for inside in (".hidden.csv", ".git/x.csv", "notes.md"):
        written(folder, "a,y\n1,2\n", inside)
    (folder / "link.csv").symlink_to(secret)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "round.csv").symlink_to(folder / "round.csv")
    os.mkfifo(folder / "pipe.csv")
    assert server_files.find(f"file:{name}") is None
    assert server_files.find(f"file:{tmp_path / name}") is None
    assert sources.find_table(f"file:{name}") is None
    assert server_files.listing() == ([], True)


def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    real = written(folder, "a,y\n1,2\n", "real.csv")
    (folder / "latest.csv").symlink_to(real)
    assert server_files.find("file:latest.csv") == real
    assert {file.name for file in server_files.listing()[0]} == {"real.csv", "latest.csv"}


def test_without_the_folder_no_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_DATA", str(tmp_path / "gone"))
    assert server_files.find("file:a.csv") is None
    assert server_files.key_of(written(tmp_path, "a\n1\n")) is None
    assert "which is not a folder here" in said(open_page())
