"""What every shelf of saved models does: files of a home, and the tables of a real PostgreSQL."""

from __future__ import annotations

import threading

import pytest

from shoal.errors import StateError
from shoal.files import sealed
from shoal.queueing.jobs import Job, RunHost
from shoal.queueing.team import needed_queue
from shoal.shelf.base import ALIASES, CARD, KeptModel, ModelShelf, Saver
from shoal.shelf.place import shelf

MODEL = sealed.sealed({"intercept": 1.0}, "shoal-model")
SAID = sealed.sealed({"note": "none"}, CARD)


def found(kept: ModelShelf, name: str) -> KeptModel:
    model = kept.find(name)
    assert model is not None
    return model


def test_an_empty_shelf_knows_nothing(kept: ModelShelf) -> None:
    assert (kept.look(), kept.find("a"), kept.highest("a"), kept.is_taken("a")) == ([], None, 0, False)
    assert (kept.owner("a"), kept.owners(), kept.cards()) == (None, {}, [])
    with pytest.raises(FileNotFoundError), kept.changing("a"):
        pass
    with pytest.raises(FileNotFoundError):
        kept.rename("a", "b")


def test_versions_are_numbered_and_found_with_their_files(kept: ModelShelf) -> None:
    other = sealed.sealed({"intercept": 2.0, "long": "x" * 9_000_000}, "shoal-model")  # of several pieces
    assert [kept.add("a", MODEL, SAID), kept.add("a", other, SAID), kept.add("b", MODEL, SAID)] == [1, 2, 1]
    assert {one.name: one.numbers for one in kept.look()} == {"a": (2, 1), "b": (1,)}
    model = found(kept, "a")
    assert [kept.path("a", number).read_bytes() for number in (1, 2)] == [MODEL, other]
    assert kept.path("a", 2) == kept.place("a", 2)
    assert model.read(f"v1/{CARD}") == model.read(f"v2/{CARD}") == SAID
    assert len(model.mark(2)) == 8
    assert model.mark(2).encode() in other[-20:]
    assert model.saved(2) >= model.saved(1) > 1e9
    assert len(kept.cards()) == 3


def test_documents_are_written_together_and_read_as_they_were(kept: ModelShelf) -> None:
    kept.add("a", MODEL, SAID)
    with pytest.raises(FileNotFoundError):
        found(kept, "a").read(ALIASES)
    with pytest.raises(FileNotFoundError):
        found(kept, "a").read("v7/card.json")
    said = sealed.sealed({"champion": 1, "words": "ä\u0000\ud800"}, ALIASES)
    with kept.changing("a") as change:
        assert change.numbers == (1,)
        change.write(ALIASES, said)
        change.write("v1/predicted.json", b'{"days": 1}')
        assert change.read(ALIASES) == said
    assert found(kept, "a").read(ALIASES) == said
    assert found(kept, "a").read("v1/predicted.json") == b'{"days": 1}'
    assert kept.look()[0].read(ALIASES) == said


def test_numbers_of_what_is_removed_are_not_given_again(kept: ModelShelf) -> None:
    for _ in range(3):
        kept.add("a", MODEL, SAID)
    with kept.changing("a") as change:
        change.remove(3)
        change.remove(9)
    assert found(kept, "a").numbers == (2, 1)
    with pytest.raises(FileNotFoundError):
        kept.path("a", 3).read_bytes()
    assert kept.add("a", MODEL, SAID) == 4
    with kept.changing("a") as change:
        for number in change.numbers:
            change.remove(number)
    assert (kept.find("a"), kept.look(), kept.is_taken("a"), kept.highest("a")) == (None, [], True, 4)
    assert kept.add("a", MODEL, SAID) == 5


