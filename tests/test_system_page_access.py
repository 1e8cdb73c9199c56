"""What axe-core finds wrong for people who cannot see, or not well, or who use no mouse: nothing serious.

Skipped, with the reason, where there is no Chromium, playwright or axe; `make test-system` runs these.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from browser_pages import Opened, browser, file, opened, pytestmark
from conftest import FIXTURES
from pages import ROWS, hostile, page_of, rendered
from small_store import Kernel, Memcpy, Range, write

from nsysconv import api

_BAD = ("serious", "critical")
_ROWS = 9
"""Of each table: as many as it needs for all its tools, for axe looks at each cell."""


def _small(folder: Path) -> str:
    return page_of(folder, *ROWS, limit=_ROWS)


def _real(_: Path) -> str:
    return rendered(api.page(FIXTURES / "nsys" / "basic-3.25.0.sqlite", limit=_ROWS))


def _kineto(_: Path) -> str:
    return rendered(api.page(FIXTURES / "kineto" / "basic-2.13.json", limit=_ROWS))


def _totals(_: Path) -> str:
    return rendered(api.page(FIXTURES / "nvprof_log" / "basic-summary.csv", limit=_ROWS))


def _metrics(_: Path) -> str:
    return rendered(api.page(FIXTURES / "nvprof_log" / "odd-metrics.csv", limit=_ROWS))


def _ranks(folder: Path) -> str:
    for rank in range(6):
        rows = (Kernel(0, 800 + 50 * rank, name="gemm"), Memcpy(1000, 1100), Range(0, 10, "step"))
        write(folder / "job.db", *rows, ranks={1: rank}, label=f"worker-{rank}")
    return rendered(api.page(folder / "job.db", limit=_ROWS))


def _diff(folder: Path) -> str:
    for name, end in (("before", 400), ("after", 200)):
        rows = (Kernel(0, end, name="gemm"), Kernel(500, 1000, name="norm"))
        write(folder / f"{name}.db", *rows, label=name)
    compared = api.compare(folder / "before.db", folder / "after.db")
    return rendered([compared.headline, *compared.reports])


def _hostile(folder: Path) -> str:
    return page_of(folder, *hostile(), limit=_ROWS)


PAGES = {
    "small": _small,
    "real": _real,
    "kineto": _kineto,
    "totals": _totals,
    "metrics": _metrics,
    "ranks": _ranks,
    "diff": _diff,
    "hostile": _hostile,
}


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core."""
    package = pytest.importorskip(
        "axe_playwright_python", reason="no axe: pip install -e '.[system]'"
    )
    return resources.files(package).joinpath("axe.min.js").read_text("utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("made", PAGES.values(), ids=PAGES)
def test_nothing_serious_is_found(
    opened: Opened,
    tmp_path: Path,
    axe: str,
    made: Callable[[Path], str],
    scheme: str,
) -> None:
    path = tmp_path / "page.html"
    path.write_text(made(tmp_path), encoding="utf-8")
    page = opened(path, color_scheme=scheme)
    # With all that can be opened.
    page.evaluate("""() => {
        for (const each of document.querySelectorAll("details")) each.open = true;
        for (const each of document.querySelectorAll(".tools button[aria-expanded=false]")) each.click();
        for (const each of document.querySelectorAll(".tools input[type=checkbox]")) each.click();
    }""")
    page.evaluate(axe)
    run = "axe.run({resultTypes: ['violations']}).then(found => found.violations)"
    found: list[dict[str, Any]] = page.evaluate(run)
    bad = [
        f"{each['id']}: {node['html'][:200]} - {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in _BAD
        for node in each["nodes"][:3]
    ]
    assert bad == []


def test_axe_finds_what_is_wrong(opened: Opened, tmp_path: Path, axe: str) -> None:
    """The check itself: grey on white, and a field without a name."""
    path = tmp_path / "page.html"
    path.write_text(
        "<!DOCTYPE html><html lang=en><title>t</title><p style='color:#ccc'>pale<p><input>",
        encoding="utf-8",
    )
    page = opened(path)
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(found => found.violations.map(each => each.id))")
    assert {"color-contrast", "label"} <= set(found)
