"""What a browser keeps on its way: read back as it was, for a while, and only with our signature."""

from __future__ import annotations

from shoal.people.oidc.begun import LASTS, BegunLogin, read

KEY = b"k" * 32


def test_it_comes_back_for_ten_minutes() -> None:
    begun = BegunLogin.now("runs?a=\u00e4", clock=lambda: 100.0)
    kept = begun.signed(KEY)
    assert len(kept) < 4000
    assert read(kept, KEY, clock=lambda: 100.0 + LASTS - 1) == begun
    assert read(kept, KEY, clock=lambda: 100.0 + LASTS) is None
    assert len({begun.state, begun.nonce, begun.verifier}) == 3
    assert 43 <= len(begun.verifier) <= 128  # RFC 7636


def test_nothing_else_is_taken_for_it() -> None:
    kept = BegunLogin.now("").signed(KEY)
    text, _, signature = kept.rpartition(".")
    for other in (
        "",
        ".",
        kept[:-1],
        f"{text}x.{signature}",
        f"{text}.",
        BegunLogin.now("").signed(b"x" * 32),
        "\u00e4.b",
    ):
        assert read(other, KEY) is None, other
    assert BegunLogin.now("x" * 5000).wanted == ""
