"""Which panels the view of a gradient run has, and what they are called; describing and drawing them is in `plot`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.dashboard.live.controls import send_now
from shoal.dashboard.live.own_metrics import field_of
from shoal.dashboard.live.plot import FAINT, HEIGHT, Panel, chart, live_plot, series
from shoal.results.training_words import SQUARES, curve_words
from shoal.runs.launch import Run
from shoal.settings.when import MODULE, NETWORK

SWITCH: Panel = {"kind": "switch", "key": "axis", "label": "Curves over"}
LANES: Panel = {
    "kind": "lanes",
    "key": "workers",
    "title": "Workers",
    "wide": True,
    "waiting": "Workers are shown once training has begun.",
    "help": {
        "CPU": "Share of one core since the last look.",
        "Waits": "Share of its time that the worker waits for the others or for new weights.",
        "Memory": "Memory that the process holds.",
        "Rows": "Rows that it has processed since it joined.",
        "Behind": "How many updates its last gradient was behind.",
        "Node": "The machine of the cluster that it is on.",
        "Answers in": "What a question and its answer usually take.",
        "Silent for": "How long an answer is missing by now; it counts as gone after 3 s or more.",
        "Received, sent": "What came from it and what was sent to it so far.",
    },
}
HOLDERS: Panel = {
    "kind": "holders",
    "key": "shards",
    "title": "Parameter shards",
    "hint": "who steps which share of the parameters",
    "wide": True,
    "help": {
        "Parameters": "Numbers of the model that this process steps.",
        "Share": "Of all parameters; consistent hashing makes shares about even, not quite.",
        "Pieces": "Parts of the parameters that lie there; only those of a shard that comes or goes move.",
    },
}
TIMELINE: Panel = {
    "kind": "timeline",
    "key": "timeline",
    "title": "Workers over time",
    "hint": "solid: at work; dotted: lost",
    "wide": True,
    "height": 150,
    "waiting": "Nothing has happened yet.",
}
EVENTS: Panel = {
    "kind": "events",
    "key": "events",
    "title": "What happened",
    "height": 250,
    "waiting": "Nothing has happened yet.",
}
LOG: Panel = {
    "kind": "log",
    "key": "log",
    "title": "Log",
    "wide": True,
    "height": 260,
    "waiting": "The log is empty so far.",
}


def figures(config: Mapping[str, Any]) -> Panel:
    """The numbers on top."""
    words = curve_words(config.get("model", ""))
    return {
        "kind": "tiles",
        "key": "tiles",
        "tiles": [
            {"key": "state", "label": "State", "help": "What the run is doing."},
            {
                "key": "progress",
                "label": "Progress",
                "help": "Epochs so far (each goes over all training rows once), and how long the rest takes.",
                "bar": True,
                "wide": True,
            },
            {"key": "loss", "label": words.loss, "help": words.about_loss},
            {"key": "validation", "label": words.score, "help": words.about_score},
            {
                "key": "distance",
                "label": "Distance to optimum",
                "help": "How far the loss is above the least one possible, as a share of where it began.",
            },
            {
                "key": "speed",
                "label": "Rows a second",
                "help": "Training rows that all workers go through in a second.",
            },
            {"key": "workers", "label": "Workers", "help": "Worker processes that take part right now."},
        ],
    }


def curves(config: Mapping[str, Any]) -> list[Panel]:
    """The charts of how good the model is and how fast it gets there."""
    words = curve_words(config.get("model", ""))
    is_module = config.get("model") in (MODULE, NETWORK)  # whose rows to score are given apart
    tested = bool(config.get("test_every") or config.get("test_fraction") or is_module)
    name = "R²" if words == SQUARES else "Score" if is_module else "Explained"
    return [
        chart("loss", words.loss, [series("loss", words.loss)], hint="smaller is better", switch=True),
        chart(
            "validation", words.score, [series("validation", name, 1)],
            hint="on rows kept for testing; 1 is perfect",
            unknown="The score is shown from the first epoch on." if tested
            else "No rows were kept for testing. Keep some to see how the model does on rows it has not seen.",
        ),
        chart(
            "distance", "Distance to the optimum", [series("distance", "Distance", 2)],
            hint="1 is the start, 0 is exact", log=True, hover=".2e",
            unknown="Not known yet: this table is too wide for the exact optimum to be worked out beforehand. "
            "It is bounded in the full passes at the end." if words == SQUARES
            else "A network has no optimum that could be worked out beforehand." if is_module
            else "Not known: there is no finite optimum, or the penalty was changed on the way.",
        ),
        chart("speed", "Rows a second", [series("rows_per_second", "Rows a second", 3, smooth=True)], ticks=".2s",
              hover=".3s", from_zero=True, hint="all workers together"),
    ]  # fmt: skip


def own(config: Mapping[str, Any]) -> list[Panel]:
    """A chart for each metric of a plug-in."""
    return [
        chart(f"own-{place}", name, [series(field_of(name), name, place % 10)], table="own",
              hint="a plug-in's, on test rows",
              waiting="Shown from the first epoch on, where test rows are at hand; else with the result.")
        for place, name in enumerate(map(str, config.get("metrics") or ()))
    ]  # fmt: skip


def steps(config: Mapping[str, Any]) -> list[Panel]:
    """The charts of what a step is made of, and what travels for it."""
    stale = config.get("mode") in ("ssp", "async")
    return [
        chart("gradient", "Gradient norm", [series("gradient_norm", "Norm", 4, smooth=True)], log=True, hover=".3g",
              hint="of the gradient behind a step"),
        chart("rate", "Learning rate", [series("learning_rate", "Learning rate", 5)], hover=".4g", from_zero=True,
              hint="the length of a step"),
        *([chart("staleness", "Staleness", [series("staleness", "Updates behind", 6, smooth=True)], from_zero=True,
                 hover=".3g", hint="updates that a gradient is behind, on average")] if stale else []),
        chart("throughput", "Rows a second by worker", [], each="Worker", table="rates", ticks=".2s",
              hover=".3s", from_zero=True, waiting="Workers are looked at once a second."),
        chart("bytes", "Sent by workers", [
            series("bytes_sent", "Sent", 0, smooth=True), series("bytes_saved", "Saved by compression", 2, smooth=True),
        ], ticks=".2s", hover=".3s", suffix="B", from_zero=True, hint="from one record of the run to the next"),
        chart("gpu", "Graphics processors", [series("gpu", "In use", 7)], table="rates", unit="percent", range=(0, 1),
              ticks=".0%", hover=".0%", optional=True),
    ]  # fmt: skip


def spread() -> list[Panel]:
    """How the numbers of a part of the model are distributed; not there for a model of few numbers."""
    return [
        {"kind": "spread", "key": f"spread-{which}", "title": title, "of": which, "hint": hint, "height": HEIGHT,
         "axis": axis, "waiting": "Looked at after an epoch."}
        for which, title, axis, hint in (
            ("weights", "Spread of weights", "Weight", "histograms of a part of the model"),
            ("gradient", "Spread of gradients", "Gradient", "of the same part, behind a step"),
        )
    ]  # fmt: skip


def times() -> Panel:
    return chart(
        "time", "Where the time goes",
        [
            series("compute", "Compute", 0, smooth=True, stack="time"),
            series("read", "Read", 4, smooth=True, stack="time"),
            series("apply", "Add up and step", 6, smooth=True, stack="time"),
            series("wait", "Wait", FAINT, smooth=True, stack="time"),
        ],
        hint="of the workers' time", unit="percent", range=(0, 1), ticks=".0%", hover=".0%",
    )  # fmt: skip


def machine() -> list[Panel]:
    waiting = "The machine is looked at once a second."
    return [
        chart("host", "This machine", [series("cpu", "CPU", 0), series("memory", "Memory", 2)], table="hosts",
              hint="share in use, all programs", unit="percent", range=(0, 1), ticks=".0%", hover=".0%",
              waiting=waiting),
        chart("traffic", "Disk and network", [
            series("disk_read", "Disk read", 0), series("disk_write", "Disk write", 1),
            series("net_in", "Network in", 2), series("net_out", "Network out", 3),
        ], table="hosts", unit="rate", ticks=".2s", hover=".2s", suffix="B/s", from_zero=True, waiting=waiting),
    ]  # fmt: skip


def tiles(run: Run, state: str, config: Mapping[str, Any], active: bool) -> None:
    """The numbers on top; these also say when the page has to be drawn again."""
    live_plot(run.id, state, [figures(config)], key=f"tiles:{run.id}", live=active, tells=active)


def panels(run: Run, state: str, config: Mapping[str, Any], active: bool) -> None:
    """Everything else: curves, workers, what happened, the machine, the log."""
    wanted = [
        SWITCH,
        *curves(config),
        *own(config),
        *steps(config),
        *spread(),
        TIMELINE,
        LANES,
        HOLDERS,
        EVENTS,
        times(),
        *machine(),
        LOG,
    ]
    answer = live_plot(run.id, state, wanted, key=f"panels:{run.id}", live=active)
    if active and answer.free is not None:
        send_now(run, f"Free worker {answer.free}", "slow_worker", {"rank": answer.free, "factor": 1})
