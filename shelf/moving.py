"""Models of a home's own files into the team's database, with all their versions; once, and by a person's command.

A model is moved with the numbers, aliases, history, sums and owners that it has, all of it or nothing; its folder is
kept under another name then. One whose name is or was a model's of the team stays where it is, and is told.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from shoal.database.connections import Database, database
from shoal.errors import StateError
from shoal.files.model_names import is_name
from shoal.home import make_folder, models_directory, moved_models_directory, names_in
from shoal.results.model import checksum_at_end
from shoal.shelf.file_shelf import MODEL, OWNER, FileShelf, ModelFolder, highest_in
from shoal.shelf.postgres_shelf import send_pieces
from shoal.utils import disk_errors

BESIDE = {"last", "lock", OWNER, MODEL}  # files of a folder that are no documents of it


def move_models() -> tuple[list[str], list[str]]:
    """The names that were moved, and those that stay because the team has them."""
    moved: list[str] = []
    staying: list[str] = []
    team = database()
    for name in sorted(filter(is_name, names_in(models_directory()))):
        folder = ModelFolder(models_directory() / name)
        if folder.numbers:
            (moved if _move(team, name) else staying).append(name)
        elif last := highest_in(folder.folder):
            _keep_numbers(team, name, last)
    return moved, staying


def _keep_numbers(team: Database, name: str, last: int) -> None:
    """Of a model whose versions were deleted, or that has another name now: they are not given again there either."""
    with team.single() as connection:
        connection.execute(
            "INSERT INTO models (name, last) VALUES (%s, %s) "
            "ON CONFLICT (name) DO UPDATE SET last = greatest(models.last, excluded.last)",
            (name, last),
        )


def _move(team: Database, name: str) -> bool:
    files = FileShelf()
    with files.changing(name):
        folder = ModelFolder(models_directory() / name)
        owner = files.owner(name)
        with team.transaction() as connection:
            made = connection.execute(
                "INSERT INTO models VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (name, highest_in(folder.folder), _text(owner) if owner else None),
            )
            if not made.rowcount:
                return False
            for number in folder.numbers:
                _copy_version(connection, folder, number)
            _copy_documents(connection, folder, folder.folder, 0)
        with disk_errors("the folder of moved models"):
            make_folder(moved_models_directory())
            folder.folder.rename(_free(moved_models_directory() / name))
    return True


def _copy_version(connection: Any, folder: ModelFolder, number: int) -> None:
    try:
        model = (folder.folder / f"v{number}" / MODEL).read_bytes()
    except OSError as error:
        raise StateError(
            f"Expected the model file of {folder.name}:{number} to move, got: {error.strerror}. Delete that version, "
            "or mend it, and try again."
        ) from None
    contents = send_pieces(connection, model)
    digest = hashlib.sha256(model).hexdigest()
    connection.execute(
        "INSERT INTO model_versions VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (folder.name, number, folder.saved(number), checksum_at_end(model) or "", len(model), digest, contents),
    )
    _copy_documents(connection, folder, folder.folder / f"v{number}", number)


def _copy_documents(connection: Any, folder: ModelFolder, place: Path, number: int) -> None:
    for path in sorted(place.iterdir()):
        if path.is_file() and path.name not in BESIDE and path.suffix != ".lock" and not path.name.startswith("."):
            row = (folder.name, number, path.name, _text(path.read_bytes()))
            connection.execute("INSERT INTO model_documents VALUES (%s, %s, %s, %s)", row)


def _text(document: bytes) -> str:
    """As it is; of one that is damaged beyond reading something that will not be believed either."""
    return document.decode("utf-8", "replace").replace("\0", " ")


def _free(path: Path) -> Path:
    """A name that nothing has yet: of a model that was moved, deleted there and made anew here."""
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{path.name.partition('~')[0]}~{number}")
    return path
