"""What can be done with Shoal on another machine: `shoal.connect(url, token)`; how requests travel: `transport`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from shoal.client.transport import Transport, path_of
from shoal.errors import ConfigError, DataError, StateError
from shoal.files.table_style import Rewriting, TableStyle
from shoal.lazy.classes import dataclass

if TYPE_CHECKING:
    from shoal.api.fitted_model import FittedModel

WAIT = 20.0  # seconds that one look at a job may wait for its end
ENDED = ("finished", "stopped", "failed", "interrupted")
NAMED = re.compile(r"(?P<name>[^@:]+)(?:[@:](?P<which>.+))?")


@dataclass
class RemoteRun:
    """A run on the server; `found` is what was last seen of it."""

    _transport: Transport = field(repr=False)
    found: dict[str, Any] = field(repr=False)
    id: str = ""

    def __post_init__(self) -> None:
        self.id = self.found["summary"]["id"]

    @property
    def state(self) -> str:
        return str(self.found["summary"]["state"])

    @property
    def cause(self) -> str:
        return str(self.found["summary"]["cause"])

    @property
    def result(self) -> dict[str, Any] | None:
        """What `shoal show --json` has as the result of a run that has one."""
        found: dict[str, Any] | None = self.found["result"]
        return found

    def refresh(self) -> RemoteRun:
        self.found = self._transport.get(path_of("runs", self.id))
        return self

    def follow(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Its events as they happen, until it has ended."""
        for kind, body in self._transport.events(path_of("runs", self.id, "events")):
            if kind == "end":
                break
            yield kind, body
        self.refresh()

    def wait(self, progress: Callable[[str, float], None] | None = None) -> RemoteRun:
        """Until it has ended. A connection that breaks off is made again."""
        while self.refresh().state not in ENDED:
            if progress:
                progress(self.found["stage"], self.found["fraction"])
            time.sleep(0.3)
        return self

    def model(self) -> FittedModel:
        """Its model, here: whatever a model fitted at home can do."""
        return _fitted(self._transport.get(path_of("runs", self.id, "model")))

    def save(self, name: str | None = None) -> str:
        """Keep its model on the server; NAME:VERSION."""
        made = self._transport.post(path_of("runs", self.id, "model"), {} if name is None else {"name": name})
        return f"{made['name']}:{made['version']}"

    def send(self, command: str, **arguments: Any) -> str | None:
        """What became of a command: done, or why not; None if it has not answered yet."""
        body = {"name": command, "arguments": arguments}
        said = self._transport.post(path_of("runs", self.id, "commands"), body)
        outcome: str | None = said["outcome"]
        self.refresh()
        return outcome

    def stop(self) -> str | None:
        return self.send("stop")

    def pause(self) -> str | None:
        return self.send("pause")

    def resume(self) -> str | None:
        return self.send("resume")


