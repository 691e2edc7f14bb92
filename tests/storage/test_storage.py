"""One contract for every store of a run's records, then what only a file shared by processes suffers."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError, ResourceError, StateError
from shoal.metrics import Event, HostSample, Record, Round
from shoal.storage import Command, Storage, open_storage
from shoal.storage.migrations import MIGRATIONS
from shoal.storage.sql import SqliteStorage
from shoal.storage.thinning import Bucket, chosen, merged, newly_full, pieces, spread
from support.records import host, round_, worker

TESTS = Path(__file__).parents[1]
NAN, INF = math.nan, math.inf


def same(a: Any, b: Any) -> bool:
    """Equal values of equal types, NaN included, so that 1 is not taken for 1.0 nor None for NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and same(vars(a), vars(b))
    return type(a) is type(b) and bool(a == b)


def same_all(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(same(left, right) for left, right in zip(a, b, strict=True))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStorage]:
    storage = SqliteStorage(tmp_path / "metrics.sqlite", timeout=10)
    yield storage
    storage.close()


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    url = {"memory": "memory://", "sqlite": f"sqlite://{tmp_path}/metrics.sqlite"}[request.param]
    with open_storage(url) as storage:
        yield storage


# ------------------------------------------------------------------------------------- the contract


class TestContract:
    def test_new_store_is_empty(self, storage: Storage) -> None:
        assert storage.last_round() is None
        series = [
            storage.rounds(),
            storage.rounds_since(-1),
            storage.workers(),
            storage.worker_history(0),
            storage.hosts(),
        ]
        assert not any(series)
        assert not any([storage.events(), storage.take(), storage.commands()])

    def test_any_mix_of_records_comes_back(self, storage: Storage) -> None:
        rounds = [round_(5), round_(6, 0.5, phase="finish", validation=2.0, distance=None)]
        samples = [worker(0.5, 1), worker(0.75, 0, gpu=0.5), worker(1.5, 1, state="waiting")]
        hosts = [host(0.5), host(1.0)]
        events = [
            Event(0.1, "state", 0, "running"),
            Event(0.2, "lost", 5, "Worker 1 is gone", 1, {"signal": 9, "a": [1, None]}),
        ]
        storage.add([rounds[0], samples[0], events[0], hosts[0], samples[1]])
        storage.add([])
        storage.add([events[1], hosts[1], rounds[1], samples[2]])
        assert same_all(storage.rounds(), rounds)
        assert same(storage.last_round(), rounds[1])
        assert same_all(storage.workers(), [samples[1], samples[2]])
        assert same_all(storage.worker_history(1), [samples[0], samples[2]])
        assert storage.worker_history(7) == []
        assert same_all(storage.hosts(), hosts)
        assert storage.events() == [(1, events[0]), (2, events[1])]

    @pytest.mark.parametrize("value", [NAN, INF, -INF, 1e-320, 1.7e308, 0.1])
    def test_numbers_of_a_diverged_run_survive(self, storage: Storage, value: float) -> None:
        names = [f.name for f in dataclasses.fields(Round) if "float" in str(f.type)]
        assert len(names) >= 14
        records: list[Record] = [round_(1, **dict.fromkeys(names, value)), round_(2, validation=None, distance=value)]
        records.append(worker(value, 0, cpu=value, staleness=value, wait=value, gpu=value))
        records.append(HostSample(value, value, 1, 2, value, value, value, value))
        records.append(Event(value, "warning", 1, "NaN", None, {"loss": value}))
        storage.add(records)
        found = [*storage.rounds(), *storage.workers(), *storage.hosts(), storage.events()[0][1]]
        assert same_all(found, records)
        assert same(storage.last_round(), records[1])

    def test_texts_of_every_kind_survive(self, storage: Storage) -> None:
        for text in ("", "NaN", "Größe 10 µs 🐟", "a\nb\x00c", "'; DROP TABLE events; --"):
            storage.add([Event(1.0, "warning", 1, text, None, {text: text}), worker(1.0, 0, state=text)])
            assert same(storage.events()[-1][1], Event(1.0, "warning", 1, text, None, {text: text}))
            assert storage.workers()[0].state == text
        storage.add([Event(1.0, "warning", 1, "file \udcff.csv")])  # a file name that is not UTF-8
        assert storage.events()[-1][1].text == "file \\udcff.csv"

    def test_data_that_json_cannot_hold_is_refused_with_the_whole_batch(self, storage: Storage) -> None:
        with pytest.raises(TypeError, match=r"event 'warning' holds what JSON cannot hold.*set"):
            storage.add([round_(1), host(1.0), Event(1.0, "warning", 1, "", None, {"x": {1, 2}})])
        assert not any([storage.rounds(), storage.hosts(), storage.events()])
        with pytest.raises(TypeError, match="command 'set' holds what JSON cannot hold"):
            storage.post("set", {"x": object()})
        assert storage.commands() == []

    def test_records_do_not_change_with_the_callers_objects(self, storage: Storage) -> None:
        data: dict[str, Any] = {"ranks": [1]}
        storage.add([Event(1.0, "lost", 1, "", None, data)])
        storage.post("set", data)
        data["ranks"].append(2)
        assert storage.events()[0][1].data == storage.commands()[0].arguments == {"ranks": [1]}

    def test_rounds_after_one(self, storage: Storage) -> None:
        storage.add([round_(i) for i in range(0, 100, 10)])
        assert [r.round for r in storage.rounds_since(-1)] == list(range(0, 100, 10))
        assert [r.round for r in storage.rounds_since(70)] == [80, 90]
        assert [r.round for r in storage.rounds_since(75)] == [80, 90]
        assert storage.rounds_since(90) == storage.rounds_since(1000) == []

    def test_a_round_recorded_again_replaces_what_follows(self, storage: Storage) -> None:
        storage.add([round_(i, 1.0) for i in range(10)])
        storage.add([round_(9, 2.0)])
        assert [(r.round, r.loss) for r in storage.rounds()][-2:] == [(8, 1.0), (9, 2.0)]
        storage.add([round_(4, 3.0), round_(6, 3.0), round_(5, 4.0)])
        assert [(r.round, r.loss) for r in storage.rounds()] == [
            (0, 1.0),
            (1, 1.0),
            (2, 1.0),
            (3, 1.0),
            (4, 3.0),
            (5, 4.0),
        ]

    def test_events_by_number_kind_and_limit(self, storage: Storage) -> None:
        kinds = ["lost", "warning", "lost", "state", "warning", "lost"]
        storage.add([Event(float(i), kind, i, str(i)) for i, kind in enumerate(kinds, 1)])

        def numbers(**which: Any) -> list[int]:
            return [number for number, _ in storage.events(**which)]

        assert numbers() == [1, 2, 3, 4, 5, 6]
        assert numbers(since=4) == [5, 6]
        assert numbers(since=-3) == [1, 2, 3, 4, 5, 6]
        assert numbers(since=6) == numbers(since=99) == numbers(kinds=[]) == numbers(limit=0) == []
        assert numbers(kinds=["lost"]) == [1, 3, 6]
        assert numbers(kinds={"lost", "state"}, since=1, limit=2) == [4, 6]
        assert numbers(limit=2) == [5, 6]
        assert all(event.text == str(number) for number, event in storage.events())

    def test_commands_are_taken_once_and_settled(self, storage: Storage) -> None:
        before = time.time()
        ids = [storage.post("pause", {}), storage.post("set", {"alpha": 0.5, "ranks": [1, 2]})]
        taken = storage.take()
        assert [(c.id, c.name, c.arguments) for c in taken] == [
            (ids[0], "pause", {}),
            (ids[1], "set", {"alpha": 0.5, "ranks": [1, 2]}),
        ]
        assert all(before <= c.posted_at <= time.time() for c in taken)
        assert storage.take() == []
        assert storage.commands() == taken
        late = storage.post("stop", {})
        storage.settle(ids[1], 12, "done")
        storage.settle(ids[0], 13, "The run is paused already.")
        assert [c.id for c in storage.take()] == [late]
        settled = [
            dataclasses.replace(taken[0], round=13, outcome="The run is paused already."),
            dataclasses.replace(taken[1], round=12, outcome="done"),
        ]
        assert storage.commands()[:2] == settled
        assert (storage.commands()[2].round, storage.commands()[2].outcome) == (None, None)

    def test_settling_an_unknown_command_is_refused(self, storage: Storage) -> None:
        with pytest.raises(StateError, match="none with number 7"):
            storage.settle(7, 1, "done")
        assert storage.post("pause", {}) == storage.take()[0].id  # and nothing is left half done

    def test_events_samples_and_commands_outlive_forgotten_rounds(self, storage: Storage) -> None:
        storage.post("pause", {})
        storage.add([round_(1), round_(2), worker(1.0, 0), host(1.0), Event(1.0, "lost", 2, "gone")])
        storage.forget_after(0)
        assert storage.rounds() == []
        assert storage.last_round() is None
        assert len(storage.workers()) == len(storage.hosts()) == len(storage.events()) == len(storage.commands()) == 1

    def test_closing_twice_is_harmless(self, storage: Storage) -> None:
        storage.close()
        storage.close()


