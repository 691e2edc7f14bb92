"""Sessions and the password itself: how they are kept, and how they end."""

from __future__ import annotations

import contextlib
import hmac
import os
import pty
import socket
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from shoal.dashboard.http import access
from shoal.dashboard.http.access import Hashed, Sessions
from shoal.dashboard.http.gate import Gate
from shoal.home import ended_sessions_file, password_file
from support.browser import ROOT, Server, free_port
from support.dashboard.gate import call, inner
from support.dashboard.http_client import (
    PASSWORD,
    ask,
    cookie_of,
    frame,
    handshake,
    log_in,
    open_upload,
    shoal_password,
    unfinished,
)
from support.runs import until

# ------------------------------------------------------------------ sessions


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(locked: Server) -> None:
    plain = {part.strip() for part in log_in(locked).headers["set-cookie"].split(";")}
    assert {"HttpOnly", "SameSite=Lax", "Path=/", f"Max-Age={7 * 86400}"} <= plain
    assert "Secure" not in plain  # or no browser would send it back over http
    forwarded = log_in(locked, X_Forwarded_Proto="https").headers["set-cookie"]
    assert "Secure" in {part.strip() for part in forwarded.split(";")}


def test_a_changed_token_is_worth_nothing(locked: Server, session: str) -> None:
    name, _, token = session.partition("=")
    until_, nonce, signature = token.split(".")
    later = f"{int(until_) + 1}.{nonce}.{signature}"
    for other in (later, f"{until_}.{'0' * 24}.{signature}", f"{until_}.{nonce}.", "", ".", "..", f"{token}0", "é.é.é"):
        assert ask(locked, "/", Cookie=f"{name}={quote(other, safe='.')}").status == 401, other
    assert ask(locked, "/", Cookie=session).status == 200


def test_a_token_ends_by_itself(home: Path) -> None:
    now = [1000.0]
    sessions, password = Sessions(b"k" * 32, clock=lambda: now[0]), Hashed(b"s" * 16, b"d" * 32)
    token = sessions.begin(password)
    now[0] += access.SESSION - 1
    assert sessions.is_valid(token, password)
    now[0] += 2
    assert not sessions.is_valid(token, password)


@pytest.mark.parametrize("place", range(0, 60, 7))
def test_a_damaged_list_of_ended_sessions_brings_none_of_them_back(home: Path, place: int) -> None:
    now = [1000.0]
    sessions, password = Sessions(b"k" * 32, clock=lambda: now[0]), Hashed(b"s" * 16, b"d" * 32)
    ended, other = sessions.begin(password), sessions.begin(password)
    sessions.end(ended, password)
    assert (sessions.is_valid(ended, password), sessions.is_valid(other, password)) == (False, True)
    content = bytearray(ended_sessions_file().read_bytes())
    content[place] ^= 1
    ended_sessions_file().write_bytes(content)
    now[0] += 60
    assert not sessions.is_valid(ended, password)
    assert not sessions.is_valid(other, password)  # nobody knows whether it was ended: log in again
    new = sessions.begin(password)
    now[0] += 60
    assert sessions.is_valid(new, password)
    assert not sessions.is_valid(ended, password)


def test_log_out_ends_the_session_for_copies_as_well(locked: Server) -> None:
    cookie = cookie_of(log_in(locked))
    assert ask(locked, "/logout", Cookie=cookie, Sec_Fetch_Site="cross-site").headers["location"] == "./"
    assert ask(locked, "/", Cookie=cookie).status == 200
    done = ask(locked, "/logout", Cookie=cookie)
    assert done.status == 303
    assert "Max-Age=0" in done.headers["set-cookie"]
    assert ask(locked, "/", Cookie=cookie).status == 401


def test_a_restart_waits_for_no_upload_and_keeps_people_logged_in_but_a_new_password_does_not(tmp_path: Path) -> None:
    server = Server(tmp_path, free_port())
    shoal_password(tmp_path, PASSWORD)
    server.start()
    try:
        cookie = cookie_of(log_in(server))
        with open_upload(server, 5_000_000, cookie) as link:
            link.sendall(b"1,2\n" * 500_000)
            until(lambda: unfinished(tmp_path))
            server.stop()  # fails where that waits for the upload
            assert unfinished(tmp_path) == []
        server.start()
        assert ask(server, "/", Cookie=cookie).status == 200
        status, link = handshake(server, Cookie=cookie)
        with link:
            assert status == 101
            shoal_password(tmp_path, "another horse")
            assert ask(server, "/", Cookie=cookie).status == 401
            link.sendall(frame(BackMsg(app_heartbeat=True).SerializeToString()))
            read_until(link, b"\x88\x02" + (1008).to_bytes(2, "big"))  # a close, and its reason
        assert log_in(server).status == 401
        assert log_in(server, "another horse").status == 303
    finally:
        server.stop()


