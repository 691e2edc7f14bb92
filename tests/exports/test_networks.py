"""Networks as JSON and ONNX: what their own runtimes say is what plain PyTorch says; other formats are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import shoal
from shoal.errors import StateError
from shoal.exports.json_file import predict
from support.gradient.network_tables import TEST_EVERY, curved, oracle, outputs


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("yes_no", [False, True])
def test_runtimes_say_what_plain_pytorch_says(yes_no: bool, tmp_path: Path) -> None:
    path = curved(tmp_path / "table.csv", 200, yes_no=yes_no)
    model = shoal.fit(path, target="y", model="mlp", hidden="8,4", epochs=3, engine="inline", test_every=TEST_EVERY)
    proof = model.export("onnx", tmp_path / "model.onnx")
    assert proof.largest_relative < 1e-13
    model.export("json", tmp_path / "model.json")
    contents, frame = json.loads((tmp_path / "model.json").read_text("utf-8")), pd.read_csv(path)
    scores = outputs(contents["layers"], oracle(path).X)
    wanted = 1 / (1 + np.exp(-scores)) if yes_no else scores
    session = onnxruntime.InferenceSession((tmp_path / "model.onnx").read_bytes())
    feeds = {name: frame[[name]].to_numpy(object if name == "c" else np.float64) for name in ("a", "b", "c")}
    np.testing.assert_allclose(session.run(None, feeds)[0][:, 0], wanted, rtol=1e-10)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    np.testing.assert_allclose([predict(contents, row) for row in rows], wanted, rtol=1e-10)


def test_bent_columns_and_products_are_proven_too(tmp_path: Path) -> None:
    """Rows whose logarithm has no value have no prediction there either."""
    path = curved(tmp_path / "table.csv", 200)
    frame = pd.read_csv(path).assign(b=lambda one: one["b"] + 4)
    frame.to_csv(path, index=False)
    model = shoal.fit(
        path, target="y", model="mlp", hidden="8", epochs=1, engine="inline", squares=["a"], interactions=["a:c"],
        indicators=True, transform=["b=log"],
    )  # fmt: skip
    for to in ("json", "onnx"):
        assert model.export(to, tmp_path / f"model.{to}").largest_relative < 1e-13
    for to in ("sql", "python", "sklearn"):
        with pytest.raises(StateError, match="are for models with coefficients; this is a neural network"):
            model.export(to, tmp_path / f"model.{to}")