# ------------------------------------------------------------------------------------- thinned series


def noisy(count: int, seed: int, spoiled: float = 0.0) -> list[Round]:
    """Recorded rounds with gaps between them and a loss that jumps about, some of it NaN or infinite."""
    draw = random.Random(seed)
    numbers = itertools.accumulate(draw.choice((1, 1, 3, 50)) for _ in range(count))
    losses = (draw.choice((NAN, INF, -INF)) if draw.random() < spoiled else draw.gauss(0, 1) for _ in range(count))
    return [round_(number, loss) for number, loss in zip(numbers, losses, strict=True)]


def extremes(records: Sequence[Round]) -> tuple[float, float]:
    losses = [record.loss for record in records if not math.isnan(record.loss)]
    return min(losses), max(losses)


def is_fair_sample(thin: Sequence[Round], whole: Sequence[Round], points: int) -> bool:
    known = {record.round: record for record in whole}
    return (
        min(len(whole), points // 2) <= len(thin) <= points
        and all(a.round < b.round for a, b in itertools.pairwise(thin))
        and all(same(record, known[record.round]) for record in thin)
        and (thin[0].round, thin[-1].round) == (whole[0].round, whole[-1].round)
        and extremes(thin) == extremes(whole)
    )


class TestThinning:
    @pytest.mark.parametrize("count", [1, 4, 63, 64, 65, 1000, 5000])
    @pytest.mark.parametrize("spoiled", [0.0, 0.3])
    def test_rounds_keep_ends_and_extremes(self, storage: Storage, count: int, spoiled: float) -> None:
        whole = [round_(0, 0.5), *noisy(count, count, spoiled)]
        for start in range(0, len(whole), 700):
            storage.add(whole[start : start + 700])
        for points in (4, 5, 10, 64, 150, 1500):
            assert is_fair_sample(storage.rounds(points), whole, points), points

    def test_no_round_is_left_out_needlessly(self, storage: Storage) -> None:
        whole = noisy(500, 1)
        storage.add(whole)
        assert same_all(storage.rounds(500), whole)
        assert len(storage.rounds(499)) < 500

    def test_few_points_keep_the_most_important(self, storage: Storage) -> None:
        losses = [5.0, 4.0, -1.0, 9.0, 3.0, 2.0]
        storage.add([round_(i, loss) for i, loss in enumerate(losses)])
        assert [[r.round for r in storage.rounds(points)] for points in range(-1, 5)] == [
            [],
            [],
            [5],
            [0, 5],
            [0, 2, 5],
            [0, 2, 3, 5],
        ]

    def test_points_are_spread_over_the_whole_run(self, storage: Storage) -> None:
        storage.add([round_(i, math.sin(i)) for i in range(10_000)])
        gaps = np.diff([record.round for record in storage.rounds(200)])
        assert gaps.max() <= 3 * 10_000 / 100  # a hundred stretches, both extremes of each

    def test_tails_are_thinned_alike(self, storage: Storage) -> None:
        whole = noisy(3000, 3, 0.1)
        storage.add(whole)
        for place in (0, 1, 17, 1023, 1500, 2500, 2980):
            rest = whole[place + 1 :]
            assert is_fair_sample(storage.rounds_since(whole[place].round, 50), rest, 50), place

    @pytest.mark.parametrize("batch", [1, 7, 1000])
    def test_forgetting_mends_what_is_shown(self, storage: Storage, batch: int) -> None:
        whole = [round_(i, float(i % 13)) for i in range(600)]
        whole[400] = round_(400, 1000.0)
        whole[500] = round_(500, -1000.0)
        for start in range(0, len(whole), batch):
            storage.add(whole[start : start + batch])
        for cut in (599, 450, 256, 255, 100, 3):
            storage.forget_after(cut)
            assert same(storage.last_round(), whole[cut])
            assert is_fair_sample(storage.rounds(20), whole[: cut + 1], 20), cut
        again = [*whole[:4], *(round_(i, -float(i)) for i in range(4, 700))]
        for start in range(4, len(again), batch):
            storage.add(again[start : start + batch])
        assert is_fair_sample(storage.rounds(20), again, 20)
        assert same_all(storage.rounds(700), again)

    def test_samples_are_spread_evenly(self, storage: Storage) -> None:
        storage.add(
            [sample for i in range(1000) for sample in (worker(float(i), 0), worker(i + 0.5, 3), host(float(i)))]
        )
        for series in (storage.worker_history(0, 100), storage.hosts(100)):
            seconds = [sample.seconds for sample in series]
            assert (len(seconds), seconds[0], seconds[-1]) == (100, 0.0, 999.0)
            assert set(np.diff(seconds)) <= {10.0, 11.0}
        assert [sample.seconds for sample in storage.worker_history(3, 2)] == [0.5, 999.5]
        assert [sample.seconds for sample in storage.hosts(1)] == [999.0]
        assert storage.hosts(0) == []
        assert len(storage.hosts(1000)) == 1000
        assert [sample.seconds for sample in storage.workers()] == [999.0, 999.5]


loss_lists = st.lists(st.sampled_from([NAN, INF, -INF, 0.0, 1.0, 2.0, -3.0, 1e300]), min_size=1, max_size=400)


def look_at(losses: Sequence[float]) -> Callable[[int, int, int], list[Bucket]]:
    """Buckets by brute force: NumPy's extremes over the records that a bucket stands for."""

    def bucket(first: int, size: int) -> Bucket:
        part = np.array(losses[first : first + size])
        assert len(part) == size, "a bucket that is not full was asked for"
        known = np.flatnonzero(~np.isnan(part))
        if not len(known):
            return Bucket(first, NAN, first, NAN)
        low, high = int(known[part[known].argmin()]), int(known[part[known].argmax()])
        return Bucket(first + low, float(part[low]), first + high, float(part[high]))

    return lambda level, first, stop: [bucket(i * 4**level, 4**level) for i in range(first, stop)]


class TestBuckets:
    @settings(max_examples=150, deadline=None)
    @given(loss_lists, st.integers(0, 399), st.integers(0, 50))
    def test_chosen_places(self, losses: list[float], start: int, points: int) -> None:
        start = min(start, len(losses) - 1)
        places = chosen(look_at(losses), start, len(losses), points)
        assert places == sorted(set(places))
        assert len(places) <= points
        if points >= 4:
            assert {start, len(losses) - 1} <= set(places)
            part = [loss for loss in losses[start:] if loss == loss]
            if part:
                assert {min(part), max(part)} <= {losses[place] for place in places}

    @settings(max_examples=100, deadline=None)
    @given(loss_lists, st.integers(0, 400))
    def test_full_buckets_are_those_of_all_records(self, losses: list[float], before: int) -> None:
        before = min(before, len(losses))
        look, found = look_at(losses), list(newly_full(look_at(losses), before, len(losses)))
        for level, first, buckets in found:
            assert repr(buckets) == repr(look(level, first, first + len(buckets)))
        size = {level: len(buckets) for level, _, buckets in found}
        for level in range(1, 6):
            assert size.get(level, 0) == len(losses) // 4**level - before // 4**level

    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 7))
    def test_pieces_cover_every_place_once(self, start: int, length: int, level: int) -> None:
        found = pieces(start, start + length, level)
        covered = [place for k, first, stop in found for place in range(first * 4**k, stop * 4**k)]
        assert covered == list(range(start, start + length))
        assert all(k <= level for k, _, _ in found)
        assert sum(stop - first for _, first, stop in found) <= length / 4**level + 6 * level + 1

    def test_equal_losses_are_told_by_the_first(self) -> None:
        assert merged([Bucket(3, 1.0, 4, 2.0), Bucket(5, 1.0, 6, 2.0)]) == Bucket(3, 1.0, 4, 2.0)

    @pytest.mark.parametrize(
        ("count", "points"), [(0, 5), (5, 5), (6, 5), (1000, 7), (10, 1), (10, 0), (10, -1), (3, 2)]
    )
    def test_spread(self, count: int, points: int) -> None:
        places = spread(count, points)
        assert places == sorted(set(places))
        assert len(places) == min(count, max(points, 0))
        if places:
            assert places[-1] == count - 1
        if len(places) > 1:
            assert places[0] == 0


