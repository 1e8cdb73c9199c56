"""Named intervals on threads: ranges of the program, operators and functions, directives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nsysconv import codes
from nsysconv.report import MISSING
from nsysconv.store.connection import WHOLE, TextPart
from nsysconv.store.read import Profile
from nsysconv.store.text_tests import begins
from nsysconv.timeline.arrays import Array, among, factorize, indices, take
from nsysconv.timeline.events import Spans, has_time
from nsysconv.timeline.range_names import (
    GROUPED,
    SEPARATORS,
    group_spans,
    split_name,
    without_arguments,
)
from nsysconv.timeline.timeline import Timeline, cached_whole

PUSH_POP, START_END = (codes.RANGE_KINDS.index(kind) for kind in ("push_pop", "start_end"))
OPERATOR, PYTHON_FUNCTION, DIRECTIVE, LIBRARY_CALL = range(len(codes.OPERATOR_KINDS))
_OF_RANGES = ("start_ns", "dur_ns", "pid", "tid", "kind", "domain_id")
BEFORE_ARGUMENTS = TextPart(SEPARATORS)
"""A name of a range without the arguments that `emit_nvtx` appends, and what is before the first."""
_NO_TEXT, _NO_NAME, _UNCLOSED = "[no text]", "[no name]", " [never closed]"
# What a pattern begins with that a database may look for: no sign that means something to one, and none
# with which texts begin that stand for missing ones.
_BEGINNING = re.compile(r"\A[A-Za-z0-9 _#.:-]+")


@dataclass(frozen=True)
class Ranges(Spans):
    """Ranges; `called` are operators: their texts have the arguments that `emit_nvtx` appends."""

    called: Array


@cached_whole
def ranges(timeline: Timeline) -> Ranges:
    """Return the ranges of a profile that have a length: push/pop and start/end, but no marks.

    Those outside a slice, too: what nests, nests whole. `Timeline.holds` says which are in it. Names are
    without the arguments that `emit_nvtx` appends, which differ in each range; `exact_ranges` has them.
    """
    profile = timeline.profile
    column = profile.columns("range", _OF_RANGES)
    long = (column["kind"] == PUSH_POP) | (column["kind"] == START_END)
    kept = long & (column["start_ns"] != MISSING)
    rows = indices(kept)
    start, dur, pid, tid, kind, domain = (take(column[name], kept) for name in _OF_RANGES)
    column.clear()
    profile.release("range", _OF_RANGES)
    unclosed, end = np.flatnonzero(dur == MISSING), start + dur
    end[unclosed] = start[unclosed]
    last = profile.attributes["recording_ns"]
    closing = int(end.max(initial=0)) if last is None else last
    end[unclosed] = np.maximum(end[unclosed], closing)
    del dur
    number, texts = _texts_of_ranges(profile, rows, BEFORE_ARGUMENTS)
    parts = [split_name(text) for text in texts]
    numbers: dict[str, int] = {}
    merged = [numbers.setdefault(part.name, len(numbers)) for part in parts]
    called = take(np.array([part.has_arguments for part in parts], bool), number)
    name = take(np.array(merged, np.int32), number)
    unnamed = domain == MISSING
    domain = np.broadcast_to(0, len(rows)) if unnamed.all() else np.where(unnamed, 0, domain)
    return Ranges(start, end, pid, tid, kind, domain, rows, name, tuple(numbers), called)


@cached_whole
def exact_ranges(timeline: Timeline) -> Ranges:
    """Return the same, with the texts that were recorded as their names."""
    spans = ranges(timeline)
    if not spans.called.any():
        return spans
    name, names = _texts_of_ranges(timeline.profile, spans.row)
    return replace(spans, name=name, names=names)


@cached_whole
def operators(timeline: Timeline) -> Spans:
    """Return operators, Python functions and directives that have a time, those outside a slice, too."""
    names = ("start_ns", "dur_ns", "pid", "tid", "kind", "name_id")
    column = timeline.profile.columns("operator", names)
    timed = has_time(column)
    start, dur, pid, tid, kind, name_id = (take(column[name], timed) for name in names)
    name, texts = _number_texts(timeline.profile, name_id)
    rows = np.flatnonzero(timed)
    domain = np.zeros(len(rows), np.int32)
    return Spans(start, start + dur, pid, tid, kind, domain, rows, name, texts)


@cached_whole
def shown_ranges(timeline: Timeline, range_names: str) -> Spans:
    """Return the ranges, named as RANGE_NAMES says, and `domain:name` those of a named domain."""
    if range_names == GROUPED:
        return _prefix_domains(timeline, group_spans(ranges(timeline)))
    return _prefix_domains(timeline, exact_ranges(timeline))


def unclosed_apart(timeline: Timeline, spans: Spans) -> Spans:
    """Return ranges with a name of their own for those that were never closed: they have no duration."""
    unclosed = timeline.profile.columns("range", ("dur_ns",))["dur_ns"][spans.row] == MISSING
    if not unclosed.any():
        return spans
    numbers = {text: number for number, text in enumerate(spans.names)}
    own = [numbers.setdefault(f"{text}{_UNCLOSED}", len(numbers)) for text in spans.names]
    name = np.where(unclosed, np.array(own, np.int64)[spans.name], spans.name)
    return replace(spans, name=name, names=tuple(numbers))


@cached_whole
def shown_operators(timeline: Timeline, range_names: str) -> Spans:
    """Return what `operators` does, named as RANGE_NAMES says."""
    found = operators(timeline)
    return group_spans(found) if range_names == GROUPED else found


def name_pattern(*patterns: str) -> re.Pattern[str]:
    """Return what matches a name that fits one of the patterns, `*` standing for anything."""
    each = (".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
    return re.compile("|".join(each), re.DOTALL)


def named(timeline: Timeline, spans: Spans, pattern: str, domain: str | None = None) -> Array:
    """Return which intervals have a name that fits, and a domain whose name fits (None: any)."""
    kept = which_named(spans, name_pattern(pattern).fullmatch)
    if domain is not None and len(spans):
        known = domain_names(timeline.profile)
        of_domain = name_pattern(domain).fullmatch
        pairs, (pids, domains) = factorize(spans.pid, spans.domain)
        keys = zip(pids.tolist(), domains.tolist(), strict=True)
        kept &= np.array([bool(of_domain(known.get(key, ""))) for key in keys], bool)[pairs]
    return kept


def mpi_ranges(timeline: Timeline) -> Spans:
    """Return the ranges in domains named MPI, where wrappers of MPI put its calls."""
    found = ranges(timeline)
    return found.take(named(timeline, found, "*", "MPI"))


def which_named(spans: Spans, fits: Callable[[str], object]) -> Array:
    """Return which intervals have a name that fits, as a mask."""
    fitting = np.array([bool(fits(name)) for name in spans.names], bool)
    return fitting[spans.name] if len(spans) else np.zeros(0, bool)


def count_named(timeline: Timeline, pattern: str) -> dict[int, int]:
    """Return per process how many ranges, and operators of the kind operator, have a name that fits.

    Of a table in which nothing has such a name, no more is read than what shows that.
    """
    profile, fits = timeline.profile, name_pattern(pattern).fullmatch
    beginning = "".join(_BEGINNING.findall(pattern)[:1])
    counts: Counter[int] = Counter()
    if not beginning:
        run = operators(timeline)
        for spans in (ranges(timeline), run.take(run.kind == OPERATOR)):
            counts.update(spans.pid[named(timeline, spans, pattern)].tolist())
        return dict(counts)
    known = profile.names_that(begins(beginning)).items()
    names = np.array(sorted(i for i, text in known if fits(split_name(text).name)), np.int64)
    own = profile.texts("range", "text", begins(beginning), BEFORE_ARGUMENTS)
    fitting = [bool(fits(split_name(text).name)) for text in own.texts]
    rows = own.ids[np.array(fitting, bool)[own.numbers]]
    for pids in (_pids_of_ranges(profile, names, rows), _pids_of_operators(profile, names)):
        counts.update(pids.tolist())
    return dict(counts)


def _pids_of_ranges(profile: Profile, names: Array, rows: Array) -> Array:
    # The result has a pid per range that has one of these names, or no name and an id among `rows`.
    name_id = _names_of("range", profile, len(names) + len(rows))
    fitting = among(name_id, names)
    if len(rows):
        fitting |= (name_id == MISSING) & among(profile.columns("range", ("id",))["id"], rows)
    if not fitting.any():
        return np.empty(0, np.int64)
    column = profile.columns("range", ("pid", "kind", "start_ns"))
    fitting &= (column["kind"] == PUSH_POP) | (column["kind"] == START_END)
    return take(column["pid"], fitting & (column["start_ns"] != MISSING))


def _pids_of_operators(profile: Profile, names: Array) -> Array:
    fitting = among(_names_of("operator", profile, len(names)), names)
    if not fitting.any():
        return np.empty(0, np.int64)
    column = profile.columns("operator", ("pid", "kind", "start_ns", "dur_ns"))
    return take(column["pid"], fitting & has_time(column) & (column["kind"] == OPERATOR))


def _names_of(table: str, profile: Profile, wanted: int) -> Array:
    if not wanted or not profile.row_count(table):
        return np.empty(0, np.int32)
    return profile.columns(table, ("name_id",))["name_id"]


def domain_names(profile: Profile) -> dict[tuple[int, int], str]:
    """Return a domain's name by (pid, domain_id); the default domain 0 has none."""
    return {(row["pid"], row["domain_id"]): row["name"] for row in profile.rows("domain")}


