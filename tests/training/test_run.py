"""Gradient training: the right answer in every mode, honest when it is not reached, the same bits whoever works."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.engines.base import Engine
from shoal.errors import ConfigError, SourceChanged
from shoal.metrics import Round
from shoal.training import objective, recorder
from shoal.training.checkpoints import Snapshot
from shoal.training.conductor import Conductor
from support.tables import SHARED, fitted, same_bits, shared
from support.training import MODES, At, Bench, Each, Reference, Trainer, Vector, generated, opened, reference_of, table

RULES = ("sgd", "momentum", "adagrad", "adam")
REGRESSION = {"concrete": "strength", "penguins": "body_mass_g", "auto_mpg": "mpg", "seattle_weather": "temp_max"}
ALPHAS = {  # some weights of the lasso are 0
    ("concrete", "ridge"): 3.0, ("concrete", "lasso"): 0.7, ("penguins", "ridge"): 3.0, ("penguins", "lasso"): 25.0,
    ("generated", "ridge"): 3.0, ("generated", "lasso"): 0.2,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and a home that the tests of this file share: nothing is read twice."""
    return tmp_path_factory.mktemp("training")


@pytest.fixture(autouse=True)
def _home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(place / "home"))
    monkeypatch.setattr(recorder, "BUDGET", math.inf)  # every round is put on record


@pytest.fixture
def run(tmp_path: Path) -> Trainer:
    return Trainer(tmp_path)