def read_until(link: socket.socket, end: bytes) -> None:
    got = b""
    while not got.endswith(end):
        more = link.recv(4096)
        assert more, f"it ended with {got[-20:]!r}"
        got += more


def test_secrets_are_for_their_owner(locked: Server, session: str) -> None:
    for name in ("password", "session.key", "dashboard.log"):
        assert stat.S_IMODE((locked.home / name).stat().st_mode) == 0o600, name
    kept = (locked.home / "password").read_text()
    assert PASSWORD not in kept
    said = (locked.home / "dashboard.log").read_text() + (locked.home / "server.log").read_text()
    assert PASSWORD not in said
    assert session.partition("=")[2] not in said


# ------------------------------------------------------------------ the password itself


def test_comparisons_take_the_same_time(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    seen: list[tuple[bytes, bytes]] = []
    honest = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: seen.append((a, b)) or honest(a, b))
    kept = Hashed.of(PASSWORD)
    assert kept.matches(PASSWORD)
    assert not kept.matches(PASSWORD + " ")
    assert [len(a) == len(b) == 32 for a, b in seen] == [True, True]
    assert Sessions(b"k" * 32).is_valid(Sessions(b"k" * 32).begin(kept), kept)
    assert len(seen) == 3


def test_the_same_password_is_kept_differently_each_time() -> None:
    first, second = Hashed.of(PASSWORD), Hashed.of(PASSWORD)
    assert first.salt != second.salt
    assert first.digest != second.digest
    assert Hashed.parse(first.line()) == first


@pytest.mark.parametrize("content", [b"", b"plain text", b"scrypt-1-1-1$00$00", b"\xff\xfe", b"a$b$c"])
def test_a_damaged_password_file_opens_nothing(home: Path, content: bytes) -> None:
    password_file().write_bytes(content)
    assert access.is_locked()
    found = access.current_password()
    assert found is not None
    assert not found.matches("")
    assert call(Gate(inner()), "/").status == 401
    assert call(Gate(inner()), "/login", "POST", b"password=").status == 503


def test_the_command_sets_and_removes(tmp_path: Path) -> None:
    short = shoal_password(tmp_path, "seven77")
    assert short.returncode == 1
    assert "at least 8 characters" in short.stderr
    assert not (tmp_path / "password").exists()
    assert shoal_password(tmp_path, "eight888").returncode == 0
    assert Hashed.parse((tmp_path / "password").read_text()).matches("eight888")
    assert "removed" in shoal_password(tmp_path, "", "--remove").stdout
    assert not (tmp_path / "password").exists()
    assert "no password" in shoal_password(tmp_path, "", "--remove").stdout


@pytest.mark.parametrize(("second", "code", "said"), [("eight888", 0, "is set"), ("other888", 1, "two different")])
def test_the_command_asks_twice_and_shows_nothing(tmp_path: Path, second: str, code: int, said: str) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["SHOAL_HOME"] = str(tmp_path)
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "shoal.cli.app", "password"])
    shown = b""
    for entered in ("eight888", second):
        while not shown.endswith(b": "):
            shown += os.read(terminal, 1024)
        os.write(terminal, entered.encode() + b"\n")
        shown += b"\n"
    with contextlib.suppress(OSError):  # how a terminal ends
        while more := os.read(terminal, 1024):
            shown += more
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    assert said.encode() in shown
    assert b"888" not in shown
    assert (tmp_path / "password").exists() is (code == 0)


def test_a_password_from_the_environment_reaches_no_other_process(home: Path) -> None:
    code = """
import os, subprocess, streamlit
from shoal.dashboard.http import access; from shoal.dashboard import server
server.prepare()
assert access.current_password().matches("correct horse")
first = access.current_password()
inherited = subprocess.run(["env"], capture_output=True, text=True).stdout
print("SHOAL_HOME" in inherited, "SHOAL_PASSWORD" in inherited, "correct horse" in inherited)
print(first.line().strip())
"""
    environment = {**os.environ, "SHOAL_PASSWORD": PASSWORD}
    lines = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    said = [done.stdout.split("\n") for done in lines]
    assert said[0][0] == "True False False", lines[0].stderr
    assert said[0][1] == said[1][1]  # so sessions outlive a restart
    assert not password_file().exists()
