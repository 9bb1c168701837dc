"""A recorded run of the pocket model, a server of the pages, and a browser."""

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest
import uvicorn

from engine.storage.installation import CHROMIUM, first_installed
from grpo_training.view.data.runs import Store
from grpo_training.view.start import listen
from grpo_training.view.web.server import application
from tests.support.viewer_runs import pocket_run

_LIMIT_S = 60
"""It only ends a hang: a busy machine may take seconds for a page."""


@pytest.fixture(scope="session")
def pocket(tmp_path_factory):
    """The folder of a recorded run. Not to be written to."""
    return pocket_run(tmp_path_factory.mktemp("pocket"))


@contextlib.contextmanager
def _served(folders):
    listening = listen(0)
    server = uvicorn.Server(uvicorn.Config(application(Store(folders)), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def served():
    """``with served([folder]) as address``: the pages of some folders."""
    return _served


@pytest.fixture(scope="module")
def chromium():
    """A browser of the machine; tests that need it are skipped without one.

    Playwright has an event loop in this thread as long as it runs: tests of other modules could not run their own.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = first_installed(CHROMIUM)
    if path is None:
        pytest.skip("Chromium is not installed (apt-get install chromium-headless-shell)")
    playwright.expect.set_options(timeout=_LIMIT_S * 1000)
    with playwright.sync_playwright() as driver:
        arguments = ["--disable-gpu-compositing"]  # without a GPU, emulating one takes more time than the pages
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        browser = driver.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Open pages in a context of its own. The test fails if a page logs an error or asks for another machine."""
    contexts, wrong = [], []

    def note(message):
        # A live page asks its server again and again, also just after the test has stopped that.
        if message.type in ("error", "warning") and "ERR_CONNECTION_REFUSED" not in message.text:
            wrong.append(message.text)

    def open_one(address, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options})
        context.set_default_timeout(_LIMIT_S * 1000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: None if _is_here(request.url) else wrong.append(request.url))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(address)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert wrong == []


def _is_here(address):
    return address.startswith(("http://127.0.0.1:", "file:///", "data:"))


@pytest.fixture(scope="session")
def screenshot():
    """Save a picture of a page in the folder of ``$VIEWER_SCREENSHOTS``; without it, do nothing."""
    folder = os.environ.get("VIEWER_SCREENSHOTS")

    def save(page, name):
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)

    return save
