"""The commands about saved models, `export` and `serve`; how a model is applied to a file is in `tasks.predict`, how it
is written for other programs in `exports`."""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.cli.flags import Add
from shoal.cli.printing import clear_line, print_json, said_beside, show_notes, table
from shoal.errors import ConfigError
from shoal.exports.names import FORMATS, REPORT, ending
from shoal.utils import Progress
from shoal.words import plural, short

if TYPE_CHECKING:
    from shoal.library.saved_models import Model
    from shoal.results.answers.drift import SeenColumn
    from shoal.settings.config import RunConfig

PREDICTIONS = 5050  # the port of shoal serve
REFUSED = 3  # the exit code of a promotion that the check did not allow


def add_commands(add: Add) -> None:
    models = add(
        "models",
        help="saved models: list them, save the model of a run, compare, promote and name versions",
        usage="shoal models [add RUN [NAME] | alias NAME[:VERSION] WORD | unalias NAME WORD | compare NAME:1 NAME:2 "
        "--data FILE | promote NAME:VERSION --to champion --data FILE | rollback NAME | history NAME | "
        "drift NAME | move] [--json]",
        description="Without words: all saved models. `promote` gives an alias only to a version that does not score "
        "worse on the file than the one that has it; else it says so and ends with code 3. `move` brings the models of "
        "this home into the team's database.",
    )
    models.add_argument("words", metavar="...", nargs="*", help="what to do, and with which model")
    models.add_argument("--data", metavar="FILE", help="compare, promote: the file with the target to score on")
    models.add_argument(
        "--to", metavar="ALIAS", default="champion", help="promote, rollback: the alias (default: champion)"
    )
    models.add_argument(
        "--not-worse-by", type=float, default=0.0, metavar="X",
        help="promote: how much worse the score may be, in its own unit (default: 0)",
    )  # fmt: skip
    models.add_argument("--days", type=int, metavar="N", help="drift: the last N days with predictions (default: 31)")
    models.add_argument("--json", action="store_true", help="print one JSON object")
    models.set_defaults(command=_models)
    _add_serve(add)


def model_path(text: str) -> Path:
    """A file of that name, or else the model file of a saved model."""
    from shoal.library import aliases

    return aliases.model_path(text)


def keep_seen(model: Path, seen: Mapping[str, SeenColumn]) -> str:
    """For `drift`; why that failed, if it did."""
    from shoal.registry.drift import record

    return record(model, seen)


def _models(chosen: argparse.Namespace) -> int:
    from shoal.library.saved_models import list_models
    from shoal.shelf.place import not_moved

    if chosen.words:
        return _change(chosen)
    models = list_models()
    if chosen.json:
        print_json({"models": [_as_json(model) for model in models]})
    elif models:
        head = ("model", "version", "aliases", "kind", "target", "score", "of rows", "saved")
        table(head, [_row(model) for model in models], right={1})
        for damage in filter(None, (model.latest.damage for model in models)):
            print(damage)
    else:
        print("There are no saved models yet. Save the model of a run: shoal models add RUN NAME")
    if not chosen.json and (left := not_moved()):
        show_notes([left])
    return 0


def _move() -> None:
    from shoal.people.deeds import allow
    from shoal.people.rights import SERVICE, Verb
    from shoal.shelf.moving import move_models

    allow(Verb.ADMINISTER, SERVICE, "models moved to the database")
    moved, staying = move_models()
    print(f"{plural(len(moved), 'model')} moved to the team's database" + (f": {', '.join(moved)}" if moved else ""))
    if staying:
        print(
            f"The team has or had models of these names, so they stay in this home: {', '.join(staying)}. To move one, "
            "rename it on the Models page of a dashboard without SHOAL_DATABASE, and move again."
        )


def _change(chosen: argparse.Namespace) -> int:
    """What the words ask for; the exit code."""
    from shoal.library import aliases
    from shoal.library.saved_models import find_model, save_run

    deed, *rest = chosen.words
    if deed == "add" and len(rest) in (1, 2):
        from shoal.cli.runs import found_run

        run = found_run(rest[0])
        version = save_run(run, run.result or {}, rest[1] if len(rest) == 2 else None)
        print(f"the model of run {run.id} is saved as {version.name}, version {version.number}")
    elif deed == "alias" and len(rest) == 2:
        version = aliases.resolve(rest[0])
        aliases.give(version, rest[1])
        print(f"{version.name}@{rest[1]} is version {version.number}")
    elif deed == "unalias" and len(rest) == 2:
        model = find_model(aliases.resolve(rest[0]).name)
        assert model is not None
        aliases.take_away(model, rest[1])
        print(f"{model.name} has no alias '{rest[1]}' any more")
    elif deed == "compare" and len(rest) == 2:
        _compare(chosen, *rest)
    elif deed == "promote" and len(rest) == 1:
        return _promote(chosen, rest[0])
    elif deed == "rollback" and len(rest) == 1:
        version = aliases.roll_back(_named(rest[0]), chosen.to)
        print(f"{version.name}@{chosen.to} is version {version.number} again")
    elif deed == "history" and len(rest) == 1:
        _history(chosen, rest[0])
    elif deed == "drift" and len(rest) == 1:
        _drift(chosen, rest[0])
    elif deed == "move" and not rest:
        _move()
    else:
        raise ConfigError(
            "Expected add, alias, unalias, compare, promote, rollback, history or drift with what they are about, or "
            f"move, got '{' '.join(chosen.words)[:100]}'. See 'shoal models --help'."
        )
    return 0


