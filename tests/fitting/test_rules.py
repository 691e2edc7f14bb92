"""Rules of plug-ins: what they see of a table, and what becomes of one that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal as api
from shoal.errors import ConfigError, DataError
from support.brought.example_plugin import at_hand

Install = Callable[..., None]
RULE = """
    from shoal.errors import DataError
    from shoal.fitting.rules import Remark, ValidationRule
    class Mine(ValidationRule):
        def check(self, table):
            {code}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    yield from at_hand(tmp_path / "site", monkeypatch)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """40 rows, one of which cannot be read; a text column with gaps."""
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    rows = [f"{i},{'' if i % 5 == 0 else 'red' if i % 2 else 'blue'},{2 * i + i % 3}" for i in range(40)]
    rows[7] = "seven,red,15"
    made = tmp_path / "table.csv"
    made.write_text("x,colour,y\n" + "\n".join(rows) + "\n")
    return made


def with_rule(install: Install, code: str) -> dict[str, Any]:
    install("plug-a", "shoal.validation_rules", "mine = plug_a:Mine", RULE.format(code=code))
    return {"rules": ["mine"], "engine": "inline", "on_bad_rows": "skip", "numeric": ["x"]}


def test_a_rule_sees_facts_and_values_of_rows_that_could_be_read(install: Install, path: Path) -> None:
    code = "yield Remark(repr((table.rows, table.target, [c.name for c in table.columns], [sum(map(len, table.values('x'))), " \
           "[v for part in table.values('colour') for v in part][:8]])))"  # fmt: skip
    model = api.fit(path, "y", **with_rule(install, code))
    rows = [i for i in range(40) if i != 7]
    colours = [None if i % 5 == 0 else "red" if i % 2 else "blue" for i in rows][:8]
    assert model.findings[0].said == repr((39, "y", ["x", "colour", "y"], [39, colours]))
    assert model.findings[0].kind == "rule:mine"


def test_columns_of_a_remark_can_be_left_out_by_a_click(install: Install, path: Path) -> None:
    knobs = with_rule(install, "yield Remark('It is late.', ('colour',), 'Leave it out', leave_out=True)")
    found = api.fit(path, "y", **knobs).findings[0]
    assert (found.knob, found.values) == ("exclude", ("colour",))
    assert found.leaves_out == ("colour",)


def test_a_thousand_remarks_are_told_as_some(install: Install, path: Path) -> None:
    found = api.fit(path, "y", **with_rule(install, "return (Remark(str(i)) for i in range(1000))")).findings
    mine = [one.said for one in found if one.kind == "rule:mine"]
    assert mine == [*map(str, range(20)), "The rule 'mine' found more than these 20."]


WRONG = {
    "an error": ("1 / 0", ConfigError, r"The rule 'mine' could not be applied to this table \(ZeroDivisionError"),
    "no list": ("return 3", ConfigError, "could not be applied"),
    "texts": ("return ['bad']", ConfigError, r"Expected remarks \(shoal.fitting.rules.Remark\) of the rule 'mine', got 'bad'"),
    "an exit": ("raise SystemExit(2)", ConfigError, "could not be applied"),
    "a column that is not there": ("table.column('colours')", DataError, "refuses this table: Expected a column 'colours'"),
    "a refusal": ("raise DataError('Too old.')", DataError, "The rule 'mine' refuses this table: Too old"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_rule_that_is_wrong_or_refuses_is_told_with_its_name(case: str, install: Install, path: Path) -> None:
    code, kind, said = WRONG[case]
    knobs = with_rule(install, code)
    with pytest.raises(kind, match=said):
        api.fit(path, "y", **knobs)
    looked = api.inspect(path, target="y", rules=["mine"], engine="inline", numeric=["x"])
    assert looked.findings[0].kind == "rule:mine"  # whoever only looks is told, and sees the rest
    assert np.isclose(looked.rows, 40)


def test_a_rule_that_is_not_installed_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match="Expected as validation rule the name of an installed plug-in"):
        api.fit(path, "y", rules=["mine"], engine="inline", on_bad_rows="skip", numeric=["x"])
