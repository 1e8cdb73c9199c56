"""Comparability of the two sides of a diff: what differs besides the program.

A side is one or more profiles: repeats of a run, or the ranks of a run. Profiles of a side that hold
different ranks are parts of a run; profiles of the same ranks, or without any, are repeats. A value that
a source does not record is unknown and differs from nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from statistics import median
from typing import Any

import numpy as np

from nsysconv.facts import Fact, in_order
from nsysconv.names import called
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, Unit, human
from nsysconv.schema import EVENT_TABLES, SYSTEM_TABLES
from nsysconv.store.connection import Row
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.steps import Steps
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import GPU_KINDS, KERNEL, totals
from nsysconv.timeline.vendors import model_name
from nsysconv.timeline.windows import Window


@dataclass(frozen=True)
class Properties:
    """Describe a profile as far as it is compared; stays valid after its events are forgotten.

    `devices` and `processes` are the rows of these tables; None among `used_devices` is for
    operations that name none. `op_notes` are on its operations alone. `row_counts` are by event table,
    `total_count` is of its totals, `step_counts` of each process; graphs count as kernels.
    `lost_in_steps`: launches in steps without recorded work. `step_period` is the mean time in ns from
    one step start to the next, the longest of several processes; both are None without steps.
    `window_lengths` are by device, in ns; `loading_share` is the largest share of one of these windows
    that calls took which load code.
    """

    attributes: Mapping[str, Any]
    facts: frozenset[Fact]
    notes: tuple[Note, ...]
    op_notes: tuple[Note, ...]
    devices: Sequence[Row]
    processes: Sequence[Row]
    used_devices: frozenset[int | None]
    ranks: frozenset[int]
    session_ns: int | None
    row_counts: Mapping[str, int]
    total_count: int
    op_count: int
    kernel_count: int
    step_counts: tuple[int, ...]
    lost_in_steps: int | None
    step_period: float | None
    window_lengths: Mapping[int, int]
    loading_share: float
    has_graph_intervals: bool
    clocks_disagree: bool


def properties_of(
    timeline: Timeline, steps: list[Steps], lost_in_steps: int | None = None
) -> Properties:
    """Return what a profile is whose steps in the slice are known, by process.

    `lost_in_steps` is how many launches in them have no recorded work; None: there are none.
    """
    profile, ops = timeline.profile, timeline.ops
    summed = [] if len(ops) else totals(timeline, *chain.from_iterable(GPU_KINDS.values()))
    devices = [None if device == MISSING else device for device in timeline.devices]
    means = [int(mine.end[-1] - mine.start[0]) / len(mine) for mine in steps if len(mine)]
    windows = {each: window(timeline, each, timeline.ops_on(each)) for each in timeline.devices}
    spans = {device: span for device, span in windows.items() if span is not None}
    disagree = Fact.API_LINKS in profile.facts and timeline.clocks_disagree
    return Properties(
        attributes=profile.attributes,
        facts=frozenset(profile.facts),
        op_notes=timeline.op_notes,
        devices=profile.rows("device"),
        processes=profile.rows("process"),
        used_devices=frozenset(devices or (total.device_id for total in summed)),
        ranks=frozenset(timeline.ranks.values()),
        session_ns=profile.session_ns,
        row_counts={table: profile.row_count(table) for table in EVENT_TABLES},
        total_count=len(profile.rows("aggregate")),
        op_count=len(ops) or sum(total.count for total in summed),
        kernel_count=int(np.isin(ops.kind, (OpKind.KERNEL, OpKind.GRAPH)).sum())
        or sum(total.count for total in summed if total.kind == KERNEL),
        step_counts=tuple(map(len, steps)),
        lost_in_steps=lost_in_steps,
        step_period=max(means, default=None),
        window_lengths={device: span.length for device, span in spans.items()},
        loading_share=max((_loading_share(timeline, span) for span in spans.values()), default=0.0),
        has_graph_intervals=bool((ops.kind == OpKind.GRAPH).any()),
        clocks_disagree=disagree,
        # Reading adds to them.
        notes=profile.notes,
    )


def _loading_share(timeline: Timeline, span: Window) -> float:
    calls, loads = timeline.calls, called("initialization")
    ids = [number for number, name in timeline.call_names.items() if loads(name)]
    which = calls.outermost & np.isin(calls.name_id, ids)
    pieces = span.pieces(calls.start[which], calls.end[which])
    inside = int((pieces.ends - pieces.starts).sum())
    return float(inside / span.length) if span.length else 0.0


_Run = tuple[Properties, ...]
_Side = list[_Run]
_Sides = tuple[_Side, _Side]
# The keys are the ranks of the profile, and the device.
_Lengths = dict[tuple[frozenset[int], int], list[int]]
# A loss has the slug of its note and the facts that the note touches.
_Loss = tuple[str, frozenset[Fact]]

_ALL: frozenset[Fact] = frozenset()
_NO_RANKS: frozenset[int] = frozenset()
_API = frozenset({Fact.API_CALLS, Fact.API_TOTALS})
_GPU = frozenset({Fact.KERNELS, Fact.KERNEL_TOTALS})
_LINKS = frozenset({Fact.API_LINKS})
_WINDOW = frozenset({Fact.KERNELS})
_GRAPHS = frozenset(
    {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.GRAPH_LAUNCHES, Fact.GRAPH_NODES}
)
# If one side has the first of these facts and the other only the totals, the two are compared with each
# other, and neither is reported as missing.
_EVENTS_AND_TOTALS = (
    ((Fact.KERNELS,), Fact.KERNEL_TOTALS),
    ((Fact.MEMCPYS, Fact.MEMSETS), Fact.MEMORY_TOTALS),
    ((Fact.API_CALLS,), Fact.API_TOTALS),
    ((Fact.UNIFIED_MEMORY,), Fact.UNIFIED_MEMORY_TOTALS),
    ((Fact.RANGES,), Fact.RANGE_TOTALS),
    ((Fact.DIRECTIVES,), Fact.DIRECTIVE_TOTALS),
    ((Fact.OSRT_CALLS,), Fact.OSRT_TOTALS),
)
_NO_MATTER = frozenset({Fact.UTC})  # no figure of a diff depends on these
_PRECISION = frozenset({"coarse-times", "rounded-bytes", "rounded-times"})
_OPTION = re.compile(r"([\w:]+)=(\w+)")
# This replaces the ranks and the device if the sides number these differently.
_LONGEST = (frozenset[int](), MISSING)
# Lengths are noted where the longer is more than this times the shorter.
_ALIKE = 1.2
_CUT = "trace-truncated"
# A loss of a smaller share of the rows changes no figure by as much as a verdict needs.
_FEW_LOST = 0.002
_NEARLY_ALL = 0.99
# Recordings that begin and end amid work lose launches at their edges: of these, no step has lost any.
_LOST_AT_EDGES = 0.02
_LOST_WORK = "launches-without-work"
_FAILED = "launches-failed"  # they did no work, and nothing of the recording is lost
_WORST_FIRST = (Severity.DROPPED, Severity.APPROXIMATED, Severity.INFO)


@dataclass(frozen=True)
class _Property:
    # All runs of both sides should agree on this property; `value` gives None if it is not known.
    # Properties with one slug, severity and facts share a note.
    slug: str
    severity: Severity
    what: str
    value: Callable[[_Run], str | None]
    facts: frozenset[Fact] = _ALL


def comparability_notes(base: Sequence[Properties], other: Sequence[Properties]) -> list[Note]:
    """Return notes on what makes two sides incomparable, or explains why they differ; worst first.

    A text names the base's value first. `info` notes explain; `approximated`: figures of the note's
    facts are not like for like; `dropped`: a side, or a profile of it, is empty, is cut off or lost rows,
    and nothing follows from its figures of these facts.
    """
    sides = _runs(base), _runs(other)
    notes = [
        *_truncation(sides),
        *_emptiness(sides),
        *_unequal(sides, _properties()),
        *_capture_options(sides),
        *_losses(sides),
        *_recorded(sides),
        *_windows(sides),
        *_recordings(sides),
    ]
    return sorted(notes, key=lambda note: _WORST_FIRST.index(note.severity))


def _properties() -> tuple[_Property, ...]:
    info, unlike = Severity.INFO, Severity.APPROXIMATED
    gpu = partial(_Property, "gpu-differs", unlike)
    processes = partial(_Property, "processes-differ", unlike)
    environment = partial(_Property, "environment-differs", info)
    graphs = "graph-recording-differs"
    partly = partial(_caveat, "api-calls-partial", _API, "only some", "all")
    serial = partial(_caveat, "kernels-serialized", _GPU, "serialized", "as in the program")
    return (
        gpu("GPU model", partial(_gpus, ("name",))),
        gpu("SMs", partial(_gpus, ("sm_count",))),
        gpu("compute capability", partial(_gpus, ("compute_major", "compute_minor"))),
        gpu("GPUs in use", _gpu_count),
        processes(
            "processes", lambda run: _count((place, p["pid"]) for place, p in _processes(run))
        ),
        processes("ranks", lambda run: _count(rank for each in run for rank in each.ranks)),
        processes(
            "ranks in total", lambda run: _joined(p["world_size"] for _, p in _processes(run))
        ),
        _Property("steps-differ", unlike, "steps per process", _steps),
        _Property("api-coverage-differs", unlike, "API calls recorded", partly, _API),
        _Property(
            graphs, unlike, "graph launches recorded as intervals", _graph_intervals, _GRAPHS
        ),
        _Property(graphs, info, "graph mode", partial(_attribute, "graph_mode"), _GRAPHS),
        _Property("clocks-differ", unlike, "CPU and GPU times", _clocks, _LINKS),
        _Property("serialized-differs", unlike, "kernels ran", serial, _GPU),
        _Property("precision-differs", info, "caveats about precision", _precision),
        environment("source", partial(_attribute, "source")),
        environment("tool version", partial(_attribute, "tool_version")),
        environment("driver version", partial(_driver, numeric=True)),
        # Some sources record what the driver supports in place of what it is.
        environment("driver-supported version", partial(_driver, numeric=False)),
        environment("host", _hosts),
    )


def _unequal(sides: _Sides, properties: Iterable[_Property]) -> Iterator[Note]:
    texts_by_note: dict[tuple[str, Severity, frozenset[Fact]], list[str]] = {}
    for prop in properties:
        base, other = (
            sorted({v for v in map(prop.value, side) if v is not None}) for side in sides
        )
        mixed = len(base) > 1 or len(other) > 1
        if mixed or (base and other and base != other):
            texts = texts_by_note.setdefault((prop.slug, prop.severity, prop.facts), [])
            texts.append(f"{prop.what}: {_shown(base)} vs. {_shown(other)}")
    for (slug, severity, facts), texts in texts_by_note.items():
        yield Note(slug, severity, "; ".join(texts), facts=facts)


def _capture_options(sides: _Sides) -> Iterator[Note]:
    prop = partial(_Property, "capture-options-differ", Severity.INFO)
    names = {name for side in sides for run in side for name in _options(run)}
    yield from _unequal(sides, [prop(name, partial(_option, name)) for name in sorted(names)])


def _option(name: str, run: _Run) -> str | None:
    return _options(run).get(name)


def _options(run: _Run) -> dict[str, str]:
    texts = [n.text for each in run for n in each.notes if n.slug == "capture-options"]
    return {name: value for text in texts for name, value in _OPTION.findall(text)}


def _shown(values: Sequence[str]) -> str:
    if not values:
        return "not recorded"
    return values[0] if len(values) == 1 else f"{' or '.join(values)} (runs differ)"


def _runs(side: Sequence[Properties]) -> _Side:
    runs: dict[tuple[str, int], list[Properties]] = {}
    seen: dict[frozenset[int], int] = defaultdict(int)
    for number, profile in enumerate(side):
        ranks = profile.ranks
        key = ("repeat", seen[ranks]) if ranks else ("unranked", number)
        runs.setdefault(key, []).append(profile)
        seen[ranks] += 1
    return [tuple(run) for run in runs.values()]


def _profiles(side: _Side) -> list[Properties]:
    return [profile for run in side for profile in run]


def _facts(run: _Run) -> frozenset[Fact]:
    return _ALL.union(*(profile.facts for profile in run))


def _slugs(run: _Run) -> set[str]:
    return {note.slug for profile in run for note in profile.notes}


def _joined(values: Iterable[object]) -> str | None:
    return " + ".join(sorted({str(value) for value in values if value is not None})) or None


def _gpus(columns: tuple[str, ...], run: _Run) -> str | None:
    used = [row for each in run for row in each.devices if row["device_id"] in each.used_devices]
    cells = [[row[c] for c in columns] for row in used]
    return _joined(model_name(".".join(map(str, each))) for each in cells if None not in each)


def _gpu_count(run: _Run) -> str | None:
    gpus: set[Hashable] = set()
    for profile in run:
        rows = {row["device_id"]: row for row in profile.devices}
        host = profile.attributes["host"]
        for device in profile.used_devices:
            if device is None:
                return None
            row = rows.get(device, {})
            gpus.add(row.get("uuid") or (host, row.get("bus_id") or (profile.ranks, device)))
    return _count(gpus)


def _count(values: Iterable[Hashable]) -> str | None:
    count = len(set(values))
    return str(count) if count else None


def _processes(run: _Run) -> list[tuple[int, Row]]:
    return [(place, row) for place, profile in enumerate(run) for row in profile.processes]


def _steps(run: _Run) -> str | None:
    if not {Fact.RANGES, Fact.OPERATORS} & _facts(run):
        return None
    counts = {count for profile in run for count in profile.step_counts}
    return " and ".join(map(str, sorted(counts))) or "none"


def _caveat(slug: str, about: frozenset[Fact], having: str, lacking: str, run: _Run) -> str | None:
    if about.isdisjoint(_facts(run)):
        return None
    return f"{having} ({slug})" if slug in _slugs(run) else lacking


def _graph_intervals(run: _Run) -> str | None:
    if Fact.KERNELS not in _facts(run):
        return None
    return "yes" if any(profile.has_graph_intervals for profile in run) else "none"


def _clocks(run: _Run) -> str | None:
    if Fact.API_LINKS not in _facts(run):
        return None
    apart = any(profile.clocks_disagree for profile in run)
    return "not on one clock (clocks-disagree)" if apart else "on one clock"


def _precision(run: _Run) -> str | None:
    return ", ".join(sorted(_slugs(run) & _PRECISION)) or "none"


def _attribute(name: str, run: _Run) -> str | None:
    return _joined(profile.attributes[name] for profile in run)


def _driver(run: _Run, *, numeric: bool) -> str | None:
    versions = (profile.attributes["driver_version"] for profile in run)
    return _joined(v for v in versions if v and v[0].isdecimal() == numeric)


def _hosts(run: _Run) -> str | None:
    hosts = [profile.attributes["host"] for profile in run]
    return _joined(hosts + [process["host"] for _, process in _processes(run)])


def _emptiness(sides: _Sides) -> Iterator[Note]:
    runs = list(chain(*sides))  # one without any of others' kernels has lost them, whatever it has
    with_kernels = [
        any(p.kernel_count for p in run) for run in runs if any(p.op_count for p in run)
    ]
    what = "GPU operations" if len(set(with_kernels)) < 2 else "kernels"
    count = attrgetter("op_count" if what == "GPU operations" else "kernel_count")
    empty = [[p for p in _profiles(side) if not count(p)] for side in sides]

    def shown(place: int) -> str:
        every, without = _profiles(sides[place]), len(empty[place])
        some = f" ({without} of {len(every)} profiles have none)" if without else ""
        return f"{sum(map(count, every)):,}{some}" if len(every) > without else "none"

    lost = _lost_ranks(sides)
    if lost or not all(sides) or not all(any(map(count, run)) for run in runs):
        text = f"{what}: {shown(0)} vs. {shown(1)}"
        missing = lost.difference(*(profile.ranks for side in empty for profile in side))
        if missing:
            text += f"; in some runs only: rank {', '.join(map(str, sorted(missing)))}"
        yield Note("side-empty", Severity.DROPPED, text)


def _lost_ranks(sides: _Sides) -> frozenset[int]:
    # Some runs have their GPU work, and some not. None is lost where the larger job's size is known, or
    # runs have no rank in common. A run without ranks lacks all if it has too few processes and devices.
    ranked = [run for run in chain(*sides) if all(p.ranks for p in run)]
    there = [_NO_RANKS.union(*(p.ranks for p in run)) for run in ranked]
    jobs = {
        len(ranks) if {p["world_size"] for _, p in _processes(run)} == {len(ranks)} else None
        for run, ranks in zip(ranked, there, strict=True)
    }
    if not there or not frozenset.intersection(*there) or (len(jobs) > 1 and None not in jobs):
        return _NO_RANKS
    working = [_NO_RANKS.union(*(p.ranks for p in run if p.op_count)) for run in ranked]
    every = _NO_RANKS.union(*working)
    others = [run for run in chain(*sides) if not all(p.ranks for p in run)]
    most = [max(len(_processes(run)), sum(len(p.used_devices) for p in run)) for run in others]
    lost = every - frozenset.intersection(*working)
    return every if min(most, default=len(every)) < len(every) else lost


def _truncation(sides: _Sides) -> Iterator[Note]:

    def count(side: _Side) -> int:
        return sum(any(n.slug == _CUT for n in p.notes) for p in _profiles(side))

    base, other = map(count, sides)
    if base or other:
        text = f"truncated profiles: {base or 'none'} vs. {other or 'none'}"
        yield Note("side-truncated", Severity.DROPPED, text)


NO_GPU_WORK = "one side, or a rank of it, has no GPU work"
"""Why recordings without GPU work cannot be compared."""
# A failed recording is never an improvement, nor within any limit.
_FAILURES = {
    "side-empty": NO_GPU_WORK,
    "side-truncated": "one profile is truncated",
    "losses-differ": "one side lost more recorded events",
    "failures-differ": "more launches of other failed",
}


def failure(notes: Iterable[Note], facts: frozenset[Fact]) -> str:
    """Return in words which of these notes leaves nothing to compare of some facts; empty: none does."""
    grave = (n for n in notes if n.severity is Severity.DROPPED and n.slug in _FAILURES)
    return next((_FAILURES[note.slug] for note in grave if note.touches(facts)), "")


def _losses(sides: _Sides) -> Iterator[Note]:
    base, other = map(_lost_shares, sides)
    many, few = [], []
    for loss in {**base, **other}:
        if abs(base.get(loss, 0.0) - other.get(loss, 0.0)) > _FEW_LOST:
            many.append(loss)
        elif (loss in base) != (loss in other):
            few.append(loss)
    failed = [
        loss for loss in many if loss[0] == _FAILED and other.get(loss, 0.0) > base.get(loss, 0.0)
    ]
    lost = [loss for loss in many if loss[0] != _FAILED]
    for slug, losses, severity in (
        ("losses-differ", lost, Severity.DROPPED),
        ("losses-differ", [loss for loss in few if loss[0] != _FAILED], Severity.APPROXIMATED),
        ("failures-differ", failed, Severity.DROPPED),
    ):
        if losses:
            touched = [facts for _, facts in losses]
            facts = _ALL.union(*touched) if all(touched) else _ALL
            text = " vs. ".join(_losses_in_words(side, losses) for side in (base, other))
            yield Note(slug, severity, f"{slug.partition('-')[0]}: {text}", facts=facts)


def _lost_shares(side: _Side) -> dict[_Loss, float]:
    # The result is, by kind of loss, the largest share of its rows that a profile lost. If a note
    # counts its own total, the share refers to that.
    shares: dict[_Loss, float] = {}
    for profile in _profiles(side):
        counts: Counter[_Loss] = Counter()
        shares_noted: dict[_Loss, float] = {}
        for note in (*profile.notes, *profile.op_notes):
            # That one is cut off has a note of its own.
            is_loss = note.severity is Severity.DROPPED or note.slug in ("no-time", _FAILED)
            if note.slug != _CUT and is_loss:
                counts[note.slug, note.facts] += note.count
                if note.slug != "no-time":
                    shares_noted[note.slug, note.facts] = note.share
        for loss, count in counts.items():
            share = shares_noted.get(loss) or count / (count + _row_count(profile, loss[1]))
            if loss[0] == _LOST_WORK and profile.lost_in_steps == 0 and share < _LOST_AT_EDGES:
                share = min(share, _FEW_LOST)
            shares[loss] = max(shares.get(loss, 0.0), share)
    return shares


def _row_count(profile: Properties, facts: frozenset[Fact]) -> int:
    # A profile without rows of events has totals, which count whatever their kind.
    tables = [
        table
        for table, fact in EVENT_TABLES.items()
        if (fact in facts if facts else table not in SYSTEM_TABLES)
    ]
    return sum(profile.row_counts[table] for table in tables) or profile.total_count


def _percent(share: float) -> str:
    # Nobody reads 1e+02 as 100.
    return f"{100 * share:.0f}" if share > _NEARLY_ALL else f"{100 * share:.2g}"


def _losses_in_words(shares: Mapping[_Loss, float], losses: Iterable[_Loss]) -> str:
    largest: dict[str, float] = {}
    for loss in losses:
        if loss in shares:
            largest[loss[0]] = max(largest.get(loss[0], 0.0), shares[loss])
    parts = (
        f"{slug} ({_percent(share)} % of the rows)" if share > _FEW_LOST else slug
        for slug, share in sorted(largest.items())
    )
    return ", ".join(parts) or "none"


def _events_against_totals(sides: _Sides) -> Iterator[Note]:
    base, other = (_ALL.union(*map(_facts, side)) for side in sides)
    for events, summed in _EVENTS_AND_TOTALS:
        pair = [events[0] if events[0] in held else summed for held in (base, other)]
        if len(set(pair)) == 2 and pair[0] in base and pair[1] in other:
            text = " vs. ".join(fact.label for fact in pair)
            facts = frozenset({*events, summed})
            yield Note("events-against-totals", Severity.INFO, text, facts=facts)


def _recorded(sides: _Sides) -> Iterator[Note]:
    against = list(_events_against_totals(sides))
    yield from against
    noted = _NO_MATTER.union(*(note.facts for note in against))
    recorded = [[_without_spare_totals(_facts(run)) - noted for run in side] for side in sides]
    base, other = (_ALL.union(*side) for side in recorded)
    differences = [("only in the base", base - other), ("only in the other side", other - base)]
    for name, side in zip(("the base", "the other side"), recorded, strict=True):
        if side:
            some = _ALL.union(*side) - frozenset.intersection(*side)
            differences.append((f"in some runs of {name} only", some))
    texts = [
        f"{name}: {', '.join(fact.label for fact in in_order(facts))}"
        for name, facts in differences
        if facts
    ]
    if texts:
        touched = _ALL.union(*(facts for _, facts in differences))
        yield Note("facts-differ", Severity.INFO, "; ".join(texts), facts=touched)


def _without_spare_totals(facts: frozenset[Fact]) -> frozenset[Fact]:
    return facts - {summed for events, summed in _EVENTS_AND_TOTALS if events[0] in facts}


def _windows(sides: _Sides) -> Iterator[Note]:
    base, other = map(_window_lengths, sides)
    if base and other and not base.keys() & other.keys():
        base, other = ({_LONGEST: max(side.values(), key=median)} for side in (base, other))
    ratios = {key: _ratio(base[key], other[key]) for key in base if key in other}
    unlike = [key for key, ratio in ratios.items() if ratio > _ALIKE]
    if unlike:
        worst = max(unlike, key=ratios.__getitem__)
        where = f"device {worst[1]}" if worst[1] != MISSING else "the longest"
        if worst[0]:
            where += f" of rank {', '.join(map(str, sorted(worst[0])))}"
        text = f"window ({where}): {_length(base[worst])} vs. {_length(other[worst])}"
        yield Note("window-differs", Severity.INFO, text, len(unlike), facts=_WINDOW)


def _window_lengths(side: _Side) -> _Lengths:
    lengths: _Lengths = defaultdict(list)
    for profile in _profiles(side):
        for device, length in profile.window_lengths.items():
            lengths[profile.ranks, device].append(length)
    return lengths


def _recordings(sides: _Sides) -> Iterator[Note]:
    every = ([profile.session_ns for profile in _profiles(side)] for side in sides)
    base, other = ([length for length in lengths if length is not None] for lengths in every)
    if base and other and _ratio(base, other) > _ALIKE:
        text = f"session length: {_length(base)} vs. {_length(other)}"
        yield Note("recording-length-differs", Severity.INFO, text)


def _ratio(base: Sequence[int], other: Sequence[int]) -> float:
    shorter, longer = sorted((median(base), median(other)))
    return longer / shorter if shorter else 1 + longer


def _length(lengths: Sequence[int]) -> str:
    text = human(median(lengths), Unit.NS)
    return text if len(lengths) == 1 else f"{text} (median of {len(lengths)})"


def gpu_uuids(side: Iterable[Properties]) -> set[str]:
    """Return the UUIDs of the GPUs of a side that were used; empty where one is not recorded."""
    used = {
        row["uuid"]
        for profile in side
        for row in profile.devices
        if row["device_id"] in profile.used_devices
    }
    return set() if None in used else used
