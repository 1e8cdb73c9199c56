"""Pages in a real browser: what tests of them share.

Skipped, with the reason, where there is no Chromium or no playwright; `make test-system` runs these.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pages import hostile, page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; .ci/install-system installs it"),
]

Opened = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: pip install -e '.[system]'"
    )
    with playwright.sync_playwright() as started:
        # As root Chromium starts without its sandbox only; no name is looked up.
        arguments = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
        found = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose every name is hostile."""
    folder = tmp_path_factory.mktemp("page")
    path = folder / "page.html"
    path.write_text(page_of(folder, *hostile()), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Opened]:
    """Opens the page offline, and in the end says what it asked for and complained of.

    All sections are unfolded where nothing else is said.
    """
    contexts, asked, said, files = [], [], [], set()

    def open_page(path: Path = file, fragment: str = "", unfold: bool = True, **options: Any) -> Page:
        context = browser.new_context(
            offline=True, **{"viewport": {"width": 1200, "height": 800}, **options}
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(path.as_uri() + fragment)
        files.add(path.as_uri())
        button = page.locator("nav button", has_text="Open all")
        if unfold and button.count():
            button.click()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert set(asked) == files
    assert said == []


def pinch(page: Page, x: float, y: float) -> None:
    """Puts two fingers 60 pixels apart around a place and moves them to 160."""
    touch = page.context.new_cdp_session(page)

    def fingers(kind: str, apart: float) -> None:
        points = (
            [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}] if apart else []
        )
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", 30)
    for apart in (40, 60, 80):
        fingers("touchMove", apart)
    fingers("touchEnd", 0)
