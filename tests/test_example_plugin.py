"""The example plug-in, installed as a person would, and used through the product."""

from __future__ import annotations

import csv
import inspect
import io
import json
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.brought.example_plugin import EXAMPLE, installed, python, shoal

# ------------------------------------------------------------------ the example, installed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    return installed(tmp_path_factory.mktemp("example"))


def result(code: str, site: str, **environment: str) -> Any:
    """What a fresh process prints as JSON; `problem` is known to it."""
    prelude = "from typing import Any\nimport numpy as np\n" + inspect.getsource(problem)
    done = python(prelude + textwrap.dedent(code), site, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_without_plug_ins_does_not_search() -> None:
    code = "import sys, pathlib; from shoal.data import files; from shoal.training import callbacks; files.plugin_reader(pathlib.Path('a.csv.gz'));" \
           "print('importlib.metadata' in sys.modules)"  # fmt: skip
    assert python(code, "").stdout == "False\n"


def test_example_names(site: str) -> None:
    code = (
        "import json; from shoal import plugins; print(json.dumps([plugins.names(group) for group in plugins.WORDS]))"
    )
    assert result(code, site) == [
        ["nonnegative_lasso"], ["sign"], ["best_round"], ["json_lines"], ["each_epoch"], ["stop_first"],
        ["positive_target", "time_forward"], ["within_ten_percent"], ["shards_first"], ["winsorise"],
    ]  # fmt: skip


def test_example_leaves_no_build_behind() -> None:
    assert {path.name for path in EXAMPLE.iterdir()} - {"__pycache__"} == {
        "pyproject.toml", "shoal_example_plugin.py", "shoal_example_advice.py", "shoal_example_data.py",
    }  # fmt: skip


def problem() -> tuple[Any, Any]:
    """Standardised columns and a centred target; some weights of the least-squares fit are negative."""
    random = np.random.default_rng(3)
    X = random.normal(size=(200, 6)) @ (np.eye(6) + 0.3)
    y = X @ np.array([2.0, -1.5, 0.0, 0.7, -0.1, 0.05]) + random.normal(size=200)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, y - y.mean()


PROXIMAL_GRADIENT = """
    import json, sys
    import numpy as np
    from shoal import plugins
    X, y = problem()
    penalty = plugins.make_penalty("nonnegative_lasso", 0.05, 0.5, len(y))
    rate, w, gaps = len(y) / np.linalg.norm(X, 2) ** 2, np.zeros(6), []
    for _ in range(3000):
        gradient = X.T @ (X @ w - y) / len(y)
        gaps.append(penalty.optimality_gap(w, gradient))
        w = penalty.prox(w - rate * gradient, rate)
    print(json.dumps({"w": w.tolist(), "first": gaps[0], "last": gaps[-1], "value": penalty.value(w)}))
"""


def test_example_penalty_leads_to_the_optimum_that_scikit_learn_finds(site: str) -> None:
    from sklearn.linear_model import Lasso

    X, y = problem()
    reference = Lasso(alpha=0.05, positive=True, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
    assert (reference == 0).any()
    assert (reference > 0).any()
    found = result(PROXIMAL_GRADIENT, site)
    np.testing.assert_allclose(found["w"], reference, atol=1e-7)
    assert found["first"] == pytest.approx(max((X.T @ y / len(y)).max() - 0.05, 0))
    assert found["last"] < 1e-12
    assert found["value"] == pytest.approx(0.05 * np.abs(reference).sum())


PROX = """
    import json
    import numpy as np
    from shoal import plugins
    penalty = plugins.make_penalty("nonnegative_lasso", 0.5, 0.5, 10.0)
    w, steps = np.array([2.0, 0.3, 0.0, -1.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0, 4.0])
    one, each = penalty.prox(w, 1.0), penalty.prox(w, steps)
    bad = penalty.value(w), penalty.optimality_gap(w, w)
    print(json.dumps([one.tolist(), each.tolist(), [str(x) for x in bad]]))
"""


def test_example_prox_is_the_minimum_by_brute_force(site: str) -> None:
    one, each, bad = result(PROX, site)
    grid = np.linspace(0, 3, 30_001)  # all values that are allowed
    for w, step, found in zip([2.0, 0.3, 0.0, -1.0, 1.0] * 2, [1.0] * 9 + [4.0], one + each, strict=True):
        best = grid[np.argmin((grid - w) ** 2 / 2 + step * 0.5 * grid)]
        assert found == pytest.approx(best, abs=2e-4)
    assert bad == ["inf", "inf"]


SIGN = """
    import json
    import numpy as np
    from shoal import plugins
    from shoal.steps.optimizers import STEP_RULES, StepRule
    from shoal.models import L1L2
    kind = plugins.find_class(plugins.STEP_RULES, "sign", StepRule, STEP_RULES)
    free = lambda w, step: w
    rule = kind(3, 0.5)
    g = np.array([4.0, -1.0, 0.0])
    first = rule.step(np.zeros(3), g, 0.1, free)
    saved = rule.state()
    second = rule.step(first, -g / 4, 0.1, free)   # the mean is still along g
    third = rule.step(second, -2 * g, 0.1, free)   # and now turned round
    other = kind(3, 0.5)
    other.restore(saved)
    again = other.step(first, -g / 4, 0.1, free)
    rule.reset()
    fresh = rule.step(np.zeros(3), -g, 0.1, free)
    X, y = problem()
    lasso, w, rule = L1L2(l1=0.2), np.zeros(6), kind(6, 0.0)
    for i in range(4000):
        gradient = X.T @ (X @ w - y) / len(y)
        w = rule.step(w, gradient, 0.5 / (1 + i / 4), lasso.prox)
    print(json.dumps([v.tolist() for v in (first, second, third, again, fresh, w)] + [kind(3).safe_rate(1.0, 5.0)]))
"""


def test_example_step_rule_steps_along_signs_and_rests_at_the_optimum(site: str) -> None:
    from sklearn.linear_model import Lasso

    first, second, third, again, fresh, w, rate = result(SIGN, site)
    np.testing.assert_allclose(first, [-0.1, 0.1, 0])
    np.testing.assert_allclose(second, [-0.2, 0.2, 0])
    np.testing.assert_allclose(third, first, atol=1e-15)
    assert again == second
    np.testing.assert_allclose(fresh, [0.1, -0.1, 0])
    X, y = problem()
    reference = Lasso(alpha=0.2, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
    np.testing.assert_allclose(w, reference, atol=2e-3)
    assert 0 < rate < 5


BEST = """
    import sys
    from types import SimpleNamespace
    from shoal.training.callbacks import callbacks_named
    callbacks = callbacks_named(["best_round"], sys.exit)
    run = SimpleNamespace()
    callbacks.run_started(run)
    for number, (loss, validation) in enumerate([(3.0, 0.25), (1.0, 0.75), (0.5, 0.5)]):
        run.weights = lambda: np.full(2, float(number))
        callbacks.round_ended(run, SimpleNamespace(round=number, loss=loss, validation=validation))
    callbacks.run_ended(run, "finished")
    print(len(callbacks))
"""


def test_example_callback_keeps_the_best_round(site: str, tmp_path: Path) -> None:
    assert result(BEST, site, SHOAL_BEST_ROUND=str(tmp_path / "best.json")) == 1
    assert json.loads((tmp_path / "best.json").read_text()) == {"round": 1, "loss": 0.25, "weights": [1, 1]}
    unset = python(
        "import os; os.environ.pop('SHOAL_BEST_ROUND', 0); "
        + "from shoal.training.callbacks import callbacks_named as c; c(['best_round'], print)",
        site,
    )
    assert "errors.ConfigError: The callback 'best_round'" in unset.stderr
    assert "SHOAL_BEST_ROUND" in unset.stderr


# ------------------------------------------------------------------ the example's reader, through the product


ROWS: list[dict[str, Any]] = [
    {"size": i * 0.1, "kind": ["a", "b, \"c\"", "#d\ne"][i % 3], "price": 3 + 0.7 * i * 0.1 - [0, 1, 2.5][i % 3] + (i * 37 % 11) / 10,
     **({"extra": i % 4} if i > 5 else {})}
    for i in range(400)
]  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + "\n")
    return path


def design() -> tuple[Any, Any]:
    """Intercept, size, two of three kinds; by hand."""
    X = np.array([[1, row["size"], row["kind"] == ROWS[1]["kind"], row["kind"] == "a"] for row in ROWS], float)
    return X, np.array([row["price"] for row in ROWS])


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_train_reads_json_lines(engine: str, site: str, rows: Path) -> None:
    done = shoal(site, "train", rows, "--target", "price", "--exclude", "extra", "--engine", engine, "--json")
    assert done.returncode == 0, done.stderr
    X, y = design()
    rss = np.linalg.lstsq(X, y)[1]
    report = json.loads(done.stdout)
    train = report["metrics"]["train"] if "metrics" in report else report["train"]
    assert train["rows"] == len(ROWS)
    assert train["rmse"] == pytest.approx(np.sqrt(rss[0] / len(y)), rel=1e-10)
    assert train["r2"] == pytest.approx(1 - rss[0] / ((y - y.mean()) ** 2).sum(), rel=1e-10)
    assert not list((rows.parent / "home").rglob("plain"))


def test_inspect_and_predict_read_json_lines(site: str, rows: Path) -> None:
    model, out = rows.with_name("model.json"), rows.with_name("out.csv")
    seen = shoal(site, "inspect", rows, "--json")
    assert seen.returncode == 0, seen.stderr
    assert [column["name"] for column in json.loads(seen.stdout)["columns"]] == ["size", "kind", "price", "extra"]
    done = shoal(site, "train", rows, "--target", "price", "--exclude", "extra", "--out", model)
    assert done.returncode == 0, done.stderr
    done = shoal(site, "predict", model, rows, "--out", out)
    assert done.returncode == 0, done.stderr
    X, y = design()
    predicted = [float(row[-1]) for row in list(csv.reader(io.StringIO(out.read_text())))[1:]]
    np.testing.assert_allclose(predicted, X @ np.linalg.lstsq(X, y)[0], rtol=1e-9)


def test_what_another_reader_made_of_the_file_is_not_used(site: str, rows: Path) -> None:
    """The file is the same, but without the plug-in it is no table of these columns, and with it it is again."""
    for path, code in (("", 1), (site, 0), ("", 1)):
        done = shoal(path, "train", rows, "--target", "price", "--json")
        assert done.returncode == code, (path, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "said"), [("{", "Line 401 of 'rows.jsonl' is not JSON"), ("[1]", "Expected a JSON object in line 401")]
)
def test_a_line_that_is_wrong_is_said(line: str, said: str, site: str, rows: Path) -> None:
    rows.write_text(rows.read_text().rstrip("\n") + f"\n{line}\n")
    done = shoal(site, "train", rows, "--target", "price")
    assert done.returncode == 1
    assert done.stderr.startswith(f"shoal: {said}"), done.stderr
    assert not list((rows.parent / "home").rglob("*.bin"))


@pytest.mark.parametrize("mode", ["sync", "local"])
def test_a_gradient_run_uses_penalty_step_rule_callback_and_reader(
    mode: str, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All four kinds in one run; scikit-learn's lasso without negative weights is the reference."""
    from sklearn.linear_model import Lasso

    random = np.random.default_rng(3)
    X = random.normal(size=(400, 5)) * [1, 2, 3, 4, 5]
    y = X @ [1.0, 0.5, -1.0, 0.25, 0.0] + random.normal(size=400)
    path = tmp_path / "rows.jsonl"
    rows = [{**{f"x{j}": value for j, value in enumerate(row)}, "y": target} for row, target in zip(X, y, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHOAL_BEST_ROUND", str(tmp_path / "best.json"))
    rule = ["--step-rule", "sign"] if mode == "sync" else []  # local steps are plain ones, and say so
    done = shoal(
        site, "train", path, "--target", "y", "--solver", "gradient", "--mode", mode, "--penalty", "nonnegative_lasso",
        "--alpha", "0.05", "--callbacks", "best_round", "--workers", "2", "--json", *rule,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["converged"], report["cause"]
    reference = Lasso(alpha=0.05, positive=True, tol=1e-12, max_iter=100_000).fit((X - X.mean(0)) / X.std(0), y)
    found = list(report["coefficients_standardized"].values())
    np.testing.assert_allclose(found, reference.coef_, atol=1e-4)
    assert found[2] == 0
    assert json.loads((tmp_path / "best.json").read_text())["round"] > 0