@pytest.fixture(scope="module")
def engines() -> Iterator[Callable[[int], Engine]]:
    """Engines by the number of their workers, 0 for this process; each is started once."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(opened(workers)) for workers in range(4)].__getitem__


def data(name: str, place: Path) -> tuple[Path, str]:
    if name == "generated":
        path = place / "generated.csv"
        return (path if path.exists() else generated(place)), "y"
    if name == "digits":
        return shared("data", "mnist", "digits_8x8.csv"), "label"
    return shared("data", "regression", f"{name}.csv"), REGRESSION[name]


def plain(place: Path, rows: int = 320, columns: int = 4) -> Path:
    """Shards of equal size, so that every epoch has the same steps: with 4 shards in file order."""
    path = place / f"plain{rows}x{columns}.csv"
    return path if path.exists() else generated(place, path.name, rows, columns)


EQUAL: dict[str, Any] = {"shards": 4, "partition": "contiguous"}


# ------------------------------------------------------------------ the right answer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", ["linear", "ridge", "lasso"])
@pytest.mark.parametrize("name", ["concrete", "penguins", "generated"])
def test_every_mode_finds_the_optimum_of_scikit_learn(
    name: str, model: str, mode: str, run: Trainer, place: Path
) -> None:
    path, target = data(name, place)
    knobs = {"model": model, "alpha": ALPHAS.get((name, model), 1.0)}
    found = run(path, target, mode=mode, **knobs)
    reference = reference_of(path, target, found, **knobs)
    assert reference.distance(found.w) <= 1e-6
    assert reference.distance_of(found.report) <= 1e-6
    assert found.report["distance_to_optimum"] == pytest.approx(reference.distance(found.w), abs=1e-8)
    assert (found.done.state, found.done.cause, found.report["converged"]) == ("finished", "converged", True)
    assert not [text for text in found.report["warnings"] if "converged" in text]
    if model == "lasso":
        kept = {name for name, w in found.report["coefficients"].items() if w}
        exact = fitted(path, target, **knobs)["coefficients"]
        assert kept == reference.kept == {name for name, w in exact.items() if w}
        assert kept != set(reference.names)
    ledger = found.report["ledger"]  # that of the last phase
    assert ledger["batches"] == ledger["epochs"] * ledger["batches_of_an_epoch"]


@pytest.mark.parametrize("mode", MODES)
def test_workers_find_the_optimum_of_scikit_learn(
    mode: str, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("concrete", place)
    found = run(path, target, engine=engines(2), mode=mode, model="elasticnet", alpha=0.3)
    reference = reference_of(path, target, found, model="elasticnet", alpha=0.3)
    assert reference.distance_of(found.report) <= 1e-6
    assert found.report["converged"]


@pytest.mark.parametrize("knobs", [
    {"intercept": False}, {"standardize": False}, {"intercept": False, "model": "lasso", "alpha": 20.0},
    {"standardize": False, "model": "ridge", "alpha": 100.0}, {"test_every": 4, "model": "lasso", "alpha": 20.0},
    {"coding": "full", "model": "ridge", "alpha": 2.0}, {"precision": "float32", "model": "ridge", "alpha": 30.0},
    {"partition": "contiguous", "shards": 3}, {"epochs": 0},
], ids=lambda knobs: "-".join(map(str, knobs.items())))  # fmt: skip
def test_whatever_the_columns_the_optimum_is_that_of_scikit_learn(
    knobs: dict[str, Any], run: Trainer, place: Path
) -> None:
    """Penguins: levels, missing levels and missing numbers."""
    path, target = data("penguins", place)
    found = run(path, target, **knobs, **easier(knobs))
    assert found.report["converged"], found.report["warnings"]
    assert reference_of(path, target, found, **knobs).distance_of(found.report) <= 1e-6


def easier(knobs: dict[str, Any]) -> dict[str, Any]:
    """Columns far from zero, or of very different units, are near to dependent without what makes them alike."""
    if not knobs.get("intercept", True):
        return {"features": ["species", "island", "sex"]}
    return {} if knobs.get("standardize", True) else {"features": ["bill_length_mm", "bill_depth_mm", "sex"]}


def test_stored_references_of_scikit_learn(run: Trainer, place: Path) -> None:
    """Coefficients that were computed elsewhere, by another version, with its own reading of the file."""
    stored = json.loads(shared("data", "regression", "concrete.reference.json").read_text())
    details = stored["codings"]["drop_first"]
    for name, expected in details["models"].items():
        found = run(
            SHARED / "data" / "regression" / "concrete.csv", stored["target"], features=stored["features"],
            model=name.split("_")[0], alpha=1.0 if expected["alpha"] is None else expected["alpha"], test_every=5,
            l1_ratio=expected.get("l1_ratio") or 0.5,
        )  # fmt: skip
        theirs = np.array(expected["coef_standardised"])
        np.testing.assert_allclose(found.w, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())
        assert found.report["test"]["r2"] == pytest.approx(expected["test_r2"], abs=1e-5)


# ------------------------------------------------------------------ honest where it is hard

STEPS = np.arange(21.0)
WAVE = np.array(  # orthogonal to all polynomials up to the fifth degree, as NIST made it
    [759.0, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048, -2048, 1838, -2048, 2048, -2048, 2523,
     -2048, 2048, -2048, 759]
)  # fmt: skip


def wampler(number: int) -> tuple[Vector, Vector]:
    X = np.column_stack([STEPS**k for k in range(1, 6)])
    y = sum((STEPS / 10) ** k for k in range(6)) if number == 2 else sum(STEPS**k for k in range(6))
    return X, y + {3: 1.0, 4: 100.0, 5: 10_000.0}.get(number, 0.0) * WAVE


def filip() -> tuple[Vector, Vector]:
    """Like NIST's: a polynomial of the tenth degree over the same range."""
    random = np.random.default_rng(0)
    x = np.linspace(-8.8, -3.1, 82) + 0.01 * random.standard_normal(82)
    return np.column_stack([x**k for k in range(1, 11)]), 0.85 + 0.07 * np.sin(x) + 0.003 * random.standard_normal(82)


