"""A browser and a server for each file of tests, and a tab for each test."""

from support.browser import browser, server, visitor, window

__all__ = ["browser", "server", "visitor", "window"]
