"""The page: what it says first, that it needs nothing else, and that names stay names."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, few, name_of
from nasty import all_reports
from one_answer import EXAMPLES
from pages import INJECTIONS, ROWS, hostile, page_of, rendered
from small_store import Call, Graph, Kernel, Memcpy, Operator, Range, Total, opened, write
from test_page_colors import GROUNDS, contrast, palette

from nsysconv import api
from nsysconv.api import html_report
from nsysconv.document import Section
from nsysconv.facts import Fact
from nsysconv.names import escaped
from nsysconv.render.page import colors, document
from nsysconv.render.page.markup import column_words, prose, report_table_html
from nsysconv.report import Column, Unit, build_table

ASSETS = ROOT / "nsysconv" / "render" / "page"
FIXTURES = ROOT / "tests" / "fixtures"
FIXTURE = FIXTURES / "nsys" / "basic-3.25.0.sqlite"
# Totals and no events.
TOTALS = FIXTURES / "nvprof_log" / "basic-summary.csv"
SOURCES = sorted({*EXAMPLES, *FIXTURES.glob("*/basic*")} - {FIXTURE})
# Ends that HTML lets a page leave out.
OPEN = {"li", "td", "th", "tr", "dt", "dd", "tbody"}
VOID = {"meta", "wbr", "input", "path", "rect"}


class Outline(HTMLParser):
    """A page's elements, attributes, texts of cells and data; checks that what must close does."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.cells: list[str] = []
        self.words: list[str] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in self.inside:
            self.inside[tag].append("")
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        while self.open[-1] != tag:
            assert self.open.pop() in OPEN
        self.open.pop()

    def handle_data(self, data: str) -> None:
        tag = self.open[-1] if self.open else ""
        if tag in self.inside:
            self.inside[tag][-1] += data
            return
        self.words.append(data)
        if any(each in ("td", "th") for each in self.open[-3:]):
            self.cells[-1] += data

    @property
    def text(self) -> str:
        """All words, white space made alike."""
        return re.sub(r"\s+", " ", "".join(self.words)).strip()


def outline(text: str) -> Outline:
    return Outline(text)


def text_of_page(target: Path | str, *names: str, **asked: Any) -> str:
    """All words of the page of a file or store."""
    return outline(rendered(api.page(target, names or None, **asked))).text


def bars_of(page: str) -> str:
    """The first picture of bars."""
    return page[page.index('<figure class="bars">') : page.index("</figure>")]


# -- what it says first

ANSWER = ("summary", "findings")
"""The reports that the answer is made of."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The page of ROWS, and their store."""
    folder = tmp_path_factory.mktemp("rows")
    return page_of(folder, *ROWS), folder / "rows.db"


def test_the_answer_comes_first(made: tuple[str, Path]) -> None:
    text = outline(made[0]).text
    answer = text[: text.index("The time line needs the page's script.")]
    assert "GPU busy, from the first to the last GPU operation60.0 %" in answer
    # Of 1000: 400 + 100 in kernels, 100 in copies, 400 idle, of which [500, 795) is the host's.
    account = answer[answer.index("Where the time went") : answer.index("Bottlenecks")]
    assert account == (
        "Where the time went GPU 0 60.0 % busy "
        "computation 50.0 % 500 ns "
        "exposed copies 10.0 % 100 ns "
        "idle, CPU-bound: next operation not yet launched 29.5 % 295 ns "
        "idle, launch latency 0.5 % 5 ns "
        "idle, queued: launched and not started 10.0 % 100 ns "
    )
    assert (
        "Idle for 400 ns between operations; 73.8 % of that: CPU-bound (next operation not yet launched)"
        in answer
    )
    assert "The kernel with most time is gemm: 80.0 % of all kernel time, 400 ns in 1 launch." in answer
    assert "Copied: 2.00 MB HtoD in 100 ns." in answer


# Of 1000 ns recorded a kernel runs for 400; it is the only operation.
LONG_START = (Call(0, 250, 1), Kernel(500, 900, 1, name="gemm"), Call(950, 1000))


def test_busy_is_a_share_of_the_recording_and_of_the_window(tmp_path: Path) -> None:
    text = outline(page_of(tmp_path, *LONG_START, names=ANSWER)).text
    assert (
        "GPU busy, of the recording40.0 %"
        "GPU busy, from the first to the last GPU operation100.0 %"
        "the recording1.00 µsfrom the first to the last GPU operation400 ns "
        "Where the time went GPU 0 40.0 % busy "
        "before the first GPU operation 50.0 % 500 ns computation 40.0 % 400 ns "
        "after the last GPU operation 10.0 % 100 ns "
    ) in text
    store = tmp_path / "rows.db"
    assert "GPU busy, of the slice80.0 %" in text_of_page(store, *ANSWER, slice=api.Slice((400, 900)))
    # A slice of a device says no time: the account is of the recording.
    device = text_of_page(store, *ANSWER, slice=api.Slice(devices=(0,)))
    assert "GPU busy, of the recording40.0 %" in device
    assert "GPU busy, from the first to the last GPU operation100.0 %" in device


