"""The page in a real browser: nothing is asked of a network, it works by keys, and names stay text.

Skipped, with the reason, where there is no Chromium or no playwright; `make test-system` runs these.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_pages import Opened, browser, file, opened, pytestmark
from pages import INJECTIONS, ROWS, rendered, tree_report

from nsysconv.names import escaped

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

def shown_rows(page: Page, table: str) -> list[str]:
    """The first text cell of each row that is shown."""
    found: list[str] = page.eval_on_selector_all(
        f"#{table} tbody tr",
        "rows => rows.filter(r => !r.hidden).map(r => r.querySelector('td.t').innerText)",
    )
    return found


def test_nothing_is_asked_for_and_nothing_breaks_out(opened: Opened) -> None:
    page = opened()
    assert page.evaluate("window.broken") is None
    assert page.locator("img, iframe, main svg:not([role]), h1:has-text('out')").count() == 0
    assert page.locator("main").is_visible()  # no style of a name hides it
    page.locator("#t-kernels").scroll_into_view_if_needed()
    cells = page.eval_on_selector_all("#t-kernels td.t", "all => all.map(cell => cell.textContent)")
    assert set(map(escaped, INJECTIONS)) <= set(cells)


def test_even_an_element_that_broke_out_could_load_nothing(browser: Browser, file: Path) -> None:
    page = browser.new_page()
    page.goto(file.as_uri())
    refused = page.evaluate("""async () => {
        const refused = [];
        document.addEventListener('securitypolicyviolation',
            event => refused.push(event.effectiveDirective));
        const image = document.createElement('img');
        image.src = 'https://example.org/x.png';
        const script = document.createElement('script');
        script.textContent = 'window.broken = 4';
        document.body.append(image, script);
        await new Promise(done => setTimeout(done, 200));
        return refused;
    }""")
    assert set(refused) == {"img-src", "script-src-elem"}
    assert page.evaluate("window.broken") is None
    page.close()


def test_a_header_sorts_by_key_and_by_mouse(opened: Opened) -> None:
    page = opened()
    header = page.locator("#t-kernels th", has_text="kernel time")
    # The kernel of the i-th name takes 360 + i ns: the report has the longest first.
    longest_first = [escaped(name) for name in reversed(INJECTIONS)]
    texts = "rows => rows.map(r => r.querySelector('td.t').textContent)"
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert page.eval_on_selector_all("#t-kernels tbody tr", texts) == longest_first[::-1]
    header.locator("button").click()
    assert page.eval_on_selector_all("#t-kernels tbody tr", texts) == longest_first
    page.locator("#t-kernels th", has_text="name").locator("button").click()
    assert header.get_attribute("aria-sort") is None


def test_what_has_no_value_is_sorted_last(opened: Opened) -> None:
    page = opened(ROWS)
    cells = "rows => rows.map(row => row.cells[2].textContent)"
    button = page.locator("#t-api-vs-kernel th", has_text="call count").locator("button")
    for _ in ("descending", "ascending"):
        button.click()
        # One call, and operations without any: their number of calls is not recorded.
        assert page.eval_on_selector_all("#t-api-vs-kernel tbody tr", cells) == ["1", "-"]


def test_searching_leaves_the_rows_that_hold_the_words(opened: Opened) -> None:
    page = opened()
    tools = page.locator("#r-kernels .tools")
    tools.locator("input[type=search]").fill("ONERROR")
    assert len(shown_rows(page, "t-kernels")) == 1
    assert tools.locator("[aria-live]").inner_text() == f"1 of {len(INJECTIONS)} rows"
    tools.locator("input[type=search]").fill("")
    assert len(shown_rows(page, "t-kernels")) == len(INJECTIONS)


def test_all_columns_are_shown_on_request(opened: Opened) -> None:
    page = opened()
    header = page.locator("#t-kernels th", has_text="stddev")
    assert not header.is_visible()
    page.locator("#r-kernels .tools input[type=checkbox]").check()
    assert header.is_visible()


def test_tab_reaches_everything(opened: Opened) -> None:
    page = opened()
    # Lanes are pinned by a key of the time line: their names would be a long way.
    every = "a[href], button:not([tabindex='-1']), input, summary, [tabindex='0']"
    wanted: int = page.evaluate(
        f"""() => {{ let n = 0; for (const e of document.querySelectorAll("{every}"))
        if (e.checkVisibility({{visibilityProperty: true}})) e.dataset.wanted = ++n; return n; }}"""
    )
    page.evaluate("""() => { window.reached = [];
        document.addEventListener("focusin", e => window.reached.push(e.target.dataset.wanted)); }""")
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
    assert wanted > 50
    assert set(page.evaluate("window.reached")) >= {str(i + 1) for i in range(wanted)}


@pytest.fixture
def flame(opened: Opened) -> Page:
    """A page of one flame graph, that of pages.NODES, with the focus on it."""
    page = opened(rendered([tree_report()]))
    page.locator(".boxes").focus()
    return page


def event(page: Page) -> str:
    """What is said of the chosen box."""
    return page.locator(".flame .event").inner_text()


def test_a_flame_graph_says_what_a_box_is(flame: Page) -> None:
    assert event(flame) == "all: host time 200 ns; device time 80 ns"
    flame.keyboard.press("ArrowDown")
    flame.keyboard.press("ArrowDown")
    assert event(flame) == (
        "conv2d: 4 calls; host time 50 ns (25.0 % of all); device time 30 ns (37.5 % of all)"
    )
    flame.keyboard.press("ArrowUp")
    flame.keyboard.press("ArrowRight")
    assert event(flame) == "other: 1 call; host time 100 ns (50.0 % of all); no device time recorded"
    flame.keyboard.press("ArrowRight")  # the last of its row
    flame.keyboard.press("ArrowLeft")
    assert event(flame).startswith("step: ")


def test_a_flame_graph_is_zoomed_by_keys(flame: Page) -> None:
    for key in ("ArrowDown", "Enter"):
        flame.keyboard.press(key)
    assert flame.locator(".crumbs").inner_text() == "all \u203a step"
    assert flame.locator(".drawn").inner_text() == "3 of 3 boxes drawn."
    flame.keyboard.press("ArrowDown")
    assert event(flame).endswith("; 50.0 % of step")
    flame.keyboard.press("ArrowUp")
    flame.keyboard.press("ArrowUp")  # out of what is zoomed
    assert flame.locator(".crumbs").inner_text() == "all"
    assert event(flame).startswith("step: ")
    flame.keyboard.press("Enter")
    scrolled = flame.evaluate("scrollY")
    flame.keyboard.press("Escape")
    assert flame.locator(".crumbs").inner_text() == "all"
    assert event(flame).startswith("all: ")
    assert flame.evaluate("scrollY") == scrolled


def test_a_flame_graph_is_zoomed_by_mouse(flame: Page) -> None:
    box = flame.locator(".boxes").bounding_box()
    assert box is not None
    # `conv2d` is the first quarter of the third row.
    at = box["x"] + box["width"] * 0.24, box["y"] + 45
    flame.mouse.move(*at)
    assert event(flame).startswith("conv2d: 4 calls; ")
    flame.mouse.click(*at)
    assert flame.locator(".crumbs").inner_text() == "all \u203a step \u203a conv2d"
    flame.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 5)
    assert event(flame).startswith("conv2d: ")  # as wide as all was
    flame.locator(".crumbs button", has_text="step").click()
    assert flame.locator(".crumbs").inner_text() == "all \u203a step"
    flame.keyboard.press("ArrowDown")  # the focus is on the graph again
    assert event(flame).startswith("conv2d: ")


def test_what_a_flame_graph_is_searched_for_is_added_up(flame: Page) -> None:
    found = flame.locator(".flame .found")
    flame.locator(".flame input").fill("ADD")
    # 10 in `conv2d` and 30 in `step`, of 200.
    assert found.inner_text() == "2 boxes, host time 40 ns: 20.0 % of all"
    flame.locator(".flame input").fill("d")
    # What lies in a match is part of it: `conv2d` 50, and not the 10 in it; `add` in `step` 30.
    assert found.inner_text() == "3 boxes, host time 80 ns: 40.0 % of all"
    flame.locator(".flame input").fill("")
    assert found.inner_text() == ""
    flame.locator(".flame input").fill("p")
    assert found.inner_text() == "1 box, host time 100 ns: 50.0 % of all"


def test_matches_are_drawn_in_a_stronger_color(flame: Page) -> None:
    def darkness() -> list[int]:
        """Of `conv2d`, and of `add` in `step`: how far each is from white."""
        flame.wait_for_timeout(100)
        read: list[int] = flame.evaluate("""() => {
            const drawn = document.querySelector('.boxes');
            const copy = new OffscreenCanvas(drawn.width, drawn.height);
            const pen = copy.getContext('2d', {willReadFrequently: true});
            pen.drawImage(drawn, 0, 0);
            return [0.2, 0.35].map(share => {
                const [red, green, blue] = pen.getImageData(drawn.width * share, 50, 1, 1).data;
                return 765 - red - green - blue;
            });
        }""")
        return read

    conv, add = darkness()
    flame.locator(".flame input").fill("add")
    other, match = darkness()
    assert match > add > 0
    assert conv > other > 0


def test_a_flame_graph_is_weighed_by_the_device(flame: Page) -> None:
    host, device = (flame.locator(f".flame [data-weight='{i}']") for i in (0, 1))
    assert host.get_attribute("aria-pressed") == "true"
    flame.locator(".flame input").fill("add")
    device.click()
    assert (host.get_attribute("aria-pressed"), device.get_attribute("aria-pressed")) == ("false", "true")
    assert flame.locator(".flame .found").inner_text() == "2 boxes, device time 60 ns: 75.0 % of all"
    # `conv2d` and `add` take 90 in 80; `other`, and `add` in `conv2d`, have no width.
    assert flame.locator(".drawn").inner_text() == (
        "3 of 3 boxes drawn. What lies in 1 box adds up to more than they do, as of several threads; "
        "it is drawn in their width."
    )
    flame.locator(".boxes").focus()
    for key in ("ArrowDown", "ArrowDown"):
        flame.keyboard.press(key)
    assert event(flame).startswith("add: 8 calls")  # the largest is the first
    box = flame.locator(".boxes").bounding_box()
    assert box is not None
    # 60 of 90, and not of 80.
    flame.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 45)
    assert event(flame).startswith("conv2d: ")
    flame.mouse.move(box["x"] + box["width"] * 0.63, box["y"] + 45)
    assert event(flame).startswith("add: ")


def test_a_share_is_nothing_or_all_only_where_it_is(opened: Opened) -> None:
    nodes = [(0, "most", 1, 9_999, None), (0, "little", 1, 1, None), (0, "nothing", 1, 0, None)]
    page = opened(rendered([tree_report(nodes)]))
    shares = {"most": "> 99.9 %", "little": "< 0.1 %", "nothing": "0.0 %", "t": "100.0 %"}
    for name, words in shares.items():
        page.locator(".flame input").fill(name)
        assert page.locator(".flame .found").inner_text().endswith(f": {words} of all")


def test_narrow_boxes_are_folded_and_counted(opened: Opened) -> None:
    nodes = [(0, "all of it", 1, 1_000_000, None), (1, "wide", 1, 900_000, None)]
    nodes += [(1, f"narrow {i}", 1, 100, None) for i in range(1000)]
    page = opened(rendered([tree_report(nodes)]))
    page.locator(".boxes").focus()
    assert page.locator(".drawn").inner_text() == (
        "2 of 1,002 boxes drawn: the others are narrower than half a pixel."
    )
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert event(page) == (
        "1,000 more in all of it, together 100 \u00b5s of host time, 10.0 % of all"
    )
    page.keyboard.press("Enter")
    assert page.locator(".crumbs").inner_text() == "all \u203a all of it \u203a 1,000 more"
    assert page.locator(".drawn").inner_text() == "1,000 of 1,000 boxes drawn."
    page.keyboard.press("ArrowDown")
    assert event(page).startswith("narrow 0: ")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.locator(".crumbs").inner_text() == "all \u203a all of it"


def test_a_large_flame_graph_is_drawn_at_once(opened: Opened) -> None:
    nodes = [(i % 40, f"name {i % 997}", 1, 1_000_000 >> i % 40 // 2, i) for i in range(50_000)]
    page = opened(rendered([tree_report(nodes).limited(10)]))
    assert " of 50,000 boxes drawn" in page.locator(".drawn").inner_text()
    took: float = page.evaluate("""async () => {
        const canvas = document.querySelector('.boxes'), before = performance.now();
        for (const key of ['ArrowDown', 'Enter', 'Escape']) {
            canvas.dispatchEvent(new KeyboardEvent('keydown', {key}));
            await new Promise(done => requestAnimationFrame(done));
        }
        return performance.now() - before;
    }""")
    assert took < 2000  # a tenth of it on an idle machine


@pytest.mark.parametrize(
    ("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)")]
)
def test_light_and_dark(opened: Opened, scheme: str, ground: str) -> None:
    page = opened(color_scheme="dark" if scheme == "light" else "light")
    page.wait_for_timeout(100)
    page.emulate_media(color_scheme=scheme)
    page.wait_for_timeout(100)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    # The time line follows: where nothing is drawn it has the page's ground.
    red = page.evaluate(
        "document.getElementById('lanes-canvas').getContext('2d').getImageData(2, 21, 1, 1).data[0]"
    )
    assert f"rgb({red}," in ground


def test_print_is_light_and_leaves_out_what_only_a_screen_can(opened: Opened) -> None:
    page = opened(color_scheme="dark", unfold=False)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(22, 25, 29)"
    assert not page.locator("nav").is_visible()
    assert not page.locator(".tools").first.is_visible()
    assert page.locator("#t-kernels").is_visible()
    assert page.locator("#t-ranges").is_visible()
    assert not page.locator(".flame .crumbs").first.is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_is_wider_than_a_phone(opened: Opened, width: int) -> None:
    page = opened(viewport={"width": width, "height": 800}, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_without_scripts_all_is_there(opened: Opened) -> None:
    page = opened(java_script_enabled=False)
    for summary in page.locator("details.fold > summary").all():
        summary.click()
    assert page.locator("#t-kernels th", has_text="stddev").is_visible()
    assert page.locator("#r-kernels .bars li").first.is_visible()
    assert page.locator("noscript p").first.is_visible()
    assert page.locator("#t-ranges").is_visible()
    assert not page.locator(".flame").first.is_visible()


def test_print_has_no_table_behind_a_picture_nor_the_answer_twice(opened: Opened) -> None:
    page = opened(ROWS)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = page.evaluate("""() => {
      const is_shown = (cell) => getComputedStyle(cell).display !== "none";
      const tables = [...document.querySelectorAll("table")].filter((table) => table.offsetParent);
      return tables.map((table) => [...table.tHead.rows[0].cells].filter(is_shown).length);
    }""")
    assert len(widths) > 5
    assert max(widths) <= 14
    assert not page.locator("#t-summary").is_visible()
