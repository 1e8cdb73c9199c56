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


def _of_rows(folder: Path) -> str:
    return page_of(folder, *ROWS, limit=_ROWS)


def _of_file(name: str) -> Callable[[Path], str]:
    return lambda _: rendered(api.page(FIXTURES / name, limit=_ROWS))


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
    "small": _of_rows,
    "real": _of_file("nsys/basic-3.25.0.sqlite"),
    "kineto": _of_file("kineto/basic-2.13.json"),
    "totals": _of_file("nvprof_log/basic-summary.csv"),
    "metrics": _of_file("nvprof_log/odd-metrics.csv"),
    "samples": _of_file("nvidia_smi/query.csv"),
    "ranks": _ranks,
    "diff": _diff,
    "hostile": _hostile,
}


@pytest.fixture(scope="module", params=PAGES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return PAGES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core."""
    package = pytest.importorskip(
        "axe_playwright_python", reason="no axe: pip install -e '.[system]'"
    )
    return resources.files(package).joinpath("axe.min.js").read_text("utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found(opened: Opened, axe: str, made: str, scheme: str) -> None:
    page = opened(made, color_scheme=scheme)
    # With all that can be opened.
    page.evaluate("""() => {
        for (const each of document.querySelectorAll("details")) each.open = true;
        for (const each of document.querySelectorAll(".tools button[aria-expanded=false]")) each.click();
        for (const each of document.querySelectorAll(".tools input[type=checkbox]")) each.click();
        for (const each of document.querySelectorAll("#lanes-names .metrics")) each.click();
        document.querySelector("#lanes-names .lane")?.click();
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


def test_axe_finds_what_is_wrong(opened: Opened, axe: str) -> None:
    """The check itself: gray on white, and a field without a name."""
    words = "<p style='color:#ccc'>pale<p><input>"
    page = opened(f"<!DOCTYPE html><html lang=en><title>t</title>{words}")
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(found => found.violations.map(each => each.id))")
    assert {"color-contrast", "label"} <= set(found)