def _prefix_domains(timeline: Timeline, spans: Spans) -> Spans:
    domains = domain_names(timeline.profile)
    if not domains:
        return spans
    place, (pids, ids, names) = factorize(spans.pid, spans.domain, spans.name)
    texts: dict[str, int] = {}
    merged = []
    for pid, domain, name in zip(pids.tolist(), ids.tolist(), names.tolist(), strict=True):
        prefix = domains.get((pid, domain))
        text = spans.names[name] if prefix is None else f"{prefix}:{spans.names[name]}"
        merged.append(texts.setdefault(text, len(texts)))
    return replace(spans, name=np.array(merged, np.int64)[place], names=tuple(texts))


def _number_texts(profile: Profile, name_id: Array) -> tuple[Array, tuple[str, ...]]:
    place, (ids,) = factorize(name_id)
    texts = profile.names(ids[ids != MISSING])
    numbers: dict[str, int] = {}
    # Two ids of one text are one name.
    merged = np.array(
        [numbers.setdefault(texts.get(i, _NO_NAME), len(numbers)) for i in ids.tolist()], np.int32
    )
    return take(merged, place), tuple(numbers)


@cached_whole
def range_arguments(timeline: Timeline, separator: str) -> tuple[Array, tuple[str, ...]]:
    """Return the number of the argument of each of `ranges` that follows a separator, and the arguments.

    It is empty where there is none.
    """
    rows = ranges(timeline).row
    number, texts = _texts_of_ranges(timeline.profile, rows, TextPart(SEPARATORS, separator))
    return number, tuple(map(without_arguments, texts))


