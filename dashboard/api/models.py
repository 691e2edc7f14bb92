"""Saved models of the API: names, versions, aliases, predictions at once or for a table, exports."""

from __future__ import annotations

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
from shoal.library import aliases
from shoal.library.saved_models import Model, Version, find_model, list_models
from shoal.results.model import ModelFile
from shoal.runs.launch import launch_job
from shoal.settings.config import RunConfig
from shoal.settings.values import page_config, set_by_pages
from shoal.tasks.predict_rows import RowPredictor
from shoal.utils import identity_of

LATEST = "latest"


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
        Operation("POST", f"{version}/predict", "predictRows", "Predict rows at once", predict, {200: "Predictions"},
                  "read", "Rows", problems=(404, 409)),
        Operation("POST", f"{version}/predictions", "predictDataset", "Predict a table, as a job", predict_table,
                  {200: "Job", 202: "Job"}, "write", "PredictFile", {"wait": WAIT}, (404, 409, 507)),
        Operation("POST", f"{version}/exports", "exportVersion", "Make every export, each proven, as a job", export,
                  {200: "Job", 202: "Job"}, "write", query={"wait": WAIT}, problems=(404, 409, 507)),
    ]  # fmt: skip


def _model(asked: ApiRequest) -> Model:
    found = find_model(asked.path["model"])
    if found is None:
        raise missing("model")
    return found


def version_of(asked: ApiRequest) -> Version:
    """By its number, an alias, or as the latest."""
    model, which = _model(asked), asked.path["version"]
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
        "card": card.as_dict() if card else None,
    }  # fmt: skip


def listed(asked: ApiRequest) -> Given:
    return page(asked, list_models(), lambda model: model.name, said, "/models")


def show(asked: ApiRequest) -> Given:
    return Given(said(_model(asked)))


def show_version(asked: ApiRequest) -> Given:
    return Given(described(version_of(asked)))


def file(asked: ApiRequest) -> Given:
    return Given(file_of(version_of(asked).model))


def file_of(model: ModelFile) -> dict[str, Any]:
    """A model file as a program gets it: names of files, not where they lie on the server."""
    name = title(str(model.config.get("file") or ""))
    return replace(model, config={**set_by_pages(model.config), "file": name}).as_dict()


def give_alias(asked: ApiRequest) -> Given:
    model = _model(asked)
    version = model.version(asked.body["version"])
    if version is None:
        raise missing("version")
    aliases.give(version, asked.path["alias"])
    return Given(said(model))


def take_alias(asked: ApiRequest) -> Given:
    model = _model(asked)
    if asked.path["alias"] not in aliases.aliases(model):
        raise missing("alias")
    aliases.take_away(model, asked.path["alias"])
    return Given(said(model))


def predictor_of(version: Version) -> RowPredictor:
    return _predictor(version, identity_of(version.model_path))


@functools.lru_cache(maxsize=32)
def _predictor(version: Version, seen: tuple[int, ...]) -> RowPredictor:
    """Read once as long as the file stays what it is."""
    return RowPredictor(load_model(version.model_path))


def predict(asked: ApiRequest) -> Given:
    version = version_of(asked)
    predictor = predictor_of(version)
    found = predictor.predict(asked.body["rows"])
    return Given({
        "model": version.name, "version": version.number, "target": predictor.model.target,
        "predictions": found.predictions, "probabilities": found.probabilities, "notes": found.notes,
    })  # fmt: skip


def predict_table(asked: ApiRequest) -> Given:
    version, body = version_of(asked), asked.body
    config = page_config(table_of(body["dataset"]).path, settings_of(body))
    arguments = {"model": str(version.model_path), "seen": list(identity_of(version.model_path))}
    arguments |= {name: body[name] for name in ("interval", "keep", "threshold") if name in body}
    run = launch_job("predict", config, arguments)
    return waited(job_of(run, lambda: launch_job("predict", config, arguments, anew=True)), asked)


def export(asked: ApiRequest) -> Given:
    version = version_of(asked)
    arguments = {"model": str(version.model_path), "seen": list(identity_of(version.model_path))}
    run = launch_job("export", RunConfig(), arguments)
    return waited(job_of(run, lambda: launch_job("export", RunConfig(), arguments, anew=True)), asked)
