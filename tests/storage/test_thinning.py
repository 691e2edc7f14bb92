"""Long series thinned to what a picture shows: fair samples, and buckets that lose no extreme."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.storage import Storage
from shoal.storage.thinning import Bucket, chosen, merged, newly_full, pieces, spread
from support.records import INF, NAN, host, is_fair_sample, look_at, noisy, round_, same, same_all, worker


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
