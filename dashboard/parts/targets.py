"""Which columns of a table can be chosen to be predicted, and what can be done about those that cannot be yet."""

from __future__ import annotations

from shoal.data.notation.yes_words import value_name, yes_among
from shoal.results.answers.table import ColumnLook, TableLook
from shoal.results.findings import TEXT_ADVICE
from shoal.settings.limits import MOST_CLASSES
from shoal.settings.when import CLASSES, MODELS, NETWORK
from shoal.words import listed

PLACEHOLDER = "Choose a column"
HELP = (
    "Numbers can be predicted; two texts, such as yes and no, by a logistic model, and up to 50 by a multinomial one."
)
SUITED = "suits"  # the part of an address of the Train page that names the model a person took on the Data page
SHOWN = 3  # texts of a column that are named


def predictable(found: TableLook) -> list[str]:
    """Columns of numbers with a value in any row."""
    return [column.name for column in found.columns if column.type == "numeric" and not found.is_empty(column)]


def offered_targets(found: TableLook) -> list[str]:
    """These, then columns of few texts, such as yes and no; nothing else can be predicted."""
    return [*predictable(found), *(column.name for column in found.columns if _of_texts(found, column))]


def suited_model(found: TableLook, target: str | None) -> str:
    """The only model that can predict such a column; empty where a person has the choice, or there is none."""
    return next((_of_texts(found, column) for column in found.columns if column.name == target), "")


def why_not_tuned(found: TableLook, target: str) -> str:
    """Why no penalty can be tuned for a model of a column; empty where it can."""
    return why_not(found, target, suited_model(found, target) or MODELS[0])


def tunable(found: TableLook) -> list[str]:
    """Columns of numbers, then those of few texts."""
    return [name for name in offered_targets(found) if not why_not_tuned(found, name)]


def why_not(found: TableLook, target: str, model: str = MODELS[0]) -> str:
    """Why a column cannot be predicted as it is by such a model, and what can be done; empty where it can."""
    column = found.named.get(target)
    if column is None:
        return f"There is no column '{target}' in this table. Choose another one."
    if found.is_empty(column):
        return f"'{target}' has no value in any row. Choose another column."
    if column.is_measured:
        return ""
    shown = listed([f"'{level}'" for level, _ in column.frequent or ()], SHOWN)
    if suited := _of_texts(found, column):
        only = f"only a {suited} model predicts them. Choose the model {suited.capitalize()} on the Train page"
        count = "two" if column.distinct == 2 else str(column.distinct)
        fits = model == suited or (model == NETWORK and column.distinct == 2)
        return "" if fits else f"'{target}' holds {count} texts, {shown}: {only}."
    such = f", such as {shown}" if shown else ""
    return (
        f"'{target}' holds texts{such}: only numbers, or up to {MOST_CLASSES} texts, can be predicted. {TEXT_ADVICE}."
    )


def likely_yes(column: ColumnLook) -> tuple[list[str], str] | None:
    """The two values of a column in their order, as a model names them, and the one that is the yes unless somebody
    says otherwise; None where it has others, or they are not known."""
    names = _two_values(column)
    return (names, names[yes_among(names, column.is_measured)]) if names else None


def _two_values(column: ColumnLook) -> list[str]:
    if column.distinct != 2 or not column.distinct_exact:
        return []
    if column.type == "numeric" and isinstance(column.min, float) and isinstance(column.max, float):
        return [value_name(value) for value in (column.min, column.max)]
    return list(column.levels or ())


def _of_texts(found: TableLook, column: ColumnLook) -> str:
    """The model that predicts the texts of a column; empty where none does."""
    count = column.distinct if column.type == "categorical" and not found.is_empty(column) else None
    if not count or not 2 <= count <= MOST_CLASSES:
        return ""
    return "logistic" if count == 2 else CLASSES
