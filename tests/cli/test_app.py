"""The command line against scikit-learn: flags, YAML, errors, and how it behaves as a process."""

from __future__ import annotations

import json
import os
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

from support.cli import frame, refused, trained
from support.tables import shoal, written

ROOT = Path(__file__).parents[2]


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


def test_long_names_are_cut_in_the_middle_of_tables_and_sentences(tmp_path: Path) -> None:
    long = "How content are you all in all with the hours of our office on working days, first " + "and last " * 5
    rows = "".join(f"{i % 7},{i % 5},{3 * (i % 7) + i % 3}\n" for i in range(60))
    path = written(tmp_path, f'"{long}A","{long}B",y\n{rows}')
    for answer in (shoal("inspect", path), shoal("train", path, "--target", "y")):
        assert "last and last and last A " in answer.out
        own = [line for line in answer.out.splitlines() if line.startswith(("How", "What moves"))]
        assert max(map(len, own)) < 350  # a sentence has up to three of them; notes with a flag have them whole
    assert f"{long}A" in [column["name"] for column in shoal("inspect", path, "--json").json["columns"]]


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


def test_lists_by_flags_may_have_commas_within_and_flags_may_come_again(tmp_path: Path) -> None:
    path = tmp_path / "levels.csv"
    rows = [
        ("<0,5" if i % 20 == 0 else "b.d." if i % 25 == 1 else f"{i},5", i % 7, i % 11, i * 37 % 101)
        for i in range(200)
    ]
    path.write_text("CRP;n, all;m;y\n" + "".join(";".join(map(str, row)) + "\n" for row in rows))
    words = ["--also-missing", '"CRP=<0,5"', "--also-missing", "b.d."]
    looked = shoal("inspect", path, *words, "--json").json
    assert [column["missing"] for column in looked["columns"]] == [18, 0, 0, 0]
    assert list(trained(path, "--target", "y", *words, "--exclude", '"n, all"')["coefficients"]) == ["CRP", "m"]


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
    (["train", "DATA", "--target", "y", "--out", "/"], "Add a name"),
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
