"""Which encoding a text is in that is not UTF-8, guessed from its bytes; every guess is to be said."""

from __future__ import annotations

import codecs
import itertools
import re

from shoal.words import plural

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
    "euc_jp": "Japanese", "mac-roman": "old Macintosh", "cp850": "DOS",
}  # fmt: skip
LATIN = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257")
ENOUGH = 1 << 14  # bytes of lines with other letters than ASCII has: more tell nothing new
FEWEST = 6  # such bytes, or anything could be read from them
RUNS = re.compile(rb"[\x80-\xff]+")
SELDOM_LATIN = re.compile(rb"[\x81-\x84\x86-\x89\x8b\x8d\x8f\x90\x98\x9b\x9d]")
NO_CENTRAL = re.compile(rb"[\x81\x83\x88\x90\x98]")  # where cp1250 has no letter
ALONE = 0.8  # the share of bytes beyond ASCII that have none beside them, from which on they are accents and signs
USUAL = frozenset("áàâäãåæçéèêëíìîïñóòôöõøúùûüß")  # letters of Western European words
OLD = ("mac_roman", "cp850")  # whose letters are where Windows has signs
WEAK = 40  # letters beyond ASCII below which a guess is one between alphabets that differ in few of them
OTHERS = ("cp1252", "cp1250", "cp1254", "cp1257")  # that may be meant where little can be told
LETTERS = re.compile(rb"(?<=[A-Za-z])[\x80-\xff]|[\x80-\xff](?=[a-z])")
ICELANDIC, TURKISH = frozenset(b"\xe1\xe9\xed\xf3\xe6\xc1\xcd\xd3"), frozenset(b"\xf0\xfd\xfe\xd0\xdd\xde")
HEBREW, FINALS = re.compile(rb"[\xe0-\xfa]+"), frozenset(b"\xea\xed\xef\xf3\xf5")  # FINALS: at the end of words
HEBREW_LEAST = 12  # letters, of which a third would be finals in no other place by chance in one of a hundred cases
SYLLABLE, KOREAN_LEAST = re.compile(rb"[\x80-\xff]{2}", re.DOTALL), 12  # different ones
CENTRAL_MONEY = re.compile(rb"\d[\xa0 ,-]*(K\xe8|z\xb3)(?![A-Za-z\x80-\xff])")  # Kč and zł behind a number
DOUBLE = "őű"  # of Hungarian alone; in Western European õ and û
DIGRAPHS = re.compile(
    "gy|sz|cs|zs|ny|ly"
)  # of Hungarian words; no Estonian, Portuguese or French one has them beside õ or û
ABROAD = frozenset("ăçĺćřńčęŕ")  # ã ç å æ ø ñ è ê à in Western European
SIGNS = frozenset(b"\x80\x85\x91\x92\x93\x94\x95\x96\x97\x99")  # €, dots, quotes, dashes: also in Turkish texts
WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")
MOST_ACCENTS = 0.35  # of the letters of words that have any
PAIRS, MOST_RARE = re.compile(rb"[\x81-\xfe][\x40-\xfe]"), 0.3
EASTERN = ("cp949", "gb18030")  # whose usual signs are of two bytes from 0xA1 on
NEAR = 0.02  # how much less tidy than the best guess another may be and still count as equal


def guess_encoding(sample: bytes) -> str:
    """The encoding of bytes that are not UTF-8, by its name in Python; Western European where little can be told."""
    strange = _strange_lines(sample)
    if old := _old(strange):
        return old
    if _is_turkish(strange):
        return "cp1254"
    if central := _central(strange):
        return central
    if sum(byte >= 0x80 for byte in strange) < FEWEST:
        return _western(sample)
    if _is_hebrew(strange):
        return "cp1255"
    if _is_korean(strange):
        return "cp949"
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
    return "cp932" if chosen in EASTERN and _is_japanese(strange) else codecs.lookup(chosen).name


def _is_japanese(strange: bytes) -> bool:
    """Whether signs that would be rare ones of Korean or Chinese are Shift-JIS, whose usual ones begin or end below."""
    try:
        strange.decode("cp932")
    except UnicodeDecodeError:
        return False
    pairs: list[bytes] = PAIRS.findall(strange)
    rare = sum(min(pair) < 0xA1 for pair in pairs)
    return rare > MOST_RARE * len(pairs)


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


def _old(strange: bytes) -> str:
    """The encoding of old machines in which what is within words are usual letters; signs of Windows stand apart."""
    within = [found[0][0] for found in LETTERS.finditer(strange)]
    accented = sum(len(found[0]) for found in WORD.finditer(strange))
    dense = sum(byte >= 0x80 for byte in strange) > MOST_ACCENTS * accented  # as in Shift-JIS, every other byte
    if len(within) < 3 or dense or sum(byte < 0xA0 for byte in within) < 0.9 * len(within):
        return ""
    letters = {name: bytes(within).decode(name, "replace") for name in OLD}
    name = max(OLD, key=lambda name: sum(letter in USUAL for letter in letters[name]))
    usual = sum(letter in USUAL for letter in letters[name])
    return codecs.lookup(name).name if usual >= 0.8 * len(within) else ""


