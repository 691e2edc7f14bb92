"""The form for a fit: every knob that is not about reading the file, with the config's own help and defaults."""

from __future__ import annotations

from typing import Any

import streamlit as st

from config import CODINGS, ENGINES, IMPUTATIONS
from config import MODELS as MODEL_NAMES
from dashboard.wording import ABOUT_MODELS, CHOICES, LABELS, MODELS, default_of, help_for

NO_TEST, BY_INDEX, BY_HASH = "None", "Every k-th", "By chance"
ENOUGH_TO_SPLIT = 50  # rows; with fewer, keeping a fifth for testing costs more than it tells


class ModelForm:
    """Widgets whose keys begin with `prefix`; `start` holds the values of an earlier run, if there is one."""

    def __init__(self, prefix: str, found: dict[str, Any], start: dict[str, Any], target: str | None) -> None:
        self.prefix = prefix
        self.columns = [column["name"] for column in found["columns"]]
        self.numbers = [column["name"] for column in found["columns"] if column["type"] == "numeric"]
        self.rows = found["rows"]
        self.start = start
        self.target = start.get("target") or target

    def show(self) -> dict[str, Any]:
        """Draw the form; the values that the person chose, ready for a config."""
        left, right = st.columns(2)
        with left:
            values: dict[str, Any] = {"target": self._target()}
        with right:
            values |= self._model()
        values |= self._columns(values["target"])
        values |= self._split()
        with st.expander("More options", icon=":material/settings:"):
            values |= self._more(values["model"])
        return values

    def _common(self, knob: str) -> dict[str, Any]:
        return {"label": LABELS[knob], "help": help_for(knob), "key": f"{self.prefix}:{knob}"}

    def _now(self, knob: str) -> Any:
        value = self.start.get(knob)
        return default_of(knob) if value is None else value

    def _pick(self, knob: str, options: tuple[str, ...]) -> str:
        index = options.index(self._now(knob))
        chosen: str = st.selectbox(options=options, index=index, format_func=CHOICES.__getitem__, **self._common(knob))
        return chosen

    def _target(self) -> str | None:
        index = self.numbers.index(self.target) if self.target in self.numbers else None
        chosen: str | None = st.selectbox(
            options=self.numbers, index=index, placeholder="Choose a column of numbers", **self._common("target")
        )
        st.caption("Only columns of numbers can be predicted.")
        return chosen

    def _model(self) -> dict[str, Any]:
        model = st.segmented_control(
            options=MODEL_NAMES,
            default=self._now("model"),
            required=True,
            format_func=MODELS.__getitem__,
            **self._common("model"),
        )
        st.caption(ABOUT_MODELS[model])
        values: dict[str, Any] = {"model": model}
        if model != "linear":
            values["alpha"] = st.number_input(
                min_value=0.0, value=float(self._now("alpha")), step=0.1, format="%g", **self._common("alpha")
            )
        if model == "elasticnet":
            values["l1_ratio"] = st.slider(
                min_value=0.0, max_value=1.0, value=float(self._now("l1_ratio")), **self._common("l1_ratio")
            )
        return values

    def _columns(self, target: str | None) -> dict[str, Any]:
        others = [name for name in self.columns if name != target]
        values = {}
        for slot, knob, empty in zip(
            st.columns(2), ("features", "exclude"), ("all but the target", "none"), strict=True
        ):
            values[knob] = slot.multiselect(
                options=others,
                default=[name for name in self.start.get(knob) or [] if name in others],
                placeholder=empty,
                **self._common(knob),
            )
        return values

    def _split(self) -> dict[str, Any]:
        """How rows are kept apart to test on; an earlier run's choice, else every fifth where rows are many enough."""
        every = self.start.get("test_every", 5 if self.rows >= ENOUGH_TO_SPLIT else 0)
        share = self.start.get("test_fraction", 0.0)
        left, right = st.columns(2)
        with left:
            way = st.segmented_control(
                "Rows kept for testing",
                (NO_TEST, BY_INDEX, BY_HASH),
                default=BY_HASH if share else BY_INDEX if every else NO_TEST,
                required=True,
                key=f"{self.prefix}:split",
                help="The model does not see these rows, so its scores on them are honest.",
            )
        with right:
            if way == BY_INDEX:
                return {"test_every": st.number_input(min_value=2, value=every or 5, **self._common("test_every"))}
            if way == BY_HASH:
                return self._hashed(share or 0.2)
        return {}

    def _hashed(self, share: float) -> dict[str, Any]:
        one, two = st.columns(2)
        with one:
            fraction = st.number_input(
                min_value=0.01, max_value=0.9, value=share, step=0.05, format="%g", **self._common("test_fraction")
            )
        with two:
            seed = st.number_input(value=self._now("seed"), step=1, **self._common("seed"))
        return {"test_fraction": fraction, "seed": seed}

    def _more(self, model: str) -> dict[str, Any]:
        left, right = st.columns(2)
        values: dict[str, Any] = {}
        with left:
            values["intercept"] = st.toggle(value=self._now("intercept"), **self._common("intercept"))
            values["standardize"] = st.toggle(value=self._now("standardize"), **self._common("standardize"))
            values["indicators"] = st.toggle(value=self._now("indicators"), **self._common("indicators"))
            values["impute"] = self._pick("impute", IMPUTATIONS)
            if values["impute"] == "constant":
                values["fill"] = st.number_input(value=float(self._now("fill")), format="%g", **self._common("fill"))
        with right:
            values["coding"] = self._pick("coding", CODINGS)
            values["max_levels"] = st.number_input(
                min_value=1, max_value=20_000, value=self._now("max_levels"), **self._common("max_levels")
            )
            if model == "linear":
                values["confidence"] = st.number_input(
                    min_value=0.5, max_value=0.9999, value=self._now("confidence"), step=0.01, format="%g",
                    **self._common("confidence"),
                )  # fmt: skip
            values["engine"] = self._pick("engine", ENGINES)
            if values["engine"] != "inline":
                values["workers"] = st.number_input(
                    min_value=0, max_value=512, value=self._now("workers"), **self._common("workers")
                )
        return values
