"""Which knobs a trial has, and which wishes are refused."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError, DataError
from shoal.search import space as search_space
from shoal.search.folder import list_searches
from shoal.search.plan import SearchPlan
from shoal.search.space import Choices, Range, chosen_space, combinations, own_choice, usual_space
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from support.runs import ALONE, begun


@given(st.data())
def test_a_trial_has_the_knobs_that_its_other_knobs_give_a_meaning_to(choice: st.DataObject) -> None:
    def ask(knob: str, domain: search_space.Domain) -> Any:
        if isinstance(domain, Choices):
            return choice.draw(st.sampled_from(domain.values))
        number = st.integers(int(domain.low), int(domain.high)) if domain.whole else st.floats(domain.low, domain.high)
        return choice.draw(number)

    knobs = search_space.choose(usual_space(), RunConfig(), ask)
    mode, rule = knobs["mode"], knobs.get("step_rule")
    assert ("staleness" in knobs) == (mode == "ssp")
    assert ("local_steps" in knobs) == (mode == "local")
    assert ("step_rule" in knobs) == (mode != "local")
    assert ("momentum" in knobs) == (rule in ("momentum", "adam"))
    assert ("top_k" in knobs) == (knobs["compression"] == "topk")
    assert ("decay" in knobs) == ("decay_every" in knobs) == (knobs["schedule"] in ("step", "exponential", "inverse"))
    assert "learning_rate" not in knobs  # auto, unless a person asks for a range
    dataclasses.replace(RunConfig(), **knobs)  # every one of them is a config


def test_a_person_restricts_choices_and_fixes_knobs() -> None:
    space, fixed = chosen_space(
        {"mode": "sync,ssp", "batch_size": "16..512", "compression": "none", "learning_rate": "1e-3..1"}
    )
    assert space["mode"] == Choices(("sync", "ssp"))
    assert space["batch_size"] == Range(16, 512, log=True, whole=True)
    assert space["learning_rate"] == Range(0.001, 1.0, log=True)
    assert fixed == {"compression": "none"}
    assert "compression" not in space
    assert list(space) == [knob for knob in search_space.KNOBS if knob in space]  # conditions come after their causes
    assert search_space.from_dict(search_space.as_dict(space)) == space
    assert chosen_space({"batch_size": ["auto", 32]})[0]["batch_size"] == Choices((0, 32))


def test_a_small_space_is_counted_out() -> None:
    space, fixed = chosen_space(
        {**ALONE, "mode": "sync,ssp,local", "staleness": "1..3", "local_steps": "4,8", "schedule": "constant,cosine"}
    )
    found = combinations(space, config_from(fixed))
    assert found is not None
    assert len(found) == 2 * (1 + 3 + 2)
    by_hand = [
        {"mode": "ssp", "schedule": s, "staleness": n} for s, n in itertools.product(("constant", "cosine"), (1, 2, 3))
    ]
    assert all(knobs in found for knobs in by_hand)
    assert combinations(usual_space(), RunConfig()) is None


def test_the_own_settings_are_a_trial() -> None:
    own = own_choice(usual_space(), config_from({"mode": "ssp", "staleness": 3, "batch_size": 77}))
    assert own == {"mode": "ssp", "step_rule": "sgd", "schedule": "constant", "compression": "none", "staleness": 3}


@pytest.mark.parametrize(
    ("wishes", "word"),
    [
        ({"mode": "sync,sideways"}, "sideways"),
        ({"step_rule": "sgd,newton"}, "newton"),
        ({"batch_size": "512..16"}, "LOW less than HIGH"),
        ({"batch_size": "0..16"}, "above 0"),
        ({"mode": "sync..ssp"}, "names of mode"),
        ({"momentum": "0.5..2"}, "momentum"),
        ({"batch_size": "some"}, "whole number"),
        ({"mode": ""}, "from 1 to"),
        ({"epochs": "1,2"}, "epochs"),
    ],
)
def test_a_wish_that_cannot_be_is_one_plain_sentence(wishes: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        chosen_space(wishes)


@pytest.mark.parametrize(
    "limits",
    [
        {"trials": 0},
        {"seconds": 0.0},
        {"reach": 0.0},
        {"reach": 2.0},
        {"within": -1.0},
        {"at_once": -1},
        {"name": "x" * 99},
        {"seconds": math.nan},
    ],
)
def test_limits_that_cannot_be(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        SearchPlan(usual_space(), **limits)


def test_a_search_without_anything_to_choose_is_refused(data: Path) -> None:
    with pytest.raises(ConfigError, match="more than one value"):
        begun(data, {})  # momentum, decay and the like are open, but mean nothing beside what is fixed
    with pytest.raises(DataError, match="Expected a file"):
        begun(data.with_name("none.csv"), {"mode": "sync,ssp"})
    with pytest.raises(ConfigError, match="target"):
        begun(data, {"mode": "sync,ssp"}, {"target": ""})
    assert list_searches() == []
