"""The basis of classes that sum to 0, and scores of calls, against their definitions and scikit-learn."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn import metrics

from shoal.models import L1L2
from shoal.solve.classes.newton import ClassSums, class_slope_in, contrasts
from shoal.solve.classes.worth import macro_area, of_calls


@pytest.mark.parametrize("classes", [3, 4, 50])
def test_contrasts_are_orthonormal_and_sum_to_nothing(classes: int) -> None:
    Q = contrasts(classes)
    np.testing.assert_allclose(Q.T @ Q, np.eye(classes - 1), atol=1e-14)
    np.testing.assert_allclose(Q.sum(axis=0), 0, atol=1e-14)


def test_scores_of_calls_are_those_of_scikit_learn_with_a_class_that_no_row_has() -> None:
    y, called = np.array([0, 0, 1, 1, 1, 3, 3, 0]), np.array([0, 1, 1, 1, 2, 3, 0, 0])
    counts = metrics.confusion_matrix(y, called, labels=range(4)).astype(float)
    assert of_calls(counts) == pytest.approx({
        "accuracy": metrics.accuracy_score(y, called),
        "balanced_accuracy": np.mean([2 / 3, 2 / 3, 1 / 2]),
        "f1": metrics.f1_score(y, called, average="macro", zero_division=0),
    })  # fmt: skip
    assert set(of_calls(np.zeros((3, 3))).values()) == {None}
    assert macro_area([(np.array([1.0, 0.0]), np.array([0.0, 1.0])), (np.array([0.0]), np.array([1.0]))]) is None


def test_a_slope_without_a_curvature_takes_no_room_for_one() -> None:
    """It would be 190 MB here, and 12 GB for 50 classes of 800 columns."""
    K, q = 12, 400
    sums = ClassSums(10.0, 1.0, np.arange(K * q, dtype=float).reshape(K, q), np.empty(0), 0.0, np.inf)
    tracemalloc.start()
    try:
        slope = class_slope_in(sums, np.eye(q), L1L2(0.0, 0.0))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 10e6
    assert slope.gradient.tolist() == (sums.slope[:, 1:] / 10).tolist()
    assert slope.of_b.tolist() == (sums.slope[:, 0] / 10).tolist()