# ------------------------------------------------------------------------------------- what files suffer


def script(path: Path, body: str, *arguments: str) -> list[str]:
    opening = "import math, sys; from shoal.metrics import Event; from shoal.storage import open_storage; from support.records import *; url = 'sqlite://' + sys.argv[1]\n"
    return [sys.executable, "-c", opening + body, str(path), *arguments]


def step_count(storage: SqliteStorage, action: Callable[[], object]) -> int:
    """How many hundreds of instructions SQLite's machine takes: its work, whatever the clock says."""
    ticks = itertools.count()
    storage._file.connection.set_progress_handler(lambda: next(ticks) < 0, 100)
    action()
    storage._file.connection.set_progress_handler(None, 100)
    return next(ticks)


def value(path: Path, query: str) -> Any:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchone()[0]
    finally:
        connection.close()


class TestSqlite:
    def test_pragmas(self, sqlite: SqliteStorage) -> None:
        connection = sqlite._file.connection
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 1  # NORMAL
        assert connection.execute("PRAGMA busy_timeout").fetchone()[0] == 10_000

    def test_records_outlive_the_object(self, tmp_path: Path) -> None:
        path = tmp_path / "a %20?#ü.sqlite"  # no character of a path means anything else
        records = noisy(100, 5, 0.2)
        with open_storage(f"sqlite://{path}") as storage:
            storage.add(records)
            storage.post("pause", {})
            assert len(storage.take()) == 1
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
        with open_storage(f"sqlite://{path}") as storage:
            assert same_all(storage.rounds(), records)
            assert storage.take() == []  # taken, if not settled
            storage.add([round_(10**9)])
            assert len(storage.rounds()) == 101

    @pytest.mark.parametrize(
        "url", ["", "sqlite://relative.sqlite", "sqlite:/x", "postgresql://host/db", "memory", "/tmp/x.sqlite"]
    )
    def test_other_urls_are_refused(self, url: str) -> None:
        with pytest.raises(ConfigError, match="memory:// or sqlite:///absolute"):
            open_storage(url)

    def test_buckets_are_the_extremes_of_their_rounds(self, sqlite: SqliteStorage, tmp_path: Path) -> None:
        draw = random.Random(2)
        whole = noisy(3000, 9, 0.3)
        place = 0
        while place < len(whole):
            step = draw.choice((1, 3, 16, 300))
            sqlite.add(whole[place : place + step])
            place += step
            if draw.random() < 0.3 and 1 < place < len(whole):
                place = draw.randrange(max(place - 400, 1), place)
                sqlite.forget_after(whole[place - 1].round)
        look = look_at([record.loss for record in whole])
        connection = sqlite._file.connection
        rows = connection.execute("SELECT * FROM buckets ORDER BY level, number").fetchall()
        expected = [(level, i, *look(level, i, i + 1)[0]) for level in range(1, 6) for i in range(3000 >> 2 * level)]
        assert repr([tuple(NAN if v is None else v for v in row) for row in rows]) == repr(expected)

    def test_the_work_of_reading_hardly_grows_with_the_run(self, sqlite: SqliteStorage) -> None:
        work = {}
        for count in (2_000, 30_000):
            last = sqlite.last_round()
            sqlite.add([round_(i, math.sin(i)) for i in range(last.round + 1 if last else 0, count)])
            sqlite.add([worker(float(i), i % 3) for i in range(count // 4)])
            work[count] = [
                step_count(sqlite, action)
                for action in (
                    lambda: sqlite.rounds(100), lambda: sqlite.rounds_since(500, 100), sqlite.last_round, sqlite.workers,
                    lambda: sqlite.worker_history(1, 100), lambda: sqlite.rounds_since(1_995),
                )
            ]  # fmt: skip
        assert work[2_000][0] > 10  # the counter counts
        for before, after in list(zip(*work.values(), strict=True))[:5]:
            assert after <= 2 * before + 5
        assert work[30_000][5] > 5 * work[2_000][5]  # and would show it: 1,500 points instead of four

    def test_a_reader_sees_what_a_live_writer_has_written(self, sqlite: SqliteStorage, tmp_path: Path) -> None:
        with open_storage(f"sqlite://{tmp_path}/metrics.sqlite") as reader:
            for i in range(5):
                sqlite.add([round_(i)])
                assert reader.last_round() == round_(i)
            with sqlite._file.transaction() as connection:  # in the middle of a write
                connection.execute("DELETE FROM rounds")
                assert len(reader.rounds()) == 5
                with open_storage(f"sqlite://{tmp_path}/metrics.sqlite") as late:
                    assert len(late.rounds()) == 5

    def test_opened_in_one_thread_and_closed_in_another(self, tmp_path: Path) -> None:
        storage = open_storage(f"sqlite://{tmp_path}/metrics.sqlite")
        thread = threading.Thread(target=lambda: (storage.add([round_(1)]), storage.close()))
        thread.start()
        thread.join()
        with open_storage(f"sqlite://{tmp_path}/metrics.sqlite") as again:
            assert again.last_round() == round_(1)

    def test_two_takers_never_get_the_same_command(self, tmp_path: Path) -> None:
        url = f"sqlite://{tmp_path}/metrics.sqlite"
        barrier = threading.Barrier(3, timeout=20)

        def takes() -> list[Command]:
            with open_storage(url, timeout=30) as storage:
                barrier.wait()
                return [command for _ in range(60) for command in storage.take()]

        def posts() -> list[int]:
            with open_storage(url, timeout=30) as storage:
                barrier.wait()
                return [storage.post("set", {"number": i}) for i in range(60)]

        with ThreadPoolExecutor(3) as pool:
            takers, poster = [pool.submit(takes), pool.submit(takes)], pool.submit(posts)
            taken = [taker.result() for taker in takers]
            posted = poster.result()
        with open_storage(url) as storage:
            rest = storage.take()
        for own in taken:
            assert [command.id for command in own] == sorted(command.id for command in own)
        assert sorted(command.id for command in [*taken[0], *taken[1], *rest]) == posted

    def test_a_taker_in_the_middle_of_another_gets_nothing(self, sqlite: SqliteStorage, tmp_path: Path) -> None:
        sqlite.post("pause", {})
        found: list[list[Command]] = []

        def takes() -> None:
            with open_storage(f"sqlite://{tmp_path}/metrics.sqlite", timeout=30) as other:
                found.append(other.take())

        thread = threading.Thread(target=takes)

        def between(statement: str) -> None:
            """The first taker has read the commands and is about to mark them."""
            if statement.startswith("UPDATE"):
                thread.start()
                thread.join(0.5)

        sqlite._file.connection.set_trace_callback(between)
        found.append(sqlite.take())
        thread.join()
        assert [[command.name for command in own] for own in found] == [["pause"], []]

    def test_threads_may_create_one_store_at_once(self, tmp_path: Path) -> None:
        barrier = threading.Barrier(6, timeout=20)

        def create(number: int) -> None:
            for turn in range(12):
                barrier.wait()
                with open_storage(f"sqlite://{tmp_path}/{turn}.sqlite", timeout=30) as storage:
                    storage.add([Event(0.0, "joined", 0, "", number)])

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(create, range(6)))
        for turn in range(12):
            with open_storage(f"sqlite://{tmp_path}/{turn}.sqlite") as storage:
                assert sorted(event.rank or 0 for _, event in storage.events()) == list(range(6))

    def test_processes_may_create_one_store_at_once(self, tmp_path: Path) -> None:
        body = """
print('ready', flush=True)
sys.stdin.readline()
for turn in range(5):
    with open_storage(f'{url}-{turn}', timeout=30) as storage:
        storage.add([Event(0.0, 'joined', 0, '')])
        for i in range(20): storage.post('set', {'i': i})
"""
        command = script(tmp_path / "store", body)
        processes = [
            subprocess.Popen(
                command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(3)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        with ThreadPoolExecutor(3) as pool:  # all are told to go on before any is waited for
            said = list(pool.map(lambda process: process.communicate("\n", timeout=60)[1], processes))
        assert [process.returncode for process in processes] == [0, 0, 0], said
        for turn in range(5):
            with open_storage(f"sqlite://{tmp_path}/store-{turn}") as storage:
                assert len(storage.events()) == 3
                assert len(storage.take()) == 60

    def test_a_killed_writer_leaves_all_that_was_committed(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        body = """
storage = open_storage(url)
for start in range(0, 10**7, 50):
    storage.add([round_(i, math.sin(i)) for i in range(start, start + 50)] + [Event(0.0, 'state', start, 'x')])
    print(start + 49, flush=True)
"""
        process = subprocess.Popen(script(path, body), cwd=TESTS, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(60)]
        with open_storage(f"sqlite://{path}") as reader:  # while it is written
            last = reader.last_round()
            assert last is not None
            assert last.round >= said[-1]
        process.send_signal(signal.SIGKILL)
        said += [int(line) for line in process.communicate(timeout=30)[0].split()]
        assert process.returncode == -signal.SIGKILL
        with open_storage(f"sqlite://{path}") as storage:
            last = storage.last_round()
            assert last is not None
            assert last.round in (said[-1], said[-1] + 50)  # whole batches; the last one may be unspoken of
            whole = [round_(i, math.sin(i)) for i in range(last.round + 1)]
            assert same_all(storage.rounds(len(whole)), whole)
            assert is_fair_sample(storage.rounds(100), whole, 100)
            assert len(storage.events(limit=10**6)) * 50 == len(whole)
            storage.add([round_(last.round + 1)])
        assert value(path, "PRAGMA integrity_check") == "ok"


class TestSqliteTrouble:
    def test_a_lock_that_goes_is_waited_for(self, sqlite: SqliteStorage, tmp_path: Path) -> None:
        other = sqlite3.connect(tmp_path / "metrics.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        timer.start()
        sqlite.add([round_(1)])
        timer.join()
        other.close()
        assert sqlite.last_round() == round_(1)

    def test_a_new_file_that_another_begins_to_fill_is_waited_for(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")  # SQLite's own timeout does not wait for this one with the change to WAL
        timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        timer.start()
        with SqliteStorage(path, timeout=10) as storage:
            storage.add([round_(1)])
        timer.join()
        other.close()

    def test_a_lock_that_stays_is_told_in_plain_words(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        with SqliteStorage(path, timeout=0.05) as storage:
            storage.add([round_(1)])
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN EXCLUSIVE")
            for action in (
                lambda: storage.add([round_(2)]),
                lambda: storage.post("pause", {}),
                lambda: storage.forget_after(0),
            ):
                with pytest.raises(StateError, match=r"locked for more than 0\.05 seconds.*[Cc]lose"):
                    action()
            assert storage.rounds() == [round_(1)]  # reading goes on
            other.execute("COMMIT")
            other.close()
            storage.add([round_(2)])
            assert storage.rounds() == [round_(1), round_(2)]

    def test_opening_a_locked_file_ends_in_plain_words(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StateError, match="locked for more than"):
            SqliteStorage(path, timeout=0.05)
        other.execute("ROLLBACK")
        other.close()
        SqliteStorage(path, timeout=0.05).close()

    def test_a_full_disk_is_told_and_harms_nothing(self, sqlite: SqliteStorage) -> None:
        connection = sqlite._file.connection
        sqlite.add([round_(1)])
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(ResourceError, match=r"disk is full.*Free some space"):
            sqlite.add([round_(2), *(Event(0.0, "warning", 1, "x" * 5000) for _ in range(20))])
        assert sqlite.rounds() == [round_(1)]
        assert sqlite.events() == []
        connection.execute("PRAGMA max_page_count = 1000000")
        sqlite.add([round_(2), Event(0.0, "warning", 1, "x" * 50000)])
        assert len(sqlite.rounds()) == 2
        assert len(sqlite.events()) == 1

    def test_a_file_that_is_no_database_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        path.write_bytes(b"round,loss\n" * 1000)
        with pytest.raises(StateError, match="damaged or is something else"):
            SqliteStorage(path)
        assert path.read_bytes() == b"round,loss\n" * 1000

    def test_a_damaged_store_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        with SqliteStorage(path) as storage:
            storage.add(noisy(2000, 1))
        content = bytearray(path.read_bytes())
        content[8192:] = bytes(b ^ 0x5A for b in content[8192:])
        path.write_bytes(content)
        with pytest.raises(StateError, match="damaged"), SqliteStorage(path) as storage:
            storage.rounds()

    def test_another_programs_database_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        for statement in ("CREATE TABLE rounds (x)", "PRAGMA user_version = 1"):
            other = sqlite3.connect(path)
            other.execute(statement)
            other.close()
            before = path.read_bytes()
            with pytest.raises(StateError, match="another program's database"):
                SqliteStorage(path)
            assert path.read_bytes() == before

    def test_a_store_of_a_later_version_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        SqliteStorage(path).close()
        assert value(path, "PRAGMA user_version") == len(MIGRATIONS)
        other = sqlite3.connect(path)
        other.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        other.close()
        with pytest.raises(StateError, match=r"later version.*Update"):
            SqliteStorage(path)

    def test_a_later_migration_keeps_the_records(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "metrics.sqlite"
        with SqliteStorage(path) as storage:
            storage.add([round_(1)])
        monkeypatch.setattr("shoal.storage.migrations.MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE notes (text TEXT)",)))
        monkeypatch.setattr("shoal.storage.sqlite_file.MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE notes (text TEXT)",)))
        with SqliteStorage(path) as storage:
            assert storage.rounds() == [round_(1)]
        assert value(path, "SELECT count(*) FROM notes") == 0
        assert value(path, "PRAGMA user_version") == len(MIGRATIONS) + 1

    @pytest.mark.parametrize("place", ["missing/metrics.sqlite", "."])
    def test_a_place_that_cannot_be_opened_is_told(self, place: str, tmp_path: Path) -> None:
        with pytest.raises(StateError, match="Check that its folder exists"):
            SqliteStorage(tmp_path / place)
