"""The page of several ranks in a real browser: each over time in the colors of the classes."""

from __future__ import annotations

from pathlib import Path

from browser_pages import Opened, browser, file, opened, pytestmark
from pages import rendered
from small_store import Kernel, write

from nsysconv import api

ZERO = 1_700_000_000_000_000_000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(void*)"
US = 1000


def ranks(folder: Path, *later: int, utc: int | None = ZERO) -> str:
    """The page of ranks that compute until 400 µs or later, and then reduce together until 1 ms.

    Each was started 100 µs after the one before.
    """
    store = folder / "job.db"
    for rank, end in enumerate(later):
        rows = (Kernel(0, end * US, name="gemm"), Kernel(end * US, 1000 * US, name=REDUCE))
        zero = None if utc is None else utc + 100 * US * rank
        write(store, *rows, ranks={1: rank}, label=f"rank{rank}", run="job", utc=zero)
    return rendered(api.page(store))


def test_ranks_lie_on_one_axis_and_the_late_one_is_marked(opened: Opened, tmp_path: Path) -> None:
    page = opened(ranks(tmp_path, 400, 400, 900))
    lines = page.locator("#s-over-time .classes ol > li")
    assert [line.locator(".lb").inner_text() for line in lines.all()] == [
        "rank 0",
        "rank 1",
        "rank 2 late",
    ]
    boxes = [line.locator("svg").bounding_box() for line in lines.all()]
    room = lines.first.locator(".over").bounding_box()
    assert room is not None
    # All together take 1.2 ms; each 1 ms, and begins 0.1 ms after the one before.
    for rank, box in enumerate(boxes):
        assert box is not None
        assert abs((box["x"] - room["x"]) / room["width"] - rank / 12) < 0.002
        assert abs(box["width"] / room["width"] - 10 / 12) < 0.002
    marked = page.evaluate(
        "[...document.querySelectorAll('#s-over-time svg')].map(e => getComputedStyle(e).outlineStyle)"
    )
    assert marked == ["none", "none", "solid"]
    # Two colors: what is drawn over the other ends where it does, at 0.4 and 0.9 ms.
    assert lines.first.locator("path").count() == 2
    assert page.locator("#s-over-time .classes .legend").inner_text().split("\n") == [
        "computation", "exposed communication",
    ]  # fmt: skip


def test_ranks_without_a_time_of_day_have_an_axis_each(opened: Opened, tmp_path: Path) -> None:
    page = opened(ranks(tmp_path, 400, 900, utc=None))
    assert (
        "each row from the start to the end of its own window"
        in page.locator("#s-over-time figcaption").inner_text()
    )
    widths = page.evaluate(
        "[...document.querySelectorAll('#s-over-time svg')]"
        ".map(e => e.clientWidth / e.parentElement.clientWidth)"
    )
    assert min(widths) > 0.99


def test_no_bar_is_made_of_extremes_of_different_ranks(opened: Opened, tmp_path: Path) -> None:
    page = opened(ranks(tmp_path, 400, 900))
    bars = page.locator("#r-rank-summary figure .lb").all_inner_texts()
    assert bars == ["rank 0", "rank 1"]
    assert "median" in page.locator("#r-rank-summary table").inner_text()