def test_parts_of_the_bar_are_the_whole(made: tuple[str, Path]) -> None:
    text, _ = made
    bar = re.search(r'class="where".*?<span class="tr" role="img" aria-label="(.*?)">(.*?)</span>', text,
                    re.DOTALL)  # fmt: skip
    assert bar
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", bar[2])]
    assert widths == [50.0, 10.0, 29.5, 0.5, 10.0]
    assert bar[1].startswith("computation 50.0 %; exposed copies 10.0 %; idle, CPU-bound")


def test_what_holds_it_back_is_in_the_order_of_the_findings(made: tuple[str, Path]) -> None:
    text, store = made
    (findings,) = api.page(store, ["findings"])
    rules = [row["rule"] for row in findings.rows()]
    lists = re.findall(r'<ol class="find"(?: start="(\d)")?>(.*?)</ol>', text, re.DOTALL)
    assert [name for _, items in lists for name in re.findall(r"<li><b>(.*?)</b>", items)] == rules
    # Savings and costs are two lists, with one series of numbers.
    assert [start for start, _ in lists] == ["", str(rules.index("one_kernel") + 1)]
    # 300 ns of launches and 100 of copies, of 1000.
    all_savings = "Avoidable time, upper bounds; all of them together save up to 40.0 %"
    assert re.findall("<h4>(.*?)</h4>", text)[:2] == [all_savings, "Largest costs"]
    assert '<p class="lead">Up to 30.0 % (300 ns) could be saved: short kernels are' in text
    words = outline(text).text
    assert "launch_bound saves up to 300 ns (30.0 %) Short kernels (250 ns on average)" in words
    assert "one_kernel takes 400 ns (40.0 %) One kernel takes 80 % of all kernel time: gemm" in words
    assert 'Start here: profile it with Nsight Compute. → <a href="#r-kernels">kernels</a>' in " ".join(
        text.split()
    )


def test_a_report_that_is_not_on_the_page_is_no_link(tmp_path: Path) -> None:
    text = page_of(tmp_path, *LONG_START, names=["findings", "kernels"])
    assert "→ <code>api_vs_kernel</code> <code>--time :500ns</code>" in text
    assert '→ <a href="#r-kernels">kernels</a>' in text


def test_small_findings_are_a_line_and_so_are_rules_that_cannot_look(tmp_path: Path) -> None:
    text = outline(
        page_of(
            tmp_path, Kernel(0, 10), Memcpy(10, 11, src="Pinned"), Kernel(20, 30),
            Range(0, 600_000_030, "all"),
            options={"without": {Fact.API_CALLS, Fact.API_LINKS}}, names=ANSWER,
        )
    ).text  # fmt: skip
    answer = text[: text.index("The answer in numbers")]
    small = "Bottlenecks Below 1 %: idle_unknown, one_kernel."
    assert re.search(rf"{small} [0-9]+ checks could not run without API calls: failed_calls, ", answer)
    assert "start_up" not in answer


def test_rules_of_nsys_are_tables_below(tmp_path: Path) -> None:
    text = outline(
        page_of(tmp_path, Kernel(0, 10), Memcpy(20, 30), Kernel(600_000_020, 600_000_030))
    ).text
    section = text[text.rindex("Rules of nsys analyze") :]
    assert "GPU gaps: times in which a process did not use a device" in section
    assert "Synchronous memsets of pinned or managed memory. Nothing found: " in section


def test_the_numbers_of_the_answer_are_folded_at_the_end(made: tuple[str, Path]) -> None:
    text, _ = made
    for name in ("summary", "findings"):
        at = text.index(f'<article id="r-{name}">')
        assert at > text.index('<article id="r-gpu-gaps">' if 'r-gpu-gaps"' in text else "r-overview")
        article = text[at : text.index("</article>", at)]
        assert '<details class="numbers"><summary>The numbers</summary>' in article
        assert f'id="t-{name}"' in article[article.index("<details") :]
    words = outline(text).text
    assert "launch_bound_pct" not in words  # a unit is not in a name
    for column in ("launch bound", "top kernel time", "threshold", "top gap start"):
        assert column in words


def test_of_many_devices_the_least_busy_are_drawn(tmp_path: Path) -> None:
    rows = [
        Kernel(start, start + length, device=device)
        for device in range(20)
        for start, length in ((0, 10 + device), (90, 10))
    ]
    text = page_of(tmp_path, *rows, names=ANSWER)
    where = text[text.index('class="where"') : text.index("</figure>")]
    # Device i is busy for 20 + i of 100.
    assert re.findall(r'class="lb" title="GPU (\d+)"', where) == [str(i) for i in range(16)]
    assert "The 16 least busy of 20 GPUs." in where
    assert "20 GPUs busy" in text


def test_of_totals_alone(totals_page: str) -> None:
    """They have no busy share, what is missing is said with what helps, and nothing is folded."""
    text = outline(totals_page).text
    answer = text[: text.index("Kernels by name")]
    assert "Busy and idle time are not recorded" in answer
    assert "GPU busy" not in answer
    assert "The kernel with most time is" in text
    assert "Not recorded in this profile: " in text[text.rindex("Not recorded") - 2000 :]
    assert 'id="t-kernels"' in totals_page
    assert '<details class="fold">' not in totals_page


