"""Two runs on one axis: how long each step took before and after, and what ran in one on both sides.

The steps are pictures of the page itself; what ran is data for the page's script, which draws it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from nsysconv.document import Section
from nsysconv.names import WHOLE, escaped, shorten
from nsysconv.notes import Note
from nsysconv.render.page.colors import COLOURS
from nsysconv.render.page.markup import (
    LONGEST,
    amount,
    data_element,
    escape,
    rows,
    shortened,
)
from nsysconv.render.page.sides import of_sides
from nsysconv.render.page.waterfall import signed
from nsysconv.report import Unit

Row = dict[str, Any]

_MOST_PROCESSES = 4
_MOST_BARS = 120
"""With more steps than this, lines are drawn."""

_MOST_PLACES = 600
"""With more steps than this, several share a place: the mean of each side."""

_MARKED = 3
_BEFORE, _AFTER, _LESS, _MORE = "was", "now", "less", "more"
_LEGEND = (
    (_BEFORE, "before"),
    (_AFTER, "after"),
    (_LESS, "less after"),
    (_MORE, "more after"),
)


def step_strips(report: Section) -> Iterator[str]:
    """Yield for each process the durations of its steps, before and after, and their differences."""
    shown = [
        (key, list(found)) for key, found in groupby(rows(report), lambda r: (r["rank"], r["pid"]))
    ]
    for (rank, pid), steps in shown[:_MOST_PROCESSES]:
        place = (
            "" if len(shown) == 1 else f"rank {rank}: " if rank is not None else f"process {pid}: "
        )
        yield from _strip(place, steps)
    if len(shown) > _MOST_PROCESSES:
        yield f'<p class="quiet">The first {_MOST_PROCESSES} of {len(shown):,} processes.</p>'


def _strip(place: str, steps: Sequence[Row]) -> Iterator[str]:
    before, after, marks = _places(steps)
    top = max(*before, *after, 1)
    shorter, longer = (sum(s["diff_dur_ns"] * sign > 0 for s in steps) for sign in (-1, 1))
    sums = [sum(step[f"{side}_dur_ns"] for step in steps) for side in ("before", "after")]
    means = [amount(total / len(steps), Unit.NS) for total in sums]
    summary = (
        f"{place}{len(steps):,} step{'s' if len(steps) != 1 else ''} on both sides, "
        f"{means[0]} → {means[1]} on average; {shorter:,} shorter, {longer:,} longer"
    )
    yield f'<figure class="steps"><figcaption>{escape(summary)}</figcaption>'
    keys = "".join(f'<li><i class="k {color}"></i>{words}' for color, words in _LEGEND)
    yield f'<ul class="legend">{keys}</ul>'
    count = len(before)
    yield f'<div class="plot durations"><span class="y">{amount(top, Unit.NS)}</span>'
    yield _svg(f"0 0 {count} 100", summary)
    yield from _durations(before, after, top)
    yield f"</svg>{_numbers(marks, count)}</div>"
    size = -(-len(steps) // count)
    of = f"each {size:,} steps, as a mean" if size > 1 else "each step"
    yield from _differences([b - a for a, b in zip(before, after, strict=True)], of)
    first, last = steps[0]["step"], steps[-1]["step"]
    yield f'<div class="x"><span>{escape(shortened(first, kernel=False))}</span>'
    yield f"<span>{escape(shortened(last, kernel=False))}</span></div>"
    yield from _greatest(marks)
    if size > 1:
        yield f'<p class="quiet">Each place is the mean of {size:,} steps.</p>'
    yield "</figure>"


def _svg(box: str, words: str) -> str:
    label = f'role="img" aria-label="{escape(words)}"'
    return f'<svg viewBox="{box}" preserveAspectRatio="none" {label}>'


Marks = Sequence[tuple[int, Row]]
"""The steps with the greatest change, and their places."""


def _places(steps: Sequence[Row]) -> tuple[list[float], list[float], Marks]:
    size = -(-len(steps) // _MOST_PLACES)
    parts = [steps[i : i + size] for i in range(0, len(steps), size)]
    before, after = (
        [sum(step[f"{side}_dur_ns"] for step in part) / len(part) for part in parts]
        for side in ("before", "after")
    )
    order = sorted(range(len(steps)), key=lambda i: -abs(steps[i]["diff_dur_ns"]))
    return (
        before,
        after,
        [(i // size, steps[i]) for i in order[:_MARKED] if steps[i]["diff_dur_ns"]],
    )


def _durations(before: Sequence[float], after: Sequence[float], top: float) -> Iterator[str]:
    sides = ((_BEFORE, before, 0.1), (_AFTER, after, 0.5))
    for color, values, left in sides:
        heights = [100 * value / top for value in values]
        if len(values) <= _MOST_BARS:
            bars = "".join(f"M{i + left:g} 100v{-h:.1f}h.4V100z" for i, h in enumerate(heights))
            yield f'<path class="{color}" d="{bars}"/>'
        else:
            line = "".join(f"V{100 - h:.1f}h1" for h in heights)
            yield f'<path class="line {color}" d="M0 {100 - heights[0]:.1f}{line}"/>'


def _differences(values: Sequence[float], of: str) -> Iterator[str]:
    # Above the line what became longer, below it what became shorter; nothing where all are the same.
    most = max(map(abs, values))
    if not most:
        return
    yield f'<div class="plot differences"><span class="y">± {amount(most, Unit.NS)}</span>'
    words = f"difference of {of}, {amount(most, Unit.NS)} at most"
    yield _svg(f"0 -50 {len(values)} 100", words)
    for color, sign in ((_MORE, 1), (_LESS, -1)):
        bars = "".join(
            f"M{i + 0.1:g} 0v{-48 * value / most:.1f}h.8V0z"
            for i, value in enumerate(values)
            if value * sign > 0
        )
        yield f'<path class="{color}" d="{bars}"/>'
    yield f'<path class="zero" d="M0 0H{len(values)}"/></svg></div>'


def _numbers(marks: Marks, count: int) -> str:
    return "".join(
        f'<b class="mark" style="left:{100 * (place + 0.5) / count:.2f}%" aria-hidden="true">{number}</b>'
        for number, (place, _) in enumerate(marks, 1)
    )


def _greatest(marks: Marks) -> Iterator[str]:
    if not marks:
        return
    yield '<p class="quiet">The greatest changes:</p><ol class="marked">'
    for _, step in marks:
        name = escape(shortened(step["step"], kernel=False))
        if step["occurrence"] > 1:
            name += f" ({step['occurrence']:,})"
        partner = step["after_step"]
        name += f" and {escape(shortened(partner, kernel=False))}" if partner else ""
        share = "" if step["diff_pct"] is None else f", {step['diff_pct']:+.1f} %".replace("-", "−")
        yield (
            f"<li>{name}: {amount(step['before_dur_ns'], Unit.NS)} → "
            f"{amount(step['after_dur_ns'], Unit.NS)} ({signed(step['diff_dur_ns'])}{share})"
        )
    yield "</ol>"


# -- what ran

_PAIRS = {
    "median": "step of the median difference",
    "greatest": "step of the greatest difference",
    "window": "windows",
}
_KINDS = ("computation", "communication", "memcpy", "memset", "migration")
_KIND_WORDS = {"memcpy": "copy", "memset": "memset", "migration": "page migration"}
_ALONE = "alone"
MOST_TEXT = 1_000_000
"""All names together have about so many characters at most."""

_ON_ALIGNMENT = frozenset({
    "devices-matched", "profiles-not-aligned", "steps-by-order", "steps-not-aligned",
    "steps-without-partner",
})  # fmt: skip
"""Notes on what is beside what: without them the picture would mislead."""

_BUTTONS = (
    ("+", "+", "zoom in"),
    ("-", "−", "zoom out"),
    ("0", "all", "show all"),
    ("ArrowLeft", "←", "to the left"),
    ("ArrowRight", "→", "to the right"),
)
_KEYS = (
    ("drag, ← →", "move"),
    ("pinch, wheel with Ctrl, + −", "zoom"),
    ("0", "all of it"),
    ("↑ ↓", "another lane"),
    ("n p", "next, previous box"),
)


def step_lanes(report: Section) -> Iterator[str]:
    """Yield a canvas with the lanes of both sides, and its data; a sentence where nothing ran."""
    pairs = [
        _pair(name, list(found)) for name, found in groupby(rows(report), lambda row: row["pair"])
    ]
    if not any(pair["lanes"] for pair in pairs):
        yield "<p>Nothing ran on a GPU in these steps, or on one of the sides.</p>"
        return
    yield '<div class="aligned" hidden><p class="tools">'
    yield '<span role="group" aria-label="Steps">'
    yield "".join(
        f'<button type="button" data-pair="{i}" aria-pressed="false">{escape(pair["title"])}</button>'
        for i, pair in enumerate(pairs)
    )
    yield '</span><span role="group" aria-label="Zoom">'
    yield "".join(
        f'<button type="button" data-key="{key}" aria-label="{words}">{sign}</button>'
        for key, sign, words in _BUTTONS
    )
    yield '</span><span class="span quiet"></span></p>'
    yield '<p class="pair"></p>'
    for note in report.notes:
        if note.slug in _ON_ALIGNMENT:
            yield f'<p class="quiet">{escape(_sentence(note))}</p>'
    yield '<ul class="legend">'
    kinds = {row["kind"] for row in rows(report)}
    for kind in _KINDS:
        if kind in kinds:
            yield f'<li><i class="k {COLOURS[kind]}"></i>{escape(_KIND_WORDS.get(kind, kind))}'
    yield f'<li><i class="k {_BEFORE}"></i>busy only before'
    yield f'<li><i class="k {_AFTER}"></i>busy only after</ul>'
    yield '<div class="scroll"><canvas tabindex="0" role="application" aria-label="time line of '
    yield 'GPU operations, before and after, from the start of the step" '
    yield 'aria-describedby="aligned-keys"></canvas></div>'
    yield '<p class="event" aria-live="polite">Point at a box, or press n.</p>'
    keys = "; ".join(f"<kbd>{escape(key)}</kbd> {escape(words)}" for key, words in _KEYS)
    yield f'<p class="quiet" id="aligned-keys">{keys}.</p></div>'
    yield "<noscript><p>The time line of both runs needs the page's script.</p></noscript>"
    yield data_element(_data(pairs), "aligned-data")


def _pair(name: str, found: Sequence[Row]) -> dict[str, Any]:
    # A pair's rows as lanes, each with boxes and times of being busy alone, before and after.
    lengths, names = {}, {}
    lanes: dict[int, dict[str, Any]] = {}
    for row in found:
        if row["lane"] == 0:
            lengths[row["side"]], names[row["side"]] = row["dur_ns"], row["name"]
            continue
        lane = lanes.setdefault(row["lane"], {"boxes": {}, "alone": {}, "where": {}})
        lane["alone" if row["kind"] == _ALONE else "boxes"].setdefault(row["side"], []).append(row)
        lane["where"][row["side"]] = row["device_id"], row["stream_id"]
    return {
        "title": _PAIRS.get(name, name),
        "words": _pair_words(names, lengths),
        "lengths": [lengths["before"], lengths["after"]],
        "lanes": list(lanes.values()),
    }


def _sentence(note: Note) -> str:
    # One names profiles, which may be called as a side is.
    words = note.text if note.slug == "profiles-not-aligned" else of_sides(note.text)
    return f"{words[:1].upper()}{words[1:]}."


def _pair_words(names: Row, lengths: dict[str, int]) -> str:
    before, after = lengths["before"], lengths["after"]
    share = f", {100 * (after - before) / before:+.1f} %".replace("-", "−") if before else ""
    times = (
        f"{amount(before, Unit.NS)} → {amount(after, Unit.NS)} ({signed(after - before)}{share})"
    )
    if names["before"] is None:
        return f"From the first GPU operation to the last: {times}"
    both = dict.fromkeys(shortened(each, kernel=False) for each in names.values())
    return f"{' and '.join(both)}: {times}"


def _labels(lanes: Sequence[dict[str, Any]]) -> Iterator[str]:
    # A lane without a stream is all of its device, unless the device has others.
    # What is on no recorded device counts as on one of its own.
    devices = [
        {device for device, _ in lane["where"].values()} - {None} or {None} for lane in lanes
    ]
    for lane, mine in zip(lanes, devices, strict=True):
        label = _label(lane["where"])
        is_all = sum(not mine.isdisjoint(each) for each in devices) <= 1
        yield label if is_all or "stream" in label else f"{label}, no stream"


def _label(where: dict[str, tuple[Any, Any]]) -> str:
    parts = []
    for place, word in enumerate(("device", "stream")):
        numbers = [str(each[place]) for each in where.values() if each[place] is not None]
        if numbers:
            parts.append(f"{word} {' → '.join(dict.fromkeys(numbers))}")
        elif word == "device":
            parts.append("GPU")
    return ", ".join(parts)


def _data(pairs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names: dict[str, int] = {}

    def encoded(found: Sequence[Row]) -> dict[str, list[int]]:
        # Columns; starts are differences from the row before, which keeps them short.
        starts = [row["start_ns"] for row in found]
        columns = {
            "start": [s - before for s, before in zip(starts, [0, *starts], strict=False)],
            "dur": [row["dur_ns"] for row in found],
        }
        if found and found[0]["kind"] != _ALONE:
            columns["kind"] = [_KINDS.index(row["kind"]) for row in found]
            columns["name"] = [names.setdefault(row["name"], len(names)) for row in found]
        if any(row["count"] > 1 for row in found):
            columns["count"] = [row["count"] for row in found]
            columns["busy"] = [row["busy_ns"] for row in found]
        return columns

    drawn = [
        {
            "words": escaped(pair["words"]),
            "lengths": pair["lengths"],
            "lanes": [
                {
                    "label": label,
                    **{
                        what: [encoded(lane[what].get(side, ())) for side in ("before", "after")]
                        for what in ("boxes", "alone")
                    },
                }
                for lane, label in zip(pair["lanes"], _labels(pair["lanes"]), strict=True)
            ],
        }
        for pair in pairs
    ]
    # The more names there are, the shorter each is cut.
    longest = min(max(MOST_TEXT // max(len(names), 1), LONGEST), WHOLE)
    return {
        "kinds": [_KIND_WORDS.get(kind, kind) for kind in _KINDS],
        "colors": [COLOURS[kind] for kind in _KINDS],
        "pairs": drawn,
        "names": [shorten(escaped(name), longest) for name in names],
    }
