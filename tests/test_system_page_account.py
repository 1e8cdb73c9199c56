"""The lane of each GPU's account in a real browser: gaps are drawn in their place and explained."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser_pages import Opened, browser, file, opened, pytestmark
from pages import rendered
from small_store import Call, Kernel, Memcpy, Range, Row, write
from test_system_page_lanes import ROWS as LINES
from test_system_page_lanes import STREAM, address, go, said, span

from nsysconv import api
from nsysconv.api import html_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

MS = 1_000_000
ACCOUNT = 32 + 22 + 17
"""The middle of the first lane."""

# A step of 10 ms: the batch is loaded for 6 of them, then copied, then computed.
ROWS: tuple[Row, ...] = tuple(
    row
    for i in range(5)
    for row in (
        Range((10 * i) * MS, (10 * i + 6) * MS, "load batch"),
        Call((10 * i + 6) * MS, (10 * i + 6) * MS + 10_000, 2 * i + 1, name="cudaMemcpyAsync"),
        Memcpy((10 * i + 6) * MS + 20_000, (10 * i + 7) * MS, 2 * i + 1),
        Call((10 * i + 6) * MS + 50_000, (10 * i + 6) * MS + 60_000, 2 * i + 2),
        Kernel((10 * i + 7) * MS, (10 * i + 10) * MS, 2 * i + 2, name="gemm"),
    )
)
GAP = (10 * MS, 16 * MS + 20_000)
"""The first gap, of 6.02 ms: gap:1."""


@pytest.fixture
def loading(opened: Opened) -> Page:
    return opened(ROWS)


def view(page: Page) -> tuple[float, float]:
    """From when until when is shown, in ns."""
    low, high = address(page).split("&")[0].removeprefix("time=").split(":")
    return float(low), float(high)


def place(page: Page, moment: float, shown: tuple[float, float], y: float) -> tuple[float, float]:
    """Where on the page a moment is at a height of the canvas."""
    page.locator("#lanes-canvas").scroll_into_view_if_needed()
    box = page.locator("#lanes-canvas").bounding_box()
    assert box is not None
    return box["x"] + box["width"] * (moment - shown[0]) / (shown[1] - shown[0]), box["y"] + y


def colors(page: Page, x: float, y: float, width: int = 8, height: int = 8) -> set[tuple[int, ...]]:
    """The colors around a place of the canvas, of a share `x` of its width."""
    page.wait_for_timeout(100)
    found = page.evaluate(
        """([x, y, width, height]) => {
          const canvas = document.getElementById("lanes-canvas"), copy = document.createElement("canvas");
          Object.assign(copy, { width, height });
          const pen = copy.getContext("2d", { willReadFrequently: true });
          pen.drawImage(canvas, Math.round(width / 2 - x * canvas.width), Math.round(height / 2 - y));
          const at = pen.getImageData(0, 0, width, height).data;
          return [...Array(at.length / 4).keys()].map(i => [...at.slice(4 * i, 4 * i + 3)]);
        }""",
        [x, y, width, height],
    )
    return set(map(tuple, found))


def color_of(page: Page, name: str) -> tuple[int, ...]:
    """A color of the style sheet."""
    style = "getComputedStyle(document.documentElement)"
    text = page.evaluate(f"name => {style}.getPropertyValue(name).trim()", name)
    text = text[1:] if len(text) == 7 else "".join(2 * c for c in text[1:])
    return tuple(int(text[i : i + 2], 16) for i in (0, 2, 4))


# -- a finding on idle time leads to the gap


def test_a_finding_on_idle_time_shows_all_of_its_gap(loading: Page) -> None:
    finding = loading.locator("#answer li", has_text="load batch").first
    finding.locator("a", has_text="show it in the time line").click()
    low, high = view(loading)
    start, end = GAP
    in_view = max(min(high, end) - max(low, start), 0)
    assert in_view == end - start
    # It is what one sees: more than a third of the picture, and not a hair in an hour.
    assert in_view > (high - low) / 3
    assert said(loading)[0] == "gap:1 on GPU 0: idle for 6.02 ms from 10,000,000 ns"
    assert address(loading).endswith("event=gap:1")


def test_a_gap_says_its_parts_what_the_host_did_and_which_call_came_late(loading: Page) -> None:
    go(loading, "event=gap:1")
    assert said(loading) == [
        "gap:1 on GPU 0: idle for 6.02 ms from 10,000,000 ns",
        "CPU-bound 6 ms, launch latency 10 µs, queued 10 µs; the host was in load batch for 6 ms of "
        "that.",
        "It ended as [memcpy HtoD] began (memcpy:2); launched by cudaMemcpyAsync on thread 11, called "
        "6 ms after the gap began.",
        "show what ended it",
        "nsysconv why TARGET gap:1",
    ]  # fmt: skip
    loading.locator("#lanes-event button", has_text="show what ended it").click()
    assert said(loading)[0].startswith("copy on GPU 0, stream 7: [memcpy HtoD], 980 µs")


# -- the lane


def test_the_lane_has_the_colors_of_the_account_and_idle_time_is_hatched(loading: Page) -> None:
    computation, idle = color_of(loading, "--computation"), color_of(loading, "--idle_host")
    whole = 50 * MS
    assert colors(loading, 8.5 * MS / whole, ACCOUNT) == {computation}
    assert colors(loading, 6.5 * MS / whole, ACCOUNT) == {color_of(loading, "--memcpy")}
    hatched = colors(loading, 13 * MS / whole, ACCOUNT + 12)
    assert idle in hatched
    assert len(hatched) > 1
    assert computation not in hatched
    # Nothing is drawn before the first operation.
    assert colors(loading, 3 * MS / whole, ACCOUNT) == {color_of(loading, "--bg")}


def test_pointing_at_the_lane_says_what_it_was_and_a_click_chooses_the_gap(loading: Page) -> None:
    whole = (0, 50 * MS)
    loading.mouse.move(*place(loading, 8 * MS, whole, ACCOUNT))
    assert said(loading) == ["GPU 0: where the time went: computation for 3 ms from 7,000,000 ns"]
    gap = place(loading, 25 * MS, whole, ACCOUNT)
    loading.mouse.move(*gap)
    assert said(loading)[0] == "gap:2 on GPU 0: idle for 6.02 ms from 20,000,000 ns"
    loading.mouse.click(*gap)
    assert address(loading) == "time=0:50000000&event=gap:2"
    loading.keyboard.press("f")
    assert span(loading).startswith("10.836 ms from ")  # 1.8 times as long


def test_gaps_are_walked_through_by_keys(loading: Page) -> None:
    loading.locator("#lanes-canvas").focus()
    loading.keyboard.press("ArrowUp")
    assert said(loading) == ["GPU 0: where the time went: N is the next event"]
    for number in (1, 2):
        loading.keyboard.press("n")
        assert said(loading)[0].startswith(f"gap:{number} on GPU 0: ")


def test_the_words_of_a_gap_are_in_its_place_if_there_is_room(loading: Page) -> None:
    loading.evaluate(
        """() => {
          window.written = [];
          const write = CanvasRenderingContext2D.prototype.fillText;
          CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
            window.written.push(text);
            return write.call(this, text, ...at);
          };
        }"""
    )
    go(loading, "event=gap:1")
    span(loading)
    assert "6 ms, CPU-bound: load batch" in loading.evaluate("window.written")
    loading.evaluate("window.written = []")
    loading.keyboard.press("0")
    span(loading)
    assert "6 ms, CPU-bound: load batch" not in loading.evaluate("window.written")
    assert "6 ms, CPU-bound" in loading.evaluate("window.written")


def test_each_gpu_has_its_lane_on_top_of_its_streams(opened: Opened) -> None:
    rows = [Kernel(100 * i, 100 * i + 50, device=i % 2, stream=7 + i % 2, name="k") for i in range(8)]
    page = opened(tuple(rows))
    names = page.evaluate(
        "lanes_data.decode(JSON.parse(document.getElementById('lanes-data').textContent)).lanes"
        ".map(lane => lane.name)")  # fmt: skip
    assert names == ["GPU 0: where the time went", "GPU 0, stream 7",
                     "GPU 1: where the time went", "GPU 1, stream 8"]  # fmt: skip


# -- of a long recording


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4000 kernels, with a gap of 501 ns or 1 ns after each; 20 of them are longer by 2000."""
    rows, at = [], 1000
    for i in range(4000):
        length = 999 if i % 2 else 499
        rows.append(Kernel(at, at + length, name=f"k{i % 2}"))
        at += 1000 + (2000 if i % 200 == 100 else 0)
    path = tmp_path_factory.mktemp("long") / "long.db"
    write(path, *rows)
    return path