def test_of_a_recording_without_gpu_work_nothing_on_a_gpu_and_no_finding_is_said(tmp_path: Path) -> None:
    text = outline(page_of(tmp_path, Call(0, 10), names=ANSWER)).text
    assert "Nothing ran on a GPU." in text
    assert "not recorded: nothing says" not in text
    assert "Bottlenecks None of the checks that could run reported anything." in text


def test_other_kinds_of_idle_time_do_not_take_the_answer_away(tmp_path: Path) -> None:
    text = outline(page_of(tmp_path, *ROWS, idle=("stream",), names=(*ANSWER, "idle_gaps"))).text
    assert "idle, CPU-bound: next operation not yet launched 29.5 % 295 ns" in text
    assert "kind stream" in text


def test_what_was_recorded_is_at_the_top(real_page: str) -> None:
    text = outline(real_page).text
    told = (
        "nsys_sqlite · version 2026.2.1.210 · on node01 · 2026-01-01 00:00:00 UTC · "
        "a session of 250.00 µs"
    )
    assert told in text[: text.index("The answer")]


def test_profiles_of_one_rank_keep_their_labels(tmp_path: Path) -> None:
    """Two runs of rank 0: the rank says nothing."""
    for run in ("old", "new"):
        write(tmp_path / "job.db", Kernel(0, 10), ranks={1: 0}, label=run)
    text = text_of_page(tmp_path / "job.db", "summary")
    assert "old, rank 0, GPU 0" in text
    assert "new, rank 0, GPU 0" in text


def test_gpus_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    rows: list[Kernel | Call] = []
    for i, device in enumerate((10, 2, 1, 0)):
        called = 1000 * (4 - i)
        rows += [Kernel(0, 10, device=device), Call(called, called + 1, i + 1),
                 Kernel(called + 10, called + 20, i + 1, device=device)]  # fmt: skip
    text = page_of(tmp_path, *rows, names=["idle_host"], split="device")
    assert re.findall(r"<figcaption>(GPU \d+)<", text) == ["GPU 0", "GPU 1", "GPU 2", "GPU 10"]


def test_reports_that_nobody_knows_have_a_section_of_their_own() -> None:
    columns = (Column("call_count", Unit.COUNT, "Calls."),)
    table = build_table(columns, {"call_count": [1]})
    found = outline(
        rendered([Section(name, f"About {name}", columns, table) for name in ("a", "b")])
    ).text
    assert "About a" in found
    assert "About b" in found


# -- it needs nothing else


@pytest.fixture(scope="module")
def real_page() -> str:
    return rendered(api.page(FIXTURE))


@pytest.fixture(scope="module")
def totals_page() -> str:
    return rendered(api.page(TOTALS))


def test_nothing_is_loaded(real_page: str) -> None:
    page = outline(real_page)
    names = ("src", "srcset", "data", "action", "poster", "href")
    loaded = [value for _, name, value in page.attributes if name in names]
    assert [value for value in loaded if not value.startswith("#")] == []
    assert not page.tags & {"link", "iframe", "img", "object", "embed", "form", "base", "video"}
    styles = "".join(page.inside["style"])
    assert "url(" not in styles
    assert "@import" not in styles
    assert not re.search(r"https?://", real_page)
    script = "".join(page.inside["script"])
    loading = "fetch( XMLHttpRequest import( WebSocket eval( Function( innerHTML"
    assert [word for word in loading.split() if word in script] == []


def test_only_its_own_script_may_run(real_page: str) -> None:
    page = outline(real_page)
    policy = next(value for tag, name, value in page.attributes if "default-src" in value)
    assert policy.startswith("default-src 'none'; ")
    script = page.inside["script"][-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert script.isascii()  # or a page in another encoding would hold another script
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]


def is_in_time_line(address: str) -> bool:
    """Whether the script follows it to a time, an event, a selected time, or several of these."""
    event, time = r"(event=[a-z_]+:\d+)?", r"-?\d+:-?\d+"
    return bool(re.fullmatch(rf"(time={time})?&?{event}&?(select={time})?", address) and address)


def test_the_time_between_steps_is_in_no_one_place(tmp_path: Path) -> None:
    rows = [Range(100 * i, 100 * i + 60, f"ProfilerStep#{i}") for i in range(3)]
    text = page_of(tmp_path, *rows, Kernel(5, 250), names=["steps", "timeline_tiles"])
    table = text[text.index('id="t-steps"') :].partition("</table>")[0]
    _, *found = re.findall(r"<tr([^>]*)>", table)
    assert ["data-to" in row for row in found] == [True, True, True, False]


