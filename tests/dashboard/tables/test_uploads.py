"""Files that came in, and tables that were used before."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from shoal.dashboard.tables import recent, uploads
from shoal.errors import DiskFull
from shoal.home import uploads_directory
from support.dashboard.data_page import upload
from support.pages import checked, open_page, said, settle, uploaded


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a b.csv", "a_b.csv"),
        ("Verkäufe Köln é.csv", "Verkaufe_Koln_e.csv"),
        ("センサー記録 3.csv", "センサー記録_3.csv"),
        ("продажи.csv", "продажи.csv"),
        ("हिन्दी.csv", "हिन्दी.csv"),
        ("Łódź.csv", "Łodz.csv"),
        ("漢" * 100 + ".csv", "漢" * 53 + ".csv"),
        ("a\u202egnp.csv", "a_gnp.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\x.csv.gz", "x.csv.gz"),
        (".hidden", "hidden"),
        ("…", "_"),
        ("", "table.csv"),
        ("x" * 300 + ".csv", "x" * 60 + ".csv"),
        ("-rf.csv", "rf.csv"),
    ],
)
def test_names_of_uploads_are_harmless(given: str, kept: str) -> None:
    assert uploads.safe_name(given) == kept
    path = uploaded(b"a,b\n1,2\n", given)
    key = uploads.key_of(path)
    assert key is not None
    assert uploads.find(key) == path


def test_the_same_upload_is_kept_once_and_not_touched() -> None:
    first = uploaded(b"a\n1\n", "t.csv")
    when = first.stat().st_mtime_ns
    assert uploaded(b"a\n1\n", "t.csv") == first
    assert first.stat().st_mtime_ns == when
    assert [path.name for path in uploads_directory().iterdir()] == [first.parent.name]


def test_tables_that_were_used_are_found_again_the_latest_first() -> None:
    old, new = upload("a,y\n1,2\n", "old.csv"), upload("a,y\n3,4\n5,6\n", "new.csv")
    os.utime(uploads_directory() / new, (1, 1))
    settle(open_page(data=new))
    page = open_page()
    assert [b.key for b in page.button if b.key and b.key.startswith("recent:")] == [f"recent:{new}", f"recent:{old}"]
    assert "2 rows × 2 columns · 12 B · just now" in said(page)
    (uploads_directory() / new).unlink()
    page = open_page()
    assert [b.key for b in page.button if b.key and b.key.startswith("recent:")] == [f"recent:{old}"]
    page = settle(checked(page.button(key=f"recent:{old}").click().run()))
    assert page.query_params == {"data": old}


def test_a_table_that_is_looked_at_again_was_used_just_now(home: Path) -> None:
    recent.remember("x", 1, 2)
    at = recent.recent()[0].at
    recent.remember("x", 1, 2)
    assert recent.recent()[0].at == at  # a page is drawn many times
    (home / "recent.json").write_text(json.dumps([{"key": "x", "at": at - 3600, "rows": 1, "columns": 2}]))
    recent.remember("x", 1, 2)
    assert recent.recent()[0].at >= at


@pytest.mark.parametrize("damage", ["", "{", "[1]", '[{"key": 1}]'])
def test_a_damaged_list_of_recent_tables_is_passed_over(home: Path, damage: str) -> None:
    home.mkdir()
    (home / "recent.json").write_text(damage)
    assert recent.recent() == []
    recent.remember("x", 1, 2)
    assert [seen.key for seen in recent.recent()] == ["x"]


# ------------------------------------------------------------------ room on the disk


def leave(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let the disk have so many bytes for uploads; other programs write to it, so sizes are far apart."""
    monkeypatch.setattr(uploads, "SPARE", shutil.disk_usage(uploads_directory().parent).free - size)


def test_room_that_one_upload_announced_is_not_promised_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    uploads_directory().mkdir(parents=True, exist_ok=True)
    leave(monkeypatch, 1 << 30)
    announced = 800 << 20
    assert uploads.shortage(announced) == ""
    with uploads.incoming(announced) as first:
        assert "no room for this file" in uploads.shortage(announced)
        with pytest.raises(DiskFull, match="no room for this file"), uploads.incoming(announced):
            pass
        first.write(b"1,2\n")
        with uploads.incoming(1 << 20) as small:
            small.write(b"1,2\n")
    assert uploads.shortage(announced) == ""
    assert list(uploads_directory().iterdir()) == []


def test_an_upload_that_does_not_say_its_size_leaves_what_is_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    with uploads.incoming() as upload_:
        upload_.write(b"1,2\n")
        leave(monkeypatch, -(1 << 30))
        with pytest.raises(DiskFull, match=r"no room for the rest of this file.*System page"):
            upload_.write(b"3,4\n")
    assert list(uploads_directory().iterdir()) == []


def test_an_upload_that_sends_more_than_it_said_is_counted_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    with uploads.incoming(4) as upload_:
        leave(monkeypatch, -(1 << 30))
        upload_.write(b"1,2\n")  # kept for it
        with pytest.raises(DiskFull, match="no room for the rest"):
            upload_.write(b"3")
