"""Saved models of the API: names, versions, aliases, predictions at once or for a table, exports."""

from __future__ import annotations

import atexit
import functools
from dataclasses import replace
from typing import Any

from shoal.dashboard.api.datasets import WAIT, settings_of, table_of
from shoal.dashboard.api.jobs import job_of, waited
from shoal.dashboard.api.operations import ApiRequest, Given, Operation
from shoal.dashboard.api.pages import PAGE, page
from shoal.dashboard.api.problems import missing
from shoal.files.parts import title
from shoal.fitting.model_file import load_model
from shoal.library import alias_history, aliases
from shoal.library.saved_models import Model, Version, find_model, list_models
from shoal.library.tokens import KnownTokens
from shoal.people import acting
from shoal.registry.drift import SeenRows, report
from shoal.results.card import ModelCard
from shoal.results.model import ModelFile
from shoal.results.plain import plain
from shoal.runs.launch import launch_job
from shoal.settings.config import RunConfig
from shoal.settings.values import page_config, set_by_pages
from shoal.tasks.predict_rows import RowPredictor
from shoal.utils import identity_of

LATEST = "latest"
DAYS = {"type": "integer", "minimum": 1, "maximum": 31, "description": "the last days with predictions; else all"}


def operations() -> list[Operation]:
    one = "/models/{model}"
    version = f"{one}/versions/{{version}}"
    alias = f"{one}/aliases/{{alias}}"
    return [
        Operation("GET", "/models", "listModels", "All saved models", listed, {200: "Models"}, query=PAGE,
                  problems=(409,)),
        Operation("GET", one, "getModel", "One name with its versions and aliases", show, {200: "Model"},
                  problems=(404,)),
        Operation("GET", version, "getVersion", "A version: a number, `latest`, or an alias", show_version,
                  {200: "ModelVersion"}, problems=(404, 409)),
        Operation("GET", f"{version}/file", "getModelFile", "The model file", file, {200: "ModelFile"},
                  problems=(404, 409)),
        Operation("PUT", alias, "giveAlias", "Let a word mean a version", give_alias, {200: "Model"}, "write", "Alias",
                  problems=(404, 409, 507)),
        Operation("DELETE", alias, "takeAlias", "Take a word away", take_alias, {200: "Model"}, "write",
                  problems=(404, 409, 507)),
        Operation("POST", f"{alias}/rollback", "rollBack", "Let a word mean what it meant before", roll_back,
                  {200: "Model"}, "write", problems=(404, 409, 507)),
        Operation("GET", f"{one}/history", "getHistory", "Every move of an alias, the newest first", history,
                  {200: "History"}, problems=(404, 409)),
        Operation("POST", f"{version}/comparisons", "compareVersions", "Score against another version, as a job",
                  compare_versions, {200: "Job", 202: "Job"}, "write", "Compare", {"wait": WAIT}, (404, 409, 507)),
        Operation("POST", f"{version}/promotions", "promoteVersion", "Give an alias if a check passes, as a job",
                  promote, {200: "Job", 202: "Job"}, "write", "Promote", {"wait": WAIT}, (404, 409, 507)),
        Operation("GET", f"{version}/drift", "getDrift", "How far predicted rows are from those of training", drift,
                  {200: "Drift"}, query={"days": DAYS}, problems=(404, 409)),
        Operation("POST", f"{version}/predict", "predictRows", "Predict rows at once", predict, {200: "Predictions"},
                  "read", "Rows", problems=(404, 409)),
        Operation("POST", f"{version}/predictions", "predictDataset", "Predict a table, as a job", predict_table,
                  {200: "Job", 202: "Job"}, "write", "PredictFile", {"wait": WAIT}, (404, 409, 507)),
        Operation("POST", f"{version}/exports", "exportVersion", "Make every export, each proven, as a job", export,
                  {200: "Job", 202: "Job"}, "write", query={"wait": WAIT}, problems=(404, 409, 507)),
    ]  # fmt: skip


def model_of(asked: ApiRequest, as_seen: bool = False) -> Model:
    found = find_model(asked.path["model"], as_seen)
    if found is None:
        raise missing("model")
    return found


def version_of(asked: ApiRequest) -> Version:
    """By its number, an alias, or as the latest."""
    model, which = model_of(asked, as_seen=True), asked.path["version"]  # one trip to a team's database
    if which == LATEST:
        return model.latest
    number = which if which.isascii() and which.isdecimal() else aliases.aliases(model).get(which, "")
    found = model.named(str(number))
    if found is None:
        raise missing("version")
    return found


def said(model: Model) -> dict[str, Any]:
    return {"name": model.name, "versions": list(model.numbers), "aliases": aliases.known_aliases(model)}


def described(version: Version) -> dict[str, Any]:
    predictor = predictor_of(version)
    model, card = find_model(version.name), version.known
    return {
        "name": version.name, "version": version.number, "aliases": aliases.words_of(model, version) if model else [],
        "model": predictor.model.report.model, "target": predictor.model.target, "created": version.created,
        "inputs": [{"name": name, "kind": kind} for name, kind in predictor.inputs.items()],
        "card": _card_said(card) if card else None,
    }  # fmt: skip


def listed(asked: ApiRequest) -> Given:
    return page(asked, list_models(), lambda model: model.name, said, "/models")


def show(asked: ApiRequest) -> Given:
    return Given(said(model_of(asked)))


