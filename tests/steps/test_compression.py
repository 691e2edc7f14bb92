"""Encodings by their size, their error bound and the sum that error feedback keeps; never by decoding alone."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shoal.errors import ConfigError
from shoal.models import TouchedSums
from shoal.steps.compression import (
    COMPRESSIONS,
    Half,
    Plain,
    TopK,
    Touched,
    encode_with_feedback,
    fed_back,
    largest_places,
    make_compression,
)

LARGEST = float(np.finfo(np.float64).max)
SMALLEST = 5e-324
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VECTORS = arrays(np.float64, st.integers(1, 30), elements=FINITE)
HARD = [
    [0.0, -0.0, 0.0],
    [LARGEST, -LARGEST, 1.0, SMALLEST],
    [1e300, -1e-300, 1e-310, 0.0],
    [SMALLEST, -SMALLEST, 3 * SMALLEST],
    [2.0**-1059, 2.0**-1060 + SMALLEST, 2.0**-1074],
    [np.finfo(np.float64).tiny, -1e-308, 2e-309],
    [65504.0, 65520.0, 1e5, -65535.0],
    [32767.999, 32760.0, 32759.99, 16.0],
    [np.nextafter(2.0, 0), np.nextafter(2.0, 0) - 1e-8, 1.0],
]


def sent(name: str, vector: np.ndarray, share: float = 1.0) -> np.ndarray:
    c = make_compression(name, len(vector), share)
    buffer = np.full(c.size() + 3, 0xAB, np.uint8)
    assert c.encode(vector, buffer) == c.size()
    assert (buffer[c.size() :] == 0xAB).all(), "wrote beyond its size"
    decoded = c.decode(buffer)
    assert decoded.shape == vector.shape
    assert decoded.dtype == np.float64
    return decoded


@pytest.mark.parametrize(
    ("name", "width", "share", "size"),
    [
        ("none", 0, 0.1, 0), ("none", 1, 0.1, 8), ("none", 1000, 0.1, 8000),
        ("half", 0, 0.1, 8), ("half", 1, 0.1, 10), ("half", 1001, 0.1, 2010),
        ("topk", 1, 0.1, 16), ("topk", 4, 0.1, 16), ("topk", 100, 0.1, 88), ("topk", 104, 0.1, 88),
        ("topk", 106, 0.1, 96), ("topk", 7, 1.0, 64), ("topk", 1000, 1e-9, 16), ("topk", 0, 0.1, 8),
    ],
)  # fmt: skip
def test_sizes_are_exact(name: str, width: int, share: float, size: int) -> None:
    c = make_compression(name, width, share)
    assert c.size() == size
    vector, buffer = np.arange(1.0, width + 1), np.zeros(size, np.uint8)
    assert c.encode(vector, buffer) == size
    assert c.decode(buffer).shape == (width,)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_buffers_that_are_too_short_are_refused(name: str) -> None:
    c = make_compression(name, 20, 0.5)
    with pytest.raises(ValueError, match=r".+"):
        c.encode(np.ones(20), np.zeros(c.size() - 2, np.uint8))


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_an_odd_place_in_memory_will_do(name: str) -> None:
    c = make_compression(name, 5, 1.0)
    buffer = np.zeros(c.size() + 1, np.uint8)
    c.encode(np.array([1.0, -2.0, 0.5, 4.0, 0.25]), buffer[1:])
    assert c.decode(buffer[1:]).tolist() == [1.0, -2.0, 0.5, 4.0, 0.25]


@given(arrays(np.float64, st.integers(0, 30)))
def test_plain_keeps_every_bit(vector: np.ndarray) -> None:
    assert sent("none", vector).tobytes() == vector.tobytes()
    c = Plain(len(vector))
    buffer = np.zeros(c.size(), np.uint8)
    c.encode(vector, buffer)
    assert buffer.tobytes() == struct.pack(f"={len(vector)}d", *vector)


def test_topk_layout() -> None:
    c, buffer = TopK(6, 0.5), np.zeros(32, np.uint8)
    c.encode(np.array([0.5, -4.0, 3.0, 0.0, 1.0, -0.25]), buffer)
    assert buffer.tobytes() == struct.pack("=d3i3f", 4.0, 1, 2, 4, -1.0, 0.75, 0.25)


def test_half_layout() -> None:
    c, buffer = Half(3), np.zeros(14, np.uint8)
    c.encode(np.array([1.0, -0.5, 0.0]), buffer)
    assert buffer.tobytes() == struct.pack("=d3e", 2.0**-14, 2.0**14, -(2.0**13), 0.0)


def half_is_close(vector: np.ndarray) -> None:
    decoded = sent("half", vector)
    assert np.isfinite(decoded).all()
    floor = Fraction(float(np.abs(vector).max())) / 2**39 + Fraction(SMALLEST)
    for value, found in zip(vector.tolist(), decoded.tolist(), strict=True):
        assert abs(Fraction(found) - Fraction(value)) <= max(abs(Fraction(value)) / 2**11, floor)


@pytest.mark.parametrize("values", HARD, ids=str)
def test_half_of_hard_values(values: list[float]) -> None:
    half_is_close(np.array(values))


@settings(max_examples=300)
@given(VECTORS)
def test_half_is_finite_and_close_for_every_finite_vector(vector: np.ndarray) -> None:
    half_is_close(vector)


def topk_is_close(vector: np.ndarray, share: float) -> None:
    """The k largest by sorting (size descending, index rising), to 24 bits; zeros elsewhere."""
    decoded = sent("topk", vector, share)
    k = max(1, round(share * len(vector)))
    expected = sorted(range(len(vector)), key=lambda i: (-abs(vector[i]), i))[:k]
    floor = Fraction(float(np.abs(vector).max())) / 2**149 + Fraction(SMALLEST)
    for i, (value, found) in enumerate(zip(vector.tolist(), decoded.tolist(), strict=True)):
        assert math.isfinite(found)
        if i in expected:
            assert abs(Fraction(found) - Fraction(value)) <= max(abs(Fraction(value)) / 2**24, floor)
        else:
            assert found == 0


@pytest.mark.parametrize("values", HARD, ids=str)
def test_topk_of_hard_values(values: list[float]) -> None:
    topk_is_close(np.array(values), 1.0)
    topk_is_close(np.array(values), 0.4)


@settings(max_examples=200)
@given(VECTORS, st.sampled_from([0.01, 0.1, 0.34, 0.5, 1.0]))
def test_topk_sends_the_largest(vector: np.ndarray, share: float) -> None:
    topk_is_close(vector, share)


@given(
    arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, math.nan])), st.data()
)
def test_places_of_ties(vector: np.ndarray, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(vector)))
    sizes = [math.inf if math.isnan(value) else abs(value) for value in vector]
    expected = sorted(sorted(range(len(vector)), key=lambda i: (-sizes[i], i))[:k])
    assert largest_places(vector, k).tolist() == expected


@pytest.mark.parametrize("name", COMPRESSIONS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 3, 9])
def test_what_is_not_finite_stays_so(name: str, bad: float, place: int) -> None:
    vector = np.linspace(-1e300, 1e300, 10)
    vector[place] = bad
    decoded = sent(name, vector, 0.1)
    assert not math.isfinite(decoded[place])
    assert math.isnan(decoded[place]) or name == "none"
    residual, c = np.zeros(10), make_compression(name, 10, 0.1)
    encode_with_feedback(c, vector, residual, residual, np.zeros(c.size(), np.uint8))
    assert math.isnan(residual[place]) or name == "none"


def test_a_sum_that_overflows_is_seen() -> None:
    c = Half(2)
    buffer, residual = np.zeros(c.size(), np.uint8), np.array([LARGEST, 0.0])
    encode_with_feedback(c, np.array([LARGEST, 1.0]), residual, residual, buffer)
    assert math.isnan(c.decode(buffer)[0])


@pytest.mark.parametrize("name", COMPRESSIONS)
@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("size", [1e-290, 1.0, 1e290])
def test_feedback_loses_nothing_in_the_long_run(name: str, share: float, size: float) -> None:
    """Exact sums by fractions: what was decoded, and the last residual, is what the gradients were."""
    rng, width, steps = np.random.default_rng(3), 23, 60
    c = make_compression(name, width, share)
    buffer, residual = np.zeros(c.size(), np.uint8), np.zeros(width)
    gradients = size * rng.standard_normal((steps, width)) * 10.0 ** rng.uniform(-6, 0, width)
    decoded = []
    for gradient in gradients:
        encode_with_feedback(c, gradient, residual, residual, buffer)
        decoded.append(c.decode(buffer))
    for j in range(width):
        total = sum(Fraction(value) for value in gradients[:, j])
        found = sum(Fraction(float(vector[j])) for vector in decoded) + Fraction(float(residual[j]))
        reach = float(np.abs(gradients[:, j]).sum()) + float(np.abs(residual[j]))
        assert abs(total - found) <= Fraction(steps * 2.0**-52) * Fraction(reach)
        assert any(vector[j] != 0 for vector in decoded) or name == "topk"
    assert abs(residual).max() < np.abs(gradients).sum(axis=0).max()


@given(VECTORS, st.data())
def test_feedback_of_one_step(vector: np.ndarray, data: st.DataObject) -> None:
    """residual_out is (g + residual_in) - decoded, by NumPy; the inputs are left alone."""
    residual = data.draw(arrays(np.float64, len(vector), elements=st.floats(-1e3, 1e3)))
    c = make_compression(data.draw(st.sampled_from(list(COMPRESSIONS))), len(vector), 0.3)
    buffer, out, kept = np.zeros(c.size(), np.uint8), np.full(len(vector), 7.0), (vector.copy(), residual.copy())
    assert encode_with_feedback(c, vector, residual, out, buffer) == c.size()
    assert (vector.tobytes(), residual.tobytes()) == (kept[0].tobytes(), kept[1].tobytes())
    assert np.array_equal(out, (vector + residual) - c.decode(buffer))


def test_plain_leaves_no_residual() -> None:
    c, residual = Plain(3), np.zeros(3)
    encode_with_feedback(c, np.array([1e-300, 1.0, 0.1]), residual, residual, np.zeros(24, np.uint8))
    assert not residual.any()


def test_feedback_makes_topk_descend_to_the_minimum_where_topk_alone_stops_short() -> None:
    """One of ten coordinates at a time on 1/2 |D w - b|^2, with the minimum b / D in closed form."""
    D, b = np.linspace(1, 2, 10), np.arange(1.0, 11.0)
    c = TopK(10, 0.1)
    buffer, residual, w = np.zeros(c.size(), np.uint8), np.zeros(10), np.zeros(10)
    for _ in range(3000):
        encode_with_feedback(c, D * (D * w - b), residual, residual, buffer)
        w -= 0.02 * c.decode(buffer)
    assert w == pytest.approx(b / D, rel=1e-9)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_the_same_bytes_for_the_same_vector(name: str) -> None:
    vector = np.random.default_rng(0).standard_normal(500).round(1)
    c = make_compression(name, 500, 0.1)
    first, second = np.zeros(c.size(), np.uint8), np.full(c.size(), 255, np.uint8)
    c.encode(vector, first)
    COMPRESSIONS[name](500, 0.1).encode(vector.copy(), second)
    assert first.tobytes() == second.tobytes()


def test_float32_gradients_are_taken() -> None:
    vector = np.array([1.5, -2.0, 0.25], np.float32)
    assert all(sent(name, vector.astype(np.float64)).tolist() == vector.tolist() for name in COMPRESSIONS)
    c, out = Half(3), np.zeros(3)
    buffer = np.zeros(c.size(), np.uint8)
    encode_with_feedback(c, vector, np.zeros(3), out, buffer)
    assert c.decode(buffer).tolist() == vector.tolist()


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, math.nan, math.inf])
def test_shares_that_make_no_sense(share: float) -> None:
    with pytest.raises(ConfigError, match=r"share of values.*at most 1, got"):
        make_compression("topk", 10, share)


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match=r"none, topk, half, got 'zip'"):
        make_compression("zip", 10, 0.1)
    assert [c.name for c in COMPRESSIONS.values()] == list(COMPRESSIONS)


def distance(p: int, k: int, condition: float, shorter: float) -> float:
    """Of a quadratic after 60 / delta rounds whose updates take all of the steepest direction away, shortened so."""
    rng = np.random.default_rng(p + k)
    turned, _ = np.linalg.qr(rng.standard_normal((p, p)))
    part = (turned * np.geomspace(1, 1 / condition, p)) @ turned.T
    c = TopK(p, k / p)
    away, residual, buffer = rng.standard_normal(p), np.zeros(p), np.zeros(c.size(), np.uint8)
    first = float(away @ away)
    for _ in range(60 * p // k):
        encode_with_feedback(c, -shorter * (part @ away), residual, residual, buffer)
        away += c.decode(buffer)
        if away @ away > 1e9 * first:
            break
    return float(away @ away) / first


@pytest.mark.parametrize(("p", "k"), [(10, 1), (50, 5), (100, 2), (3, 2)])
@pytest.mark.parametrize("condition", [1.0, 10.0])
def test_shortened_updates_converge_with_error_feedback(p: int, k: int, condition: float) -> None:
    assert distance(p, k, condition, fed_back(k / p)) < 1e-3
    if k / p < 0.5:
        assert distance(p, k, condition, 1.0) > 10  # or the check above could not fail


def test_how_much_updates_are_shortened() -> None:
    assert [make_compression(name, 50, 0.1).kept for name in COMPRESSIONS] == [1.0, 0.1, 1.0]
    assert TopK(3, 0.1).kept == pytest.approx(1 / 3)
    assert [fed_back(kept) for kept in (1.0, 0.8, 0.1)] == [1.0, 1.0, pytest.approx(0.15)]
    assert fed_back(0.1, largest=0.1) == 1.0  # steps that are short by themselves stay as they are
    assert fed_back(0.1, largest=0.0) == 1.0


# ------------------------------------------------------------------ coordinates that sparse rows touch


def test_touched_coordinates_come_back_exactly_in_as_few_bytes_as_there_are() -> None:
    random = np.random.default_rng(0)
    centre = random.standard_normal(30)
    encoding = Touched(30, centre)
    for count in (0, 1, 19, 20, 30):
        places = random.permutation(30)[:count].astype(np.int32)
        sums = TouchedSums(places, random.standard_normal(count), 0.25)
        into = np.empty(encoding.size(), np.uint8)
        assert encoding.encode_sums(sums, into) == 16 + min(12 * count, 8 * 30)
        expected = np.zeros(30)
        expected[places] = sums.values
        np.testing.assert_array_equal(encoding.decode(into), expected + 0.25 * centre)
        np.testing.assert_array_equal(encoding.vector(sums), expected + 0.25 * centre)
        np.testing.assert_allclose(encoding.total([into, into], [1.0, 2.0]), 3 * expected + 0.75 * centre, rtol=1e-12)


def test_a_gradient_that_is_not_finite_stays_so() -> None:
    encoding, into = Touched(4, np.ones(4)), np.empty(48, np.uint8)
    encoding.encode_sums(TouchedSums(np.array([2], np.int32), np.array([np.inf]), np.nan), into)
    assert np.isnan(encoding.decode(into)).all()