class RemoteShoal:
    """Shoal on another machine. Tables are files here, which are sent, or ids of datasets there."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0) -> None:
        self._transport = Transport(url, token or os.environ.get("SHOAL_TOKEN", ""), timeout)

    def __repr__(self) -> str:
        return f"<Shoal at {self._transport.url}>"

    # ---------------------------------------------------------------- tables

    def upload(self, file: str | Path) -> str:
        """Send a file; its id there. One with the same content and name is there once."""
        path = Path(file)
        try:
            with path.open("rb") as data:
                return str(self._transport.send("/datasets", data, path.stat().st_size, name=path.name)["id"])
        except OSError as error:
            raise DataError(f"Expected a file at '{path}', got: {error.strerror}.") from None

    def datasets(self) -> list[dict[str, Any]]:
        return list(self._pages("/datasets"))

    def inspect(self, data: str | Path, **knobs: Any) -> dict[str, Any]:
        """What is in a table, as `shoal.inspect` says it."""
        target = {"target": knobs.pop("target")} if "target" in knobs else {}
        return self._job(path_of("datasets", self._dataset(data), "inspect"), {"settings": knobs, **target})

    # ---------------------------------------------------------------- runs

    def start(self, data: str | Path, target: str, model: str = "linear", *, name: str = "", **knobs: Any) -> RemoteRun:
        """A run, which goes on there whatever becomes of this program."""
        body = {"dataset": self._dataset(data), "target": target, "name": name, "settings": {**knobs, "model": model}}
        return RemoteRun(self._transport, self._transport.post("/runs", body, once=True))

    def fit(
        self, data: str | Path, target: str, model: str = "linear", *,
        progress: Callable[[str, float], None] | None = None, **knobs: Any,
    ) -> FittedModel:  # fmt: skip
        """As `shoal.fit` of a file: the work is done there, and the model comes here."""
        run = self.start(data, target, model, **knobs).wait(progress)
        if run.state != "finished":
            raise StateError(f"The run {run.id} is {run.state}: {run.cause}")
        return run.model()

    def run(self, id: str) -> RemoteRun:
        return RemoteRun(self._transport, self._transport.get(path_of("runs", id)))

    def runs(self, state: str | None = None, words: str | None = None) -> Iterator[dict[str, Any]]:
        """All of them in short, the newest first."""
        return self._pages("/runs", state=state, q=words)

    def queue(self) -> dict[str, Any]:
        return self._transport.get("/queue")

    # ---------------------------------------------------------------- models

    def models(self) -> list[dict[str, Any]]:
        return list(self._pages("/models"))

    def load(self, model: str) -> FittedModel:
        """A saved model, NAME, NAME:3 or NAME@champion, here."""
        return _fitted(self._transport.get(f"{_version(model)}/file"))

    def predict(
        self, model: str, data: Any, *, interval: float | None = None, keep: str | Sequence[str] = (),
        out: str | Path | None = None, threshold: float | None = None, like_file: bool = False,
    ) -> Any:  # fmt: skip
        """Predictions of a saved model there: a list for rows (dictionaries), the path of a CSV file for a table.

        A table is a file here or a dataset there; `out` is where its predictions are written, `like_file` with the
        delimiter, decimal mark and encoding of the table.
        """
        rows = [data] if isinstance(data, Mapping) else data if isinstance(data, (list, tuple)) else None
        if rows is not None:
            return self._transport.post(f"{_version(model)}/predict", {"rows": list(rows)})["predictions"]
        if out is None:
            raise ConfigError("Expected a path for the predictions of a table, got none. Give it as out.")
        body = {
            "dataset": self._dataset(data),
            "keep": [keep] if isinstance(keep, str) else list(keep),
            "interval": interval,
            "threshold": threshold,
        }
        found = self._transport.post(f"{_version(model)}/predictions", {k: v for k, v in body.items() if v is not None},
                                     wait=WAIT)  # fmt: skip
        job = self._ended(found)
        place, said = path_of("jobs", "predict", job["id"], "files", "predictions.csv"), job["result"]
        with Path(out).open("wb") as file:
            if like_file:
                style = TableStyle(**said["table"])
                with NamedTemporaryFile() as usual:
                    self._transport.fetch(place, usual)
                    usual.flush()
                    file.writelines(Rewriting(style, said["made"]).pieces(Path(usual.name)))
            else:
                self._transport.fetch(place, file)
        return {**job["result"], "out": str(out)}

    def give_alias(self, model: str, alias: str, version: int) -> dict[str, int]:
        found: dict[str, int] = self._transport.put(path_of("models", model, "aliases", alias), {"version": version})[
            "aliases"
        ]
        return found

    def compare(self, first: str, second: str, data: str | Path) -> dict[str, Any]:
        """The second of two versions, NAME:3 each, against the first on a table with their target."""
        other = self._transport.get(_version(first))
        if other["name"] != self._transport.get(_version(second))["name"]:
            raise ConfigError(f"Expected two versions of one model, got '{first[:80]}' and '{second[:80]}'.")
        body = {"dataset": self._dataset(data), "with": other["version"]}
        return self._job(f"{_version(second)}/comparisons", body)

    def promote(
        self, version: str, data: str | Path, to: str = "champion", not_worse_by: float = 0.0
    ) -> dict[str, Any]:
        """Give an alias to a version, NAME:3, if its score on a table is not worse than that of the one that has it."""
        body = {"dataset": self._dataset(data), "alias": to, "not_worse_by": not_worse_by}
        return self._job(f"{_version(version)}/promotions", body)

    def rollback(self, model: str, alias: str = "champion") -> dict[str, int]:
        """Let an alias mean again what it meant before; all aliases by then."""
        found: dict[str, int] = self._transport.post(f"{path_of('models', model, 'aliases', alias)}/rollback", {})[
            "aliases"
        ]
        return found

    def drift(self, model: str, days: int | None = None) -> dict[str, Any]:
        """How far the rows that a version, NAME:3, has predicted are from those that it was trained on."""
        return self._transport.get(f"{_version(model)}/drift", **({} if days is None else {"days": days}))

    def tune(
        self, data: str | Path, target: str, *, folds: int = 10, fold_by: str = "", **knobs: Any
    ) -> dict[str, Any]:
        """What `shoal tune --json` prints."""
        body = {"dataset": self._dataset(data), "target": target, "folds": folds, "fold_by": fold_by, "settings": knobs}
        return self._job("/tune", body)

    def version(self) -> dict[str, Any]:
        return self._transport.get("/version")

    # ---------------------------------------------------------------- parts

    def _dataset(self, data: str | Path) -> str:
        """A file that is here is sent; anything else is the id of a table there."""
        return self.upload(data) if isinstance(data, Path) or os.path.exists(data) else data

    def _job(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._ended(self._transport.post(path, body, wait=WAIT))["result"]
        return found

    def _ended(self, job: dict[str, Any]) -> dict[str, Any]:
        while job["state"] not in ENDED:
            job = self._transport.get(path_of("jobs", job["task"], job["id"]), wait=WAIT)
        if job["state"] != "finished":
            raise DataError(job["detail"])
        return job

    def _pages(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        after = None
        while True:
            page = self._transport.get(path, limit=200, after=after, **query)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


def _version(model: str) -> str:
    found = NAMED.fullmatch(model)
    if found is None:
        raise ConfigError(f"Expected the name of a model: NAME, NAME:3 or NAME@champion; got '{model[:80]}'.")
    return path_of("models", found["name"], "versions", found["which"] or "latest")


def _fitted(file: Mapping[str, Any]) -> FittedModel:
    from shoal.api.fitted_model import FittedModel
    from shoal.results.model import ModelFile

    return FittedModel(ModelFile.from_dict(dict(file)))
