"""Pictures in notebooks: of coefficients, paths and errors, each an image by itself."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.errors import ConfigError

NAMES = ["first <b>", "second & third"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(3)
    X = random.normal(size=(80, 2))
    return pd.DataFrame({NAMES[0]: X[:, 0], NAMES[1]: X[:, 1], "y": X @ [3.0, -1.0] + random.normal(size=80)})


def drawn(shown: str) -> list[ElementTree.Element]:
    """The images of a page, each parsed by itself: whole, and with nothing from elsewhere."""
    found = [base64.b64decode(one).decode() for one in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', shown)]
    assert not any("href" in one or "url(" in one for one in found)
    return [ElementTree.fromstring(one) for one in found]


def texts(image: ElementTree.Element) -> list[str]:
    return [str(one.text) for one in image.iter("{http://www.w3.org/2000/svg}text")]


def test_a_model_is_shown_with_its_coefficients(frame: pd.DataFrame, tmp_path: Path) -> None:
    model = shoal.fit(frame, "y")
    (image,) = drawn(model._repr_html_())
    assert set(NAMES) <= set(texts(image))
    picture = model.plot()
    assert picture is not None
    assert f"{NAMES[0]} raises it by" in html.unescape(repr(picture))
    picture.save(tmp_path / "picture.svg")
    assert ElementTree.parse(tmp_path / "picture.svg").getroot().tag.endswith("svg")


def test_a_model_without_effects_has_none(frame: pd.DataFrame) -> None:
    model = shoal.fit(frame, "y", model="lasso", alpha=1e6)
    assert model.plot() is None
    assert drawn(model._repr_html_()) == []


def test_a_path_is_shown_with_its_errors_where_it_has_some(frame: pd.DataFrame) -> None:
    alone = shoal.path(frame, "y", n_alphas=8)
    assert len(drawn(alone._repr_html_())) == 1
    with pytest.raises(ConfigError, match="errors need folds"):
        alone.plot("errors")
    tuned = shoal.path(frame, "y", n_alphas=8, folds=4)
    path, errors = drawn(tuned._repr_html_())
    assert "best" in " ".join(texts(path))
    assert "mean squared error" in texts(errors)
    with pytest.raises(ConfigError, match="coefficients or errors to plot, got 'all'"):
        tuned.plot("all")


def test_errors_of_another_loss_are_called_what_they_are(frame: pd.DataFrame) -> None:
    yes = frame.assign(y=np.where(frame["y"] > 0, "yes", "no"))
    tuned = shoal.path(yes, "y", "logistic", shrink="ridge", n_alphas=5, folds=3)
    assert "log loss" in texts(drawn(tuned.plot("errors")._repr_html_())[0])