@pytest.mark.parametrize(("name", "mode"), [
    ("wampler1", "local"), ("wampler2", "sync"), ("wampler3", "ssp"), ("wampler4", "sync"), ("wampler5", "async"),
    ("filip", "sync"), ("filip", "async"),
])  # fmt: skip
def test_problems_too_hard_for_gradients_are_not_called_converged(
    name: str, mode: str, run: Trainer, tmp_path: Path
) -> None:
    X, y = filip() if name == "filip" else wampler(int(name[-1]))
    path = table(tmp_path / "hard.csv", X, y)
    found = run(path, "y", mode=mode, finish_passes=700)
    coef = np.array(list(found.report["coefficients"].values()))
    truth = np.linalg.lstsq((X - X.mean(0)) / X.std(0), y - y.mean())[0] / X.std(0)
    if name != "filip":  # NIST's certified values
        np.testing.assert_allclose(truth, 0.1 ** np.arange(1, 6) if name == "wampler2" else np.ones(5), rtol=1e-4)
    assert np.abs(coef / truth - 1).max() > 1e-3, "it is not so hard after all"
    assert found.report["converged"] is False
    said = [text for text in found.report["warnings"] if "not converged" in text]
    assert len(said) == 1
    assert "exact" in said[0]
    assert "not converged" in found.done.cause
    assert found.done.state == "finished"


def test_wampler1_of_nist_itself(run: Trainer) -> None:
    found = run(shared("data", "nist", "Wampler1_expanded.csv"), "y", finish_passes=700)
    assert not found.report["converged"]
    assert any("not converged" in text for text in found.report["warnings"])


@pytest.mark.parametrize("problem", ["Norris", "Longley"])
def test_who_says_converged_has_the_certified_coefficients(problem: str, run: Trainer) -> None:
    certified = json.loads(shared("data", "nist", "certified.json").read_text())[problem]["certified"]
    found = run(shared("data", "nist", f"{problem}.csv"), "y", finish_passes=20_000)
    ours = np.array([found.report["intercept"], *found.report["coefficients"].values()])
    truth = np.array([value["estimate"] for value in certified])
    spread = np.abs(ours[1:] - truth[1:]) / np.abs(truth[1:])
    if found.report["converged"]:
        assert spread.max() <= 1e-3
    else:
        assert any("not converged" in text for text in found.report["warnings"])
    if problem == "Norris":
        assert found.report["converged"]


# ------------------------------------------------------------------ the same bits


BITS = [
    ("sync", "sgd", "none"), ("sync", "momentum", "topk"), ("sync", "adam", "half"), ("sync", "adagrad", "none"),
    ("local", "sgd", "none"), ("local", "sgd", "topk"), ("local", "sgd", "half"),
]  # fmt: skip
BITWISE: dict[str, Any] = {
    "epochs": 3, "finish_passes": 12, "batch_size": 8, "local_steps": 3, "tolerance": 1e-12, "model": "lasso",
    "alpha": 0.1, "shards": 7,
}  # fmt: skip


def course(found: Bench) -> list[tuple[int, float, float, int]]:
    """All that the rounds say and the clock does not."""
    return [(r.round, r.loss, r.gradient_norm, r.nonzeros) for r in found.rounds]


