"""The site of docs/ in a real browser, opened from a disk: it searches, and asks no network.

Skipped, with the reason, where there is no Chromium, no playwright or no MkDocs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from browser_pages import CHROMIUM
from conftest import ROOT

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; .ci/install-system installs it"),
]


def test_the_site_searches_from_a_disk(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="no MkDocs: pip install -e '.[docs]'")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: pip install -e '.[system]'"
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    asked: list[str] = []
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "index.html").as_uri())
        page.keyboard.press("/")
        page.keyboard.type("stragglers", delay=20)
        found = page.locator(".md-search-result a[href*='definitions/communication.html']").first
        found.wait_for(state="attached", timeout=20_000)
        browser.close()
    assert all(url.startswith(tmp_path.as_uri()) for url in asked), asked
