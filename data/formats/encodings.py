"""Which encoding a text is in that is not UTF-8, guessed from its bytes; every guess is to be said."""

from __future__ import annotations

import codecs
import itertools
import re

# In the order of preference where bytes speak for several; of ISO 8859 mostly the relatives that Windows has.
CANDIDATES = (
    "cp1252", "cp932", "gb18030", "cp949", "big5", "euc_jp", "cp1251", "koi8_r", "cp1253", "cp1250", "iso8859_2",
    "cp1254", "cp1255", "cp1256", "cp874", "cp1257", "cp866",
)  # fmt: skip
NAMES = {
    "cp932": "Shift-JIS", "cp1251": "Cyrillic", "koi8-r": "Cyrillic", "cp866": "Cyrillic", "cp1253": "Greek",
    "cp1250": "Central European", "iso8859-2": "Central European", "cp1252": "Western European",
    "latin-1": "Western European", "cp1254": "Turkish", "cp1255": "Hebrew", "cp1256": "Arabic", "cp874": "Thai",
    "cp1257": "Baltic", "gb18030": "simplified Chinese", "big5": "traditional Chinese", "cp949": "Korean",
    "euc_jp": "Japanese",
}  # fmt: skip
LATIN = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257")
ENOUGH = 1 << 14  # bytes of lines with other letters than ASCII has: more tell nothing new
FEWEST = 6  # such bytes, or anything could be read from them
RUNS = re.compile(rb"[\x80-\xff]+")
SELDOM_LATIN = re.compile(rb"[\x81-\x84\x86-\x89\x8b\x8d\x8f\x90\x98\x9b\x9d]")
ALONE = 0.8  # the share of bytes beyond ASCII that have none beside them, from which on they are accents and signs
NEAR = 0.02  # how much less tidy than the best guess another may be and still count as equal


def guess_encoding(sample: bytes) -> str:
    """The encoding of bytes that are not UTF-8, by its name in Python; Western European where little can be told."""
    strange = _strange_lines(sample)
    if sum(byte >= 0x80 for byte in strange) < FEWEST:
        return _western(sample)
    from charset_normalizer import from_bytes  # where it is needed: most files are UTF-8

    candidates = LATIN if _stand_alone(strange) else CANDIDATES
    found = {match.encoding: match.chaos for match in from_bytes(strange, cp_isolation=list(candidates))}
    if not found:
        return _western(sample)
    best = min(found.values())
    tidy = [name for name in candidates if name in found and found[name] <= best + NEAR]
    chosen = min(tidy, key=lambda name: _oddity(strange.decode(name, "replace")))
    if chosen in LATIN and _oddity(strange.decode("cp1252", "replace")) <= _oddity(strange.decode(chosen, "replace")):
        return _western(sample)  # the same letters but for their marks: nothing speaks for the rarer ones
    return codecs.lookup(chosen).name


def _strange_lines(sample: bytes) -> bytes:
    """Some whole lines that are not ASCII; what follows the last newline may be cut."""
    lines, size = [], 0
    for line in sample.split(b"\n")[: -1 if b"\n" in sample else None]:
        if not line.isascii() and size < ENOUGH:
            lines.append(line)
            size += len(line)
    return b"\n".join(lines)


def _stand_alone(strange: bytes) -> bool:
    """Whether the bytes beyond ASCII are few among ASCII, as accents, currencies and units are: other scripts write
    whole words with them, and Shift-JIS begins its signs with bytes that Latin alphabets hardly use."""
    alone = sum(len(run) == 1 for run in (found.group() for found in RUNS.finditer(strange)))
    return alone >= ALONE * sum(byte >= 0x80 for byte in strange) and not SELDOM_LATIN.search(strange)


def _western(sample: bytes) -> str:
    """Latin-1, or what Windows has put in the place of its control characters."""
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252" if any(0x80 <= byte < 0xA0 for byte in sample) else "latin-1"


def _oddity(text: str) -> int:
    """What no writer does: other signs than letters within words, capitals after small letters."""
    count = 0
    for before, letter in itertools.pairwise(text):
        if before.isascii() and letter.isascii():
            continue
        count += before.islower() and letter.isupper()
        signs = [sign for sign in (before, letter) if not sign.isascii() and not (sign.isalpha() or sign.isspace())]
        count += bool(signs) and (before.isalpha() or letter.isalpha())
    return count


def encoding_note(encoding: str) -> str:
    """That an encoding was guessed."""
    script = f" ({NAMES[encoding]})" if encoding in NAMES else ""
    return f"The text is not UTF-8 and is read as {encoding}{script}, a guess. If words look wrong, say its encoding."