@pytest.mark.parametrize("source", [FIXTURE, *few(SOURCES, 1)], ids=name_of)
def test_links_lead_somewhere_and_ids_are_unique(source: Path, real_page: str) -> None:
    page = outline(real_page if source == FIXTURE else rendered(api.page(source)))
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {value[1:] for _, name, value in page.attributes if name == "href"}
    assert {each for each in targets if not is_in_time_line(each)} <= set(ids)
    in_time_line = {value for _, name, value in page.attributes if name == "data-to"}
    assert all(map(is_in_time_line, in_time_line))
    assert in_time_line or source != FIXTURE


def test_the_same_input_gives_the_same_page(real_page: str) -> None:
    assert rendered(api.page(FIXTURE)) == real_page


# -- names


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Outline:
    return outline(page_of(tmp_path_factory.mktemp("hostile"), *hostile()))


def test_hostile_names_are_text(hostile_page: Outline) -> None:
    page = hostile_page
    assert page.tags.isdisjoint({"img", "b>", "object"})
    # The data of the time line and of the flame graphs of ranges and operators, and the script.
    assert len(page.inside["script"]) == 4
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    for name in INJECTIONS:
        assert any(cell.endswith(escaped(name)) for cell in page.cells)


@pytest.mark.parametrize(
    ("place", "key"), [(0, "texts"), (1, "names")], ids=["the time line", "a flame graph"]
)
def test_data_holds_the_names_as_they_are(hostile_page: Outline, place: int, key: str) -> None:
    script = hostile_page.inside["script"][place]
    found, wanted = set(json.loads(script)[key]), set(map(escaped, INJECTIONS))
    assert found >= wanted if key == "texts" else found == wanted
    assert not set("<>&") & set(script)


@pytest.mark.parametrize("report", all_reports(), ids=lambda report: report.name)
def test_pages_of_nasty_reports_hold_together(report: Section) -> None:
    text = rendered([report])
    assert outline(text).tags.isdisjoint({"b", "img", "script "})
    assert all(line.isprintable() or line == "" for line in text.split("\n"))


# -- what is left out


def test_what_takes_long_is_left_out_of_long_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(html_report, "LONG", 2)  # there are two kernels and a call
    text = page_of(tmp_path, *ROWS, say=said.append)
    assert said == [
        "long recording; reports left out unless named: gpu_utilization, steps, phases, ranges, "
        "comm_overlap, kernel_categories, graphs, launch_stats, queue_length"
    ]
    assert f"reports-left-out: {said[0]}" in text  # who gets the page sees no stderr
    assert 'id="r-launch-stats"' not in text
    assert 'id="r-kernels"' in text
    assert 'id="r-launch-stats"' in rendered(api.page(tmp_path / "rows.db", ["launch_stats"]))


def test_annotated_steps_are_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "LONG", 2)
    rows = (*ROWS, Range(0, 400, "ProfilerStep#1"), Range(400, 990, "ProfilerStep#2"))
    assert 'id="r-steps"' in page_of(tmp_path, *rows)


# -- colors


def test_prose_can_be_read_in_light_and_dark() -> None:
    for ground in GROUNDS:
        found = palette(ground)
        for word in ("fg", "quiet", "link", "better", "worse"):
            for behind in ("bg", "card"):
                assert contrast(found[word], found[behind]) >= 4.5, (word, behind)


# -- utilization over time, and tables


def test_utilisation_is_stacked_by_the_classes_of_time(tmp_path: Path) -> None:
    """Bins of 250 ns: computation 250, 150, 0, 100; copies 100 in the second; the rest is idle."""
    text = page_of(tmp_path, *ROWS, names=["utilization_over_time:bins=4"])
    strip = text[text.index('id="r-utilization') : text.index("</svg>")]
    assert re.findall(r'<path class="(\w+)" d="(.*?)"/>', strip) == [
        ("memcpy", "M0 100V0h2V100h1V60h1V100z"),
        ("computation", "M0 100V0h1V40h1V100h1V60h1V100z"),
    ]  # fmt: skip
    legend = strip[strip.index("legend") : strip.index("</ul>")]
    assert re.findall(r'class="k (\w+)"></i>([\w ]+)', legend) == [
        ("computation", "computation"), ("memcpy", "exposed copies"), ("outside", "idle")]  # fmt: skip


def test_strips_of_ranks_are_named_by_rank_alone(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / "job.db", Kernel(0, 10, device=rank), ranks={1: rank}, label=f"worker-{rank}")
    text = rendered(api.page(tmp_path / "job.db", ["utilization_over_time"]))
    assert re.findall(r'class="lb" title="(.*?)"', text) == ["rank 0", "rank 1"]


def test_bars_of_ranks_are_in_one_picture(ranks: Path) -> None:
    text = rendered(api.page(ranks, ["comm_overlap"]))
    assert text.count('<figure class="bars">') == 1
    assert re.findall(r'class="lb" title="(.*?)"', text) == [f"rank {rank}" for rank in range(6)]


