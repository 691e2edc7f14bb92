"""A file of sparse rows in a real browser: dropped, looked at, tuned, and a model of it trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from playwright.sync_api import expect
from sklearn.datasets import dump_svmlight_file

from support.browser import Visitor, fits, needs_chromium, settled

pytestmark = needs_chromium


def test_sparse_rows_from_the_drop_zone_to_a_tuned_model(visitor: Visitor, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    X = sp.random_array((300, 1500), density=0.01, format="csr", rng=random, data_sampler=random.standard_normal)
    y = X[:, :40] @ np.full(40, 3.0) + 0.1 * random.standard_normal(300)
    dump_svmlight_file(X, y, str(tmp_path / "words.svmlight"), zero_based=False)
    page = visitor.visit("?choose=1")
    page.locator("input[type=file]").set_input_files(tmp_path / "words.svmlight")
    expect(page.get_by_role("heading", name="Most frequent columns")).to_be_visible()
    expect(page.get_by_text("are for tables of cells")).to_be_visible()
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    fits(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    settled(page)
    page.get_by_role("button", name="Tune", exact=True).click()
    train = page.get_by_role("button", name="Train this model")
    expect(train).to_be_visible()
    settled(page)
    train.click()
    expect(page.get_by_role("heading", name="Lasso model of label")).to_be_visible()
    expect(page.get_by_text("This is the exact optimum")).to_be_visible()
    page.get_by_role("link", name="Train", exact=True).click()
    expect(page.get_by_role("heading", name="The model of the label")).to_be_visible()