def _texts_of_ranges(
    profile: Profile, rows: Array, part: TextPart = WHOLE
) -> tuple[Array, tuple[str, ...]]:
    # The number of a part of each of these rows' texts, and the parts. A range has a name, or its text in
    # the row itself.
    name_id = take(profile.columns("range", ("name_id",))["name_id"], rows)
    number, texts = _number_texts(profile, name_id)
    numbers: dict[str, int] = {}

    def numbered(text: str) -> int:
        kept = text if part == WHOLE else part.of(text.encode()).decode()
        return numbers.setdefault(kept, len(numbers))

    merged = np.array(list(map(numbered, texts)), np.int32)
    number = take(merged, number)
    unnamed = name_id == MISSING
    if not unnamed.any():
        return number, tuple(numbers)
    own = profile.texts("range", "text", part=part)
    of_own = [*(numbers.setdefault(text, len(numbers)) for text in own.texts), numbered(_NO_TEXT)]
    number_of = np.array(of_own, np.int32)
    own_number = np.full(profile.row_count("range"), number_of[-1])
    own_number[_places(profile, own.ids)] = number_of[own.numbers]
    return np.where(unnamed, own_number[rows], number), tuple(numbers)


def _places(profile: Profile, ids: Array) -> Array:
    # The places of ranges with these ids. Ids of rows that were left out of a file in place are not used.
    extent = profile.extents["range"]
    if extent.last_id - extent.first_id + 1 == profile.row_count("range"):
        return ids - extent.first_id
    return np.searchsorted(profile.columns("range", ("id",))["id"], ids)


def range_colors(timeline: Timeline, rows: Array) -> list[str | None]:
    """Return the colors that the program gave ranges, by their places: `#rrggbb`; None: it gave none.

    How opaque a color is to be is left out: programs leave that part 0.
    """
    if not len(rows):
        return []
    number, colors = _colors(timeline)
    texts = [None if color == MISSING else f"#{color & 0xFFFFFF:06x}" for color in colors.tolist()]
    return [texts[i] for i in number[rows].tolist()]


@cached_whole
def _colors(timeline: Timeline) -> tuple[Array, Array]:
    # The number of each range's color, and the colors: kept in place of the column, which is wider.
    number, (colors,) = factorize(timeline.profile.columns("range", ("color",))["color"])
    timeline.profile.release("range", ("color",))
    return (number.astype(np.uint8) if len(colors) <= 256 else number), colors


def own_text(profile: Profile, row: int) -> str:
    """Return the text of a range or a mark that has it in its own row, by its place."""
    own = profile.texts("range", "text")
    at = np.flatnonzero(_places(profile, own.ids) == row)
    return own.texts[int(own.numbers[at[0]])] if len(at) else _NO_TEXT
