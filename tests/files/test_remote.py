"""Tables behind addresses, from real servers: with ranges and without, cut off, changing, slow to come back, refusing."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.data import files
from shoal.data.first_look import totals
from shoal.errors import ConfigError, DataError, ResourceError, SourceChanged
from shoal.files import remote, stores
from shoal.files.parts import absolute, is_several, title
from shoal.settings import limits
from shoal.settings.values import config_from
from support.engines.shelf import Shelf, serving

ROWS = 3000


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.setattr(stores, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setenv("NETRC", "/nowhere")
    found = Shelf()
    with serving(found):
        yield found


def text(rows: int = ROWS) -> str:
    chance = np.random.default_rng(3)
    x, z = chance.normal(size=rows), chance.normal(size=rows)
    frame = pd.DataFrame({"x": x.round(5), "z": z.round(5), "c": np.array(list("ab"))[np.arange(rows) % 2]})
    frame["y"] = (2 * frame["x"] - frame["z"] + 0.1 * chance.normal(size=rows)).round(5)
    return frame.to_csv(index=False)


def local(tmp_path: Path, content: str) -> shoal.FittedModel:
    path = tmp_path / "local.csv"
    path.write_text(content)
    return shoal.fit(path, "y", test_every=5)


@pytest.mark.parametrize("ranged", [True, False])
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_bits_as_from_a_file(tmp_path: Path, shelf: Shelf, ranged: bool, packed: bool) -> None:
    shelf.ranged = ranged
    name, content = ("t.csv.gz", gzip.compress(text().encode())) if packed else ("t.csv", text().encode())
    address = shelf.put(name, content)
    assert shoal.fit(address, "y", test_every=5).coefficients == local(tmp_path, text()).coefficients


def test_blocks_are_ranges(tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SAMPLE_BYTES", 4096)
    monkeypatch.setattr(totals, "TAIL_BYTES", 4096)
    monkeypatch.setattr(limits, "BLOCK_BYTES", 20_000)
    monkeypatch.setattr(remote, "PIECE", 4096)
    long = text(10_000)
    address = shelf.put("t.csv", long)
    found = shoal.fit(address, "y", test_every=5)
    assert found.coefficients == local(tmp_path, long).coefficients
    lengths = [1 + int(b) - int(a) for _, r in shelf.asked if r for a, b in [r.removeprefix("bytes=").split("-")]]
    assert all(wanted for _, wanted in shelf.asked)  # never all of it
    assert max(lengths) < 100_000 < len(long)
    before = len(shelf.asked)
    assert shoal.fit(address, "y", test_every=5).coefficients == found.coefficients
    assert {wanted for _, wanted in shelf.asked[before:]} == {"bytes=0-0"}  # known: only whether it changed


def test_sparse_rows_are_fetched_and_fitted(tmp_path: Path, shelf: Shelf) -> None:
    rows = "".join(f"{i % 7 + 0.5} 1:{i % 5 + 1} 3:{i % 3 + 1}\n" for i in range(200))
    (tmp_path / "t.svm").write_text(rows)
    local = shoal.fit(tmp_path / "t.svm", "label", "ridge", alpha=1.0)
    assert shoal.fit(shelf.put("t.svm", rows), "label", "ridge", alpha=1.0).coefficients == local.coefficients


@pytest.mark.parametrize("ranged", [True, False])
def test_what_breaks_off_is_asked_for_again(tmp_path: Path, shelf: Shelf, ranged: bool) -> None:
    shelf.ranged, shelf.cut = ranged, 3
    found = shoal.fit(shelf.put("t.csv", text()), "y", test_every=5)
    assert shelf.cut == 0
    assert found.coefficients == local(tmp_path, text()).coefficients


@pytest.mark.parametrize("ranged", [True, False])
def test_nothing_half_read_is_an_answer(
    home: Path, shelf: Shelf, ranged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shelf, "cut", property(lambda self: 1, lambda self, value: None), raising=False)
    shelf.ranged = ranged
    address = shelf.put("t.csv", text())
    if ranged:  # what has come is kept, so that a range comes to its end a third at a time; the last bytes in one
        assert shoal.inspect(address)["rows"] == ROWS
        return
    with pytest.raises(DataError, match=r"'t.csv' could not be read from 127.0.0.1:\d+: it broke off in the middle"):
        shoal.inspect(address)
    assert not [entry for entry in (home / "cache").iterdir() if entry.name != "index"]


def test_a_changed_file_is_read_again_and_one_that_changes_meanwhile_is_refused(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = shelf.put("t.csv", text())
    assert shoal.inspect(address)["rows"] == ROWS
    shelf.put("t.csv", text(ROWS - 1), "2")
    assert shoal.inspect(address)["rows"] == ROWS - 1
    shelf.put("t.csv", text(), "3")
    fill = stores.Web.fill

    def meddle(self: stores.Web, target: memoryview, offset: int, mark: str) -> None:
        fill(self, target, offset, mark)
        shelf.put("t.csv", text(), "4")

    monkeypatch.setattr(stores.Web, "fill", meddle)
    with pytest.raises(SourceChanged, match=r"'t.csv' changed on its server"):
        shoal.inspect(address)


def test_refusals_in_plain_words(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"Expected 'no.csv' at 127.0.0.1:\d+, but the server has no such file \(404\)"):
        shoal.inspect(f"{shelf.address}/no.csv")
    address = shelf.put("t.csv", text())
    shelf.refuse = [503, 500]
    assert shoal.inspect(address)["rows"] == ROWS  # tried again
    shelf.refuse = [503] * 9
    with pytest.raises(DataError, match="it answers 503"):
        shoal.inspect(address)
    shelf.refuse, shelf.length, shelf.ranged = [], False, False
    with pytest.raises(DataError, match="does not say how long the file is"):
        shoal.inspect(address)
    with pytest.raises(
        DataError, match=r"could not be read from 127.0.0.1:1: Connection refused. Nothing of it was used"
    ):
        shoal.inspect("http://127.0.0.1:1/t.csv")
    with pytest.raises(DataError, match=r"encryption cannot be trusted"):
        shoal.inspect(address.replace("http:", "https:"))
    with pytest.raises(ConfigError, match="begins with one of http"):
        shoal.inspect("ftp://example.org/t.csv")


def test_a_silent_server_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(stores, "PATIENCE", 0.05)
    monkeypatch.setattr(stores, "PAUSES", ())
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(DataError, match="nothing came for 0 seconds"):
        shoal.inspect(f"http://127.0.0.1:{silent.getsockname()[1]}/t.csv")


SECRETS = ("http://user:word@host/t.csv", "https://host/t.csv?X-Amz-Signature=word", "https://host/t.csv?sig=word",
           "s3://key:word@bucket/t.csv", "https://host/t.csv?a=1&access_token=word")  # fmt: skip


@pytest.mark.parametrize("address", SECRETS)
def test_addresses_with_secrets_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ConfigError, match=r"password, token or signature in it") as refused:
        config_from({"file": ["a.csv", address], "target": "y"})
    assert "word@" not in str(refused.value)
    assert "=word" not in str(refused.value)


def test_a_login_comes_from_netrc_and_stays_with_its_server(
    tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = tmp_path / "netrc"
    logins.write_text("machine 127.0.0.1 login me password word\n")
    logins.chmod(0o600)
    monkeypatch.setenv("NETRC", str(logins))
    other = Shelf()
    with serving(other):
        shelf.forward = other.put("t.csv", text()).replace("127.0.0.1", "localhost")
        model = shoal.fit(f"{shelf.address}/moved.csv", "y")
    assert set(shelf.logins) == {"Basic bWU6d29yZA=="}
    assert set(other.logins) == {""}
    path = tmp_path / "model.json"
    model.save(path)
    assert "bWU6d29yZA" not in path.read_text()


def test_addresses_are_parts_too(tmp_path: Path, shelf: Shelf) -> None:
    lines = text().splitlines(keepends=True)
    first = shelf.put("a.csv", "".join(lines[:1001]))
    second = tmp_path / "b.csv"
    second.write_text(lines[0] + "".join(lines[1001:]))
    found, expected = shoal.fit([first, second], "y", test_every=5), local(tmp_path, text())
    for name, value in expected.coefficients.items():
        assert abs(found.coefficients[name] - value) < 1e-11
    assert found.predict([first, second]).shape == (ROWS,)
    shelf.put("a.csv", "x,z,c\n1,2,a\n", "2")
    with pytest.raises(DataError, match=r"'b.csv' has a column 'y', which 'a.csv' does not have"):
        shoal.inspect([first, second])


def test_parquet_by_ranges(tmp_path: Path, shelf: Shelf) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": np.arange(50.0), "y": np.arange(50.0) * 2 + np.arange(50) % 2}).to_parquet(path)
    address = shelf.put("t.parquet", path.read_bytes())
    assert shoal.fit(address, "y").coefficients == shoal.fit(path, "y").coefficients
    shelf.ranged = False
    shelf.put("t.parquet", path.read_bytes(), "2")
    with pytest.raises(DataError, match="cannot be read at any place"):
        shoal.inspect(address)


def test_names_of_addresses() -> None:
    assert title("https://host/a/t%20x.csv?v=1") == "t x.csv"
    assert absolute("https://host//a/t.csv?v=1") == "https://host//a/t.csv?v=1"
    assert not is_several("https://host/t.csv?v=[1]")


def test_other_stores_through_fsspec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.pipe("/bucket/t.csv", text().encode())
    try:
        found = shoal.fit("memory://bucket/t.csv", "y", test_every=5)
        assert found.coefficients == local(tmp_path, text()).coefficients
        with pytest.raises(DataError, match=r"Expected a file at 'memory://bucket/no.csv', found none"):
            shoal.inspect("memory://bucket/no.csv")
        head, *rows = text().splitlines(keepends=True)
        for number, part in enumerate((rows[:90], rows[90:])):
            store.pipe(f"/bucket/parts/part-{number + 9}.csv", "".join([head, *part]).encode())
        store.pipe("/bucket/parts/notes.txt", b"of last week\n")
        for several in ("memory://bucket/parts/part-*.csv", "memory://bucket/parts/"):
            assert shoal.fit(several, "y", test_every=5).coefficients == pytest.approx(found.coefficients, rel=1e-12)
        assert "left out: notes.txt" in " ".join(shoal.inspect("memory://bucket/parts/")["notes"])
        with pytest.raises(DataError, match=r"got a folder. Add a / to its name"):
            shoal.inspect("memory://bucket/parts")
        with pytest.raises(DataError, match=r"Expected files with a table at 'memory://bucket/q\*.csv', found none"):
            shoal.inspect("memory://bucket/q*.csv")
    finally:
        store.rm("/bucket", recursive=True)
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(ResourceError, match=r"pip install 'shoal\[remote\]'"):
        shoal.inspect("memory://bucket/t.csv")
