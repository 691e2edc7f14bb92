"""The command line: every command and flag, exit codes, one paragraph for errors, model files that stand alone."""

from __future__ import annotations

import csv
import json
import math
import os
import pickletools
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
import yaml
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.preprocessing import StandardScaler

from support.tables import Answer, shoal, written

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def frame(rows: int = 120) -> pd.DataFrame:
    random = np.random.default_rng(0)
    found = pd.DataFrame(
        {"a": random.normal(3, 2, rows), "b": random.normal(0, 50, rows), "t": random.choice(list("uvw"), rows)}
    )
    found["y"] = 2 * found["a"] - 0.3 * found["b"] + (found["t"] == "v") + random.normal(0, 1, rows)
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    frame().to_csv(path, index=False)
    return path


def trained(*arguments: str | Path) -> dict[str, Any]:
    answer = shoal("train", *arguments, "--json")
    assert (answer.code, answer.err) == (0, ""), answer.err
    found: dict[str, Any] = answer.json
    return found


def refused(*arguments: str | Path) -> str:
    answer = shoal(*arguments)
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith("shoal: ")
    assert answer.is_plain(), answer.err
    return answer.err


# ------------------------------------------------------------------ what is printed


def test_inspect_json_has_the_promised_keys(data: Path) -> None:
    answer = shoal("inspect", data, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = answer.json
    assert {"dialect", "rows", "columns", "bad_rows"} <= found.keys()
    assert found["rows"] == 120
    assert {"encoding", "delimiter", "quote", "decimal", "header", "missing"} <= found["dialect"].keys()
    for column in found["columns"]:
        assert {"name", "type", "missing", "distinct", "min", "max", "flags"} <= column.keys()
    by_name = {c["name"]: c for c in found["columns"]}
    truth = frame()
    assert [by_name[n]["type"] for n in ("a", "b", "t", "y")] == ["numeric", "numeric", "categorical", "numeric"]
    assert (by_name["a"]["min"], by_name["a"]["max"]) == (truth["a"].min(), truth["a"].max())
    assert (by_name["t"]["distinct"], by_name["t"]["levels"]) == (3, ["u", "v", "w"])
    assert by_name["a"]["distinct"] == 120


def test_train_json_has_the_promised_keys(data: Path) -> None:
    found = trained(data, "--target", "y", "--test-every", "5")
    assert {
        "model", "alpha", "intercept", "coefficients", "coefficients_standardized", "train", "test", "inference",
        "certificate", "rows_read", "rows_dropped", "timings", "warnings", "run_id",
    } <= found.keys()  # fmt: skip
    for part in ("train", "test"):
        assert {"rows", "r2", "rmse", "mae"} <= found[part].keys()
    assert found["rows_read"] == 120
    assert (found["train"]["rows"], found["test"]["rows"]) == (96, 24)
    assert found["certificate"]["rests_on"] in ("data", "moments")
    assert found["certificate"]["relative"] < 1e-10
    assert found["timings"]["total"] >= max(v for k, v in found["timings"].items() if k != "total")
    assert {"std_error", "t", "p_value", "low", "high"} <= found["inference"]["coefficients"]["a"].keys()


def test_json_is_one_object_on_one_line_and_has_no_nan(data: Path) -> None:
    for arguments in (["train", data, "--target", "y"], ["inspect", data]):
        out = shoal(*arguments, "--json").out
        assert out.count("\n") == 1
        json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_tables_for_people(data: Path) -> None:
    answer = shoal("train", data, "--target", "y", "--test-every", "4")
    assert (answer.code, answer.err) == (0, "")
    for word in ("linear model of y", "(intercept)", "t=v", "R2", "RMSE", "train", "test", "120 rows read"):
        assert word in answer.out
    answer = shoal("inspect", data)
    assert (answer.code, answer.err) == (0, "")
    for word in ("120 rows", "4 columns", "categorical", "delimiter ','"):
        assert word in answer.out


# ------------------------------------------------------------------ every model against scikit-learn

MODELS: list[tuple[str, list[str], Any]] = [
    ("linear", [], LinearRegression()),
    ("ridge", ["--alpha", "7.5"], Ridge(alpha=7.5)),
    ("lasso", ["--alpha", "0.2"], Lasso(alpha=0.2, tol=1e-12, max_iter=100_000)),
    (
        "elasticnet",
        ["--alpha", "0.3", "--l1-ratio", "0.25"],
        ElasticNet(alpha=0.3, l1_ratio=0.25, tol=1e-12, max_iter=100_000),
    ),
]


@pytest.mark.parametrize(("name", "flags", "theirs"), MODELS, ids=[m[0] for m in MODELS])
@pytest.mark.parametrize("more", [[], ["--no-standardize"], ["--no-intercept"], ["--no-intercept", "--no-standardize"],
                                  ["--coding", "full"], ["--workers", "2", "--engine", "processes"]])  # fmt: skip
def test_models_and_flags(name: str, flags: list[str], theirs: Any, more: list[str], data: Path) -> None:
    if name == "linear" and "full" in more:
        pytest.skip("the coefficients are not unique")
    if "processes" in more and name != "ridge":
        pytest.skip("one model is enough")
    found = trained(data, "--target", "y", "--model", name, *flags, *more)
    truth = frame()
    X = pd.get_dummies(truth[["a", "b", "t"]], drop_first="full" not in more).astype(float)
    intercept = "--no-intercept" not in more
    scaler = StandardScaler(with_mean=False).fit(X)  # an intercept takes up what centring would do
    scale = np.ones(X.shape[1]) if "--no-standardize" in more else scaler.scale_
    model = theirs.set_params(fit_intercept=intercept).fit(X / scale, truth["y"])
    ours = {n.replace("=", "_"): v for n, v in found["coefficients"].items()}
    assert ours == pytest.approx(dict(zip(X.columns, model.coef_ / scale, strict=True)), rel=1e-6, abs=1e-7)
    assert found["intercept"] == pytest.approx(model.intercept_, rel=1e-6, abs=1e-7)
    assert found["model"] == name
    assert found["alpha"] == (None if name == "linear" else float(flags[1]))
    assert (found["inference"] is not None) == (name == "linear")


@pytest.mark.parametrize(("flags", "names"), [
    (["--features", "a,b"], ["a", "b"]),
    (["--features", " b , a "], ["b", "a"]),
    (["--exclude", "b"], ["a", "t=v", "t=w"]),
    (["--exclude", "t,b"], ["a"]),
    (["--coding", "full", "--features", "t"], ["t=u", "t=v", "t=w"]),
    (["--features", "t", "--categorical", "t"], ["t=v", "t=w"]),
])  # fmt: skip
def test_columns_by_flags(flags: list[str], names: list[str], data: Path) -> None:
    assert list(trained(data, "--target", "y", *flags)["coefficients"]) == names


@pytest.mark.parametrize(("text", "flags"), [
    ("a;y\n1,5;2\n2,5;4\n3,5;6\n", ["--delimiter", ";", "--decimal", ","]),
    ("a;y\n1,5;2\n2,5;4\n3,5;6\n", ["--decimal", ","]),
    ("a\ty\n1.5\t2\n2.5\t4\n3.5\t6\n", ["--delimiter", "\\t"]),
    ("a\ty\n1.5\t2\n2.5\t4\n3.5\t6\n", ["--delimiter", "tab"]),
    ("a:y\n1.5:2\n2.5:4\n3.5:6\n", ["--delimiter", ":"]),
    ("a,y\n1.5,2\n2.5,4\n3.5,6\n-1,\n", ["--missing=-1,"]),
    ("a,y\n1.5,2\n-9,0\n2.5,4\n3.5,6\n", ["--missing", "-9", "--impute", "drop"]),
    ("a,y\n1.5,2\n2.5,4\n3.5,6\nbad\n", ["--on-bad-rows", "skip"]),
    ("note\na,y\n1.5,2\n2.5,4\n3.5,6\n", ["--skip-lines", "1"]),
    ("a,y\n%x\n1.5,2\n2.5,4\n3.5,6\n", ["--comment", "%"]),
    ("a,y\n~1.5~,2\n2.5,~4~\n3.5,6\n", ["--quote", "~"]),
])  # fmt: skip
def test_dialect_flags(text: str, flags: list[str], tmp_path: Path) -> None:
    found = trained(written(tmp_path, text), "--target", "y", *flags)
    assert found["coefficients"] == pytest.approx({"a": 2.0})
    assert found["intercept"] == pytest.approx(-1.0)


def test_no_header_and_encoding(tmp_path: Path) -> None:
    path = written(tmp_path, "1.5,é,2\n2.5,è,4\n3.5,é,6\n4.5,è,8\n".encode("cp1252"))
    found = trained(path, "--target", "2", "--no-header", "--encoding", "cp1252", "--features", "0,1")
    assert list(found["coefficients"]) == ["0", "1=é"]


# ------------------------------------------------------------------ configuration files


def test_yaml_and_flags_are_one_schema(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    knobs = {"file": str(data), "target": "y", "model": "ridge", "alpha": 2.0, "features": ["a", "t"], "test_every": 5,
             "coding": "full", "standardize": False, "missing": ["", "NA"], "workers": "auto"}  # fmt: skip
    config.write_text(yaml.safe_dump(knobs))
    by_file = trained("--config", config)
    by_flags = trained(data, "--target", "y", "--model", "ridge", "--alpha", "2", "--features", "a,t", "--test-every", "5",
                       "--coding", "full", "--no-standardize", "--missing", "NA", "--workers", "auto")  # fmt: skip
    for key in ("coefficients", "intercept", "train", "test", "alpha"):
        assert by_file[key] == by_flags[key]
    assert trained("--config", config, "--alpha", "9")["alpha"] == 9.0  # flags win
    assert trained(data, "--config", config, "--exclude", "t")["coefficients"].keys() == {"a"}


@pytest.mark.parametrize(("text", "words"), [
    ("targte: y\n", "targte"), ("alpha: much\n", "alpha"), ("- a\n", "target: price"), ("{", "not valid YAML"),
    ("test_every: 2.5\n", "whole number"), ("standardize: 7\n", "true or false"), ("model: forest\n", "forest"),
    ("alpha: -1\n", "at least 0"), ("alpha: .nan\n", "alpha"), ("l1_ratio: 2\n", "l1_ratio"), ("test_every: 1\n", "at least 2"),
    ("test_every: 5\ntest_fraction: 0.5\n", "one of them"), ("workers: -2\n", "workers"), ("seed: [1]\n", "whole number"),
    ("delimiter: ab\n", "one ASCII character"), ("skip_lines: x\n", "whole number"), ("", "got something else"),
])  # fmt: skip
def test_configs_that_cannot_be(text: str, words: str, data: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(text)
    assert words in refused("train", data, "--target", "y", "--config", config)


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(("arguments", "words"), [
    (["train", "DATA"], "--target"),
    (["train", "--target", "y"], "file"),
    (["train", "DATA", "--target", "nope"], "The columns are: a, b, t, y"),
    (["train", "DATA", "--target", "t"], "column of numbers as target"),
    (["train", "DATA", "--target", "y", "--features", "a,zz"], "'zz'"),
    (["train", "DATA", "--target", "y", "--model", "forest"], "forest"),
    (["train", "DATA", "--target", "y", "--alpha", "x"], "alpha"),
    (["train", "DATA", "--target", "y", "--alpha", "-1"], "alpha"),
    (["train", "DATA", "--target", "y", "--alpha", "inf"], "alpha"),
    (["train", "DATA", "--target", "y", "--no-such-flag"], "no-such-flag"),
    (["train", "DATA", "--target", "y", "--workers", "many"], "workers"),
    (["train", "DATA", "--target", "y", "--encoding", "klingon"], "klingon"),
    (["train", "DATA", "--target", "y", "--encoding", "base64"], "base64"),
    (["train", "DATA", "--target", "y", "--delimiter", "ab"], "one ASCII character"),
    (["train", "DATA", "--target", "y", "--delimiter", ""], "delimiter"),
    (["train", "DATA", "--target", "y", "--delimiter", ",", "--decimal", ","], "also the decimal"),
    (["train", "DATA", "--target", "y", "--out", "/proc/none/model.json"], "/proc/none"),
    (["train", "DATA", "--target", "y", "--out", "/"], "Check"),
    (["train", "DATA", "--target", "y", "--config", "absent.yaml"], "absent.yaml"),
    (["inspect", "absent.csv"], "absent.csv"),
    (["inspect"], "FILE"),
    (["predict", "absent.json", "DATA", "--out", "x.csv"], "absent.json"),
    (["predict", "DATA", "DATA", "--out", "x.csv"], "not a whole model file"),
    (["fly"], "fly"),
    ([], "COMMAND"),
])  # fmt: skip
def test_errors_are_one_paragraph(
    arguments: list[str], words: str, data: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refused(*[str(data) if a == "DATA" else a for a in arguments])


def test_help_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["train", "--help"], ["inspect", "--help"], ["predict", "--help"]):
        answer = shoal(*arguments)
        assert answer.code == 0
        assert "usage: shoal" in answer.out
    for flag in ("--target", "--model", "--alpha", "--l1-ratio", "--features", "--exclude", "--categorical", "--coding",
                 "--test-every", "--no-intercept", "--no-standardize", "--workers", "--delimiter", "--decimal",
                 "--encoding", "--no-header", "--missing", "--on-bad-rows", "--config", "--out", "--json"):  # fmt: skip
        assert flag in shoal("train", "--help").out, flag


# ------------------------------------------------------------------ models and predictions


@pytest.fixture
def model(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    trained(data, "--target", "y", "--out", path)
    return path


def by_hand(model: Path, row: dict[str, Any]) -> float:
    """A prediction from nothing but what is written in the file."""
    contents = json.loads(model.read_text())
    total = contents["intercept"]
    for term in contents["design"]["terms"]:
        value = row.get(term["column"])
        if term["type"] == "number":
            x = term["fill"] if value is None else value
        else:
            x = float((value or "__missing__") == term.get("level", "__missing__"))
        name = f"{term['column']}={term['level']}" if "level" in term else term["column"]
        total += contents["coefficients"][name] * x
    return float(total)


def predicted(model: Path, file: Path, out: Path, *flags: str) -> tuple[list[float | None], Answer]:
    answer = shoal("predict", model, file, "--out", out, "--json", *flags)
    assert (answer.code, answer.err) == (0, ""), answer.err
    with out.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [int(row["row"]) for row in rows] == list(range(len(rows)))
    return [float(row["prediction"]) if row["prediction"] else None for row in rows], answer


def test_model_file_is_json_that_stands_alone(model: Path, data: Path, tmp_path: Path) -> None:
    contents = json.loads(model.read_text())
    assert contents["format"] == "shoal-model"
    assert contents["version"] == 1
    assert model.read_text().count("\n") > 20  # readable by eye
    with pytest.raises(ValueError, match=r"opcode|pickle"):
        list(pickletools.genops(model.read_bytes()))
    found, answer = predicted(model, data, tmp_path / "p.csv")
    rows = frame().to_dict("records")
    assert found == pytest.approx([by_hand(model, row) for row in rows], rel=1e-12)
    rmse = math.sqrt(np.mean([(p - r["y"]) ** 2 for p, r in zip(found, rows, strict=True)]))  # type: ignore[operator]
    assert contents["train"]["rmse"] == pytest.approx(rmse, rel=1e-9)
    assert answer.json["rows"] == 120


def test_predict_with_other_column_order_and_dialect_and_without_target(model: Path, tmp_path: Path) -> None:
    rows = [{"a": 1.5, "b": -2.0, "t": "v"}, {"a": 0.25, "b": 7.0, "t": "u"}, {"a": -3.0, "b": 0.5, "t": "w"}]
    expected = [by_hand(model, row) for row in rows]
    text = "t;extra;b;a\n" + "".join(f"{r['t']};9;{r['b']};{r['a']}\n".replace(".", ",") for r in rows)
    found, _ = predicted(model, written(tmp_path, text, "new.csv"), tmp_path / "p.csv")
    assert found == pytest.approx(expected, rel=1e-12)


def test_predict_unseen_levels_missing_values_and_bad_rows(model: Path, tmp_path: Path) -> None:
    text = "a,b,t\n1,2,u\n1,2,new\n1,2,\n,2,u\n1,2\n1,x,u\n1,,v\n"
    found, answer = predicted(model, written(tmp_path, text, "new.csv"), tmp_path / "p.csv")
    rows: list[Any] = [{"a": 1, "b": 2, "t": "u"}, {"a": 1, "b": 2, "t": "new"}, {"a": 1, "b": 2}, {"b": 2, "t": "u"}, None, None,
                       {"a": 1, "t": "v"}]  # fmt: skip
    expected = [None if row is None else by_hand(model, row) for row in rows]
    assert [f is None for f in found] == [e is None for e in expected]
    assert [f for f in found if f is not None] == pytest.approx([e for e in expected if e is not None], rel=1e-12)
    assert answer.json["unseen_levels"] == 2  # `new`, and no value where training had none missing
    assert answer.json["bad_rows"] == 2
    said = " ".join(answer.json["warnings"])
    assert "level that the model was not trained with" in said
    assert "could not be read" in said


def test_predict_with_dates(tmp_path: Path) -> None:
    days = pd.date_range("2021-01-01 12:30:00", periods=40, freq="D")
    y = np.arange(40) * 2.0 + 1
    path = tmp_path / "dates.csv"
    pd.DataFrame({"day": days.strftime("%Y-%m-%d %H:%M:%S"), "y": y}).to_csv(path, index=False)
    trained(path, "--target", "y", "--out", tmp_path / "m.json")
    found, _ = predicted(tmp_path / "m.json", path, tmp_path / "p.csv")
    assert found == pytest.approx(y.tolist(), rel=1e-6)


def test_predict_where_all_levels_are_known_but_too_many_others_come(model: Path, tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,t\n" + "".join(f"1,2,n{i}\n" for i in range(6_000)) + "1,2,v\n")
    answer = shoal("predict", model, path, "--out", tmp_path / "p.csv")
    assert answer.code == 1
    assert "too many different values" in answer.err
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(("text", "words"), [
    ("a,t\n1,u\n", "does not have: b"), ("", "empty"), ("a,b,t\nx,y,z\np,q,r\n", None),
])  # fmt: skip
def test_predict_on_files_that_do_not_fit(text: str, words: str | None, model: Path, tmp_path: Path) -> None:
    answer = shoal("predict", model, written(tmp_path, text, "new.csv"), "--out", tmp_path / "p.csv", "--json")
    assert answer.is_plain(), answer.err
    if words is None:
        assert answer.json["bad_rows"] == answer.json["rows"]
    else:
        assert answer.code == 1
        assert words in answer.err
        assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(("change", "words"), [
    (lambda c: c.update(version=99), "version 99"), (lambda c: c.update(format="x"), "another kind"),
    (lambda c: c.pop("design"), "damaged"), (lambda c: c["coefficients"].pop("a"), "damaged"),
    (lambda c: c["coefficients"].update(a="much"), "damaged"), (lambda c: c["design"]["terms"][0].update(type="x"), "damaged"),
])  # fmt: skip
def test_model_files_that_are_damaged(change: Any, words: str, model: Path, data: Path, tmp_path: Path) -> None:
    contents = json.loads(model.read_text())
    change(contents)
    model.write_text(json.dumps(contents))
    assert words in refused("predict", model, data, "--out", tmp_path / "p.csv")


def test_predictions_appear_whole_or_not_at_all(model: Path, data: Path, tmp_path: Path) -> None:
    assert "folder" in refused("predict", model, data, "--out", tmp_path / "no" / "p.csv")
    (tmp_path / "dir").mkdir()
    refused("predict", model, data, "--out", tmp_path / "dir")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


# ------------------------------------------------------------------ as a process


def process(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "shoal.cli.app", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,y\n" + "".join(f"{i}.5,{i % 91},{i % 7}\n" for i in range(3_000_000)))
    home = tmp_path / "home"
    running = process(
        "train", str(path), "--target", "y", "--engine", "processes", "--workers", "2", start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not list(home.glob("cache/unfinished-*/*")) and time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.005)
    children = psutil.Process(running.pid).children(recursive=True) if running.poll() is None else []
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert out == ""
    assert err.strip() == "shoal: stopped by Ctrl-C; nothing was left behind."
    psutil.wait_procs(children, timeout=5)
    assert [child for child in children if child.is_running()] == []
    assert list(home.glob("cache/*")) == []


def test_output_that_nobody_reads_any_more(data: Path) -> None:
    running = process("inspect", str(data), "--json")
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert "Traceback" not in running.stderr.read()
    running.stderr.close()
    assert running.wait(60) in (0, 1)


def test_terminals_that_cannot_show_the_names(tmp_path: Path) -> None:
    path = written(tmp_path, "größe,名前\n1,é\n2,日本\n")
    environment = {
        **os.environ,
        "PYTHONIOENCODING": "ascii",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    for flags in (["--json"], []):
        running = process("inspect", str(path), *flags, env=environment)
        out, err = running.communicate(timeout=60)
        assert running.returncode == 0, err
        assert not flags or [c["name"] for c in json.loads(out)["columns"]] == ["größe", "名前"]
