"""Settings as YAML are read within bounds: little text never becomes much memory, and what is odd is one sentence."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.settings import plain_yaml
from shoal.settings.text import from_yaml
from shoal.settings.values import LONGEST_FILE, read_yaml

# 363 characters that stand for 1.2 GB: nine lists, each of nine references to the one before.
BOMB = "a: &a [" + ",".join(["lol"] * 9) + "]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "Line 2: Expected plain values, got a reference"),
        ("features: " + "[" * 5_000 + "]" * 5_000, "lists or groups within each other"),
        ("a: " + "{b: " * 5_000 + "1" + "}" * 5_000, "lists or groups within each other"),
        ("seed: " + "9" * 5_000, "cannot be read"),
        ("target: 2024-99-99", "cannot be read"),
        ("target: [", "Expected YAML"),
        ("target: \x00", "Expected YAML"),
        ("? [1, 2]\n: 3", "Expected YAML"),
    ],
    ids=["bomb", "lists", "groups", "number", "date", "open", "zero", "key"],
)
def test_what_is_too_much_or_odd_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (lambda: from_yaml(text), lambda: read_yaml(path)):
        with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
            read()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB


def test_long_texts_are_refused_and_long_files_hold_many_columns(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"at most {plain_yaml.LONGEST:,} characters"):
        from_yaml("#" * (plain_yaml.LONGEST + 1))
    path = tmp_path / "run.yaml"
    path.write_text("#" * (LONGEST_FILE + 1))
    with pytest.raises(ConfigError, match=f"at most {LONGEST_FILE:,} characters"):
        read_yaml(path)
    names = [f"column-{i:05d}" for i in range(10_000)]
    path.write_text("features: [" + ", ".join(names) + "]\n")
    assert read_yaml(path) == {"features": names}
