"""Uploads: whole and once, or nothing is left of them."""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from shoal.dashboard.http.gate import Gate
from shoal.dashboard.tables import uploads
from shoal.errors import ConfigError, ResourceError
from shoal.home import uploads_directory
from support.browser import ROOT, Server
from support.dashboard.gate import call, upload_routes
from support.dashboard.http_client import Answer, ask, open_upload, unfinished
from support.runs import until


def upload(server: Server, body: Any, name: str = "table.csv", **headers: str) -> Answer:
    return ask(server, f"/api/upload?name={quote(name, safe='')}", "POST", body, **{"X_Shoal": "1", **headers})


def test_an_upload_arrives_whole_and_once(unlocked: Server) -> None:
    content = b"a,b\n" + b"1.5,2\n" * 500_000
    first, again = upload(unlocked, content), upload(unlocked, iter([content[:7], content[7:]]))
    assert first.status == again.status == 200
    assert first.json() == again.json()
    assert (unlocked.home / "uploads" / first.json()["key"]).read_bytes() == content
    assert unfinished(unlocked.home) == []


def test_what_a_killed_server_left_is_gone_after_the_start(unlocked: Server) -> None:
    assert unfinished(unlocked.home) == []


def test_a_killed_server_leaves_nothing_for_the_next(home: Path) -> None:
    code = """
import os, signal
from shoal.dashboard.tables import uploads
with uploads.incoming() as upload:
    upload.write(b"1,2")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == -signal.SIGKILL
    assert len(unfinished(home)) == 1
    with uploads.incoming():
        uploads.sweep()
        assert len(unfinished(home)) == 1  # its own: who is alive is left alone
    assert unfinished(home) == []


def test_an_upload_under_way_is_left_alone_by_the_next_one(unlocked: Server) -> None:
    content = b"c\n" + b"7\n" * 1_000_000
    with open_upload(unlocked, len(content)) as link:
        link.sendall(content[:1_500_000])
        until(lambda: unfinished(unlocked.home))
        assert upload(unlocked, b"a\n1\n").status == 200
        link.sendall(content[1_500_000:])
        assert link.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_broken_connection_leaves_nothing(unlocked: Server) -> None:
    before = sorted((unlocked.home / "uploads").iterdir())
    with open_upload(unlocked, 5_000_000) as link:
        link.sendall(b"1,2\n" * 500_000)
        until(lambda: unfinished(unlocked.home))
    until(lambda: not unfinished(unlocked.home))
    assert sorted((unlocked.home / "uploads").iterdir()) == before


def test_a_large_file_is_refused_before_it_comes(unlocked: Server) -> None:
    assert ask(unlocked, "/api/upload?size=10000000").json() == {}
    assert "at most 10 MB" in ask(unlocked, "/api/upload?size=10000001").json()["problem"]
    with open_upload(unlocked, 10_000_001) as link:  # answered though nothing of the body has come
        answer = b""
        while piece := link.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"at most 10 MB" in answer


def test_a_file_that_does_not_say_how_large_it_is_is_stopped_at_the_limit(unlocked: Server) -> None:
    with contextlib.suppress(OSError):  # the server ends the connection while we still send
        found = upload(unlocked, (b"1,2\n" * 250_000 for _ in range(12)))
        assert found.status == 413
    until(lambda: not unfinished(unlocked.home))
    assert not [p for p in (unlocked.home / "uploads").glob("*/*") if p.stat().st_size > 10_000_000]


def test_a_full_disk_is_a_sentence_and_leaves_nothing(unlocked: Server) -> None:
    """The system refuses to let the server's files grow, as it does on a full disk."""
    assert unlocked.process is not None
    before = sorted((unlocked.home / "uploads").iterdir())
    resource.prlimit(unlocked.process.pid, resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
    try:
        found = upload(unlocked, iter([b"1,2\n" * 250_000] * 3))
    finally:
        resource.prlimit(unlocked.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert found.status == 507
    assert found.json()["problem"].startswith("The disk is full")
    assert sorted((unlocked.home / "uploads").iterdir()) == before


def test_a_disk_without_room_is_noticed_beforehand(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage(home).free
    assert uploads.shortage(1000) == ""
    assert "no room" in uploads.shortage(free + 10**9)
    monkeypatch.setenv("SHOAL_MAX_UPLOAD", "5000 TB")
    found = call(Gate(Starlette(routes=upload_routes())), f"/api/upload?size={free + 10**9}")
    assert b"no room" in found.body


NAMES = [
    ("../../etc/passwd", "passwd"), ("..\\..\\boot.ini", "boot.ini"), (".hidden.csv", "hidden.csv"), ("", "table.csv"),
    ("a b;rm -rf.csv", "a_b_rm_-rf.csv"), ("<img src=x>.csv", "_img_src_x_.csv"), ("-rf", "rf"), ("\0\n.csv", "_.csv"),
    ("x" * 300 + ".csv", "x" * 60 + ".csv"), ("données.csv", "donnees.csv"), (".", "table.csv"), ("..", "table.csv"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), NAMES, ids=range(len(NAMES)))
def test_hostile_names_become_harmless(unlocked: Server, name: str, expected: str) -> None:
    found = upload(unlocked, b"a\n1\n", name)
    assert found.status == 200
    folder, _, kept = found.json()["key"].partition("/")
    assert kept == expected
    assert (unlocked.home / "uploads" / folder / kept).read_bytes() == b"a\n1\n"


def test_only_our_own_pages_may_upload(unlocked: Server) -> None:
    assert upload(unlocked, b"a\n1\n", X_Shoal="0").status == 403
    assert ask(unlocked, "/api/upload?name=a.csv", "POST", b"a\n1\n").status == 403
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{unlocked.port + 1}"):
        assert upload(unlocked, b"a\n1\n", Origin=origin).status == 403, origin
    assert upload(unlocked, b"a\n1\n", Origin=f"http://127.0.0.1:{unlocked.port}").status == 200


def test_an_empty_file_is_refused(unlocked: Server) -> None:
    assert "empty" in upload(unlocked, b"").json()["problem"]


@pytest.mark.parametrize(("text", "expected"), [("1500", 1500), ("2.5gb", 2_500_000_000), (" 10 MB ", 10_000_000)])
def test_the_limit_in_words(monkeypatch: pytest.MonkeyPatch, text: str, expected: int) -> None:
    monkeypatch.setenv("SHOAL_MAX_UPLOAD", text)
    assert uploads.largest() == expected


@pytest.mark.parametrize("text", ["much", "-1", "0", "10 XB", "1e3"])
def test_a_limit_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SHOAL_MAX_UPLOAD", text)
    with pytest.raises(ConfigError, match="SHOAL_MAX_UPLOAD"):
        uploads.largest()


def test_a_full_disk_while_a_file_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ResourceError, match="The disk is full"), uploads.incoming() as upload_:
            upload_.write(b"1\n" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(uploads_directory().iterdir()) == []
