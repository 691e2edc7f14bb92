"""One cluster for all tests of this folder: a head without cores and two nodes of one core, with a token."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.engines.yard import Yard

_at_work = contextlib.ExitStack()


@contextlib.contextmanager
def _opened() -> Iterator[Yard]:
    before, own = dict(os.environ), psutil.Process()
    children = set(own.children(recursive=True))
    with tempfile.TemporaryDirectory(prefix="shoal-yard-", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(16)
        yard = Yard(Path(folder), os.environ["RAY_AUTH_TOKEN"])
        try:
            yield yard
        finally:
            came = set(own.children(recursive=True)) - children
            yard.close()
            os.environ.clear()
            os.environ.update(before)
            _, alive = psutil.wait_procs(came, timeout=30)
            for process in alive:
                process.kill()
    assert not alive


@pytest.fixture(scope="session")
def yard() -> Yard:
    pytest.importorskip("ray", reason="Ray is not installed")
    return _at_work.enter_context(_opened())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """It ends with the last test that is near it: beside all others it would take its share of the cores."""
    here = Path(__file__).parent
    if nextitem is None or here not in nextitem.path.parents:
        _at_work.close()


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """In place of that of all tests: the sockets of a cluster come and go by themselves; its end is looked at above."""
    yield
    gc.collect()


@pytest.fixture
def no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that it is put back as it was, whatever happens meanwhile
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
