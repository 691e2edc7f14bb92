"""Every page drawn for everybody: the list is that of the menu, so that a new page needs a rule here; and the People page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.parts import places
from shoal.dashboard.tables import uploads
from shoal.errors import NotAllowed
from shoal.home import runs_directory
from shoal.library.saved_models import find_model, save_run
from shoal.people import accounts, acting, deeds, passwords
from shoal.people.acting import Acting, as_person
from shoal.people.person import STRANGER, Person
from shoal.runs.launch import launch
from shoal.settings.values import config_from
from support.dashboard.runs_page import choose
from support.pages import open_page, said, uploaded
from support.runs import ended, small_table

SECRET = "correct horse"
PEOPLE = {"root": "admin", "ada": "editor", "bob": "editor", "vera": "viewer"}
EVERYBODY, ADMINS = set(PEOPLE), {"root"}
SHOWN = {"data": EVERYBODY, "train": EVERYBODY, "tune": EVERYBODY, "search": EVERYBODY, "runs": EVERYBODY,
         "models": EVERYBODY, "system": ADMINS, "people": EVERYBODY}  # fmt: skip


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """A home with four people, and for each page the address that names what only Ada and admins may see."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("SHOAL_HOME", str(home))
        patch.setattr(passwords, "MEMORY", 64)
        passwords._hasher.cache_clear()
        for name, role in PEOPLE.items():
            accounts.add(name, SECRET, role, private=name == "ada")
        with as_person(accounts.named("ada").person):
            table = uploaded(small_table(home).read_bytes(), "secret-table.csv")
            run = launch(config_from({"file": str(table), "target": "y", "model": "ridge"}))
            assert ended(run) == "finished", run.error
            save_run(run, run.result or {}, "secret-model")
        key = str(uploads.key_of(table))
        yield {
            "home": {"path": str(home)}, "data": {"data": key}, "train": {"run": run.id}, "tune": {"data": key}, "search": {"data": key},
            "runs": {"compare": f"{run.id},{run.id}"}, "models": {"model": "secret-model"}, "system": {}, "people": {},
        }  # fmt: skip
        passwords._hasher.cache_clear()