def test_kernels_of_operators_have_labels_that_differ(tmp_path: Path) -> None:
    name = "void cudnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)"
    rows = [
        row
        for i, operator in enumerate(("aten::conv2d", "aten::conv2d", "aten::mm"))
        for row in (
            Operator(1000 * i, 1000 * i + 900, operator),
            Call(1000 * i + 10, 1000 * i + 20, i + 1),
            Kernel(1000 * i + 30, 1000 * i + 800, i + 1, name=name, grid=(4, 1 + i, 1), block=(32, 1, 1)),
        )
    ]
    text = page_of(tmp_path, *rows, names=["operator_kernels"])
    labels = re.findall(r'class="lb names"[^>]*>([^<]*)', text)
    # The name, which all share, is in no label.
    assert labels == ["aten::conv2d › 4, 1, 1", "aten::conv2d › 4, 2, 1", "aten::mm › 4, 3, 1"]


def test_a_single_row_has_no_bar(tmp_path: Path) -> None:
    text = page_of(tmp_path, Kernel(0, 10), names=["kernels"])
    assert "<figure" not in text
    (tmp_path / "two").mkdir()
    text = page_of(tmp_path / "two", Kernel(0, 10), Kernel(20, 30, name="b"), names=["kernels"])
    assert text.count("<figure") == 1


def test_phases_and_graphs_are_tables_where_there_are_any(tmp_path: Path) -> None:
    plain = outline(page_of(tmp_path, *ROWS)).text
    assert "Graphs" not in plain
    assert "outside any step" not in plain
    steps = (Range(1000 * i, 1000 * i + 900, f"prefill {i}") for i in range(4))
    kernels = (Kernel(1000 * i, 1000 * i + 500, name="gemm") for i in range(4))
    store = tmp_path / "graphs.db"
    launch = Call(4900, 4950, 9, name="cudaGraphLaunch")
    write(store, *steps, *kernels, launch, Graph(5000, 6000, 9, graph=7))
    found = [report.name for report in api.page(store)]
    assert found.count("phases") == 1
    assert found.count("graphs") == 1


def test_what_other_threads_launched_is_said_of_ranges(tmp_path: Path) -> None:
    """As a backward pass on a thread of its own: 300 ns of kernels, besides 100 of the range's."""
    rows = (
        Range(0, 1000, "step"), Call(10, 20, 1), Kernel(100, 200, 1),
        Call(500, 510, 2, tid=12), Kernel(600, 900, 2),
    )  # fmt: skip
    words = "300 ns more of kernels were launched by other threads"
    assert words in outline(page_of(tmp_path, *rows, names=["ranges"])).text
    (tmp_path / "alone").mkdir()
    alone = page_of(tmp_path / "alone", *rows[:3], names=["ranges"])
    assert "by other threads" not in alone


def test_heads_are_words_and_have_their_names(tmp_path: Path) -> None:
    text = page_of(tmp_path, *ROWS, names=["kernels"], split="device")
    heads = re.findall(r'data-name="(\w+)"[^>]* title="(\w+): [^"]+">([^<]*)', text)
    assert all(name == in_title for name, in_title, _ in heads)
    words = {name: head for name, _, head in heads}
    assert words["device_id"] == "GPU"
    assert words["kernel_sum_ns"] == "kernel time"
    assert words["kernel_count"] == "kernel count"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("api_sum_ns", "API time"),
        ("device_id", "GPU"),
        ("stream_id", "stream"),
        ("device", "device"),
        ("htod_bytes_sum", "HtoD bytes"),
        ("bytes_sum", "bytes"),
        ("bucket_min_ns", "bucket"),
        ("dur_ns", "duration"),
        ("est_sm_efficiency_pct", "estimated SM efficiency"),
    ],
)
def test_names_of_columns_in_words(name: str, words: str) -> None:
    assert column_words(name) == words


def test_rows_have_the_exact_numbers_of_what_is_rounded(tmp_path: Path) -> None:
    """Counts are shown with all digits; 1,234,567 ns are shown as 1.23 ms."""
    text = page_of(tmp_path, Kernel(0, 1_234_567, name="a"), names=["kernels"])
    head = re.findall(r'data-name="(\w+)" data-x="(\d+)"', text)
    row = re.search(r'<tr data-v="([^"]*)"><td class="t">a<td>1<td>1.23 ms', text)
    assert row
    exact = row[1].split(",")
    assert exact[int(dict(head)["kernel_sum_ns"])] == "1234567"
    assert exact[int(dict(head)["kernel_pct"])] == "100.0"
    assert "kernel_count" not in dict(head)


