"""People who log in by an OpenID provider, both real and over real sockets; and everybody who tries to deceive one of them."""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shoal.people.records import REMOVED
from shoal.people.sqlite_people import SqlitePeople
from support.browser import Server, free_port
from support.dashboard.http_client import Answer, ask
from support.dashboard.team import API, SECRET, shoal_command
from support.team import openid
from support.team.openid import LIES, Provider

TROUBLE = {
    "nonce": "nonce", "audience": "aud", "second audience": "another program", "issuer": "iss", "unsigned": "lgorithm",
    "hmac": "lgorithm", "other key": "signature", "expired": "expired", "no subject": "sub",
}  # fmt: skip


@dataclass
class Place:
    """A dashboard and its provider. Jars are browsers: cookies by name."""

    server: Server
    provider: Provider
    client: Callable[[], str] = map(
        "10.0.0.{}".format, itertools.count(1)
    ).__next__  # too many tries of one have to wait

    def get(self, jar: dict[str, str], path: str) -> Answer:
        cookie = "; ".join(f"{name}={value}" for name, value in jar.items())
        headers = {"Accept": "text/html", "Host": f"localhost:{self.server.port}", "X_Forwarded_For": self.client()}
        answer = ask(self.server, path, Cookie=cookie or "a=b", **headers)
        for line in answer.headers.get_all("set-cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            jar[name] = value
            if "Max-Age=0" in line:
                jar.pop(name)
        return answer

    def leave(self, jar: dict[str, str], wanted: str = "") -> str:
        answer = self.get(jar, f"/login/provider?next={urllib.parse.quote(wanted, safe='')}")
        assert answer.status == 303, answer.body
        return str(answer.headers["location"])

    def back(self, jar: dict[str, str], address: str) -> Answer:
        assert address.startswith(f"http://localhost:{self.server.port}/login/provider/back?"), address
        return self.get(jar, address.partition(f":{self.server.port}")[2])

    def log_in(self, jar: dict[str, str], subject: str, wanted: str = "") -> Answer:
        return self.back(jar, self.provider.logs_in(self.leave(jar, wanted), subject))

    def is_in(self, jar: dict[str, str]) -> bool:
        return self.get(jar, f"{API}/runs").status == 200

    def people(self, *words: str, typed: str = "") -> str:
        done = shoal_command(self.server.home, "people", *words, typed=typed)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def known(self) -> dict[str, str]:
        with contextlib.closing(SqlitePeople(self.server.home / "people.sqlite")) as store:
            return {one.name: one.role for one in store.people() if one.state != REMOVED}

    def deeds(self, count: int = 3) -> list[tuple[str, str, str]]:
        with contextlib.closing(SqlitePeople(self.server.home / "people.sqlite")) as store:
            return [(one.who, one.deed, one.thing) for one in store.entries(count)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("oidc")
    with openid.provider(home) as found:
        server = Server(home, free_port())
        domains = {"SHOAL_OIDC_DOMAINS": "example.org, example.net", "SHOAL_OIDC_NAME": "Example <login>"}
        server.environment = found.settings(f"http://localhost:{server.port}", **domains)
        made = Place(server, found)
        made.people("add", "root@example.com", "--role", "admin", "--no-password")
        server.start()
        yield made
        server.stop()


def vouched(place: Place, subject: str, email: str, verified: object = True) -> None:
    place.provider.knows(subject, email=email, email_verified=verified)


def refused(answer: Answer, *words: str) -> None:
    assert answer.status == 403
    for word in words:
        assert word in answer.body.decode(), answer.body.decode()


# ------------------------------------------------------------------ who comes in


def test_the_login_page_leads_there_and_says_its_name(place: Place) -> None:
    page = place.get({}, "/login?next=runs").body.decode()
    assert 'href="login/provider?next=runs"' in page
    assert "Log in with Example &lt;login&gt;" in page


def test_somebody_of_the_team_gets_an_account_and_what_they_wanted(place: Place) -> None:
    vouched(place, "s-ada", "Ada@Example.org")
    jar: dict[str, str] = {}
    answer = place.log_in(jar, "s-ada", "runs?compare=a,b")
    assert (answer.status, answer.headers["location"]) == (303, "../../runs?compare=a,b")
    assert not [name for name in jar if "login" in name], "what was kept for the way is gone"
    assert place.is_in(jar)
    assert place.known()["ada@example.org"] == "viewer"
    assert place.deeds(2) == [
        ("ada@example.org", "logged in", "by the OpenID provider"),
        ("the OpenID provider", "person added", "ada@example.org (viewer)"),
    ]


def test_roles_stay_ours_and_the_account_follows_the_subject(place: Place) -> None:
    vouched(place, "s-bob", "bob@example.org")
    assert place.log_in({}, "s-bob").status == 303
    place.people("role", "bob@example.org", "editor")
    vouched(place, "s-bob", "robert@example.org")  # married
    jar: dict[str, str] = {}
    assert place.log_in(jar, "s-bob").status == 303
    assert place.is_in(jar)
    assert place.known()["bob@example.org"] == "editor"
    assert "robert@example.org" not in place.known()
    vouched(place, "s-new-bob", "bob@example.org")  # the address was given to somebody else
    refused(place.log_in({}, "s-new-bob"), "belongs to somebody else")
    assert place.deeds(1) == [("the OpenID provider", "login refused", "bob@example.org")]


def test_an_admin_s_account_of_another_domain_is_theirs(place: Place) -> None:
    vouched(place, "s-root", "root@example.com")
    jar: dict[str, str] = {}
    assert place.log_in(jar, "s-root").status == 303
    assert place.known()["root@example.com"] == "admin"
    assert place.is_in(jar)


def test_an_account_of_another_name_is_linked_by_an_admin(place: Place) -> None:
    place.people("add", "carl", "--role", "editor", typed=SECRET)
    place.people("link", "carl", "carl.o'hara@example.com")
    vouched(place, "s-carl", "Carl.O'Hara@example.com")
    for _ in range(2):  # by the address, and then by the subject
        assert place.log_in({}, "s-carl").status == 303
        assert place.deeds(1) == [("carl", "logged in", "by the OpenID provider")]
    assert not {one for one in place.known() if "hara" in one}


def test_logging_out_ends_the_session_here_and_at_the_provider(place: Place) -> None:
    vouched(place, "s-ada", "ada@example.org")
    jar: dict[str, str] = {}
    place.log_in(jar, "s-ada")
    copy = dict(jar)
    there = place.get(jar, "/logout").headers["location"]
    assert not jar
    assert not place.is_in(copy)
    assert place.deeds(1) == [("ada@example.org", "logged out", "")]
    where, _, query = there.partition("?")
    asked = {name: values[0] for name, values in urllib.parse.parse_qs(query).items()}
    back = f"http://localhost:{place.server.port}/login"
    assert where == f"{place.provider.issuer}/oauth2/end_session"
    assert asked["post_logout_redirect_uri"] == back
    claims = json.loads(base64.urlsafe_b64decode(asked["id_token_hint"].split(".")[1] + "=="))
    assert (claims["sub"], claims["aud"]) == ("s-ada", [asked["client_id"]])
    assert place.provider.confirms_log_out(there) == back
    assert place.get(jar, "/logout").headers["location"] == "login", "nobody is sent there twice"


def test_logging_out_needs_no_provider(place: Place) -> None:
    """One that names no place for it, or whose word was too long to be kept; and whoever came by a password."""
    vouched(place, "s-ada", "ada@example.org")
    jar: dict[str, str] = {}
    place.log_in(jar, "s-ada")
    word = next(name for name in jar if "provider" in name)
    without = place.get({**jar, word: "-"}, "/logout").headers["location"]
    assert "id_token_hint" not in without
    assert "client_id=" in without
    place.log_in(jar, "s-ada")
    jar.pop(word)
    assert place.get(jar, "/logout").headers["location"] == "login"


def test_whoever_is_disabled_is_out_and_stays_out(place: Place) -> None:
    vouched(place, "s-dora", "dora@example.org")
    jar: dict[str, str] = {}
    place.log_in(jar, "s-dora")
    made = shoal_command(place.server.home, "tokens", "create", "t", "--person", "dora@example.org", "--json").stdout
    bearer = {"Authorization": f"Bearer {json.loads(made)['token']}"}
    assert ask(place.server, f"{API}/runs", **bearer).status == 200  # tokens work as for everybody
    place.people("disable", "dora@example.org")
    assert not place.is_in(jar)
    assert ask(place.server, f"{API}/runs", **bearer).status == 401
    refused(place.log_in({}, "s-dora"), "disabled or was removed")
    place.people("remove", "dora@example.org")
    refused(place.log_in({}, "s-dora"), "disabled or was removed")
    assert "dora@example.org" not in place.known()


def test_an_account_without_a_password_has_none_that_could_be_guessed(place: Place) -> None:
    form = urllib.parse.urlencode({"name": "root@example.com", "password": "", "next": ""}).encode()
    kind = {"Content_Type": "application/x-www-form-urlencoded"}
    assert ask(place.server, "/login", "POST", form, **kind).status == 401


# ------------------------------------------------------------------ who does not


@pytest.mark.parametrize(
    ("email", "verified", "word"),
    [("eve@example.org", False, "verified"), ("eve@example.org", None, "verified"), ("eve@example.org", 1, "verified"),
     ("eve@evil.example", True, "no account"), ("eve@notexample.org", True, "no account"),
     ("eve@example.org@evil.example", True, "no account"), ("eve@sub.example.org", True, "no account"),
     ("ada@example.\u212aom", True, "verified"), ("x" * 60 + "@example.org", True, "64 letters"),
     ("eve evil@example.org", True, "cannot be the name"), ("", True, "verified"), (["eve@example.org"], True, "verified")],
)  # fmt: skip
def test_strangers_stay_out(place: Place, email: object, verified: object, word: str) -> None:
    place.provider.knows("s-eve", email=email, email_verified=verified)
    jar: dict[str, str] = {}
    refused(place.log_in(jar, "s-eve"), word)
    assert not place.is_in(jar)
    assert not {name for name in place.known() if name.startswith(("eve", "xx"))}


@pytest.mark.parametrize("how", LIES)
def test_a_token_that_is_not_proof_lets_nobody_in(place: Place, how: str) -> None:
    vouched(place, "s-ada", "ada@example.org")
    jar: dict[str, str] = {}
    place.provider.lies(how)
    try:
        answer = place.log_in(jar, "s-ada")
    finally:
        place.provider.lies()
    refused(answer, "does not prove who you are", TROUBLE[how])
    assert not place.is_in(jar)
    assert place.log_in(jar, "s-ada").status == 303


def test_a_login_that_was_begun_elsewhere_is_not_finished_here(place: Place) -> None:
    vouched(place, "s-ada", "ada@example.org")
    hers: dict[str, str] = {}
    back = place.provider.logs_in(place.leave(hers), "s-ada")
    refused(place.back({}, back), "not begun in this browser")  # no cookie: a link on a hostile page
    other: dict[str, str] = {}
    place.leave(other)
    refused(place.back(other, back), "not begun in this browser")  # the state of another
    name = next(iter(hers))
    forged = {name: hers[name][:-1] + ("0" if hers[name][-1] != "0" else "1")}
    refused(place.back(forged, back), "not begun in this browser")
    changed = back.replace("state=", "state=x")
    refused(place.back(dict(hers), changed), "not begun in this browser")
    assert place.back(hers, back).status == 303


def test_a_code_is_good_once_and_for_its_own_login(place: Place) -> None:
    vouched(place, "s-ada", "ada@example.org")
    jar: dict[str, str] = {}
    leaving = place.leave(jar)
    back = place.provider.logs_in(leaving, "s-ada")
    kept = dict(jar)
    assert place.back(jar, back).status == 303
    refused(place.back(kept, back), "not taken by the provider")  # replayed, with the cookie of then
    thief: dict[str, str] = {}
    state = urllib.parse.parse_qs(urllib.parse.urlsplit(place.leave(thief)).query)["state"][0]
    victim: dict[str, str] = {}
    code = place.provider.logs_in(place.leave(victim), "s-ada").partition("code=")[2].partition("&")[0]
    stolen = f"http://localhost:{place.server.port}/login/provider/back?code={code}&state={state}"
    refused(place.back(thief, stolen), "not taken by the provider")  # PKCE: another verifier


def test_another_provider_s_answer_is_not_taken(place: Place) -> None:
    jar: dict[str, str] = {}
    back = place.provider.logs_in(place.leave(jar), "s-ada")
    refused(place.back(jar, f"{back}&iss=https%3A%2F%2Fevil.example"), "this is another")


def test_whoever_says_no_at_the_provider_is_told_so(place: Place) -> None:
    jar: dict[str, str] = {}
    refused(place.back(jar, place.provider.denies(place.leave(jar))), "access_denied", "To the login page")


@pytest.mark.parametrize(
    "wanted", ["https://evil.example", "//evil.example", "\\\\evil.example", "/\\evil.example", "javascript:alert(1)",
               "/%2F/evil.example", "\t//evil.example", "x" * 5000]
)  # fmt: skip
def test_nobody_is_sent_to_another_server_afterwards(place: Place, wanted: str) -> None:
    vouched(place, "s-ada", "ada@example.org")
    answer = place.log_in({}, "s-ada", wanted)
    assert answer.status == 303
    base = f"http://localhost:{place.server.port}/login/provider/back"
    found = urllib.parse.urlsplit(urllib.parse.urljoin(base, answer.headers["location"]))
    assert (found.scheme, found.netloc) == ("http", f"localhost:{place.server.port}")
    assert answer.headers["location"].startswith("../../")


def test_hostile_questions_end_in_words(place: Place) -> None:
    for query in (
        "",
        "?code=",
        "?state=",
        "?code=a&state=%00",
        "?code=%FF&state=%FF",
        "?state=\xe4".encode().decode("latin-1"),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", place.server.port, timeout=60)
        connection.putrequest("GET", "/login/provider/back" + urllib.parse.quote(query, safe="?=&%"))
        connection.putheader("Cookie", f"{next(iter(_begun(place)))}=%%%.%%%")
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, b"not begun" in answer.read()) == (403, True)
        connection.close()


def _begun(place: Place) -> dict[str, str]:
    jar: dict[str, str] = {}
    place.leave(jar)
    return jar


# ------------------------------------------------------------------ where it is written


def test_the_secret_is_in_no_file_of_the_home(place: Place) -> None:
    for path in Path(place.server.home).rglob("*"):
        if path.is_file() and path.name != "provider.log":
            assert openid.SECRET.encode() not in path.read_bytes(), path


def test_a_provider_that_is_away_keeps_nobody_else_out(place: Place, tmp_path: Path) -> None:
    """One that is named and not there: passwords still count, and the sentence says what is the matter."""
    server = Server(tmp_path, free_port())
    away = {"SHOAL_OIDC_ISSUER": f"http://127.0.0.1:{free_port()}", "SHOAL_OIDC_CLIENT_ID": "shoal"}
    server.environment = {**away, "SHOAL_OIDC_ADDRESS": server.url}
    shoal_command(tmp_path, "people", "add", "root", typed=SECRET)
    server.start()
    try:
        lonely = Place(server, place.provider)
        answer = lonely.get({}, "/login/provider")
        assert answer.status == 503
        assert b"Try again in a minute" in answer.body
        form = urllib.parse.urlencode({"name": "root", "password": SECRET, "next": ""}).encode()
        kind = {"Content_Type": "application/x-www-form-urlencoded"}
        assert ask(server, "/login", "POST", form, **kind).status == 303
    finally:
        server.stop()