def _named(text: str) -> Model:
    """The model of that name, or of a beginning of it."""
    from shoal.library import aliases
    from shoal.library.saved_models import find_model

    model = find_model(aliases.resolve(text.partition("@")[0]).name)
    assert model is not None
    return model


def _compare(chosen: argparse.Namespace, first: str, second: str) -> None:
    from shoal.registry.comparing import compare

    found = compare(model_path(first), model_path(second), _scored_on(chosen), labels=(first, second))
    if chosen.json:
        print_json(found.as_dict())
    else:
        print(found.in_words)
        show_notes(found.notes)


def _promote(chosen: argparse.Namespace, named: str) -> int:
    from shoal.library import aliases
    from shoal.registry.promotion import promote

    found = promote(aliases.resolve(named), chosen.to, _scored_on(chosen), chosen.not_worse_by)
    print_json(found.as_dict()) if chosen.json else print(found.why)
    if found.comparison and not chosen.json:
        print(found.comparison.in_words)
        show_notes(found.comparison.notes)
    return REFUSED if found.comparison and not found.promoted else 0  # one that has the alias already is not worse


def _scored_on(chosen: argparse.Namespace) -> RunConfig:
    from shoal.settings.config import RunConfig

    if not chosen.data:
        raise ConfigError(
            "Expected --data with a file that has the target, to score both versions on. Without a check, an alias is "
            "given by: shoal models alias NAME:VERSION WORD."
        )
    return RunConfig(file=chosen.data)


def _history(chosen: argparse.Namespace, named: str) -> None:
    from shoal.library import alias_history
    from shoal.results.plain import plain

    model = _named(named)
    moves = alias_history.moves(model.name)[::-1]
    if chosen.json:
        print_json({"model": model.name, "moves": [plain(move) for move in moves]})
    elif not moves:
        print(f"No alias of {model.name} has been given or taken away yet.")
    else:
        rows = [
            (_moment(one.at), one.alias, str(one.version or "-"), str(one.before or "-"), one.who, one.why or "-")
            for one in moves
        ]
        table(("when", "alias", "version", "before", "who", "why"), rows, right={2, 3})


def _drift(chosen: argparse.Namespace, named: str) -> None:
    from shoal.library import aliases
    from shoal.registry.drift import report

    if chosen.days is not None and chosen.days < 1:
        raise ConfigError(f"Expected a number of days from 1 on, got {chosen.days}.")
    version = aliases.resolve(named) if set(named) & set("@:") else aliases.chosen_version(_named(named))
    found = report(version, chosen.days)
    if chosen.json:
        print_json(found.as_dict())
        return
    if not found.columns:
        print(f"Nothing has been predicted with {found.model} yet, so there is nothing to compare with training.")
        return
    print(f"{found.model}, rows predicted from {found.since} to {found.until}: {found.rows:,}")
    rows = [
        (one.column, one.kind, one.size, _figure(one.psi), _figure(one.shift), _share(one.missing),
         _share(one.missing_before), _share(one.unknown), one.words or "-")
        for one in found.columns
    ]  # fmt: skip
    head = ("column", "kind", "drift", "PSI", "shift", "missing", "in training", "unknown", "why")
    table(head, rows, right={3, 4, 5, 6, 7})
    print(found.in_words + (f" {found.advice}" if found.advice else ""))
    show_notes(found.notes)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _as_json(model: Model) -> dict[str, Any]:
    from shoal.library.aliases import known_aliases

    latest = model.latest
    said = latest.known.as_dict() if latest.known else {"damaged": str(latest.damage)}
    return {
        "name": model.name, "versions": list(model.numbers), "aliases": known_aliases(model),
        "path": str(latest.place), **said,
    }  # fmt: skip


def _row(model: Model) -> tuple[str, ...]:
    from shoal.library.aliases import known_aliases
    from shoal.results.fit import FitScores

    latest, card = model.latest, model.latest.known
    scores, part = card.honest if card else (FitScores(), "-")
    name, score = (card.headline.name, card.headline.honest) if card and card.headline else ("R2", scores.r2)
    return (
        model.name,
        str(latest.number),
        ", ".join(f"{word}:{number}" for word, number in known_aliases(model).items()) or "-",
        card.model if card else "damaged",
        latest.target or "-",
        f"{name} {short(score)}",
        part,
        _moment(latest.created),
    )


