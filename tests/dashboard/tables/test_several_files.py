"""Several files as one table on the pages: uploads that come together, and folders of the server."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from starlette.applications import Starlette

from shoal.dashboard.http.gate import Gate
from shoal.dashboard.tables import recent, server_files, sources, upload_sets, uploads
from shoal.errors import ConfigError, DataError
from shoal.files import stores
from shoal.files.parts import is_there, parts_of, seen_as, size_of
from shoal.home import uploads_directory
from shoal.settings.values import said_on_page
from support.dashboard.data_page import columns_of
from support.dashboard.gate import call, upload_routes
from support.pages import checked, open_page, said, settle, uploaded, widget
from support.tables import written


def keys(*contents: str, name: str = "part-{}.csv") -> list[str]:
    found = [uploads.key_of(uploaded(text.encode(), name.format(i))) for i, text in enumerate(contents)]
    return [key for key in found if key]


def test_files_that_came_together_are_one_table_and_take_no_room_twice() -> None:
    came = keys("a,y\n1,2\n3,4\n", "y,a\n6,5\n8,7\n")
    folder = upload_sets.together(came)
    assert upload_sets.together(came[::-1]) == folder
    assert folder.name == "part-2-files"
    assert [path.name for path in sorted(folder.iterdir())] == ["part-0.csv", "part-1.csv"]
    assert all(path.stat().st_nlink == 2 for path in folder.iterdir())
    key = uploads.key_of(folder)
    assert key is not None
    assert uploads.find(key) == folder
    assert [seen.key for seen in recent.recent()] == [key]  # one entry, not three
    page = settle(open_page(data=key))
    assert "4 rows · 2 columns" in said(page)
    assert list(columns_of(page)["Column"]) == ["a", "y"]
    assert not [entry for entry in uploads_directory().iterdir() if entry.name.startswith(".")]


def test_a_part_that_differs_is_named_on_the_page() -> None:
    key = uploads.key_of(upload_sets.together(keys("a,y\n1,2\n3,4\n", "a;y\n5;6\n7;8\n")))
    page = settle(open_page(data=str(key)))
    assert "'part-1.csv' is written in another way than 'part-0.csv'" in html.unescape(said(page))
    page = settle(checked(widget(page, "selectbox", "Files of this table may differ (parts)").set_value("mixed").run()))
    assert "4 rows · 2 columns" in said(page)


def test_names_that_are_equal_or_no_tables_by_their_ending() -> None:
    both = [uploads.key_of(uploaded(text, "x.txt")) for text in (b"a,y\n1,2\n", b"a,y\n3,4\n")]
    folder = upload_sets.together([str(key) for key in both])
    assert sorted(path.read_text() for path in parts_of(str(folder))) == ["a,y\n1,2\n", "a,y\n3,4\n"]


@pytest.mark.parametrize("odd", ["", "../../etc", "0" * 24 + "/x.csv", "one"])
def test_only_files_that_have_arrived_are_put_together(odd: str) -> None:
    one = keys("a,y\n1,2\n")
    with pytest.raises(DataError, match="files that have arrived"):
        upload_sets.together([*one, odd] if odd != "one" else [*one, *one])
    assert not [entry for entry in uploads_directory().iterdir() if entry.name.startswith(".")]


def test_a_folder_of_the_server_is_one_table(folder: Path) -> None:
    (folder / "sales").mkdir()
    for number in range(3):
        written(folder / "sales", f"a,y\n{number},2\n", f"{number}.csv")
    written(folder / "sales", "read me", "README.md")
    names = {file.name: file.parts for file in server_files.listing()[0]}
    assert names["sales"] == 3
    page = checked(open_page())
    assert "sales/" in said(page)
    page = settle(checked(page.button(key="server:file:sales").click().run()))
    assert "3 rows · 2 columns" in said(page)
    assert sources.table_of(str(folder / "sales")) is not None


def test_a_folder_whose_files_lead_elsewhere_is_none(folder: Path, tmp_path: Path) -> None:
    secret = written(tmp_path, "a,y\n1,2\n", "secret.csv")
    (folder / "sub").mkdir()
    written(folder / "sub", "a,y\n1,2\n", "own.csv")
    (folder / "sub" / "other.csv").symlink_to(secret)
    assert server_files.find("file:sub") is None
    assert server_files.find("file:") is None
    assert server_files.find("file:.") is None
    (folder / "sub" / "other.csv").unlink()
    assert server_files.find("file:sub") == (folder / "sub").resolve()
    for pattern in ("file:*.csv", "file:sub/*.csv", "file:sub/own.csv\nfile:sub/own.csv"):
        assert server_files.find(pattern) is None


def test_the_route_puts_them_together(home: Path) -> None:
    gate = Gate(Starlette(routes=upload_routes()))
    came = keys("a,y\n1,2\n", "a,y\n3,4\n")
    headers = [(b"host", b"localhost"), (b"x-shoal", b"1")]
    found = call(gate, "/api/upload/set", "POST", "\n".join(came).encode(), headers=headers)
    assert found.json()["key"].endswith("/part-2-files")
    for body in (b"", b"../../etc/passwd\n/etc/hosts", b"\xff\x00" * 10, came[0].encode()):
        refused = call(gate, "/api/upload/set", "POST", body, headers=headers)
        assert (refused.status, refused.json()["problem"].split()[0]) == (400, "Expected")


@pytest.mark.parametrize(
    "address", ["https://host/t.csv", "file:https://host/t.csv", "http://127.0.0.1:22/", "s3://b/t.csv"]
)
def test_pages_take_no_addresses(folder: Path, address: str) -> None:
    assert sources.find_table(address) is None
    assert sources.table_of(address) is None
    with pytest.raises(ConfigError, match="A page sets no paths"):
        said_on_page({"file": address}, str(folder / "t.csv"))


def test_nothing_is_asked_of_a_server_to_draw_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores.Web, "state", None)
    assert size_of("https://host/t.csv") == 0
    assert seen_as("https://host/t.csv") == []
    assert is_there("https://host/t.csv")
