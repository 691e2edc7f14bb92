"""YAML that a person wrote, read within bounds: few characters can stand for gigabytes. Knobs are in `values`."""

from __future__ import annotations

from typing import Any

from shoal.errors import ConfigError

LONGEST = 100_000  # characters of a text that a person may have written
DEEPEST = 10  # lists and groups within each other; settings need four


def load(text: str, longest: int = LONGEST) -> Any:
    """What a text says, as plain values; ConfigError for what is too much or no YAML, with its line."""
    import yaml

    if len(text) > longest:
        raise ConfigError(f"Expected at most {longest:,} characters of settings, got {len(text):,}. Leave some out.")
    try:
        _check(text)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(_syntax(error)) from None
    except (ValueError, RecursionError) as error:  # a date or number that there is not
        said = str(error).splitlines()[0]
        raise ConfigError(f"Expected plain values, got one that cannot be read ({said}). Write it in quotes.") from None


def _check(text: str) -> None:
    """Go over the text once without making anything of it: references and depth are what makes much of little."""
    import yaml

    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        where = f"Line {event.start_mark.line + 1}: "
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(
                f"{where}Expected plain values, got a reference (*name) to another place. Write the value itself."
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise ConfigError(f"{where}Expected at most {DEEPEST} lists or groups within each other. Write it plainly.")


def _syntax(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"Line {mark.line + 1}: " if mark else ""
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{where}Expected YAML such as 'target: price', but {what}. Correct it."
