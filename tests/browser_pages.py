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
from small_store import Row

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; .ci/install-system installs it"),
]

_MADE: dict[str, Path] = {}
"""Pages of rows, by these."""
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
def opened(
    browser: Browser, file: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """Opens a page offline, and in the end says what it asked for and complained of.

    The page is a file, a text, or that of rows, which is made once. All sections are unfolded where
    nothing else is said.
    """
    contexts, asked, said, files = [], [], [], set()

    def path_of(source: Path | str | tuple[Row, ...]) -> Path:
        if isinstance(source, Path):
            return source
        if isinstance(source, str):
            path = tmp_path / f"opened-{len(contexts)}.html"
            path.write_text(source, encoding="utf-8")
            return path
        key = repr(source)
        if key not in _MADE or not _MADE[key].exists():
            folder = tmp_path_factory.mktemp("page")
            _MADE[key] = folder / "page.html"
            _MADE[key].write_text(page_of(folder, *source), encoding="utf-8")
        return _MADE[key]

    def open_page(
        source: Path | str | tuple[Row, ...] = file, fragment: str = "", unfold: bool = True,
        **options: Any,
    ) -> Page:  # fmt: skip
        path = path_of(source)
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
