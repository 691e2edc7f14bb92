"""One contract for every store of a run's records."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import StateError
from shoal.metrics import Event, HostSample, LinkSample, Record, Round
from shoal.storage import Storage
from support.records import INF, NAN, host, round_, same, same_all, worker
from support.team.stores import new_store


@pytest.fixture(params=["memory", "sqlite", "postgres", "outbox"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    with new_store(request.param, request, tmp_path) as storage:
        yield storage


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

    def test_only_the_newest_way_to_each_worker_is_kept(self, storage: Storage) -> None:
        assert storage.links() == []
        first, other = LinkSample(0.5, 1, "10.0.0.2", 0.001, 0.0, 10, 20), LinkSample(0.5, 0, "10.0.0.1", 0, 0, 0, 0)
        later = LinkSample(1.5, 1, "10.0.0.3", 0.25, 2.5, 2**40, 30)
        storage.add([first, other])
        storage.add([later])
        assert storage.links() == [other, later]

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

    def test_the_story_is_what_happened_however_many_metrics_there_are(self, storage: Storage) -> None:
        storage.add([Event(0.0, "started", 0, "begins"), Event(0.5, "lost", 1, "gone", 1)])
        storage.add([Event(1.0 + i, "metrics", i, "", None, {"values": {"m": 1.0}}) for i in range(300)])
        assert [event.kind for event in storage.story(5)] == ["started", "lost"]
        assert [event.kind for event in storage.story(1)] == ["lost"]

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