# -- several profiles, and comparisons


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six ranks; rank 5 takes twice as long and is idle for half of it, the others for a tenth."""
    store = tmp_path_factory.mktemp("ranks") / "ranks.db"
    for rank in range(6):
        late = 0 if rank < 5 else 1000
        rows = Kernel(0, 800 + late // 10, name="gemm"), Kernel(900 + late, 1000 + late, name="norm")
        write(store, *rows, ranks={1: rank}, label=f"worker-{rank}")
    return store


@pytest.fixture(scope="module")
def page_of_ranks(ranks: Path) -> str:
    return rendered(api.page(ranks))


def test_ranks_beside_each_other(page_of_ranks: str) -> None:
    text = outline(page_of_ranks).text
    assert text.startswith("6 profiles: worker-0 … worker-5 - nsysconv")
    # Five are busy for 900 of 1000, one for 1000 of 2000: 5500 of 7000.
    assert "78.6 %" in text
    assert "the longest took 2.00 µs (rank 5, GPU 0), the shortest 1.00 µs (rank 0, GPU 0)" in text
    assert (
        "The GPUs were busy from 50.0 % (rank 5, GPU 0) to 90.0 % (rank 4, GPU 0) of the "
        "recording (2.00 µs), 90.0 % at the median."
    ) in text
    heads = r"Bottlenecks Avoidable time, upper bounds(?:; [^%]*%)?"
    assert re.search(heads + r" idle_unknown saves up to [^(]*\([\d.]+ %\) rank \d, GPU 0", text)
    assert "; on 6 GPUs" in text


def test_heat_maps_of_ranks(page_of_ranks: str) -> None:
    text = page_of_ranks
    strips = re.findall(r'<li><span class="lb" title="(.*?)">.*?<span class="vl">(.*?)</span>',
                        text[text.index('class="heat classes') :])[:6]  # fmt: skip
    assert [share.replace("\xa0", " ") for _, share in strips] == ["90.0 %"] * 5 + ["50.0 %"]
    kernels = text[text.index('id="r-kernels"') :]
    # 10 is the most of the map, 900 ns: 800 of 900 is 8.9 of 10. Those of the other row are alike.
    assert heat_row(kernels, "gemm") == ["h9"] * 5 + ["h10"]
    assert heat_row(kernels, "norm") == [""] * 6
    assert "colored are rows whose values differ by more than 10 %" in kernels
    assert re.search(r'<p class="scale">0 .* 900\sns</p>', kernels)


def heat_row(text: str, name: str) -> list[str]:
    """The color of each cell of a heat map's row."""
    row = re.search(rf'<th scope="row" class="t"[^>]*>{name}</th>(.*?)(?:<tr>|</table>)', text, re.DOTALL)
    assert row
    return re.findall(r'<td(?: class="(h\d+)")?>', row[1])


def test_a_small_bin_is_not_darker_than_a_large_one(tmp_path: Path) -> None:
    for rank in range(6):
        # Of some the larger size is copied twice: 4 of 8 MB is half of the scale.
        copies = [Memcpy(20 * i, 20 * i + 10, bytes=4_000_000) for i in range(1 + rank % 2)]
        small = [Memcpy(100, 110, bytes=50 + 50 * rank)]
        write(tmp_path / "job.db", *copies, *small, ranks={1: rank}, label=f"worker-{rank}")
    text = rendered(api.page(tmp_path / "job.db", ["transfer_sizes"]))
    assert heat_row(text, "≥ 1 MB") == ["h5", "h10"] * 3
    assert heat_row(text, "≥ 0 B") == ["h0"] * 6


def test_devices_are_colored_where_they_differ(tmp_path: Path) -> None:
    """Kernels of 100 and 95 differ by 5 %, windows by half; idle shares are 0 and 52.5 %."""
    rows = ((Kernel(0, 100),), (Kernel(0, 50), Kernel(155, 200)))
    for rank, kernels in enumerate(rows):
        write(tmp_path / "job.db", *kernels, ranks={1: rank}, label=f"worker-{rank}")
    text = rendered(api.page(tmp_path / "job.db", ["overview"]))
    matrix = text[text.index("GPUs side by side") :]
    columns = re.findall(r'<th scope="col">([\w ]+)', matrix[: matrix.index("<tbody>")])
    found = [heat_row(matrix, f"rank {rank}, GPU 0") for rank in range(2)]
    by_column = dict(zip(columns, zip(*found, strict=True), strict=True))
    assert by_column == {
        "window": ("h5", "h10"), "busy": ("", ""), "idle": ("h0", "h5"),
        "kernel count": ("h5", "h10"), "kernel time": ("", ""),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["kernels", "kernel_categories"])
def test_communication_has_a_color_among_kernels(tmp_path: Path, name: str) -> None:
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    rows = (Kernel(0, 60, name="gemm"), Kernel(60, 100, name=nccl))
    bars = bars_of(page_of(tmp_path, *rows, names=[name]))
    assert re.findall(r'<i class="(\w+)" style', bars) == [
        colors.COLOURS["computation"], colors.COLOURS["communication"]]  # fmt: skip
    assert "computation<li>" in bars and "communication</ul>" in bars


def test_bars_of_computation_alone_need_no_legend(tmp_path: Path) -> None:
    page = page_of(tmp_path, Kernel(0, 60, name="gemm"), names=["kernels"])
    assert "legend" not in page.partition("<main")[2]


def test_calls_are_drawn_beside_all_their_gpu_time(tmp_path: Path) -> None:
    rows = (Call(0, 10, 1, name="cudaMemcpyAsync"), Memcpy(10, 90, 1))
    bars = bars_of(page_of(tmp_path, *rows, names=["api_vs_kernel"]))
    lengths = re.findall(r'<span class="vl">(.*?)</span>', bars)
    assert [length.replace("\xa0", " ") for length in lengths] == ["10 ns", "80 ns"]