@pytest.fixture(scope="module")
def long_page(store: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_report, "MOST_EVENTS", 300)
        patch.setattr(html_report, "MOST_GAPS", 20)
        return rendered(api.page(store))


def columns(page: Page, low: float, high: float, width: int) -> dict[str, float]:
    """How much of a view the lane shows as what, in ns."""
    return page.evaluate(
        """([low, high, width]) => {
          const data = lanes_data.decode(JSON.parse(document.getElementById("lanes-data").textContent));
          const { account } = data.lanes[0], found = lanes_account.columns(account, { low, high, width });
          const sums = {};
          found.forEach((share, i) => {
            const name = account.classes[i % account.classes.length];
            sums[name] = (sums[name] || 0) + share * (high - low) / width;
          });
          return sums;
        }""",
        [low, high, width],
    )  # type: ignore[no-any-return]


@pytest.mark.parametrize("width", [50, 1160])
def test_tiles_and_pieces_add_up_to_the_account(
    opened: Opened, store: Path, long_page: str, width: int
) -> None:
    page = opened(long_page)
    with api.open(store) as profile:
        pieces = profile.report("timeline_account").rows()
        tiles = profile.report("account_tiles:bins=4096").rows()
    first, wide = tiles[0]["start_ns"], tiles[0]["dur_ns"]
    assert len({(row["start_ns"]) for row in pieces}) > 4000
    # Views that begin and end where tiles do.
    for low, high in ((first, first + 4096 * wide), *pairwise(first + n * wide for n in (100, 130, 900))):
        expected: dict[str, float] = {}
        for row in pieces:
            inside = min(row["start_ns"] + row["dur_ns"], high) - max(row["start_ns"], low)
            if inside > 0:
                expected[row["time_class"]] = expected.get(row["time_class"], 0) + inside
        found = {name: time for name, time in columns(page, low, high, width).items() if time}
        assert found == pytest.approx(expected, rel=1e-6)


