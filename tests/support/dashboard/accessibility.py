"""What axe-core, which knows the rules for screen readers and for contrast, finds wrong with a page in either theme."""

from __future__ import annotations

from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from support.browser import LOOK

# Streamlit follows the system's theme a moment after the browser has told it, and some colours fade into the new ones.
# Our own style is there when Streamlit has fetched the script that shows HTML: on a slow machine seconds after the text.
FOLLOWED = """light => {
  const app = document.querySelector('[data-testid=stApp]')  // the page to log in has none, and brings its style along
  const page = getComputedStyle(app ?? document.body)
  const fades = document.getAnimations().some(one => one instanceof CSSTransition && one.playState === 'running')
  const styled = !app || [...document.querySelectorAll('style')].some(one => one.textContent.includes('.shoal-notice'))
  return styled && !fades && (parseInt(page.backgroundColor.match(/\\d+/)[0]) > 127) === light
}"""
RULES: dict[Literal["light", "dark"], dict[str, Any]] = {
    "light": {},
    "dark": {"runOnly": ["color-contrast"]},  # all else is the same in both
}


def faults(page: Page) -> list[str]:
    """Every element that breaks a rule, with the theme, the rule and what is wrong; none is accepted."""
    page.evaluate(AXE_SCRIPT)
    found = []
    for theme, rules in RULES.items():
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(FOLLOWED, arg=theme == "light", polling=LOOK)
        asked = {"resultTypes": ["violations"], "preload": False, **rules}
        answer = page.evaluate("options => axe.run(document, options)", asked)
        found += [
            f"{theme}: {rule['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary']}"
            for rule in answer["violations"]
            for node in rule["nodes"]
        ]
    return found
