"""Playwright, imported when a page is first looked at: it takes a second, in each process that collects tests."""


def expect(locator):
    """Playwright's ``expect``: assertions that wait."""
    from playwright.sync_api import expect as assertions

    return assertions(locator)