def test_a_known_gap_is_not_drawn_as_work_among_tiles(
    opened: Opened, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_report, "MOST_EVENTS", 300)
    # All gaps of 501 ns are among the 2000 longest.
    page = opened(rendered(api.page(store)), fragment="#time=691000:713000")
    assert "Single events of this part are not in this page" in page.locator("#lanes-limit").inner_text()
    # The kernel 690 begins at 1000 + 690 * 1000 + 3 * 2000, after three long gaps, and takes 499 ns.
    kernel, gap = ((moment - 691_000) / 22_000 for moment in (697_250, 697_750))
    background = color_of(page, "--bg")
    assert colors(page, gap, STREAM) == {background}
    assert color_of(page, "--idle_unknown") in colors(page, gap, ACCOUNT + 12)
    assert colors(page, kernel, ACCOUNT) == {color_of(page, "--computation")}
    assert background not in colors(page, kernel, STREAM, height=2)


# -- keys go on from what was chosen


def test_n_goes_on_from_what_was_clicked(opened: Opened) -> None:
    page = opened(LINES)
    # The first operator on the thread, below the stream: aten::mm in the second row.
    page.mouse.click(*place(page, 2500, (1000, 11_000), STREAM + 17 + 9 + 16 + 17))
    assert "aten::mm" in said(page)[0]
    page.keyboard.press("n")
    assert said(page)[0].startswith("API call on thread 11: cudaLaunchKernel")


def test_n_goes_on_from_what_was_found(opened: Opened) -> None:
    page = opened(LINES)
    page.locator("#lanes-search").fill("aten::add")
    page.locator("#lanes-found li:not(.steps) button").first.click()
    page.keyboard.press("n")
    assert said(page)[0].startswith("API call on thread 11: cudaLaunchKernel")


