"""A comparison as a comment of at most 12 lines, in Markdown: the answer, limits, causes, doubts.

All tables are folded below it. GitHub takes comments of 65,536 characters and refuses longer ones:
tables that have no room are left out from the end, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from nsysconv.document import Section
from nsysconv.names import drop_clauses, encodable, escaped, named_texts, shorten, shorten_name
from nsysconv.notes import Severity
from nsysconv.render import markdown
from nsysconv.render.contract import Options
from nsysconv.render.display import note_sentences
from nsysconv.report import Unit, human

MOST_LINES = 12
MOST_BYTES = 60_000
_MOST_LIMITS, _MOST_NAMED, _MOST_CONTRIBUTORS, _MOST_NOTES = 3, 3, 2, 2
_HEADING, _SENTENCE, _ROWS, _LIMIT, _NAME = 400, 240, 600, 80, 60
_EXCEEDED, _INCONCLUSIVE = "exceeded", "inconclusive"
_SAME, _FAIL = "same", "FAIL"
_FIGURES = {"step": "step period", "window": "GPU active window"}
_SIGNS = {"slower": 1, "faster": -1}
# The heading says this one.
_IN_HEADING = "work-differs"
_NOT_IN_TURNS = "runs-not-in-turns"
_NO_NAME = "[no name]"
# What the reason says of other rows than that of the largest change.
_MISSING = "without a value"
# What changed by less than that share of the largest change is not named.
_SMALL_SHARE = 0.1
# So many characters are kept free for the fold's tags and for the line on tables that do not fit.
_ROOM_FOR_ENDS = 200


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the comment on the reports of a comparison, of which the first is the headline."""
    headline, *tables = reports
    by_name = {report.name: report for report in tables}
    (answer,) = headline.rows()
    items = [*_on_limits(by_name.get("limits"), out), *_on_runs(answer)]
    if answer["answer"] != _SAME:
        items += _on_contributors(by_name.get("contributors"), answer["answer"], out)
    items += _on_doubts(reports, answer, out)
    title = markdown.sentence(shorten(escaped(headline.title), _HEADING), out)
    lines = [f"### {title}", "", *(f"* {item}" for item in items), *([""] if items else [])]
    if tables or headline.notes:
        lines += [*_folded(headline, tables, out, MOST_BYTES - _size(lines))]
    for line in lines:
        out.write(encodable(line, out, "xmlcharrefreplace") + "\n")


def _on_limits(limits: Section | None, out: TextIO) -> Iterator[str]:
    # Those that do not hold, and how many do.
    rows = limits.rows() if limits else []
    few = [row for row in rows if row["needs_runs"] is not None]
    broken = [
        row
        for state in (_EXCEEDED, _INCONCLUSIVE)
        for row in rows
        if row["state"] == state and row not in few
    ]
    alike = _alike(broken)
    for same in alike[:_MOST_LIMITS]:
        yield f"**{same[0]['state']}**: {_limits_alike(same, out)}"
    if few:
        names = _names(few, out)
        needed = max(row["needs_runs"] for row in few)
        which = "new runs" if all("new runs" in row["reason"] for row in few) else "runs per side"
        yield f"**{_INCONCLUSIVE}**: {names}: record {needed} {which}"
    if rows:
        rest = [row for same in alike[_MOST_LIMITS:] for row in same]
        more = [
            f"{count} more: {state} ({_names(named, out)}{', …' if count > len(named) else ''})"
            for state, count in Counter(row["state"] for row in rest).items()
            for named in [[row for row in rest if row["state"] == state][:_MOST_NAMED]]
        ]
        held = len(rows) - len(broken) - len(few)
        within = ", ".join([*more, f"within: {held} of {len(rows)} limits"])
        renamed = next((row["renamed"] for row in rows if row.get("renamed")), "")
        names = _code(shorten(escaped(renamed), _SENTENCE), out)
        yield "; ".join(
            [within, *([f"renamed? {names}"] if renamed else []), *_on_patterns(rows, out)]
        )


def _on_patterns(rows: Sequence[Mapping[str, Any]], out: TextIO) -> Iterator[str]:
    # A pattern that matches nothing may be misspelled, though nothing is no more than nothing.
    for words, side in (("no row matches", "both"), ("no row of other matches", "other")):
        found = [row for row in rows if row["no_row_in"] == side and row["state"] == "within"]
        if found:
            more = ", …" if len(found) > _MOST_NAMED else ""
            yield f"{words} {_names(found[:_MOST_NAMED], out)}{more}"


