"""What goes in and out of the API, as JSON Schema (2020-12): checked on the way in, shown in the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shoal.library.notes import LONGEST_NAME
from shoal.runs.folder import ACTIVE, ENDED

Schema = Mapping[str, Any]
MOST_ROWS = 10_000  # of one request for predictions

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": ["number", "null"]}
TIME: Schema = {"type": ["number", "null"], "description": "seconds since 1970"}
COUNT: Schema = {"type": "integer", "minimum": 0}
DATASET_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 300, "description": "the id of a dataset"}
COLUMN: Schema = {"type": "string", "minLength": 1, "maxLength": 1000}
SETTINGS: Schema = {
    "type": "object", "maxProperties": 200,
    "description": "knobs by their names, as in a YAML file for `shoal train`; no paths: file, out and cluster are not "
    "among them",
}  # fmt: skip
STATE: Schema = {"type": "string", "enum": [*ACTIVE, *ENDED]}


def made(properties: Schema, required: tuple[str, ...] | None = None, more: bool = False) -> Schema:
    """An object with these properties, all of them required unless said otherwise."""
    return {
        "type": "object", "properties": dict(properties), "additionalProperties": more,
        "required": list(properties if required is None else required),
    }  # fmt: skip


def page_of(name: str) -> Schema:
    cursor = {"type": ["string", "null"], "description": "what to give as `after` for the next page; null at the end"}
    return made({"items": {"type": "array", "items": ref(name)}, "next": cursor})


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


VALUE: Schema = {"type": ["number", "string", "boolean", "null"]}

SCHEMAS: dict[str, Schema] = {
    "Problem": made(
        {"type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT, "reason": TEXT,
         "remedies": {"type": "array", "items": TEXT}},
        ("type", "title", "status", "detail"), more=True,
    ),
    "Health": made(
        {"status": {"type": "string", "enum": ["ok", "degraded"]},
         "parts": {"type": "object", "additionalProperties": TEXT,
                   "description": "home, accounts and, for a team, database: `ok`, or what is the matter"},
         "runs_active": COUNT, "queue": COUNT}
    ),
    "Version": made({"version": TEXT, "api": TEXT, "python": TEXT}),
    "Dataset": made({"id": DATASET_ID, "name": TEXT, "bytes": COUNT, "added": TIME, "kind": TEXT}),
    "Datasets": page_of("Dataset"),
    "Job": made(
        {"id": TEXT, "task": TEXT, "state": STATE, "stage": TEXT, "fraction": {"type": "number"},
         "detail": {"type": "string", "description": "why it failed, where it did"},
         "result": {"type": ["object", "null"]},
         "files": {"type": "array", "items": TEXT, "description": "names of files that can be fetched"}},
    ),
    "Inspection": made({"settings": SETTINGS, "target": COLUMN}, ()),
    "NewRun": made(
        {"dataset": DATASET_ID, "target": COLUMN, "settings": SETTINGS,
         "name": {"type": "string", "maxLength": LONGEST_NAME}},
        ("dataset", "target"),
    ),
    "RunSummary": made(
        {"id": TEXT, "name": TEXT, "state": STATE, "cause": TEXT, "reason": TEXT,
         "solver": {"type": ["string", "null"]},
         "model": {"type": ["string", "null"]}, "target": {"type": ["string", "null"]}, "file": TEXT,
         "epochs": NUMBER, "epochs_wanted": NUMBER, "distance": NUMBER, "started": TIME, "duration": NUMBER,
         "train_r2": NUMBER, "test_r2": NUMBER, "tags": {"type": "array", "items": TEXT}},
    ),
    "Runs": page_of("RunSummary"),
    "Run": made(
        {"summary": {"$ref": "#/components/schemas/RunSummary"}, "settings": {"type": "object"},
         "stage": TEXT, "fraction": {"type": "number"}, "last_round": {"type": ["object", "null"]},
         "workers": {"type": "array", "items": {"type": "object"}},
         "events": {"type": "array", "items": {"type": "object"}}, "result": {"type": ["object", "null"]},
         "problem": {"type": "string", "description": "of its records, where they cannot be read"}},
    ),
    "Rounds": made({"rounds": {"type": "array", "items": {"type": "object"}}}),
    "Command": made(
        {"name": {"type": "string", "enum": ["pause", "resume", "stop", "checkpoint", "set", "add_worker",
                                             "remove_worker", "kill_worker", "shards"]},
         "arguments": {"type": "object", "maxProperties": 10, "additionalProperties": VALUE}},
        ("name",),
    ),
    "Outcome": made(
        {"name": TEXT, "round": {"type": ["integer", "null"]}, "state": STATE,
         "outcome": {"type": ["string", "null"], "description": "done, or why not; null: not answered yet"}},
    ),
    "SaveModel": made({"name": {"type": "string", "minLength": 1, "maxLength": 200}}, ()),
    "Model": made({"name": TEXT, "versions": {"type": "array", "items": {"type": "integer"}},
                   "aliases": {"type": "object", "additionalProperties": {"type": "integer"}}}),
    "Models": page_of("Model"),
    "ModelFile": {"type": "object", "description": "as `shoal train --out` writes it; enough to predict with"},
    "ModelVersion": made(
        {"name": TEXT, "version": {"type": "integer"}, "aliases": {"type": "array", "items": TEXT}, "model": TEXT,
         "target": TEXT, "created": TIME, "inputs": {"type": "array", "items": ref("Input")},
         "card": {"type": ["object", "null"]}},
    ),
    "Input": made({"name": TEXT, "kind": {"type": "string", "enum": ["number", "text", "date"]}}),
    "Alias": made({"version": {"type": "integer", "minimum": 1, "maximum": 999_999_999}}),
    "History": made({"moves": {"type": "array", "items": made(
        {"alias": TEXT, "version": {"type": ["integer", "null"]}, "before": {"type": ["integer", "null"]}, "at": TIME,
         "who": TEXT, "why": TEXT, "back": {"type": "boolean"}, "mark": TEXT})}}),
    "Drift": made(
        {"model": TEXT, "rows": COUNT, "since": TEXT, "until": TEXT, "size": TEXT, "in_words": TEXT, "advice": TEXT,
         "columns": {"type": "array", "items": made(
             {"column": TEXT, "kind": TEXT, "size": TEXT, "rows": COUNT, "psi": NUMBER, "shift": NUMBER,
              "missing": NUMBER, "missing_before": NUMBER, "unknown": NUMBER, "words": TEXT})},
         "notes": {"type": "array", "items": TEXT}},
    ),
    "Compare": made(
        {"dataset": DATASET_ID, "with": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
         "settings": SETTINGS},
        ("dataset", "with"),
    ),
    "Promote": made(
        {"dataset": DATASET_ID, "alias": {"type": "string", "minLength": 1, "maxLength": 40}, "settings": SETTINGS,
         "not_worse_by": {"type": "number", "minimum": 0, "maximum": 1e300}},
        ("dataset", "alias"),
    ),
    "Rows": made(
        {"rows": {"type": "array", "minItems": 1, "maxItems": MOST_ROWS,
                  "items": {"type": "object", "additionalProperties": VALUE}}},
    ),
    "Predictions": made(
        {"model": TEXT, "version": {"type": "integer"}, "target": TEXT,
         "predictions": {"type": "array", "items": VALUE},
         "probabilities": {"type": ["array", "null"], "items": {"type": ["number", "object", "null"]},
                           "description": "of the yes, of a yes/no model; of several classes of each, by its name"},
         "probabilities_of": {"type": ["string", "null"]}, "notes": {"type": "array", "items": TEXT}},
    ),
    "PredictFile": made(
        {"dataset": DATASET_ID, "interval": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
         "keep": {"type": "array", "items": COLUMN, "maxItems": 10_000},
         "threshold": {"type": "number", "minimum": 0, "maximum": 1}, "settings": SETTINGS},
        ("dataset",),
    ),
    "Tune": made(
        {"dataset": DATASET_ID, "target": COLUMN, "settings": SETTINGS,
         "folds": {"type": "integer", "minimum": 2, "maximum": 1000}, "fold_by": {"type": "string", "maxLength": 1000}},
        ("dataset", "target"),
    ),
    "Sharing": made({"owners": {"type": "array", "items": TEXT, "description": "none: it is everybody's"},
                     "private": {"type": "boolean"}}),
    "Share": made({"private": {"type": "boolean"}}),
    "Queue": made(
        {"slots": COUNT, "free": COUNT,
         "waiting": {"type": "array", "items": made({"run": TEXT, "place": COUNT, "cause": TEXT, "slots": COUNT,
                                                     "seconds": {"type": "number"}})}},
    ),
}  # fmt: skip


def are_rows(values: Any) -> bool:
    """Whether a body fits `Rows`, at once: its description, value by value, takes a hundred times as long."""
    rows = values.get("rows") if isinstance(values, dict) and len(values) == 1 else None
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_ROWS or set(map(type, rows)) != {dict}:
        return False
    return {kind for row in rows for kind in map(type, row.values())} <= _SCALARS


_SCALARS = {int, float, str, bool, type(None)}
QUICKLY: dict[str, Callable[[Any], bool]] = {"Rows": are_rows}  # what fits by these needs no other look