def test_bins_of_several_profiles_stay_in_order(ranks: Path) -> None:
    store = ranks.with_name("copies.db")
    for rank in range(6):
        copies = Memcpy(0, 10, bytes=5_000_000), Memcpy(20, 30, bytes=50), Memcpy(40, 50, bytes=5_000)
        write(store, *copies, Kernel(60, 70), ranks={1: rank}, label=f"worker-{rank}")
    text = rendered(api.page(store, ["transfer_sizes"]))
    rows = re.findall(r'<th scope="row" class="t" title="(.*?)"', text)
    assert rows == ["≥ 0 B", "≥ 1 kB", "≥ 1 MB"]


def test_one_of_several_profiles_is_a_page_of_its_own(ranks: Path) -> None:
    text = text_of_page(f"{ranks}@worker-5", *ANSWER)
    assert text.startswith("worker-5 - nsysconv")
    assert "50.0 %" in text


@pytest.mark.parametrize(("room", "least", "shown"), [(18, 1, 2), (6, 1, 1), (1, 1, 1), (1, 2, 2)])
def test_rows_of_several_profiles_share_the_room(
    ranks: Path, monkeypatch: pytest.MonkeyPatch, room: int, least: int, shown: int
) -> None:
    """Each of six has two kernels, and shows a sixth of the room, but not less than the least."""
    monkeypatch.setattr(html_report, "TABLE_ROWS", room)
    monkeypatch.setattr(html_report, "FEWEST_TABLE_ROWS", least)
    (kernels,) = api.page(ranks, ["kernels"])
    assert (kernels.table.num_rows, kernels.row_count) == (6 * shown, 6 * 2)


def test_a_profile_that_lacks_a_report_has_no_rows_in_it(tmp_path: Path) -> None:
    store = tmp_path / "two.db"
    write(store, Kernel(0, 10), Memcpy(20, 30), label="full")
    write(store, Kernel(0, 10), without={Fact.MEMCPYS, Fact.UNIFIED_MEMORY}, label="bare")
    (transfers,) = api.page(store, ["transfers"])
    assert [row["profile"] for row in transfers.rows()] == ["full"]
    assert transfers.not_recorded == ()
    assert [ref.label for ref in transfers.profiles] == ["full", "bare"]


def test_a_comparison_shows_both_sides_and_what_changed(tmp_path: Path) -> None:
    base, other = tmp_path / "base.db", tmp_path / "other.db"
    write(base, Kernel(0, 400, name="gemm"), Kernel(500, 1000, name="norm"), label="before")
    write(other, Kernel(0, 200, name="gemm"), Kernel(500, 1000, name="norm"), label="after")
    compared = api.compare(base, other)
    page = outline(rendered([compared.headline, *compared.reports]))
    text = page.text
    assert text.startswith("before → after - nsysconv")
    answer = "Inconclusive: GPU active window 1.00 µs → 1.00 µs (+0.0 %). 1 run per side cannot show"
    assert answer in text[: text.index("kernel time")]
    assert "kernel time700 nsbefore 900 ns, −22.2 %" in text.replace("</dt>", "")
    assert "idle30.0 %before 10.0 %, +20.0 points" in text
    assert "Kernels by name: kernel time gemm−200 ns400 ns200 nsbetter-54.0 … -45.7 %" in text
    judged = [value for tag, name, value in page.attributes if (tag, name) == ("div", "class")]
    # window the same; busy has no better; of idle time one run shows nothing; kernels better.
    assert judged[:5] == ["same", "same", "same", "same", "better"]


def test_limits_of_a_comparison_are_on_the_first_screen(tmp_path: Path) -> None:
    write(tmp_path / "a.db", Kernel(0, 400), label="before")
    write(tmp_path / "b.db", Kernel(0, 800), label="after")
    found = api.compare(tmp_path / "a.db", tmp_path / "b.db", fail_on=["overview.kernel_sum_ns:3%"])
    text = outline(rendered(found.reports)).text
    assert "Limits: 1 " in text[: text.index("The greatest changes")]


def test_a_heat_map_of_ranks_on_one_axis(tmp_path: Path) -> None:
    """Bins of 64 ns, 8 at most: rank i works in [64 i, 64 i + 64) and was recorded in no other bin."""
    zero = 1_700_000_000_000_000_000 >> 40 << 40
    store = tmp_path / "job.db"
    for rank in range(6):
        write(store, Kernel(1, 65), ranks={1: rank}, label=f"worker-{rank}", run="job",
              utc=zero - 1 + 64 * rank)  # fmt: skip
    text = rendered(api.page(store, ["gpu_time_util_map:bins=8"]))
    heat = text[text.index('class="heat"') :]
    assert "its own window" not in heat[: heat.index("<ol>")]
    assert re.findall(r'<rect class="h10" x="(\d)" width="1" height="1"/>', heat)[:6] == list("012345")


def test_a_very_long_name_is_not_whole_in_a_page_many_times() -> None:
    name = "void kernel<" + "int, " * 40_000 + "int>()"
    with opened(*(Kernel(10 * i, 10 * i + 5, name=name) for i in range(30))) as profile:
        page = "".join(document([profile.report("kernels"), profile.report("timeline_events")]))
    assert page.count("int, ") < 40_000