def test_m_takes_the_selection_and_its_words_away(loading: Page) -> None:
    go(loading, "event=gap:1")
    loading.keyboard.press("m")
    assert said(loading)[0].startswith("Selected: 6.02 ms")
    loading.keyboard.press("m")
    assert said(loading) == []


# -- what is chosen is said in sight


def test_what_is_chosen_is_said_in_sight_with_four_gpus(opened: Opened) -> None:
    rows: list[Row] = []
    for device in range(4):
        for i in range(20):
            at, number = 1000 * i + 100 * device, 100 * device + i + 1
            rows.append(Call(at, at + 10, number, tid=11 + device, name="cudaLaunchKernel"))
            rows += [Range(at, at + 90 - 10 * k, f"r{k}", tid=11 + device) for k in range(6)]
            rows.append(Kernel(at + 20, at + 500, number, device=device, stream=7 + device, name="k"))
    large = {"width": 1440, "height": 900}
    page = opened(tuple(rows), fragment="#event=gap:3", unfold=False, viewport=large)
    page.wait_for_timeout(300)
    assert said(page)[0].startswith("gap:3 on GPU 0")
    for line in page.locator("#lanes-event p").all():
        box = line.bounding_box()
        assert box is not None
        assert 0 < box["y"] < 900 - box["height"]
    canvas = page.locator("#lanes-canvas").bounding_box()
    assert canvas is not None
    assert canvas["y"] + canvas["height"] <= 900


# -- find


KERNELS = tuple(
    Kernel(100 * i, 100 * i + 50, name=f"void at::native::vectorized_elementwise_kernel<4, at::native::"
           f"{what}_functor<float>, std::array<char*, 2ul> >(int, at::native::{what}_functor<float>)")
    for i, what in enumerate(("add", "mul", "exp", "add", "relu", "add"))
)  # fmt: skip


def test_what_is_said_of_a_found_event_is_in_sight(opened: Opened) -> None:
    """Even where the field was at the lower edge of the window."""
    page = opened(
        (*(Kernel(i * 10, i * 10 + 5, name="gemm", stream=i) for i in range(1, 20)),),
        viewport={"width": 1200, "height": 700},
    )
    page.evaluate("scrollTo(0, document.getElementById('lanes').offsetTop - innerHeight + 60)")
    page.locator("#lanes-search").fill("gemm")
    page.locator("#lanes-found li:not(.steps) button").first.click()
    said = page.locator("#lanes-event p").first.bounding_box()
    assert said is not None
    assert 0 <= said["y"] < 700 - 20


def test_what_is_found_has_labels_that_differ_and_lies_over_the_picture(opened: Opened) -> None:
    page = opened(KERNELS)
    before = page.locator("#lanes-canvas").bounding_box()
    page.locator("#lanes-search").fill("elementwise")
    labels = page.locator("#lanes-found li:not(.steps) button").all_inner_texts()
    assert len(labels) == 4
    assert len(set(labels)) == 4
    for what in ("add", "mul", "exp", "relu"):
        assert any(what in label for label in labels)
    assert page.locator("#lanes-canvas").bounding_box() == before


def test_matches_are_walked_through_from_the_field_and_escape_closes_it(opened: Opened) -> None:
    page = opened(KERNELS)
    page.locator("#lanes-search").fill("add_functor")
    assert page.locator("#lanes-match").inner_text() == "3 in this page"
    walked = []
    for key in ("Enter", "Enter", "Enter", "Enter", "Shift+Enter"):
        page.keyboard.press(key)
        walked.append((page.locator("#lanes-match").inner_text()[0], address(page).split("event=")[1]))
    assert walked == [("1", "kernel:1"), ("2", "kernel:4"), ("3", "kernel:6"), ("1", "kernel:1"),
                      ("3", "kernel:6")]  # fmt: skip
    page.locator("#lanes-found button", has_text="\u203a").click()
    assert address(page).endswith("event=kernel:1")
    page.keyboard.press("Escape")
    assert page.locator("#lanes-found").inner_text() == ""
    assert page.locator("#lanes-search").input_value() == ""
    assert page.evaluate("document.activeElement.id") == "lanes-canvas"
