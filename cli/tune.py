"""The command `shoal tune`: flags to a request, answers to a table or JSON; how a penalty is chosen is in `whatif`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shoal.cli.flags import OF_OTHERS, Add, add_files, add_knobs, config_of, knobs_of_file
from shoal.cli.printing import clear_line, print_json, said_beside, table
from shoal.errors import ConfigError
from shoal.settings.config import DIALECT, ON_CLUSTER, RunConfig
from shoal.settings.values import config_from
from shoal.settings.when import LOSSES, MODELS
from shoal.words import short, term_shown

if TYPE_CHECKING:
    from shoal.tasks.tune import TuningRequest

KNOBS = {
    "target", "model", "features", "exclude", "categorical", "numeric", "coding", "reference", "max_levels",
    "min_level_rows", "impute", "fill", "indicators", "squares", "interactions", "transform", "test_every",
    "test_fraction", "seed", "intercept", "standardize", "nonnegative", "engine", *ON_CLUSTER, "workers",
    "on_bad_rows", "parts", "confidence", "weights", "weights_are", "huber_epsilon", "quantile", "out",
    *OF_OTHERS, *DIALECT,
}  # fmt: skip
OWN = {"folds", "fold_by", "n_alphas", "alphas", "ratios", "command", "json", "at"}
PLACES = {"best": "best", "1-se": "one_se"}  # what --at takes
LINES = 20  # of the curve in the table
SHOWN = 40  # coefficients in the table

_Shown = Callable[[bool], Any]


def add_command(add: Add, progress: _Shown) -> None:
    parser = add(
        "tune",
        help="choose the penalty of a model by cross-validation",
        usage="shoal tune FILE... --target COLUMN --model lasso [--out MODEL.json] [flags]",
    )
    add_files(parser, needed=False)
    add_knobs(parser, KNOBS, models=(*MODELS, *LOSSES), model="lasso")
    parser.add_argument(
        "--at", choices=list(PLACES),
        help="which model --out writes: the best, or the strongest penalty within one standard error of it "
        "(default: best)",
    )  # fmt: skip
    parser.add_argument("--config", metavar="run.yaml", help="a YAML file with the knobs of train; flags win over it")
    parser.add_argument("--folds", default="10", metavar="K", help="how many folds (default: %(default)s)")
    parser.add_argument(
        "--fold-by", default="", metavar="WAY",
        help="row: the row's index modulo K; hash: of the index; class: every K-th row of each of a target's "
        "classes; group:COLUMN: no group is split; time:COLUMN: each fold is tested on rows that come after those it "
        "is trained on (default: row; hash beside --test-every; class for logistic and multinomial)",
    )  # fmt: skip
    parser.add_argument("--n-alphas", metavar="N", help="how many alphas, from the data (default: 100)")
    parser.add_argument("--alphas", metavar="a,b", help="the alphas to try, instead")
    parser.add_argument(
        "--l1-ratio", dest="ratios", metavar="r,s", help="elastic net: mixing ratios to try (default: 0.5)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=lambda chosen: _tune(chosen, progress))


def _tune(chosen: argparse.Namespace, progress: _Shown) -> None:
    from shoal.fitting.model_file import model_output
    from shoal.fitting.reports import finite
    from shoal.metrics import Timings
    from shoal.tasks.train import coordinated, suited_to_rows
    from shoal.tasks.tune import train_tuned, tune_with

    started, timings = time.perf_counter(), Timings()
    config, ratio = _config(chosen)
    if chosen.at and not config.out:
        raise ConfigError("--at says which model --out writes, and there is no --out. Add it, or leave --at out.")
    at = PLACES[chosen.at or "best"]
    request, config = _request(chosen, ratio), suited_to_rows(config)
    request.check(config)
    model_output(config)  # what cannot be written is told before anything is read
    with coordinated(config, progress(chosen.json)) as coordinator:
        tuned = tune_with(coordinator, config, request, timings)
        model = train_tuned(coordinator, config, tuned, at, timings) if config.out else None
    clear_line()
    timings.seconds["total"] = time.perf_counter() - started
    found: dict[str, Any] = finite({"target": config.target, **tuned.as_dict(), "timings": timings.seconds})
    if model:
        found |= {"out": str(config.out), "model_at": at}
    with said_beside(config.out):
        if chosen.json:
            print_json(found)
        else:
            _show(found)


def _config(chosen: argparse.Namespace) -> tuple[RunConfig, float | None]:
    """Flags over the YAML file, and the mixing ratio of the file; what a file for `train` says in vain is told."""
    values = knobs_of_file(chosen)
    config_from(values)  # wrong ones are told all the same
    idle = [name for name in values if name not in (*KNOBS, "file", "l1_ratio")]
    if idle:
        print(f"note: alpha is what tune chooses, by exact fits; of '{chosen.config}' it leaves out: "
              f"{', '.join(idle)}.", file=sys.stderr)  # fmt: skip
    same = getattr(chosen, "model", None) in (None, values.get("model"))  # the file's ratio is of the file's model
    ratio = values.get("l1_ratio") if same else None
    kept = {"model": "lasso", **{name: value for name, value in values.items() if name in (*KNOBS, "file")}}
    if getattr(chosen, "model", kept["model"]) in LOSSES:
        kept.setdefault("shrink", "lasso")  # the penalty to choose, where none is named: as for linear models
    flags = argparse.Namespace(**{k: v for k, v in vars(chosen).items() if k not in OWN})
    return config_of(flags, kept), None if ratio is None else float(ratio)


def _request(chosen: argparse.Namespace, ratio: float | None) -> TuningRequest:
    from shoal.tasks.tune import TuningRequest

    alphas = None if chosen.alphas is None else _numbers("--alphas", chosen.alphas)
    count = None if chosen.n_alphas is None else _whole("--n-alphas", chosen.n_alphas)
    ratios = ratio if chosen.ratios is None else _numbers("--l1-ratio", chosen.ratios)
    return TuningRequest(_whole("--folds", chosen.folds), chosen.fold_by, ratios, alphas, count)


def _numbers(flag: str, text: str) -> list[float]:
    """From `0.1,0.2`."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ConfigError(f"Expected numbers with commas between them after {flag}, got '{text}'.") from None