def show_version(asked: ApiRequest) -> Given:
    return Given(described(version_of(asked)))


def file(asked: ApiRequest) -> Given:
    return Given(file_of(version_of(asked).model))


def _card_said(card: ModelCard) -> dict[str, Any]:
    """As `file_of`: names of files, not where they lie on the server."""
    said = card.as_dict()
    config, name = said["config"], title(str(said["config"].get("file") or ""))
    return {**said, "data": {**said["data"], "path": title(said["data"].get("path") or "")},
            "config": {**set_by_pages(config), "file": name}}  # fmt: skip


def file_of(model: ModelFile) -> dict[str, Any]:
    """A model file as a program gets it: names of files, not where they lie on the server."""
    name = title(str(model.config.get("file") or ""))
    return replace(model, config={**set_by_pages(model.config), "file": name}).as_dict()


def give_alias(asked: ApiRequest) -> Given:
    model = model_of(asked)
    version = model.version(asked.body["version"])
    if version is None:
        raise missing("version")
    aliases.give(version, asked.path["alias"], _who(asked))
    return Given(said(model))


def take_alias(asked: ApiRequest) -> Given:
    model = model_of(asked)
    if asked.path["alias"] not in aliases.aliases(model):
        raise missing("alias")
    aliases.take_away(model, asked.path["alias"], _who(asked))
    return Given(said(model))


def roll_back(asked: ApiRequest) -> Given:
    model = model_of(asked)
    aliases.roll_back(model, asked.path["alias"], _who(asked))
    return Given(said(model))


def history(asked: ApiRequest) -> Given:
    moves = alias_history.moves(model_of(asked).name)[::-1]
    return Given({"moves": [plain(move) for move in moves]})


def compare_versions(asked: ApiRequest) -> Given:
    version, body = version_of(asked), asked.body
    other = model_of(asked).version(body["with"])
    if other is None:
        raise missing("version")
    config = page_config(table_of(body["dataset"]).path, settings_of(body))
    seen = [list(identity_of(one.model_path)) for one in (other, version)]
    arguments = {"model": str(version.own_model), "against": str(other.own_model), "seen": seen,
                 "labels": [other.label, version.label]}  # fmt: skip
    run = launch_job("compare", config, arguments)
    return waited(job_of(run, lambda: launch_job("compare", config, arguments, anew=True)), asked)


def promote(asked: ApiRequest) -> Given:
    """Asked again, it is looked at again: what was found then may be otherwise now."""
    version, body = version_of(asked), asked.body
    aliases.check_word(body["alias"])
    config = page_config(table_of(body["dataset"]).path, settings_of(body))
    arguments = {"model": str(version.own_model), "version": version.label, "alias": body["alias"], "who": _who(asked),
                 "not_worse_by": body.get("not_worse_by", 0.0)}  # fmt: skip
    run = launch_job("promote", config, arguments, anew=True)
    return waited(job_of(run, lambda: run), asked)


def drift(asked: ApiRequest) -> Given:
    return Given(report(version_of(asked), asked.query["days"]).as_dict())


def _who(asked: ApiRequest) -> str:
    """Whoever asks; where there are no accounts, the name of the token."""
    kind, _, given = asked.headers.get("authorization", "").partition(" ")
    token = _tokens().admits(given.strip()) if kind.lower() == "bearer" else None
    return acting.said(f"token {token.name}" if token else "dashboard")


@functools.cache
def _seen() -> SeenRows:
    """Rows of this server, which are summed up beside its answers."""
    found = SeenRows()
    atexit.register(found.flush)
    return found


@functools.cache
def _tokens() -> KnownTokens:
    return KnownTokens()


def predictor_of(version: Version) -> RowPredictor:
    return _predictor(version, identity_of(version.model_path))


@functools.lru_cache(maxsize=32)
def _predictor(version: Version, seen: tuple[int, ...]) -> RowPredictor:
    """Read once as long as the file stays what it is."""
    return RowPredictor(load_model(version.own_model))


def predict(asked: ApiRequest) -> Given:
    version = version_of(asked)
    predictor = predictor_of(version)
    found = predictor.predict(asked.body["rows"])
    _seen().add(version, predictor.model.file.design, found.columns)
    outcome = predictor.model.outcome
    return Given({
        "model": version.name, "version": version.number, "target": predictor.model.target,
        "predictions": found.predictions, "probabilities": found.probabilities,
        "probabilities_of": outcome.yes if outcome and outcome.classes and not outcome.several else None,
        "notes": found.notes,
    })  # fmt: skip


def predict_table(asked: ApiRequest) -> Given:
    version, body = version_of(asked), asked.body
    config = page_config(table_of(body["dataset"]).path, settings_of(body))
    arguments = {"model": str(version.own_model), "seen": list(identity_of(version.model_path))}
    arguments |= {name: body[name] for name in ("interval", "keep", "threshold") if name in body}
    run = launch_job("predict", config, arguments)
    return waited(job_of(run, lambda: launch_job("predict", config, arguments, anew=True)), asked)


def export(asked: ApiRequest) -> Given:
    version = version_of(asked)
    arguments = {"model": str(version.own_model), "seen": list(identity_of(version.model_path))}
    run = launch_job("export", RunConfig(), arguments)
    return waited(job_of(run, lambda: launch_job("export", RunConfig(), arguments, anew=True)), asked)
