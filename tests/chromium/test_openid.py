"""The whole way by an OpenID provider in a real browser, whose rules about cookies and redirects are its own."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from support.browser import Server, free_port, needs_chromium, settled
from support.dashboard.team import shoal_command
from support.team import openid

pytestmark = needs_chromium


def test_from_a_page_to_the_provider_and_back_and_out_again(browser: Browser, tmp_path: Path) -> None:
    with openid.provider(tmp_path) as provider:
        server = Server(tmp_path / "home", free_port())
        here = f"http://localhost:{server.port}"
        server.environment = provider.settings(here, SHOAL_OIDC_DOMAINS="example.org", SHOAL_OIDC_NAME="Example")
        assert shoal_command(server.home, "people", "add", "root@example.com", "--no-password").returncode == 0
        provider.knows("s-ada", email="ada@example.org", email_verified=True)
        provider.knows("s-eve", email="eve@elsewhere.org", email_verified=True)
        server.start()
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        try:
            page.route("https://**", lambda route: route.abort())  # the style of the provider's own pages
            page.goto(f"{here}/runs?compare=a,b")
            page.get_by_role("link", name="Log in with Example").click()
            page.get_by_placeholder("sub").fill("s-eve")
            page.get_by_role("button", name="Authorize").click()
            expect(page.get_by_text("You have no account here")).to_be_visible()
            page.goto(f"{here}/runs?compare=a,b")
            page.get_by_role("link", name="Log in with Example").click()
            page.get_by_placeholder("sub").fill("s-ada")
            page.get_by_role("button", name="Authorize").click()
            expect(page.get_by_text("ada@example.org, viewer")).to_be_visible()
            expect(page).to_have_url(f"{here}/runs?compare=a,b")
            settled(page)
            page.get_by_text("Log out").click()
            page.get_by_role("button", name="End session").click()
            expect(page.get_by_role("link", name="Log in with Example")).to_be_visible()
            page.goto(f"{here}/models")
            expect(page.get_by_role("link", name="Log in with Example")).to_be_visible()
        finally:
            page.context.close()
            server.stop()