def test_a_renamed_model_has_all_it_had_and_leaves_its_numbers_behind(kept: ModelShelf) -> None:
    kept.put_owner("a", b'{"people": {}}')
    kept.add("a", MODEL, SAID)
    kept.add("a", MODEL + b" ", SAID)
    with kept.changing("a") as change:
        change.write(ALIASES, b"{}")
        change.write("v2/predicted.json", b"[]")
    kept.add("taken", MODEL, SAID)
    with pytest.raises(FileExistsError):
        kept.rename("a", "taken")
    kept.rename("a", "b")
    model = found(kept, "b")
    assert (model.numbers, model.read(ALIASES), model.read("v2/predicted.json")) == ((2, 1), b"{}", b"[]")
    assert kept.path("b", 2).read_bytes() == MODEL + b" "
    assert (kept.owner("a"), kept.owner("b")) == (None, b'{"people": {}}')
    assert (kept.find("a"), kept.highest("a"), kept.highest("b")) == (None, 2, 2)
    assert kept.add("a", MODEL, SAID) == 3
    with pytest.raises(FileExistsError):
        kept.rename("b", "a")


def test_it_is_known_whose_a_model_is_before_there_is_one(kept: ModelShelf) -> None:
    kept.put_owner("a", b'{"people": {"ada": "private"}}')
    assert kept.find("a") is None
    assert kept.highest("a") == 0
    kept.add("a", MODEL, SAID)
    kept.add("nobodys", MODEL, SAID)
    kept.put_owner("a", b'{"people": {"ada": "shared"}}')
    assert kept.owners() == {"a": b'{"people": {"ada": "shared"}}'}
    assert kept.owner("nobodys") is None


def test_who_saves_at_the_same_time_gets_a_number_of_their_own(kept: ModelShelf) -> None:
    given: list[int] = []

    def save() -> None:
        for _ in range(8):
            given.append(kept.add("a", MODEL, SAID))

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given) == list(range(1, 33))
    assert found(kept, "a").numbers == tuple(range(32, 0, -1))


def test_a_run_saves_the_same_model_once(kept: ModelShelf) -> None:
    """Whoever does it again was killed before it heard of the number."""
    runs = [sealed.sealed({"run": run}, CARD) for run in ("first", "second")]
    assert [kept.add("a", MODEL, card, Saver(run)) for card, run in zip(runs, ("first", "second"), strict=True)] == [
        1,
        2,
    ]
    assert kept.add("a", MODEL, runs[0], Saver("first")) == 1
    assert kept.add("a", MODEL, runs[0]) == 3  # a person copies it
    assert kept.add("a", sealed.sealed({"intercept": 3.0}, "shoal-model"), runs[0], Saver("first")) == 4  # resumed
    assert kept.add("b", MODEL, runs[0], Saver("first")) == 1
    assert found(kept, "a").numbers == (4, 3, 2, 1)


def test_a_host_that_has_lost_a_run_saves_nothing_of_it(team_database: str) -> None:
    kept, queue, card = shelf(), needed_queue(), sealed.sealed({"run": "a run"}, CARD)
    queue.put(Job("a run"))
    first = queue.claim(RunHost("one", 1), 1)
    assert first
    queue.give_back("a run", first.fence)
    second = queue.claim(RunHost("two", 1), 1)
    assert second
    with pytest.raises(StateError, match="Another host has taken over the run a run"):
        kept.add("a", MODEL, card, Saver("a run", first.fence))
    assert kept.find("a") is None
    assert kept.add("a", MODEL, card, Saver("a run", second.fence)) == 1
    queue.finish("a run", second.fence)
    with pytest.raises(StateError, match="or it was ended"):
        kept.add("a", sealed.sealed({"late": 1}, "shoal-model"), card, Saver("a run", second.fence))
    assert found(kept, "a").numbers == (1,)


def test_who_changes_at_the_same_time_loses_nothing(kept: ModelShelf) -> None:
    kept.add("a", MODEL, SAID)
    with kept.changing("a") as change:
        change.write("count", b"0")

    def count() -> None:
        for _ in range(8):
            with kept.changing("a") as change:
                change.write("count", str(int(change.read("count")) + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found(kept, "a").read("count") == b"32"