def _whole(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"Expected a whole number after {flag}, got '{text}'.") from None


# ------------------------------------------------------------------ for the eye


def _show(found: dict[str, Any]) -> None:
    ratio = "" if found["l1_ratio"] is None else f", l1_ratio = {found['l1_ratio']:g}"
    shrunk = f", {found['shrink']} penalty" if found.get("shrink", "none") != "none" else ""
    print(
        f"{found['model']} model of {found['target']}{shrunk}{ratio}: {_folds(found)} by {found['fold_by']}, "
        f"{found['rows']:,} training rows"
    )
    if len(found["l1_ratios"]) > 1:
        _show_ratios(found)
    _show_curve(found)
    _show_coefficients(found)
    _show_scores(found)
    certificate, timings = found["certificate"], found["timings"]
    took = (
        f"tuned in {timings['tune']:.2f} s by {found['sweeps']} sweeps over the rows"
        if "sweeps" in found
        else f"folds summed in {timings['sums']:.2f} s, tuned in {timings['tune']:.3f} s"
    )
    print(
        f"\nworst {certificate['kind'].replace('_', ' ')} of all points and folds {certificate['relative']:.1e} "
        f"(relative), from the {certificate['rests_on']}; read in {timings['ingest']:.2f} s, {took}"
    )
    for warning in found["warnings"]:
        print(f"note: {warning}")
    if "out" in found:
        place = {"best": "best", "one_se": "1-SE"}[found["model_at"]]
        print(f"the model at {place} (alpha {short(found[found['model_at']])}) is in {found['out']}, with its error")


def _folds(found: dict[str, Any]) -> str:
    """How many; folds of which all rows are kept for testing say nothing."""
    tested, count = found["folds_tested"], found["folds"]
    return f"{count} folds" if tested == count else f"{tested} of {count} folds (the others are kept for testing)"


def _show_ratios(found: dict[str, Any]) -> None:
    print()
    rows = []
    for one in found["l1_ratios"]:
        mark = "<- chosen" if one["l1_ratio"] == found["l1_ratio"] else ""
        rows.append((short(one["l1_ratio"]), short(one["best"]), short(min(one["cv_mean"])), mark))
    table(("l1_ratio", "best alpha", _measure(found), ""), rows, right={0, 1, 2})


def _measure(found: dict[str, Any]) -> str:
    return str(found.get("measure", "mean squared error"))


def _show_curve(found: dict[str, Any]) -> None:
    """At most LINES points, the two that were chosen among them."""
    print()
    count = len(found["alphas"])
    chosen = {which: found["alphas"].index(found[which]) for which in ("best", "one_se")}
    spread = {round(i * (count - 1) / max(LINES - 3, 1)) for i in range(LINES - 2)} if count > LINES else range(count)
    rows = []
    for i in sorted({*spread, *chosen.values()}):
        marks = [name for name, place in (("best", chosen["best"]), ("1-SE", chosen["one_se"])) if place == i]
        numbers = (short(found[key][i]) for key in ("alphas", "cv_mean", "cv_se", "n_features_kept"))
        rows.append((*numbers, f"<- {', '.join(marks)}" if marks else ""))
    table(("alpha", _measure(found), "std. error", "columns", ""), rows, right={0, 1, 2, 3})
    if len(rows) < count:
        print(f"({len(rows)} of {count} alphas; --json gives all)")


def _show_coefficients(found: dict[str, Any]) -> None:
    print()
    best, one_se = (found["coefficients"][which] for which in ("best", "one_se"))
    size = found["coefficients_standardized"]["best"]
    used = [name for name in best if best[name] or one_se[name]]
    shown = set(sorted(used, key=lambda name: -abs(size[name]))[:SHOWN])
    rows = [("(intercept)", *(short(found["intercepts"][which]) for which in ("best", "one_se")))]
    rows += [(term_shown(name), short(best[name]), short(one_se[name])) for name in best if name in shown]
    table(("column", "at best", "at 1-SE"), rows, right={1, 2})
    left_out = len(best) - len(used)
    if left_out:
        print(
            f"({left_out} other columns have weight 0 at both)" if left_out > 1 else "(one more has weight 0 at both)"
        )
    if len(shown) < len(used):
        print(f"(the {SHOWN} largest of {len(used)}, standardized; --json gives all)")


def _show_scores(found: dict[str, Any]) -> None:
    print()
    rows = []
    heads = {"r2": "R2", "rmse": "RMSE"} if "measure" not in found else {
        "explained": "explained", _measure(found).replace(" ", "_"): _measure(found),
    }  # fmt: skip
    for which, name in (("best", "best"), ("one_se", "1-SE")):
        for part, scores in found["scores"][which].items():
            if scores["rows"]:
                rows.append((name, part, f"{scores['rows']:,}", *(short(scores[key]) for key in heads)))
    table(("", "", "rows", *heads.values()), rows, right={2, 3, 4})
