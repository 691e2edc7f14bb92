"""Who may come in: the password and its hash, signed sessions that end, and a limit on wrong tries. HTTP is in `gate`.

The password is in SHOAL_HOME/password (hashed; `shoal password` writes it) or comes from SHOAL_PASSWORD. Where people
have accounts (`people`), it counts no more: sessions are then theirs.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import os
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from shoal.dashboard.http import printed_address
from shoal.errors import ConfigError, DamagedFile
from shoal.files import sealed
from shoal.home import ended_sessions_file, password_file, session_key_file
from shoal.lazy.classes import dataclass
from shoal.library.tokens import AccessToken
from shoal.people.known import KnownPeople
from shoal.people.person import MACHINE, Person
from shoal.people.records import TeamMember
from shoal.utils import write_atomically

SHORTEST = 8  # characters of a password
COST, BLOCK, LANES = 1 << 15, 8, 1  # of scrypt: 32 MB and about 0.1 s a try
SESSION = 7 * 86_400.0  # seconds until a person has to log in again
VARIABLE = "SHOAL_PASSWORD"
PEOPLE = KnownPeople()  # who has an account, as this process last saw it
EVERYBODY = "*"  # in the place of a name among ended sessions: all that end before this time


# ------------------------------------------------------------------ the password


@dataclass(frozen=True)
class Hashed:
    """A password as it is kept: enough to check one, not to know it."""

    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, password: str, salt: bytes | None = None) -> Hashed:
        salt = salt or secrets.token_bytes(16)
        return cls(salt, _scrypt(password, salt))

    @classmethod
    def parse(cls, line: str) -> Hashed:
        kind, salt, digest = line.strip().split("$")
        if kind != f"scrypt-{COST}-{BLOCK}-{LANES}" or len(digest) != 64 or len(salt) < 16:
            raise ValueError("not a password that 'shoal password' wrote")
        return cls(bytes.fromhex(salt), bytes.fromhex(digest))

    def line(self) -> str:
        return f"scrypt-{COST}-{BLOCK}-{LANES}${self.salt.hex()}${self.digest.hex()}\n"

    def matches(self, password: str) -> bool:
        """In a time that does not tell how much of it was right; slow on purpose, so call it in a thread."""
        return hmac.compare_digest(_scrypt(password, self.salt), self.digest)


# Nobody knows a password with this digest: it stands for a password file that cannot be read.
BROKEN = Hashed(b"broken", b"")


# In the place of a password for those who came by a printed address. It stays, so that a restart sends nobody away.
BY_ADDRESS = Hashed(b"address", b"")


def _scrypt(password: str, salt: bytes) -> bytes:
    most = 2 * 128 * COST * BLOCK
    data = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=COST, r=BLOCK, p=LANES, maxmem=most, dklen=32)


def check_wanted(password: str) -> None:
    if len(password) < SHORTEST:
        raise ConfigError(
            f"Expected a password of at least {SHORTEST} characters, got {len(password)}. Choose a longer one."
        )


def set_password(password: str) -> None:
    check_wanted(password)
    write_atomically(password_file(), Hashed.of(password).line().encode())  # its files are for their owner only


def remove_password() -> bool:
    """Whether there was one."""
    try:
        password_file().unlink()
    except FileNotFoundError:
        return False
    return True


class _KnownPassword:
    """What this process knows of the password: the one it was started with, or the file as it was last seen."""

    started_with: Hashed | None = None
    seen: tuple[Path, int, int, Hashed] | None = None


def adopt_environment() -> None:
    """Take SHOAL_PASSWORD out of the environment, so that no process started from here inherits it."""
    given = os.environ.pop(VARIABLE, "")
    if not given:
        return
    try:
        check_wanted(given)
    except ConfigError as error:
        raise ConfigError(f"{VARIABLE}: {error}") from None
    # The salt stays the same, so that sessions outlive a restart with the same password.
    salt = hmac.digest(signing_key(), b"salt of the password from the environment", "sha256")[:16]
    _KnownPassword.started_with = Hashed.of(given, salt)


def current_password() -> Hashed | None:
    """The hash to check against; None if there is no password. The file counts as it is now."""
    if _KnownPassword.started_with is not None:
        return _KnownPassword.started_with
    path = password_file()
    try:
        now = path.stat()
        if _KnownPassword.seen and _KnownPassword.seen[:3] == (path, now.st_mtime_ns, now.st_ino):
            return _KnownPassword.seen[3]
        found = Hashed.parse(path.read_text("ascii"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return BROKEN  # never open because of a damaged file
    _KnownPassword.seen = (path, now.st_mtime_ns, now.st_ino, found)
    return found


def is_locked() -> bool:
    """Whether people have to log in."""
    return current_password() is not None or PEOPLE.are_there


def of_token(token: AccessToken) -> Person | None:
    """Whom a program with it is; None where that person cannot log in any more, also if nobody has an account now."""
    anybody = not PEOPLE.are_there and not token.person
    return MACHINE if anybody else token.acts_for(PEOPLE.everybody())


def seal() -> Hashed | None:
    """What sessions are signed for: the password, or else that an address was used; None where everybody may in."""
    return current_password() or (BY_ADDRESS if printed_address.is_needed() else None)


def seal_of(member: TeamMember) -> Hashed:
    """What the sessions of a person are signed for: they end with another password or subject."""
    return Hashed(f"account {member.name}".encode(), f"{member.password}{member.subject}".encode())


# ------------------------------------------------------------------ sessions


def signing_key() -> bytes:
    """The secret behind sessions, made on first use; it stays, so that a restart logs nobody out."""
    path = session_key_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
    for _ in range(50):
        key = path.read_bytes()
        if len(key) == 32:
            path.chmod(0o600)
            return key
        time.sleep(0.01)  # another process is just writing it
    raise ConfigError(f"Expected 32 bytes in '{path}', got {len(key)}. Remove the file; people will log in again.")


@dataclass
class Sessions:
    """Tokens for those who gave the password: signed, good for some days, void once the password is another."""

    key: bytes
    clock: Callable[[], float] = time.time

    def cookie(self) -> str:
        """The cookie's name; cookies know no ports, and two dashboards on one machine must not mix theirs up."""
        return f"shoal_session_{hmac.digest(self.key, b'name of the cookie', 'sha256').hex()[:8]}"

    def begin(self, password: Hashed, name: str = "") -> str:
        """`name` is whose it is, where people have accounts."""
        whose = f".{name.encode().hex()}" if name else ""
        claim = f"{int(self.clock() + SESSION)}.{secrets.token_hex(12)}{whose}"
        return f"{claim}.{self._signature(claim, password)}"

    def is_valid(self, token: str, password: Hashed) -> bool:
        claim, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(claim, password).encode()):
            return False
        until, number = claim.split(".")[:2]
        ended = self._ended()
        return float(until) > self.clock() and number not in ended and float(until) >= ended.get(EVERYBODY, 0.0)

    def member(self, token: str) -> TeamMember | None:
        """Whose session this is; None for none, for one that is over, and for somebody who cannot log in any more."""
        try:
            name = bytes.fromhex(token.split(".")[2]).decode()
        except (IndexError, ValueError):
            return None
        found = PEOPLE.active(name)
        return found if found is not None and self.is_valid(token, seal_of(found)) else None

    def end(self, token: str, password: Hashed) -> None:
        """Make a token worthless, also in the hands of somebody who copied it."""
        if self.is_valid(token, password):
            until, number = token.split(".")[:2]
            still = {n: t for n, t in self._ended().items() if t > self.clock()}
            _write_ended({**still, number: float(until)})

    def _ended(self) -> dict[str, float]:
        """Where it is not known any more which sessions people ended, all are that have begun: they log in again."""
        try:
            return _read_ended()
        except (OSError, DamagedFile):
            everybody = {EVERYBODY: float(int(self.clock() + SESSION))}
            with contextlib.suppress(OSError):
                _write_ended(everybody)
            return everybody

    def _signature(self, claim: str, password: Hashed) -> str:
        return hmac.digest(self.key, f"{claim}|{password.line()}".encode(), "sha256").hex()


