"""A cluster shows whether it asks for a token before it sees ours; only its door is started here: the server that
everybody asks first."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.engines.cluster.connection import Connection
from shoal.engines.cluster.knocking import turns_away
from shoal.errors import ConfigError
from support.runs import until


@contextlib.contextmanager
def door(folder: Path, mode: str) -> Iterator[int]:
    """The port of the head of a cluster with this mode of authentication."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    program = Path(ray.__file__).parent / "core/src/ray/gcs/gcs_server"
    words = [program, f"--log_dir={folder}", "--config_list=e30=", f"--gcs_server_port={free}",
             "--node-ip-address=127.0.0.1", "--session-name=test"]  # fmt: skip
    environment = {**os.environ, "RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": "theirs" * 8}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _answers(free))
            yield free
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with socket.socket() as trying:
        return not trying.connect_ex(("127.0.0.1", port))


def test_a_cluster_that_wants_a_token_turns_us_away_in_one_call(tmp_path: Path) -> None:
    with door(tmp_path, "token") as port:
        assert turns_away("127.0.0.1", port, 30.0)


@pytest.mark.usefixtures("no_token")
def test_an_open_cluster_is_refused_before_it_sees_our_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with door(tmp_path, "disabled") as port:
        assert not turns_away("127.0.0.1", port, 30.0)
        monkeypatch.setenv("RAY_AUTH_TOKEN", "a token that nobody else is to see")
        with pytest.raises(ConfigError, match=r"is open: it asks nobody for a token.*--open-cluster"):
            Connection.to(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\ngrpc-status", b"\xff" * 100, b"\0" * 9], ids=str
)
def test_what_is_no_refusal_is_not_taken_for_one(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def say() -> None:
            caller, _ = server.accept()
            with caller:
                caller.recv(1000)
                caller.sendall(answer)

        saying = threading.Thread(target=say)
        saying.start()
        assert not turns_away("127.0.0.1", server.getsockname()[1], 30.0)
        saying.join()


def test_nobody_at_the_door_is_no_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert not turns_away("127.0.0.1", port, 30.0)
