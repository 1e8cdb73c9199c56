"""Lanes of the time line that are pinned on top, and those of sampled metrics, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_pages import Opened, browser, file, opened, pytestmark
from conftest import FIXTURES
from pages import rendered
from small_store import Call, Kernel, Metric, Range, Row
from test_system_page_account import color_of, colors
from test_system_page_groups import labels
from test_system_page_lanes import address, go, said

from nsysconv import api

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Thirty threads with a call each: more than there is room for.
ROWS: tuple[Row, ...] = (
    Kernel(0, 1000, 1, name="gemm", stream=1),
    Kernel(500, 1000, 2, name="norm", stream=2),
    *(Call(10 * i, 10 * i + 5, i, tid=i) for i in range(1, 31)),
    Range(0, 400, "load", tid=30),
)


def lane(page: Page, name: str) -> str:
    """Where the label of a lane is, and whether it is pinned."""
    found: str = page.evaluate(
        """name => {
          const labels = [...document.querySelectorAll("#lanes-names .lane")];
          const label = labels.find((each) => each.textContent === name);
          const top = (each) => each.getBoundingClientRect().top;
          const y = Math.round(top(label) - top(document.getElementById("lanes-scroll")));
          return `${y} ${label.getAttribute("aria-pressed")}`;
        }""",
        name,
    )
    return found


def scroll(page: Page, top: int) -> None:
    page.evaluate("top => { document.getElementById('lanes-scroll').scrollTop = top; }", top)
    page.wait_for_timeout(100)


def at(page: Page, share: float, y: float) -> tuple[float, float]:
    page.locator("#lanes-canvas").scroll_into_view_if_needed()
    box = page.locator("#lanes-canvas").bounding_box()
    assert box is not None
    return box["x"] + box["width"] * share, box["y"] + y


def test_a_lane_is_pinned_by_its_name_and_stays_as_others_are_scrolled(opened: Opened) -> None:
    page = opened(ROWS)
    page.locator("#lanes-names .lane", has_text="stream 2").click()
    assert said(page) == ["GPU 0, stream 2 is pinned on top"]
    assert lane(page, "stream 2, GPU 0") == "33 true"
    blue = colors(page, 0.75, 40, 2, 2)
    scroll(page, 300)
    assert lane(page, "stream 2, GPU 0") == "33 true"
    assert colors(page, 0.75, 40, 2, 2) == blue != {color_of(page, "--bg")}
    # What is there is what was pinned, not what was scrolled below it.
    page.mouse.click(*at(page, 0.75, 40))
    assert said(page)[0].startswith("kernel on GPU 0, stream 2: norm")
    page.locator("#lanes-names .pinned .lane").click()
    assert said(page) == ["GPU 0, stream 2 is not pinned any more"]
    scroll(page, 0)
    assert "stream 2" in labels(page)


def test_what_is_scrolled_away_is_not_drawn_over_pinned_lanes_nor_times(opened: Opened) -> None:
    """Left of where the pinned stream begins there is nothing, and its GPU was busy."""
    page = opened(ROWS)
    page.locator("#lanes-names .lane", has_text="stream 2").click()
    empty = {color_of(page, name) for name in ("--bg", "--line", "--quiet")}
    for top in (0, 20, 40, 47, 60, 75, 90):
        scroll(page, top)
        assert colors(page, 0.37, 34, 2, 32) <= empty
    scroll(page, 0)
    assert color_of(page, "--computation") in colors(page, 0.37, 100, 2, 32)


def test_by_keys(opened: Opened) -> None:
    page = opened(ROWS)
    page.locator("#lanes-canvas").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert said(page)[0].startswith("thread 2: ")
    page.keyboard.press("t")
    assert said(page) == ["thread 2 is pinned on top"]
    scroll(page, 400)
    # The canvas has kept the focus, and N is the lane's next event, which is in sight.
    page.keyboard.press("n")
    assert said(page)[0].startswith("API call on thread 2")
    assert page.evaluate("document.getElementById('lanes-scroll').scrollTop") == 400
    page.keyboard.press("t")
    assert "thread 2" in labels(page)


def test_by_touch(opened: Opened) -> None:
    page = opened(ROWS, has_touch=True, viewport={"width": 400, "height": 800})
    page.locator("#lanes-names .lane", has_text="stream 1").tap()
    assert said(page) == ["GPU 0, stream 1 is pinned on top"]
    scroll(page, 300)
    page.touchscreen.tap(*at(page, 0.75, 40))
    assert said(page)[0].startswith("kernel on GPU 0, stream 1: gemm")


def test_the_address_has_the_pinned_lanes(opened: Opened) -> None:
    page = opened(ROWS)
    for name in ("stream 1", "thread 30"):
        page.locator("#lanes-names .lane", has_text=name).first.click()
    page.wait_for_timeout(400)
    where = address(page)
    assert where.endswith("&pin=1,32")
    again = opened(ROWS, fragment=f"#{where}")
    assert [lane(again, name) for name in ("stream 1, GPU 0", "thread 30, process 1")] == [
        "33 true", "55 true"]  # fmt: skip


def head(page: Page) -> str:
    page.wait_for_timeout(100)
    return next(words for words in said(page) if words.startswith("Selected"))


def test_a_selection_from_a_pinned_lane_to_another_has_these_lanes_only(opened: Opened) -> None:
    page = opened(ROWS)
    page.locator("#lanes-names .lane", has_text="stream 1").click()
    scroll(page, 150)
    page.mouse.move(*at(page, 0.1, 40))
    page.mouse.down()
    page.mouse.move(*at(page, 0.3, 60))
    page.mouse.move(*at(page, 0.5, 75))
    page.mouse.up()
    page.wait_for_timeout(400)
    assert head(page) == "Selected: 400 ns from 100 ns on 3 lanes"
    where = address(page)
    assert re.search(r"select=100:500:1,(\d+),(\d+)&pin=1", where)
    again = opened(ROWS, fragment=f"#{where}")
    assert head(again) == head(page)


def test_others_keep_some_room(opened: Opened) -> None:
    page = opened(ROWS, viewport={"width": 1200, "height": 500})
    for _ in range(6):
        page.locator("#lanes-names > .lane", has_text="thread").first.evaluate("label => label.click()")
    assert said(page)[0].startswith("There is no room to pin thread ")
    height = page.locator("#lanes-canvas").evaluate("canvas => canvas.clientHeight")
    pinned = page.locator("#lanes-names .pinned").evaluate("box => box.clientHeight")
    assert pinned <= 0.6 * height


def test_a_link_into_a_pinned_lane_does_not_scroll(opened: Opened) -> None:
    page = opened(ROWS)
    page.locator("#lanes-names .lane", has_text="thread 1").first.click()
    scroll(page, 200)
    go(page, "event=api_call:1")
    assert said(page)[0].startswith("API call on thread 1")
    assert page.evaluate("document.getElementById('lanes-scroll').scrollTop") == 200


# -- sampled metrics


def samples(count: int, device: int | None = 0) -> list[Row]:
    """Of metrics with a sample of 10 in the first half and one of 100, two of 50 in the other."""
    return [
        Metric(f"metric {i}", None, value, start=start, device=device)
        for i in range(count)
        for start, value in ((0, 10.0), (250, 10.0), (500, 100.0), (510, 50.0), (990, 50.0))
    ]


def test_sampled_metrics_are_lanes_of_their_gpu_on_the_same_axis(opened: Opened) -> None:
    page = opened((Kernel(0, 1000), *samples(1)))
    assert labels(page) == ["\u25be GPU 0", "account", "stream 7", "metric 0"]
    top = 32 + 22 + 39 + 22
    dark, plain = color_of(page, "--s6"), color_of(page, "--bg")
    assert dark not in colors(page, 0.3, top + 15, 2, 8)
    assert dark in colors(page, 0.3, top + 28, 2, 3)  # a tenth of the height
    page.mouse.move(*at(page, 0.3, top + 20))
    assert said(page)[0].startswith("GPU 0: metric 0: 10 for ")
    # In one of at most ten bins there are two samples: solid up to the mean, faint up to the greatest.
    page.mouse.move(*at(page, 0.55, top + 20))
    assert said(page) == [
        "GPU 0: metric 0: 75 on average, from 50 to 100 in 2 samples, 400 ns from 500 ns"
    ]
    faint = colors(page, 0.55, top + 3, 2, 3)
    assert faint not in ({dark}, {plain})
    assert colors(page, 0.55, top + 20, 2, 6) == {dark}


def test_many_metrics_are_off_until_they_are_asked_for(opened: Opened) -> None:
    page = opened((Kernel(0, 1000), *samples(5), *samples(2, device=1), Kernel(0, 900, device=1)))
    found = [label for label in labels(page) if "metric" in label]
    assert found == ["+5 metrics", "metric 0", "metric 1"]
    page.locator("#lanes-names .metrics").click()
    assert labels(page)[3:9] == ["\u22125 metrics", *(f"metric {i}" for i in range(5))]
    # One that is pinned stays when the others are off again.
    page.locator("#lanes-names .lane", has_text="metric 3").click()
    page.locator("#lanes-names .metrics").click()
    assert lane(page, "metric 3, GPU 0") == "33 true"
    assert "metric 2" not in labels(page)
    # Folded, a group has no metrics to be asked for.
    page.locator("#lanes-names .group").first.click()
    assert "+5 metrics" not in labels(page)


def test_a_log_of_samples_alone_has_a_time_line(opened: Opened) -> None:
    page = opened(rendered(api.page(FIXTURES / "nvidia_smi" / "query.csv")))
    found = labels(page)
    assert found[:4] == ["\u25be GPU 0", "\u22126 metrics", "clocks.current.sm", "memory.used"]
    page.mouse.move(*at(page, 0.1, 32 + 22 + 22 + 35 * 2 + 10))
    assert said(page)[0].startswith("GPU 0: power.draw: 60 W for ")
    page.locator("#lanes-canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("n")  # no event is there, which is said
    assert "no single event is known" in said(page)[0]