def test_a_page_does_not_say_in_which_folder_the_file_was(tmp_path: Path) -> None:
    shutil.copy(FIXTURE, tmp_path / "run.sqlite")
    text = rendered(api.page(tmp_path / "run.sqlite"))
    assert str(tmp_path) not in text
    assert "path: run.sqlite" in outline(text).text
    assert '"target":"run.sqlite"' in text


@pytest.mark.parametrize(("session", "words"), [
    (50_000, "1.00 µs recorded, of a session of 50.00 µs"),
    (1100, "a session of 1.10 µs"),
])  # fmt: skip
def test_a_recording_that_is_a_small_part_of_its_session_says_so(
    tmp_path: Path, session: int, words: str
) -> None:
    options = {"recording_start_ns": 0, "recording_ns": session}
    text = outline(page_of(tmp_path, Call(0, 10, 1), Kernel(20, 1000, 1), options=options)).text
    assert words in text
    assert ("recorded, of" in text) == (session == 50_000)


@pytest.mark.parametrize(("last", "count"), [(100_020, 1), (110_000, 2)])
def test_figures_that_read_alike_are_said_once(tmp_path: Path, last: int, count: int) -> None:
    # The recording ends with a call; the GPU is busy for 50 000 of 100 000.
    rows = (Kernel(0, 25_000), Kernel(75_000, 100_000), Call(last - 10, last, 9))
    text = outline(page_of(tmp_path, *rows, names=ANSWER)).text
    assert text.count("GPU busy, ") == count


def test_backticks_are_code() -> None:
    assert prose("Omit `.item()`, `if x < y:` and a ` alone") == (
        "Omit <code>.item()</code>, <code>if x &lt; y:</code> and a ` alone"
    )


# Of totals: a kernel that took 30 in all, and copies that took 60 and 10.
TOTALS_ROWS = (
    Total("kernel", 3, 30, name="add"),
    Total("memcpy", 2, 60, name="[memcpy DtoH]", direction="DtoH"),
    Total("memcpy", 2, 10, name="[memcpy HtoD]", direction="HtoD"),
)


TOTALS_HELD = {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS}


def test_totals_have_a_bar_of_what_ran(tmp_path: Path) -> None:
    text = page_of(tmp_path, *TOTALS_ROWS, options={"holds": TOTALS_HELD})
    shown = outline(text).text
    assert (
        "GPU time by what ran, added up all 100 ns "
        "copies DtoH 60.0 % 60 ns kernels 30.0 % 30 ns copies HtoD 10.0 % 10 ns "
    ) in shown


def test_what_could_not_be_checked_has_a_line_for_each_fact_that_is_missing(tmp_path: Path) -> None:
    text = page_of(tmp_path, *ROWS, options={"without": {Fact.RANGES, Fact.OPERATORS}}, names=ANSWER)
    inside = text.partition("could not run</summary>")[2].partition("</details>")[0]
    lines = re.findall(r"<li>without ([^:]*): ([^<]*)", inside)
    facts = [fact for fact, _ in lines]
    assert len(set(facts)) == len(facts)
    assert "ranges (NVTX, user annotations) or operators of the framework" in facts
    assert not any(", " in re.sub(r"[(][^)]*[)]", "", fact) for fact in facts)


def test_levels_of_a_tree_are_insets_and_no_blanks() -> None:
    cells = re.findall(r"<td[^>]*>[^<]*", "".join(report_table_html(tree_table())))
    assert cells[:3] == [
        '<td class="t">step',
        '<td class="t" style="padding-left:calc(0.6rem + 2ch)">conv2d',
        '<td class="t" style="padding-left:calc(0.6rem + 4ch)">add',
    ]


def tree_table() -> Section:
    columns = (Column("tree", Unit.TEXT, "Names.", key=True),)
    table = build_table(columns, {"tree": ["step", "  conv2d", "    add"]})
    return Section("modules", "Modules", columns, table, row_count=3)


def test_findings_lead_to_their_gap_or_event(tmp_path: Path) -> None:
    ms = 1_000_000
    rows = [row for i in range(4) for row in (
        Call(20 * i * ms, 20 * i * ms + 9, 2 * i + 1, name="cudaMemcpyAsync"),
        Memcpy(20 * i * ms + 10, (20 * i + 8) * ms, 2 * i + 1, src="Pageable", direction="HtoD"),
        Call((20 * i + 1) * ms, (20 * i + 1) * ms + 9, 2 * i + 2),
        Kernel((20 * i + 8) * ms, (20 * i + 10) * ms, 2 * i + 2, name="gemm"))]  # fmt: skip
    text = page_of(tmp_path, *rows)
    leads = dict(re.findall(r'<li><b>(\w+)</b>.*?href="#([^"]*)">show it', text, re.S))
    assert leads["pageable_copies"].startswith("event=memcpy:")
    assert leads["host_bound"] == "event=gap:1"