# ------------------------------------------------------------------ export


def add_export(add: Add, progress: Callable[[bool], Progress]) -> None:
    export = add("export", help="write a model for another program, verified on 1,000 rows first")
    export.add_argument("model", metavar="MODEL", help="a model file, or a saved model: NAME or NAME:VERSION")
    export.add_argument("--to", required=True, choices=[*FORMATS, REPORT], help="the format; report is for people")
    export.add_argument(
        "--out", metavar="FILE",
        help="the file, - for standard output; if not given: beside a model file; a saved model goes to this folder",
    )  # fmt: skip
    export.add_argument(
        "--table", metavar="NAME", help="sql only: the table; named like the training file, if not given"
    )
    export.add_argument("--json", action="store_true", help="print one JSON object")
    export.set_defaults(command=lambda chosen: _export(chosen, progress(chosen.json)))


def _export(chosen: argparse.Namespace, progress: Progress) -> None:
    model = model_path(chosen.model)
    out = chosen.out or _usual_path(chosen.model, model, chosen.to)
    if chosen.to == REPORT:
        _report(chosen, model, out, progress)
        return
    from shoal.exports import export
    from shoal.exports.proof import use_of

    proof = export(model, chosen.to, out, chosen.table)
    use = use_of(chosen.to, proof)
    with said_beside(out):
        if chosen.json:
            print_json({"format": chosen.to, "out": str(out), "proof": proof.as_dict(), "use": use})
        else:
            print(f"written to {out}\n{proof}\n{use}")


def _report(chosen: argparse.Namespace, model: Path, out: str | Path, progress: Progress) -> None:
    from shoal.exports import report

    if chosen.table is not None:
        raise ConfigError("Expected the name of a table with the format sql only. Leave it out.")
    notes = report(model, out, progress)
    clear_line()
    with said_beside(out):
        if chosen.json:
            print_json({"format": REPORT, "out": str(out), "notes": list(notes)})
            return
        print(f"written to {out}")
        for note in notes:
            print(f"note: {note}")


def _usual_path(named: str, model: Path, to: str) -> Path:
    """Beside a model file; the store of saved models is no place for anything else."""
    if model == Path(named):
        return model.with_name(model.stem + ending(to))
    return Path(f"{model.parent.parent.name}-{model.parent.name}{ending(to)}")


# ------------------------------------------------------------------ one model served


def _add_serve(add: Add) -> None:
    serve = add(
        "serve",
        help="predict with one model over HTTP",
        usage="shoal serve MODEL[@ALIAS] [--host ADDRESS] [--port N] [--token | --no-token]",
        description="Answers POST /predict (rows as JSON or CSV), GET /model, /health and /metrics. When the alias is "
        "given to another version, that one answers within seconds; no request is dropped.",
    )
    serve.add_argument(
        "model", metavar="MODEL", help="a saved model: NAME@ALIAS, NAME:VERSION or NAME for its latest; or a model file"
    )
    serve.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: this machine only)"
    )
    serve.add_argument(
        "--port", type=int, default=PREDICTIONS, metavar="N", help="0 for any that is free (default: %(default)s)"
    )
    token = serve.add_mutually_exclusive_group()
    token.add_argument(
        "--token", action="store_true", help="print a token for this process, though there are some of 'shoal token'"
    )
    token.add_argument("--no-token", action="store_true", help="answer every program of this machine")
    serve.set_defaults(command=_serve)


def _serve(chosen: argparse.Namespace) -> None:
    from shoal.library import tokens
    from shoal.people import accounts
    from shoal.registry.drift import SeenRows
    from shoal.serving.app import PredictionApp, kept_by
    from shoal.serving.door import PredictionDoor
    from shoal.serving.served_model import WatchedModel
    from shoal.serving.server import address_of, ended_by_signals, listening, serve

    door = PredictionDoor(chosen.host, not chosen.no_token)
    door.check()
    people = accounts.by_name()
    good = [token for token in tokens.tokens() if not token.standing(people)]
    if not chosen.no_token and (chosen.token or not good):
        door.own = tokens.PREFIX + secrets.token_urlsafe(32)
    with ended_by_signals():
        model = WatchedModel(chosen.model)
        found = listening(chosen.host, chosen.port)
        print(f"{model.current.label} is served at {address_of(found)}/predict", flush=True)
        if door.own:
            print(f"token of this process: {door.own}", flush=True)
        elif door.needs_token:
            print(f"It asks for one of {plural(len(good), 'token')} of 'shoal token list'.", flush=True)
        seen = SeenRows()
        try:
            serve(PredictionApp(model, door, kept_by(seen)), found)
        finally:
            seen.flush()
    print("The server has ended.")