@pytest.fixture(autouse=True)
def at_home(addresses: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", addresses["home"]["path"])


@pytest.fixture
def looking(at_home: None) -> Iterator[list[Person]]:
    """Who looks at pages that are drawn: the last of this list."""
    who = [STRANGER]
    acting.pages_are_of(lambda: Acting(who[-1], "10.0.0.1"))
    yield who
    acting._Pages.find = None


def text_of(page: AppTest) -> str:
    parts = [
        said(page),
        *(str(found.value) for kind in ("title", "header", "markdown", "caption") for found in page.get(kind)),
    ]
    return " ".join(parts)


def test_every_page_has_a_rule() -> None:
    assert set(places.TITLES) == set(SHOWN), "say here who may"


@pytest.mark.parametrize("name", SHOWN)
def test_pages_show_what_somebody_may_see(
    name: str, addresses: dict[str, dict[str, str]], looking: list[Person]
) -> None:
    for who in PEOPLE:
        looking.append(accounts.named(who).person)
        page = open_page(name, **addresses[name])
        shown = text_of(page)
        assert f"<strong>{who}</strong>" in shown
        title = places.TITLES[name][0]
        if name in ("system", "people"):
            assert (f"{title}" in [found.value for found in page.title]) == (who in SHOWN[name]), who
        elif who in ("bob", "vera"):
            assert "secret" not in shown, (who, shown)
            assert addresses[name].get("run", "no run") not in shown, (who, shown)
            assert "secret" not in text_of(open_page("data", choose="table")), who
    looking.append(STRANGER)
    assert "not logged in any more" in text_of(open_page(name, **addresses[name]))


def test_her_own_pages_are_not_empty_for_her(addresses: dict[str, dict[str, str]], looking: list[Person]) -> None:
    """So that the test above can fail."""
    looking.append(accounts.named("ada").person)
    for name in ("train", "models"):
        assert "secret" in text_of(open_page(name, **addresses[name])), name
    assert addresses["train"]["run"] in text_of(open_page("train", **addresses["train"]))


def test_an_admin_adds_somebody_and_the_log_says_so(looking: list[Person]) -> None:
    looking.append(accounts.named("root").person)
    page = open_page("people")
    named = {one.label: one for one in page.text_input}
    named["Name"].set_value("carl")
    named["First password"].set_value(SECRET)
    next(one for one in page.button if one.label == "Add").click()
    page.run()
    assert not page.exception
    assert accounts.named("carl").role == "editor"
    newest = accounts.audit(1)[0]
    assert (newest.who, newest.deed, newest.thing, newest.origin) == (
        "root",
        "person added",
        "carl (editor)",
        "10.0.0.1",
    )


def test_others_have_their_own_account_there_and_no_more(looking: list[Person]) -> None:
    looking.append(accounts.named("vera").person)
    page = open_page("people")
    assert [found.value for found in page.header] == ["You are vera, viewer", "Tokens for programs"]
    assert not page.tabs
    with as_person(looking[-1]):
        for deed in (lambda: accounts.give_role("vera", "admin"), lambda: accounts.set_password("root", SECRET),
                     lambda: accounts.audit(), lambda: accounts.disable("root")):  # fmt: skip
            with pytest.raises(NotAllowed):
                deed()


def test_a_viewer_starts_nothing(tmp_path: Path) -> None:
    vera = accounts.named("vera").person
    config = config_from({"file": str(small_table(tmp_path)), "target": "y"})
    with as_person(vera), pytest.raises(NotAllowed, match="role editor for this"):
        launch(config)


def test_a_run_keeps_its_model_with_the_rights_of_whoever_started_it(tmp_path: Path) -> None:
    """The name of another's model is refused at the launch, and at the end too: its process has the machine."""
    table = small_table(tmp_path)
    with as_person(accounts.named("bob").person):
        with pytest.raises(NotAllowed, match="Choose another name"):
            launch(config_from({"file": str(table), "target": "y", "register": "secret-model"}))
        run = launch(config_from({"file": str(table), "target": "y"}))
    assert ended(run) == "finished", run.error
    with deeds.for_owner(run.directory), pytest.raises(NotAllowed):
        save_run(run, run.result or {}, "secret-model")
    assert find_model("secret-model").numbers == (1,)  # type: ignore[union-attr]
    with as_person(accounts.named("ada").person):
        again = launch(config_from({"file": str(table), "target": "y", "register": "secret-model"}))
    assert ended(again) == "finished", again.error
    assert find_model("secret-model").numbers == (2, 1)  # type: ignore[union-attr]


def test_buttons_that_would_refuse_are_asleep_and_say_why(
    addresses: dict[str, dict[str, str]], looking: list[Person]
) -> None:
    """Ada's run is shared for this: an editor who does not have it and a viewer look at it, and she herself."""
    run = runs_directory() / addresses["train"]["run"]
    with as_person(accounts.named("ada").person):
        deeds.share(run, private=False)
    try:
        for who, why in {"vera": "role editor", "bob": "it is ada's", "ada": ""}.items():
            looking.append(accounts.named(who).person)
            page = choose(open_page("runs"), run.name)
            for label in ("Delete", "Archive", "Tags and note"):
                button = page.button(key=f"runs_do_{label}")
                assert button.disabled == bool(why), (who, label)
                assert why in (button.help or ""), (who, label)
            assert "ada" in page.dataframe[0].value["Owner"].tolist()
            made_up = open_page("data", data="generated:5000x6").button(key="generate")
            assert made_up.disabled == (who == "vera")
            assert ("role editor" in (made_up.help or "")) == (who == "vera")
            chosen = text_of(open_page("data", choose="table"))
            assert ("Files are sent by editors" in chosen) == (who == "vera")
    finally:
        with as_person(accounts.named("ada").person):
            deeds.share(run, private=True)
