"""Words of `shoal explain` that a person stumbled over."""

from __future__ import annotations

import pytest

from shoal.cli.explain import _percent


@pytest.mark.parametrize(
    ("share", "said"), [(-1e-6, "+0.00 %"), (0.0, "+0.00 %"), (-0.0123, "-1.23 %"), (0.5, "+50.00 %")]
)
def test_what_rounds_to_nothing_has_no_minus(share: float, said: str) -> None:
    assert _percent(share) == said
