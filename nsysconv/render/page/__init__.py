"""Reports as one page that needs nothing else: no network, no other file, and to be read no script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from nsysconv.document import Section
from nsysconv.notes import Note, Severity
from nsysconv.render import display
from nsysconv.render.page import aligned, changed_trees, charts, first_screen, lanes
from nsysconv.render.page.addresses import Addresses
from nsysconv.render.page.first_screen import base_name, is_change
from nsysconv.render.page.markup import amount, anchor, escape, prose, report_table_html, rows
from nsysconv.render.page.sides import in_words, side_words
from nsysconv.report import ProfileRef, Unit, build_table, utc

_TIME_LINE_SECTION = "Time line"
_RULES = "Rules of nsys analyze"
PARTS = (
    "The change",
    "Step by step",
    _TIME_LINE_SECTION,
    "Over time",
    "Kernels",
    "Operators",
    "API vs. GPU",
    "Transfers",
    "Memory",
    "Idle time",
    "Ranks and communication",
    "Steps and ranges",
    "GPUs and processes",
    "Metrics",
)
"""The parts of a page, in order; reports that belong to none follow under their own titles."""

LAST_PARTS = (_RULES, "The answer in numbers", "What was recorded")
_OF_BOTH = {
    "step_pairs": aligned.step_strips,
    "step_timelines": aligned.step_lanes,
    **dict.fromkeys(("operators_tree", "modules_tree", "ranges_tree"), changed_trees.flame_graph),
}
"""Reports of both sides of a comparison that have a picture of their own."""

_SCRIPTS: tuple[str, ...] = (
    "folding.js",
    "clipboard.js",
    "tables.js",
    "drawing.js",
    "lanes_data.js",
    "lanes_account.js",
    "lanes_counters.js",
    "lanes_groups.js",
    "lanes_selection.js",
    "lanes_view.js",
    "lanes.js",
    "flame.js",
)
_SCRIPTS_OF_BOTH = (
    "folding.js",
    "clipboard.js",
    "tables.js",
    "drawing.js",
    "flame.js",
    "aligned.js",
)
_MOST_ROWS = 1000
"""Below such a picture there are so many rows."""

# What is read first, and as many sections as need no folding.
_UNFOLDED = ("The change", "Step by step", _TIME_LINE_SECTION, "Over time")
_MOST_UNFOLDED = 3

Numbers = Mapping[Note, tuple[int, str]]
"""The notes of the page: the number of each, and its text."""


@dataclass(frozen=True)
class _Page:
    """What all parts of the page refer to."""

    numbers: Numbers
    reports: Mapping[str, Section]
    """By name, without options."""
    addresses: Addresses
    late: frozenset[int]
    """The ranks that others wait for."""


_TIME_LINE = "timeline_events"
"""The report whose anchor the time line bears."""

_ANSWER = ("summary", "findings")
"""The reports that the first screen draws, all of them."""


def document(reports: Sequence[Section]) -> Iterator[str]:
    """Yield the page, line by line."""
    scripts, style = _SCRIPTS, _asset("page.css")
    reports = _without_folders(reports)
    if first_screen.is_comparison(reports):
        reports = list(map(in_words, reports))
        scripts, style = _SCRIPTS_OF_BOTH, f"{style}\n{_asset('aligned.css')}"
    numbers = _numbered(reports)
    by_name = {base_name(report.name): report for report in reports}
    by_name |= {r.name.partition(":bins")[0]: r for r in reports}
    found = [row for row in rows(by_name.get("findings")) if row["rule"] == "stragglers"]
    late = frozenset(row["rank"] for row in found if row["rank"] is not None)
    page = _Page(numbers, by_name, Addresses(by_name), late)
    script = "\n".join(map(_asset, scripts))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sections = _sections(reports)
    title = _title(reports)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    # Nothing is fetched, and of scripts only this page's own runs, whatever a name may hold.
    yield (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'\">"
    )
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escape(title)} - nsysconv</title>"
    yield f"<style>{style}</style>\n</head>\n<body>"
    yield '<a class="skip" href="#main">To the answer</a>'
    yield f"<header><h1>{escape(title)}</h1>"
    yield from _recorded_in_short(reports)
    yield "</header>"
    links = [("answer", "The answer"), *((_id(name), name) for name in sections)]
    if len(links) > 2:
        inner = "".join(f'<a href="#{ident}">{escape(words)}</a>' for ident, words in links)
        yield f'<nav aria-label="Sections">{inner}</nav>'
    yield '<main id="main">'
    yield from _first_screen(reports, sections, page)
    has_answer = any(is_change(r) or base_name(r.name) in _ANSWER for r in reports)
    # A page of metrics or totals alone has nothing above the tables, so it is not folded.
    has_pictures = any(name in sections for name in _UNFOLDED)
    is_folded = has_answer and has_pictures and len(sections) > _MOST_UNFOLDED
    for name, members in sections.items():
        shown = map(_with_tensor_cores, members) if "Operators" in sections else members
        fold = is_folded and name not in _UNFOLDED
        content = _section(name, list(shown), page)
        yield from _folded(_id(name), name, content, fold, _inside(name, members))
    if numbers:
        yield from _folded("s-notes", "Notes", _notes(numbers), is_folded)
    missing = [report for report in reports if report.table is None]
    if missing and len(reports) > 1:
        yield from _folded("s-missing", "Not recorded", _unrecorded(missing), is_folded)
    yield "</main>"
    yield f"<script>{script}</script>\n</body>\n</html>"


def _without_folders(reports: Sequence[Section]) -> list[Section]:
    # A page is sent to others, whom the sender's folders do not concern: files have their names.
    paths = {ref.path for report in reports for ref in report.profiles}
    names = {path: re.split(r"[/\\]", path)[-1] for path in paths if path}

    def named(text: str) -> str:
        for path, name in names.items():
            text = text.replace(path, name)
        return text

    found = []
    for report in reports:
        refs = tuple(replace(ref, path=named(ref.path)) for ref in report.profiles)
        report = replace(report, profiles=refs)
        if report.name == "profile" and report.table is not None:
            texts = tuple(
                replace(said, lines=tuple(map(named, said.lines))) for said in report.texts
            )
            columns = zip(
                (column.name for column in report.columns), report.by_column(), strict=True
            )
            data = {name: [named(str(value)) for value in values] for name, values in columns}
            report = replace(report, texts=texts, table=build_table(report.columns, data))
        found.append(report)
    return found


def _asset(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8").strip()


def _title(reports: Sequence[Section]) -> str:
    labels = [ref.label or ref.path for ref in _profiles(reports)]
    if first_screen.is_comparison(reports):
        return " → ".join(labels) if len(labels) == 2 else "What changed"
    if len(labels) == 1:
        return labels[0]
    if labels:
        return f"{len(labels)} profiles: {labels[0]} … {labels[-1]}"
    return reports[0].title if reports else "nsysconv"


def _profiles(reports: Sequence[Section]) -> list[ProfileRef]:
    return list(dict.fromkeys(ref for report in reports for ref in report.profiles))


def _recorded_in_short(reports: Sequence[Section]) -> Iterator[str]:
    facts = list(dict.fromkeys(ref.source for ref in _profiles(reports) if ref.source))
    attributes = {
        row["attribute"]: row["value"] for r in reports if r.name == "profile" for row in rows(r)
    }
    for key, words in (
        ("tool_version", "version "),
        ("host", "on "),
        ("graph_mode", "CUDA graphs traced by "),
    ):
        if key in attributes:
            facts.append(words + attributes[key])
    if "zero_utc_ns" in attributes:
        facts.append(utc(int(attributes["zero_utc_ns"])))
    if "recording_ns" in attributes:
        session = int(attributes["recording_ns"])
        spans = [row["span_ns"] or 0 for r in reports if r.name == "summary" for row in rows(r)]
        in_short = max(spans, default=session)
        part = f"{amount(in_short, Unit.NS)} recorded, of " if 2 * in_short < session else ""
        facts.append(f"{part}a session of {amount(session, Unit.NS)}")
    parts = dict.fromkeys(display.slice_words(r.slice) for r in reports if r.slice is not None)
    facts += list(parts)[:1]
    if facts:
        yield f'<p class="quiet">{escape(" · ".join(facts))}</p>'


def _first_screen(
    reports: Sequence[Section], sections: Mapping[str, Sequence[Section]], page: _Page
) -> Iterator[str]:
    by_name = {base_name(report.name): report for report in reports}
    yield '<section id="answer"><h2 class="hidden">The answer</h2>'
    if first_screen.is_comparison(reports):
        yield from first_screen.comparison_screen(reports)
    elif any(name in by_name for name in _ANSWER):
        shown = [r for name, members in sections.items() for r in members
                 if r.row_count or name != _RULES]  # fmt: skip
        # If several reports differ only in options, links lead to the first.
        anchors = {base_name(report.name): anchor(report.name) for report in reversed(shown)}
        yield from first_screen.profile_screen(by_name, anchors, page.addresses)
    doubts = [note for note in page.numbers if note.severity is not Severity.INFO]
    if doubts:
        yield f'<p class="quiet">Notes: {_links(doubts, page.numbers)}.</p>'
    yield "</section>"


def _sections(reports: Sequence[Section]) -> dict[str, list[Section]]:
    parts: dict[str, list[Section]] = {name: [] for name in PARTS}
    last: dict[str, list[Section]] = {name: [] for name in LAST_PARTS}
    for report in reports:
        is_shown = report.table is not None or len(reports) == 1
        if is_shown and base_name(report.name) != first_screen.ANSWER:
            name = report.part or report.title or report.name
            (last if name in last else parts).setdefault(name, []).append(report)
    return {name: members for name, members in {**parts, **last}.items() if members}


def _id(section: str) -> str:
    return "s-" + "".join(c if c.isalnum() else "-" for c in section.lower())


def _folded(
    ident: str, name: str, content: Iterable[str], fold: bool, gist: str = ""
) -> Iterator[str]:
    # Folded by an element that needs no script, and that finding in the page opens.
    heading = f"<h2>{escape(name)}</h2>"
    quiet = f'<span class="quiet">{escape(gist)}</span>' if gist else ""
    yield f'<section id="{ident}">'
    yield f'<details class="fold"><summary>{heading}{quiet}</summary>' if fold else heading
    yield from content
    yield "</details></section>" if fold else "</section>"


def _inside(name: str, members: Sequence[Section]) -> str:
    # What a folded section holds, in a line: the beginnings of its reports' titles.
    titles = dict.fromkeys(re.split("[:,]", report.title)[0] for report in members)
    return " · ".join(title for title in titles if title and title != name)


def _section(name: str, members: Sequence[Section], page: _Page) -> Iterator[str]:
    # A rule without rows is a line: what it says.
    without = [report for report in members if name == _RULES and not report.row_count]
    each_title = [report.title for report in members]
    drawn = {base_name(report.name): report for report in members}
    if name == _TIME_LINE_SECTION and not any(report.row_count for report in members):
        yield "<p>No events.</p>"
        return
    if lanes.has_time_line(drawn):
        # Samples alone have a time line, too, and events that were not recorded are listed below.
        recorded = [report.name for report in members if report.table is not None]
        shown = _TIME_LINE if _TIME_LINE in recorded else recorded[0]
        yield f'<article id="{anchor(shown)}">'
        yield from lanes.time_line(
            drawn, page.reports.get("steps"), page.reports.get("memory:by=time")
        )
        yield "</article>"
        members = [report for report in members if base_name(report.name) not in lanes.REPORTS]
    for report in members:
        if report not in without:
            heading = "" if report.title == name else escape(report.title)
            if each_title.count(report.title) > 1 and ":" in report.name:
                heading += f" <code>{escape(report.name)}</code>"
            yield from _report(report, heading, page)
    if without:
        lines = "".join(f"<li>{line}" for report in without for line in _nothing_found(report))
        yield f'<ul class="quiet">{lines}</ul>'


def _nothing_found(report: Section) -> Iterator[str]:
    title = escape(report.title.partition(", ")[0])
    lines = [line for said in report.texts for line in said.lines]
    yield from (f"{title}. {prose(line)}" for line in lines or [display.empty_sentence(report)])


def _with_tensor_cores(report: Section) -> Section:
    # Who looks at operators looks for what ran on Tensor Cores.
    if base_name(report.name) != "kernels":
        return report
    columns = tuple(replace(c, brief=c.brief or c.name == "tensor_cores") for c in report.columns)
    return replace(report, columns=columns)


def _report(report: Section, heading: str, page: _Page) -> Iterator[str]:
    yield f'<article id="{anchor(report.name)}">'
    if heading:
        yield f"<h3>{heading}</h3>"
    if report.name in _OF_BOTH:
        yield from _of_both(report)
    else:
        yield from _picture_and_rows(report, page)
    links = _links(report.notes, page.numbers)
    if links:
        yield f'<p class="quiet">Notes: {links}.</p>'
    yield "</article>"


def _of_both(report: Section) -> Iterator[str]:
    yield from _OF_BOTH[report.name](report)
    if report.name != "step_timelines":  # whose rows are what is drawn
        yield '<details class="numbers"><summary>The numbers</summary>'
        yield from report_table_html(report.limited(_MOST_ROWS))
        yield "</details>"


def _picture_and_rows(report: Section, page: _Page) -> Iterator[str]:
    name = base_name(report.name)
    if name == "overview" and len(report.profiles) > 1:
        yield from charts.device_matrix(report)
    yield from charts.picture_figures(report, page.late)
    yield from _by_others(report)
    if name in _ANSWER:
        # All in rows: the words for people are the first screen's.
        report = replace(report, texts=(), replaced=frozenset())
    # Rows that few read: a picture says it.
    is_drawn = report.picture is not None and report.picture.kind in ("strip", "series")
    shut = is_drawn or name in _ANSWER
    if shut:
        yield '<details class="numbers"><summary>The numbers</summary>'
    yield from report_table_html(report, lambda row: page.addresses.of(name, row))
    if shut:
        yield "</details>"


def _by_others(report: Section) -> Iterator[str]:
    # A range is of the thread that opened it: what others launched meanwhile is not in its time.
    if not any(column.name == "other_thread_kernel_sum_ns" for column in report.columns):
        return
    outermost = [row["other_thread_kernel_sum_ns"] or 0 for row in rows(report) if not row["level"]]
    if sum(outermost):
        time = amount(sum(outermost), Unit.NS)
        yield f"<p>{time} more of kernels were launched by other threads in these ranges' time.</p>"


def _numbered(reports: Sequence[Section]) -> Numbers:
    text_by_note = dict(display.note_sentences(reports))
    return {note: (number, text_by_note[note]) for number, note in enumerate(text_by_note, 1)}


def _links(notes: Iterable[Note], numbers: Numbers) -> str:
    first: dict[str, int] = {}
    for note in notes:
        if note in numbers:
            first.setdefault(note.slug, numbers[note][0])
    return ", ".join(f'<a href="#n{number}">{escape(slug)}</a>' for slug, number in first.items())


def _notes(numbers: Numbers) -> Iterator[str]:
    words = side_words(text for _, text in numbers.values())
    if words:
        yield f'<p class="quiet">{escape(words)}</p>'
    yield '<ol class="notes">'
    for number, words in numbers.values():
        yield f'<li id="n{number}">{prose(words)}'
    yield "</ol>"


def _unrecorded(missing: Iterable[Section]) -> Iterator[str]:
    yield '<dl class="missing">'
    for report in missing:
        yield f'<dt id="{anchor(report.name)}">{escape(report.title)}'
        yield "".join(f"<dd>{prose(line)}" for line in display.unrecorded_sentences(report))
    yield "</dl>"