def _alike(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    # Limits that are undecided for one reason stand together: it is one doubt.
    groups: dict[object, list[Mapping[str, Any]]] = {}
    for number, row in enumerate(rows):
        key = row["reason"] if row["state"] == _INCONCLUSIVE and not row["row"] else number
        groups.setdefault(key, []).append(row)
    return [*groups.values()]


def _limits_alike(rows: Sequence[Mapping[str, Any]], out: TextIO) -> str:
    if len(rows) == 1:
        return _limit(rows[0], out)
    return f"{_names(rows, out)}: {_shown(rows[0]['reason'], out)}"


def _names(rows: Sequence[Mapping[str, Any]], out: TextIO) -> str:
    return ", ".join(_code(shorten(escaped(row["limit"]), _LIMIT), out) for row in rows)


def _on_runs(answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["trend"]:
        before, after = answer["base_runs"], answer["other_runs"]
        runs = f"{before} run{'s' if before != 1 else ''} and {after} new"
        yield f"{_FIGURES[answer['figure']]}, {runs}: {answer['trend']}"


def _limit(row: Mapping[str, Any], out: TextIO) -> str:
    name = _code(shorten(escaped(row["limit"]), _LIMIT), out)
    if _MISSING in row["reason"] and row["state"] == _INCONCLUSIVE:
        return f"{name}: {_shown(row['reason'], out)}"
    key = f", {_code(shorten_name(escaped(row['row']), _NAME), out)}" if row["row"] else ""
    key += f", {row['place']}" if row.get("place") else ""
    if row["state"] == _INCONCLUSIVE or not row["change"]:
        return f"{name}{key}: {_shown(row['reason'], out)}"
    # Numbers and our own words need no care.
    worst = f"{name}{key}: {', '.join(filter(None, (row['change'], row['interval'])))}"
    worst += "".join(_others(row["exceeding"] or "", out))
    return worst + (f"; {row['all_of']}" if row.get("all_of") else "")


def _others(exceeding: str, out: TextIO) -> Iterator[str]:
    # The rows that exceed a limit, but for the first, as far as there is room.
    others, room = named_texts(exceeding)[1:], _ROWS
    for number, (name, change) in enumerate(others):
        text = f"; {_code(shorten_name(escaped(name), _NAME), out)}: {change}"
        room -= len(text)
        if room < 0:
            yield f"; and {len(others) - number} more"
            return
        yield text


def _on_contributors(contributors: Section | None, answer: str, out: TextIO) -> Iterator[str]:
    # What is certain, and of a run that became slower what did: not all the rest that became faster.
    rows = contributors.rows() if contributors else []
    way = _SIGNS.get(answer, 0)
    rows = [row for row in rows if row["certain"] == "yes" and way * row["change_ns"] >= 0]
    least = max((abs(row["change_ns"]) for row in rows), default=0) * _SMALL_SHARE
    for row in [row for row in rows if abs(row["change_ns"]) >= least][:_MOST_CONTRIBUTORS]:
        name = _code(shorten_name(escaped(row["name"]), _NAME), out)
        sign = "+" if row["change_ns"] > 0 else ""
        change = f"{sign}{human(row['change_ns'], Unit.NS)}"
        yield f"{row['kind']} {name}: {change}, {row['why']}"


def _on_doubts(reports: Sequence[Section], answer: Mapping[str, Any], out: TextIO) -> Iterator[str]:
    # What was dropped or is not exact, if the heading does not say it; all notes are below the tables.
    # What failed may have drifted.
    failed, unlike = answer["gate"] == _FAIL, answer["unlike"] or ""
    said = [
        text
        for note, text in note_sentences(reports)
        if (
            note.severity is not Severity.INFO
            and note.slug != _IN_HEADING
            and note.text not in unlike
        )
        or (failed and note.slug == _NOT_IN_TURNS)
    ]
    more = f" (and {len(said) - _MOST_NOTES} more below)" if len(said) > _MOST_NOTES else ""
    for i, text in enumerate(said[:_MOST_NOTES], start=1):
        yield _shown(text, out) + (more if i == _MOST_NOTES else "")


def _code(text: str, out: TextIO) -> str:
    return markdown.code(text or _NO_NAME, out)


def _shown(text: str, out: TextIO) -> str:
    return markdown.sentence(shorten(drop_clauses(escaped(text), _SENTENCE), _SENTENCE), out)


def _folded(headline: Section, tables: Sequence[Section], out: TextIO, room: int) -> Iterator[str]:
    yield "<details><summary>All tables</summary>"
    notes = [f"* {markdown.sentence(text, out)}" for _, text in note_sentences([headline])]
    yield from ("", *notes) if notes else ()
    room -= _ROOM_FOR_ENDS + _size(notes)
    for number, table in enumerate(tables):
        lines = ["", *markdown.lines(table, out)]
        room -= _size(lines)
        if room < 0:
            yield ""
            yield f"Without room here: {len(tables) - number} of {len(tables)} tables of `nsysconv diff`."
            break
        yield from lines
    yield ""
    yield "</details>"


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode("utf-8", "surrogatepass")) + 1 for line in lines)
