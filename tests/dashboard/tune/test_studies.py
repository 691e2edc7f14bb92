"""Studies that the server has open: whatever is opened is given back, and all together have a bound in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.tune import studies
from shoal.fitting.summing import make_study
from shoal.home import jobs_directory
from shoal.runs.documents import write_json
from shoal.whatif.answers import WhatIf
from shoal.whatif.courses import Question
from shoal.whatif.folds import FoldChoice
from shoal.whatif.study import save_study
from support.harm.place import Place
from support.runs import until

JOBS = [f"{number:024x}" for number in range(3)]


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three studies as jobs leave them, and none open."""
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(studies, "_open", type(studies._open)())
    place = Place(tmp_path)
    config = place.config()
    with place.coordinator() as coordinator:
        study = make_study(coordinator, coordinator.open(config), config, FoldChoice(5))
    for job in JOBS:
        save_study(jobs_directory() / "study" / job, study)
        write_json(jobs_directory() / "study" / job / "result.json", {})
    yield
    for found in list(studies._open.values()):
        found.whatif.close()


def asked(job: str, out: tuple[str, ...] = ()) -> WhatIf:
    """A study after a question that keeps a problem and a whole path, and all that is made ahead of time of it."""
    whatif = studies.opened(job).whatif
    assert whatif.course(whatif.question("y", out, "elasticnet")) is not None
    until(lambda: whatif._worker is None)
    return whatif


def test_all_studies_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    first = asked(JOBS[0])
    one = studies.held()
    assert one > first.size > 0
    monkeypatch.setattr(studies, "STUDIES_BYTES", 2 * one + 1)
    second = asked(JOBS[1])
    assert (len(studies._open), studies.held()) == (2, 2 * one)
    asked(JOBS[2])  # opening it is within the bound, what is made of it is not
    studies.close_idle()
    assert [path.name for path in studies._open] == JOBS[1:]
    assert studies.held() <= studies.STUDIES_BYTES
    assert first.size == 0
    assert second.size > 0
    asked(JOBS[0], ("a",))
    studies.opened(JOBS[0])
    assert [path.name for path in studies._open] == [JOBS[2], JOBS[0]]
    assert second.size == 0


def test_one_study_over_the_bound_is_answered_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "STUDIES_BYTES", 1)
    first = asked(JOBS[0])
    assert studies.opened(JOBS[0]).whatif is first
    asked(JOBS[1])
    assert [path.name for path in studies._open] == [JOBS[1]]
    assert first.size == 0


def test_a_closed_study_makes_nothing_ahead_of_time() -> None:
    whatif = studies.opened(JOBS[0]).whatif
    question = whatif.question("y", (), "elasticnet")
    made: list[Question] = []
    follow = whatif._followed

    def followed(asked: Question) -> object:
        made.append(asked)
        studies.forget(JOBS[0])  # while its thread is at work
        return follow(asked)

    whatif._followed = followed  # type: ignore[method-assign, assignment]
    assert whatif.course(question) is not None
    until(lambda: whatif._worker is None)
    assert made == [question]