def _is_turkish(strange: bytes) -> bool:
    """Whether letters are there that Icelandic and Turkish share, and none that Icelandic words have beside them; of
    the bytes that other scripts begin their signs with, dashes, quotes and the like at most. Some letters stand side
    by side: ığı."""
    found = frozenset(byte for byte in strange if byte >= 0x80)
    if len(found & TURKISH) < 2 or found & ICELANDIC or any(byte < 0xA0 and byte not in SIGNS for byte in found):
        return False
    runs = [len(run.group()) for run in RUNS.finditer(strange)]
    return max(runs) <= 4 and 2 * sum(length % 2 for length in runs) >= len(runs)  # signs of two bytes come in pairs


def _central(strange: bytes) -> str:
    """The encoding of Czech and its neighbours, whose letters together no Western language has: č, ř and ě
    would be è, ø and ì, without the Nordic å and æ; or one of them beside š or ž."""
    runs = [len(run.group()) for run in RUNS.finditer(strange)]  # of accents three stand together at most: září
    if max(runs, default=0) > 3 or 2 * runs.count(1) < len(runs) or NO_CENTRAL.search(strange):
        return ""
    if _is_hungarian(strange.decode("cp1250").lower()):
        return "cp1250"
    if SELDOM_LATIN.search(strange):
        return ""
    found = frozenset(byte for byte in strange if byte >= 0x80)
    czech = found & frozenset(b"\xf8\xd8") and found & frozenset(b"\xe8\xc8\xec") and not found & frozenset(b"\xe5\xe6")
    money = CENTRAL_MONEY.search(strange)
    hooked = found & frozenset(b"\x9a\x9e\x8a\x8e") and found & frozenset(b"\xe8\xc8\xec\xf8\xd8")
    if not czech and not hooked and not money:
        return ""
    return "iso8859-2" if min(found) >= 0xA0 and found & frozenset(b"\xb9\xbe\xa9\xae") else "cp1250"


def _is_hebrew(strange: bytes) -> bool:
    """Whether words are of Hebrew letters alone, with those for the end of a word nowhere else: in the same places
    Russian has its commonest letters, and Greek has capitals and accents outside."""
    words = HEBREW.findall(strange)
    letters = sum(map(len, words))
    if letters < HEBREW_LEAST or 2 * len(words) > letters or letters < ALONE * sum(byte >= 0xC0 for byte in strange):
        return False
    return not any(byte in FINALS for word in words for byte in word[:-1])


def _is_korean(strange: bytes) -> bool:
    """Whether all signs of two bytes are among the usual syllables of Korean: of Chinese ones two in five are not."""
    pairs = {found[0] for run in RUNS.findall(strange) for found in SYLLABLE.finditer(run)}
    whole = all(len(run) % 2 == 0 for run in RUNS.findall(strange))
    return whole and len(pairs) >= KOREAN_LEAST and all(0xB0 <= pair[0] <= 0xC8 for pair in pairs)


def _is_hungarian(text: str) -> bool:
    """Whether letters are ő and ű rather than õ and û: Portuguese has õ before e only, and ã and ç; Estonian has ä, and
    neither accents nor õ at the end of a word; French has neither á, í, ó nor ú."""
    if not set(text) & set(DOUBLE) or set(text) & ABROAD:
        return False
    words = [word for word in re.findall(r"[^\W\d_]+", text) if set(word) & set(DOUBLE)]
    if any(word[1:].endswith("ő") or DIGRAPHS.search(word) for word in words):
        return True
    accents = sum(text.count(letter) for letter in "áíóú")
    own = re.search("ő(?!e)", text)
    return accents + (text.count("é") if own else 0) > text.count("ä") and bool(own or "ű" in text)


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


def encoding_note(encoding: str, text: bytes = b"") -> str:
    """That an encoding was guessed, and from how little; `text`: what was read in it."""
    script = f" ({NAMES[encoding]})" if encoding in NAMES else ""
    start = f"The text is not UTF-8 and is read as {encoding}{script}, a guess"
    return f"{start}{_doubt(encoding, text)}. If words look wrong, say its encoding."


def _doubt(encoding: str, text: bytes) -> str:
    """How else the first words could be read, where few letters speak for an encoding."""
    strange = _strange_lines(text)
    count = sum(byte >= 0x80 for byte in strange)
    alike = {codecs.lookup(name).name for name in (*LATIN, *OLD, "latin-1")}
    word = WORD.search(strange)
    if not word or count >= WEAK or codecs.lookup(encoding).name not in alike:
        return ""
    read = {name: word[0].decode(name, "replace") for name in (encoding, *OTHERS)}
    own = read.pop(encoding)
    others = {text: name for name, text in reversed(read.items()) if text != own and text.isalpha()}
    shown = ", ".join(f"'{text}' ({name})" for text, name in reversed(others.items()))
    return f" from {plural(count, 'letter')}: '{own}' may be {shown}" if shown else ""