def _read_ended() -> dict[str, float]:
    """Sessions that people ended before their time; few, since only those who logged in can log out.

    What earlier versions wrote has no checksum.
    """
    path = ended_sessions_file()
    try:
        found = sealed.read(path, path.name, sealed.never_sealed)
        return {name: float(until) for name, until in found.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError):
        raise DamagedFile(f"'{path}' is damaged: expected times, got something else.", path=str(path)) from None


def _write_ended(names: dict[str, float]) -> None:
    path = ended_sessions_file()
    sealed.write(path, names, path.name)


# ------------------------------------------------------------------ wrong tries


@dataclass
class Limiter:
    """How long somebody has to wait before the next try: by client, and for all together. Its memory is bounded."""

    clock: Callable[[], float] = time.monotonic
    free: int = 5  # tries of one client before it has to wait
    longest: float = 300.0  # seconds
    overall: int = 30  # tries of everybody together ...
    period: float = 60.0  # ... within so many seconds
    clients: int = 1024  # remembered; the one that was quiet longest is forgotten first
    _tries: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)
    _all: deque[float] = field(default_factory=deque)

    def wait(self, client: str) -> float:
        """Seconds until this client may try; 0 if it may now."""
        now = self.clock()
        while self._all and now - self._all[0] >= self.period:
            self._all.popleft()
        everybody = self.period - (now - self._all[0]) if len(self._all) >= self.overall else 0.0
        _, until = self._tries.get(client, (0, 0.0))
        return max(everybody, until - now, 0.0)

    def tried(self, client: str) -> None:
        """Count a try before it is looked at, so that many at once gain nothing."""
        now = self.clock()
        count = self._tries.pop(client, (0, 0.0))[0] + 1
        pause = min(self.longest, 2.0 ** (count - self.free)) if count >= self.free else 0.0
        self._tries[client] = (count, now + pause)
        while len(self._tries) > self.clients:
            self._tries.popitem(last=False)
        self._all.append(now)

    def was_right(self, client: str) -> None:
        self._tries.pop(client, None)
        if self._all:
            self._all.pop()


def client_name(address: str) -> str:
    """Whom a limit is for: an address, or a whole IPv6 network, of which one person has as many as he likes."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((ip, 64), strict=False)) if ip.version == 6 else str(ip)


def is_loopback(address: str | None) -> bool:
    """Whether a server's address is for this machine only; none at all means every network."""
    if not address:
        return False
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address.lower() == "localhost"
