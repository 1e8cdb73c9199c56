"""Markdown for issues and wikis: a heading, a pipe table, a list of notes. Units as in text.

Whatever a name holds, it shows as it is: it opens no column, no markup and no HTML, mentions nobody and
links to nothing. GitHub and GitLab look for mentions, references and addresses in what has been
rendered, where an escape or a character reference is as good as the sign itself; but not in code. So what
could be more than words is a code span.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TextIO

from nsysconv.document import Section
from nsysconv.names import encodable, escaped, shorten_apart, shorten_name
from nsysconv.render import display
from nsysconv.render.contract import Options
from nsysconv.render.display import informative_columns

SUFFIX = ".md"

# Longer names are cut in tables, and whole below them.
_LONGEST = 60

# An underscore inside a word means nothing to Markdown: `kernel_count` needs no code span. Beside signs:
# :emoji:, schemes of addresses, quick actions, %milestones, hosts, ids of commits, and GH-12 or whatever
# keys of issues a project links.
_MORE_THAN_WORDS = re.compile(
    r"[!#$&*<>@\[\\\]^`{|}~] | (?<![^\W_])_ | _(?![^\W_]) | :\S | ^/ | %\w | www\. "
    r"| (?<![^\W_])(?<!\d\.)[0-9a-f]{7,}(?![^\W_]) | [a-z]-\d",
    re.IGNORECASE | re.VERBOSE,
)
# What begins a list or underlines a heading where it begins a line.
_OF_A_LINE = re.compile(r"[-+=]|\d+[.)]$")
_FENCES = re.compile("`+")


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the reports, each under a heading of the second level."""
    for i, report in enumerate(reports):
        for line in lines(report, out) if i == 0 else ("", *lines(report, out)):
            out.write(encodable(line, out, "xmlcharrefreplace") + "\n")


def lines(report: Section, out: TextIO) -> Iterator[str]:
    """Yield the lines of a report under a heading of the second level, or folded."""
    if not report.folded:
        yield f"## {sentence(display.heading(report), out)}"
        yield from _body(report, out)
        return
    # An empty line below the summary: what follows is Markdown again.
    yield f"<details><summary>{html.escape(report.title)}</summary>"
    heading = display.heading(report)
    yield from ("", sentence(heading, out)) if heading != report.title else ()
    yield from _body(report, out)
    yield from ("", "</details>")


def _body(report: Section, out: TextIO) -> Iterator[str]:
    unrecorded: tuple[str, ...] = ()
    for said in report.texts:
        yield from ("", sentence(escaped(said.head), out)) if said.head else ()
        if said.laid_out:
            yield from (
                "",
                *_fenced([escaped(line) for line in said.lines], out),
            )
        else:
            yield from ("", *(f"* {sentence(escaped(line), out)}" for line in said.lines))
    if report.in_rows:
        table = informative_columns(report)
        unrecorded = table.unrecorded
        yield ""
        yield _row([_cell(shown.header, out) for shown in table.columns])
        yield _row(["---:" if shown.right else "---" for shown in table.columns])
        cut: dict[str, str] = {}
        columns = []
        for shown in table.columns:
            short = {} if shown.right or shown.prose else _short_names(shown.cells)
            cut |= {name: text for name, text in short.items() if name != text}
            cells = [short.get(cell, cell) for cell in shown.cells]
            columns.append(cells if shown.right else [_cell(cell, out) for cell in cells])
        for row in zip(*columns, strict=True):
            yield _row(row)
        if cut:
            yield from _whole_names(cut, out)
    for text in display.sentences_below(report, unrecorded):
        yield ""
        yield sentence(text, out)
    notes = [f"* {sentence(text, out)}" for _, text in display.note_sentences([report])]
    yield from ("", *notes) if notes else ()


def _short_names(names: Sequence[str]) -> dict[str, str]:
    return shorten_apart({name: shorten_name(name, _LONGEST) for name in names}, _LONGEST)


def _whole_names(cut: Mapping[str, str], out: TextIO) -> Iterator[str]:
    yield from ("", "<details><summary>Whole names</summary>", "")
    for name, text in cut.items():
        yield f"* {code(text, out)}: {code(name, out)}"
    yield from ("", "</details>")


def _fenced(lines: Sequence[str], out: TextIO) -> Iterator[str]:
    # The fence is longer than any in the lines.
    longest = max((len(found) for line in lines for found in _FENCES.findall(line)), default=0)
    fence = "`" * max(longest + 1, 3)
    yield f"{fence}text"
    yield from (encodable(line, out, "backslashreplace") for line in lines)
    yield fence


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str, out: TextIO) -> str:
    # A bar ends a table's cell even in code.
    return code(text, out).replace("|", r"\|") if _MORE_THAN_WORDS.search(text) else text


def sentence(text: str, out: TextIO) -> str:
    """Return a text of one line as Markdown: what could be more than words is a code span."""
    words = text.strip().split(" ")
    first = bool(_OF_A_LINE.match(words[0]))
    coded = [bool(_MORE_THAN_WORDS.search(word)) for word in words]
    coded[0] = coded[0] or first
    parts = []
    for is_code, group in groupby(zip(coded, words, strict=True), itemgetter(0)):
        part = " ".join(word for _, word in group)
        parts.append(_code_apart(part, out) if is_code else part)
    return " ".join(parts)


def _code_apart(part: str, out: TextIO) -> str:
    # The code is without the signs of the sentence around it: a bracket that it does not open is one.
    name = part.rstrip(",.;")
    while name.endswith(")") and name.count("(") < name.count(")"):
        name = name[:-1].rstrip(",.;")
    return code(name, out) + part[len(name) :]


def code(text: str, out: TextIO) -> str:
    """Return a text of one line as a code span."""
    if not text:
        return ""  # two fences alone are text
    # The fence is longer than any in the text.
    text = encodable(text, out, "backslashreplace")  # a character reference would be none here
    fence = "`" * (max(map(len, _FENCES.findall(text)), default=0) + 1)
    # A space at both ends would be taken for such.
    apart = " " if {text[0], text[-1]} & {"`"} or (text[0] == text[-1] == " ") else ""
    return f"{fence}{apart}{text}{apart}{fence}"