@pytest.mark.parametrize(("mode", "rule", "compression"), BITS)
def test_the_same_bits_with_any_number_of_workers(
    mode: str, rule: str, compression: str, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("generated", place)
    knobs = {**BITWISE, "mode": mode, "step_rule": rule, "compression": compression, "top_k": 0.34}
    alone, *others = [run(path, target, engine=engines(workers), **knobs) for workers in range(4)]
    assert {record.phase for record in alone.rounds} == {"steps", "finish"}
    assert alone.w.any()
    for workers, other in enumerate(others, 1):
        assert same_bits(alone.w, other.w), workers
        assert course(alone) == course(other), workers
        assert other.rounds[-1].workers <= workers  # one that joins late may find nothing left to do


@pytest.mark.parametrize(("mode", "rule", "compression"), BITS)
def test_a_resumed_run_ends_with_the_same_bits(
    mode: str, rule: str, compression: str, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    """From the middle of an epoch, and from the middle of the finish; the other time with other workers."""
    path, target = data("generated", place)
    knobs = {**BITWISE, "mode": mode, "step_rule": rule, "compression": compression, "top_k": 0.34}
    whole = run(path, target, **knobs)
    steps = len(whole.steps)
    middle, late = steps // 2, steps + 5
    saving = At(**{f"round{n}": lambda r: r.send("checkpoint") for n in (middle, late)})
    saved = run(path, target, callbacks=[saving], **knobs)
    for step, workers in ((middle, 2), (late, 0), (0, 3)):
        snapshot = saved.checkpoints.load(step)
        again = run(path, target, engine=engines(workers), resume=snapshot, **knobs)
        assert same_bits(again.w, whole.w)
        assert course(again) == course(whole)[step:]
        assert again.report["ledger"]["batches"] == whole.report["ledger"]["batches"]
        assert again.report["epochs"] == whole.report["epochs"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES)
def test_resumed_in_every_mode_each_batch_counts_once(
    mode: str, workers: int, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("generated", place)
    knobs: dict[str, Any] = {**BITWISE, "mode": mode, "tolerance": 0, "epochs": 4}
    saved = run(path, target, engine=engines(workers), callbacks=[At(round5=lambda r: r.send("checkpoint"))], **knobs)
    snapshot = saved.checkpoints.load(5)
    taken = counted(snapshot)
    bench = run.bench()
    bench.storage.add(saved.rounds)  # of the run that was cut off: what comes after the checkpoint is forgotten
    again = run(path, target, engine=engines(workers), bench=bench, resume=snapshot, **knobs)
    ledger = again.report["ledger"]
    assert 0 < taken < ledger["batches"]
    assert ledger["epochs"] == 4
    assert ledger["batches"] == 4 * ledger["batches_of_an_epoch"]
    numbers = [record.round for record in bench.rounds]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == again.report["rounds"]
    steps = again.report["rounds"] - snapshot.step
    assert steps == (ledger["batches"] - taken if mode in ("ssp", "async") else len(saved.rounds) - 5)
    reference = reference_of(path, target, again, **knobs)
    assert reference.value(again.w) < reference.value(np.zeros(len(reference.names)))


def counted(snapshot: Snapshot) -> int:
    batches: int = snapshot.meta["policy"]["batches"]
    return batches


def test_a_checkpoint_of_other_data_is_refused(run: Trainer, tmp_path: Path) -> None:
    path = generated(tmp_path, rows=100)
    saved = run(path, "y", epochs=1, tolerance=0)
    snapshot = saved.checkpoints.load(0)
    generated(tmp_path, rows=100, seed=9)
    with pytest.raises(SourceChanged, match="not what it was"):
        run(path, "y", epochs=1, tolerance=0, resume=snapshot)


# ------------------------------------------------------------------ learning rates


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [*REGRESSION, "digits"])
def test_the_automatic_rate_does_not_diverge(name: str, rule: str, mode: str, run: Trainer, place: Path) -> None:
    path, target = data(name, place)
    found = run(path, target, step_rule=rule, mode=mode, epochs=2, tolerance=0)
    check_tame(found, path, target)


@pytest.mark.parametrize("mode", ["ssp", "async"])
@pytest.mark.parametrize("rule", RULES)
def test_the_automatic_rate_does_not_diverge_with_stale_gradients(
    rule: str, mode: str, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("concrete", place)
    found = run(path, target, engine=engines(3), step_rule=rule, mode=mode, epochs=3, tolerance=0)
    check_tame(found, path, target)


def check_tame(found: Bench, path: Path, target: str) -> None:
    y = pd.read_csv(path)[target].dropna()
    at_zero = float(y.var(ddof=0)) / 2
    losses = np.array([record.loss for record in found.rounds])
    assert np.isfinite(losses).all()
    assert losses.max() < 3 * losses[0]
    assert losses[-1] < at_zero
    assert found.done.state == "finished"


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_huge_rate_stops_the_run_with_the_last_good_weights(
    mode: str, workers: int, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("generated", place)
    found = run(path, target, engine=engines(workers), mode=mode, learning_rate=50.0, epochs=400, batch_size=8)
    assert found.done.state == found.report["state"] == "stopped"
    assert "diverged" in found.done.cause
    assert "learning rate of 50" in found.done.cause
    reference = reference_of(path, target, found)
    assert np.isfinite(found.w).all()
    assert reference.value(found.w) <= reference.value(np.zeros(len(found.w)))
    assert not found.report["converged"]


def test_weights_that_overflow_are_no_model(run: Trainer, place: Path) -> None:
    path, target = data("generated", place)
    found = run(path, target, learning_rate=1e200, epochs=50, batch_size=8)
    assert found.done.state == "stopped"
    assert np.isfinite(found.w).all()


def schedules(epochs: int) -> dict[str, tuple[dict[str, Any], Callable[[float], float]]]:
    return {
        "constant": ({}, lambda e: 1.0),
        "step": ({"decay": 0.3, "decay_every": 2.0}, lambda e: 0.3 ** (e // 2)),
        "exponential": ({"decay": 0.3, "decay_every": 2.0}, lambda e: 0.3 ** (e / 2)),
        "inverse": ({"decay": 0.25, "decay_every": 1.0}, lambda e: 1 / (1 + 3 * e)),
        "cosine": ({}, lambda e: (1 + math.cos(math.pi * e / epochs)) / 2),
    }


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "sync") for name in schedules(1)), ("cosine", "ssp"), ("inverse", "local")]
)
def test_the_recorded_rate_follows_the_schedule(name: str, mode: str, run: Trainer, place: Path) -> None:
    epochs, rate = 6, 0.01
    knobs, expected = schedules(epochs)[name]
    found = run(
        plain(place), "y", **EQUAL, batch_size=20, local_steps=1, epochs=epochs, tolerance=0, learning_rate=rate,
        schedule=name, mode=mode, **knobs,
    )  # fmt: skip
    an_epoch = len(found.rounds) // epochs
    assert an_epoch == (16 if mode == "ssp" else 4)
    begun = [(record.round - 1) / an_epoch for record in found.rounds]
    assert [r.learning_rate for r in found.rounds] == pytest.approx([rate * expected(e) for e in begun], rel=1e-12)
    assert [r.epoch for r in found.rounds] == pytest.approx([(n + 1) / an_epoch for n in range(len(begun))])


def test_warm_up_rises_to_the_rate(run: Trainer, place: Path) -> None:
    knobs = {"batch_size": 20, "epochs": 4, "tolerance": 0, "learning_rate": 0.01, "warmup": 2}
    found = run(plain(place), "y", **EQUAL, **knobs)
    rates = [record.learning_rate / 0.01 for record in found.rounds]
    assert rates == pytest.approx([min(1.0, 0.1 + 0.9 * n / 8) for n in range(16)])


def test_clipped_gradients_make_steps_of_that_length(run: Trainer, place: Path) -> None:
    weights: list[Vector] = [np.zeros(4)]
    watch = Each(lambda r, _: weights.append(r.weights()))
    found = run(
        plain(place), "y", **EQUAL, batch_size=20, epochs=3, tolerance=0, learning_rate=0.3, clip=4.0, callbacks=[watch]
    )
    moved = [float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(weights)][: len(found.rounds)]
    norms = [record.gradient_norm for record in found.rounds]
    assert moved == pytest.approx([0.3 * min(norm, 4.0) for norm in norms], rel=1e-9)
    assert max(norms) > 4 > min(norms)


# ------------------------------------------------------------------ compression


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("compression", "a_message"), [("none", 320), ("topk", 8 + 8 * 4), ("half", 8 + 2 * 40)])
def test_compression_sends_as_many_bytes_as_it_says_and_the_finish_reaches_the_optimum(
    compression: str, a_message: int, mode: str, run: Trainer, place: Path
) -> None:
    path = plain(place, 320, 40)
    found = run(path, "y", **EQUAL, compression=compression, mode=mode, epochs=3, batch_size=40, local_steps=2)
    messages = {"local": 12}.get(mode, 24)  # 4 shards x 3 epochs x 1 or 2 tasks
    assert sum(record.bytes_raw for record in found.steps) == messages * 320
    assert sum(record.bytes_sent for record in found.steps) == messages * a_message
    finish = [record for record in found.rounds if record.phase == "finish"]
    assert all(record.bytes_sent == record.bytes_raw == 4 * 320 for record in finish)
    assert reference_of(path, "y", found).distance_of(found.report) <= 1e-6


@pytest.mark.parametrize("compression", ["topk", "half"])
def test_compressed_steps_come_near_the_optimum_by_themselves(compression: str, run: Trainer, place: Path) -> None:
    """What is left out comes later: without that, the largest of six values alone would never get there."""
    path, target = data("generated", place)
    knobs = {"epochs": 60, "tolerance": 0, "batch_size": 1000}
    found = run(path, target, compression=compression, **knobs)
    assert reference_of(path, target, found).distance_of(found.report) <= 1e-3


# ------------------------------------------------------------------ when to stop


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_patience_stops_early_with_the_best_weights(mode: str, run: Trainer, tmp_path: Path) -> None:
    """More columns than the noise allows: training on makes the score on other rows worse."""
    random = np.random.default_rng(2)
    X = random.standard_normal((120, 50))
    path = table(tmp_path / "noise.csv", X, X[:, 0] + 3 * random.standard_normal(120))
    weights: dict[int, Vector] = {}
    watch = Each(lambda r, record: weights.setdefault(record.round, r.weights()))
    knobs: dict[str, Any] = {"test_every": 2, "patience": 3, "epochs": 500, "batch_size": 1000, "mode": mode}
    found = run(path, "y", callbacks=[watch], **knobs)
    assert (found.done.state, found.done.cause) == ("finished", "no better score on the test rows for 3 epochs")
    assert 3 < found.report["epochs"] < 100
    held = np.arange(120) % 2 == 0
    y = pd.read_csv(path)["y"].to_numpy()

    def score(w: Vector) -> float:
        """R2 on the test rows of weights of the standardised columns."""
        Z = (X - X[~held].mean(0)) / X[~held].std(0)
        left = y[held] - y[~held].mean() - Z[held] @ w
        return 1 - float(left @ left) / float(((y[held] - y[held].mean()) ** 2).sum())

    scores = {number: score(w) for number, w in weights.items() if number < found.report["rounds"]}
    ends = {number: value for number, value in scores.items() if weights_of_an_epoch(found, number)}
    assert score(found.w) == pytest.approx(max(ends.values()), abs=1e-12)
    assert found.report["test"]["r2"] == pytest.approx(score(found.w), abs=1e-9)
    assert max(ends, key=lambda n: ends[n]) < found.report["rounds"]
    recorded = {r.round: r.validation for r in found.rounds}
    for number, value in ends.items():
        assert recorded[number] == pytest.approx(value, abs=1e-9)


def weights_of_an_epoch(found: Bench, number: int) -> bool:
    return next(r.epoch for r in found.rounds if r.round == number).is_integer()


def test_patience_without_test_rows_is_refused(run: Trainer, place: Path) -> None:
    with pytest.raises(ConfigError, match="Expected test rows"):
        run(plain(place), "y", patience=2)


@pytest.mark.parametrize("mode", MODES)
def test_epochs_alone_make_their_steps_and_no_more(mode: str, run: Trainer, place: Path) -> None:
    found = run(plain(place), "y", **EQUAL, mode=mode, epochs=5, tolerance=0, batch_size=20, local_steps=2)
    assert (found.done.state, found.done.cause) == ("finished", "all 5 epochs are done")
    assert {record.phase for record in found.rounds} == {"steps"}
    assert found.report["epochs"] == found.rounds[-1].epoch == 5
    assert found.report["rounds"] == {"sync": 20, "local": 10}.get(mode, 80)
    assert found.report["ledger"]["batches"] == {"local": 40}.get(mode, 80)


def test_a_time_limit_ends_a_run_in_either_phase(run: Trainer, tmp_path: Path, place: Path) -> None:
    steps = run(plain(place), "y", epochs=1_000_000, tolerance=0, max_seconds=0.3)
    hard = table(tmp_path / "hard.csv", *wampler(5))
    finish = run(hard, "y", epochs=1, finish_passes=100_000_000, max_seconds=0.3)
    for found, phase in ((steps, "steps"), (finish, "finish")):
        assert (found.done.state, found.done.cause) == ("finished", "the time limit of 0.3 s is reached")
        assert found.rounds[-1].phase == phase
        assert found.rounds[-1].seconds > 0.29  # the record is made a moment before the look at the clock
    assert not finish.report["converged"]


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_converges_by_steps_needs_no_finish(mode: str, run: Trainer, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    X = np.linalg.qr(random.standard_normal((256, 3)))[0]
    path = table(tmp_path / "easy.csv", X, X @ [3.0, -2.0, 1.0])
    found = run(path, "y", mode=mode, epochs=500, batch_size=1000)
    assert (found.done.state, found.done.cause, found.report["converged"]) == ("finished", "converged", True)
    assert {record.phase for record in found.rounds} == {"steps"}
    assert found.report["epochs"] < 500
    assert reference_of(path, "y", found).distance_of(found.report) <= 1e-6


def test_weights_that_converged_are_those_of_the_model_whatever_was_still_on_its_way(
    run: Trainer, tmp_path: Path, engines: Callable[[int], Engine]
) -> None:
    random = np.random.default_rng(4)
    X = random.standard_normal((256, 3))
    path = table(tmp_path / "easy.csv", X, X @ [3.0, -2.0, 1.0] + 0.01 * random.standard_normal(256))
    found = run(path, "y", engine=engines(3), mode="async", epochs=3000, batch_size=16, tolerance=1e-4)
    assert found.done.cause == "converged"
    assert {record.phase for record in found.rounds} == {"steps"}
    assert found.report["converged"]
    assert reference_of(path, "y", found).distance_of(found.report) <= 1e-4


# ------------------------------------------------------------------ wide tables


@pytest.mark.parametrize(("model", "mode"), [
    ("linear", "sync"), ("linear", "async"), ("ridge", "ssp"), ("ridge", "local"), ("lasso", "sync"), ("lasso", "async"),
    ("elasticnet", "sync"), ("elasticnet", "local"),
])  # fmt: skip
def test_without_the_exact_optimum_runs_still_end_there(
    model: str, mode: str, run: Trainer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "MOST_EXACT", 5)
    path, target = data("concrete", place)
    knobs = {"model": model, "alpha": 0.5}
    found = run(path, target, mode=mode, **knobs)
    reference = reference_of(path, target, found, **knobs)
    assert (found.done.cause, found.report["converged"]) == ("converged", True)
    assert reference.distance_of(found.report) <= 1e-6
    assert any("upper bounds" in text for text in found.report["warnings"])
    if model == "linear":  # nothing bounds the distance; the slope is what is known
        assert found.report["distance_to_optimum"] is None
        slope = np.abs(reference.X.T @ (reference.target - reference.X @ found.w)).max()
        assert slope <= 1e-6 * np.abs(reference.X.T @ reference.target).max()
    else:
        assert reference.distance(found.w) <= found.report["distance_to_optimum"] + 1e-12


@pytest.mark.parametrize("knobs", [{"intercept": False}, {"standardize": False}, {"test_every": 3}, {}], ids=str)
def test_wide_tables_have_the_units_of_narrow_ones(
    knobs: dict[str, Any], run: Trainer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "MOST_EXACT", 2)
    path, target = data("penguins", place)
    found = run(path, target, model="elasticnet", alpha=0.5, **knobs, **easier(knobs))
    assert found.report["converged"], found.done.cause
    reference = reference_of(path, target, found, model="elasticnet", alpha=0.5, **knobs)
    assert reference.distance_of(found.report) <= 1e-6


def test_more_columns_than_the_exact_solver_takes_on(run: Trainer, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    X = random.standard_normal((90, objective.MOST_EXACT + 50)).round(3)
    path = table(tmp_path / "wide.csv", X, (X[:, :5].sum(axis=1) + 0.1 * random.standard_normal(90)).round(4))
    knobs = {"model": "lasso", "alpha": 0.3}
    found = run(path, "y", epochs=2, tolerance=1e-6, **knobs)
    reference = reference_of(path, "y", found, **knobs)
    assert found.report["converged"], found.done.cause
    assert reference.distance_of(found.report) <= 1e-6
    assert {name for name, w in found.report["coefficients"].items() if w} == reference.kept


# ------------------------------------------------------------------ what is put on record


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES)
def test_records_add_up(mode: str, workers: int, run: Trainer, place: Path, engines: Callable[[int], Engine]) -> None:
    path, target = data("generated", place)
    rows: dict[int, int] = {}

    def count(r: Conductor, record: Round) -> None:
        rows[record.round] = sum(colleague.rows for colleague in r.server.workers.values())

    weights: dict[int, Vector] = {}
    watch = [Each(count), Each(lambda r, record: weights.__setitem__(record.round, r.weights()))]
    knobs: dict[str, Any] = {"model": "lasso", "alpha": 0.2, "test_every": 5}
    found = run(path, target, engine=engines(workers), mode=mode, epochs=3, callbacks=watch, **knobs)
    rounds = found.rounds
    assert [record.round for record in rounds] == list(range(1, found.report["rounds"] + 1))
    assert all(a.epoch < b.epoch and a.seconds <= b.seconds for a, b in itertools.pairwise(rounds))
    reference = reference_of(path, target, found, **knobs)
    assert rows[rounds[-1].round] == reference.n * found.report["epochs"]
    assert rows[found.steps[-1].round] == reference.n * 3
    spans = np.diff([record.seconds for record in rounds])
    shown = sum(r.rows_per_second * span for r, span in zip(rounds[1:], spans, strict=True))
    assert shown == pytest.approx(reference.n * found.report["epochs"] - rows[1], rel=1e-6)
    for record in rounds:
        for share in (record.read, record.compute, record.wait, record.apply):
            assert 0 <= share <= 1
        assert record.read + record.compute + record.wait == pytest.approx(1, abs=1e-9) or record.wait == 0
        w = weights[record.round]
        assert record.nonzeros == np.count_nonzero(w)
        assert record.loss == pytest.approx(reference.value(w), rel=1e-9)
        assert record.distance == pytest.approx(reference.distance(w), abs=1e-9)
        assert record.alpha == 0.2
        assert 1 <= record.workers <= max(1, workers)
    assert any(record.compute > 0 for record in rounds)
    check_scores(found, path, target, reference, weights)


def check_scores(found: Bench, path: Path, target: str, reference: Reference, weights: dict[int, Vector]) -> None:
    held = pd.read_csv(path).iloc[::5]
    Z = (held[reference.names].to_numpy() - reference.centre) / reference.scale
    y = held[target].to_numpy()
    for record in found.rounds:
        left = y - reference.y.mean() - Z @ weights[record.round]
        assert record.validation == pytest.approx(1 - left @ left / ((y - y.mean()) ** 2).sum(), abs=1e-9)


def test_events_tell_the_course_of_a_run(run: Trainer, place: Path, engines: Callable[[int], Engine]) -> None:
    path, target = data("generated", place)
    found = run(path, target, engine=engines(2), epochs=2, callbacks=[At(round3=lambda r: r.send("checkpoint"))])
    events = found.events()
    assert [event.kind for event in events if event.kind != "joined"] == [
        "started", "checkpoint", "checkpoint", "command", "phase", "checkpoint", "state",
    ]  # fmt: skip
    assert [event.round for event in events] == sorted(event.round for event in events)
    assert {event.rank for event in events if event.kind == "joined"} == {0, 1}
    last = found.report["rounds"]
    assert [event.round for event in found.events("checkpoint")] == [0, 3, last]
    assert found.checkpoints.steps() == [0, 3, last]
    assert [event.round for event in found.events("state")] == [last]
    assert found.states == [("running", "")]
    assert found.report["events"][0]["data"]["resolved"] == found.report["resolved"]
    json.dumps(found.report)


def test_the_last_checkpoint_has_the_weights_of_the_model(run: Trainer, place: Path) -> None:
    found = run(plain(place), "y", epochs=2)
    assert same_bits(found.checkpoints.load(found.report["rounds"]).arrays["weights"], found.w)
