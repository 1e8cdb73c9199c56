"""Launches in which metrics were measured, and the kernels of the time line that they are.

Kernels are measured in this run or in another one of the same program. Those of another run are found by
name and by the order of launches (docs/definitions/kernels.md, metrics of another run).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nsysconv.facts import Fact
from nsysconv.names import plain_kernel
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, among, by_group, distinct, factorize
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline, cached_whole_small

_SIZES = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")
_CUT = ("...", "…")
_TYPED_CONSTANT = re.compile(r"\((?:unsigned)?longlong\)(?=-?\d)|\b(\d+)[ul]{1,3}(?=[,>])")
_TRUTH = re.compile(r"(?<=[<,])(?:true|false)(?=[,>])")


@dataclass(frozen=True)
class Measured:
    """Kernels here, by demangled name, with their names among those measured; and single launches.

    `ids` are those of the measured launches, in order, and `row` the row of each in the table of kernels,
    -1 where it is not known.
    """

    names: Mapping[str, str]
    ids: Array
    row: Array
    notes: tuple[Note, ...]

    def launches_of(self, row: int) -> Array:
        """Return the ids of the launches that were measured of a kernel, by its row."""
        found: Array = self.ids[self.row == row]
        return found


@cached_whole_small
def measured(timeline: Timeline) -> Measured | None:
    """Return the measured launches of the whole profile; None where there are no such, or no kernels."""
    profile = timeline.profile
    launches = profile.rows("measured_launch") if Fact.METRICS in profile.facts else []
    if not launches or Fact.KERNELS not in profile.facts:
        return None
    kernels = timeline.whole.profile.columns("kernel", ("name_id", "mangled_name_id"))
    here = _symbols(timeline, kernels["name_id"], kernels["mangled_name_id"])
    columns = ("name_id", "mangled_name_id", "launch_count", "part", "pid", *_SIZES)
    there = {name: _column(launches, name) for name in columns}
    others = _symbols(timeline, there["name_id"], there["mangled_name_id"])
    names = same_kernels(set(here), set(others), here | others)
    numbers = {name: number for number, name in enumerate(names)}
    numbers_there = {other: numbers[name] for name, other in names.items()}
    wanted = _numbered(timeline, there["name_id"], numbers_there)
    single = (wanted >= 0) & (there["launch_count"] == MISSING)
    row = np.full(len(launches), -1, np.int64)
    own = _Launched(timeline, _numbered(timeline, kernels["name_id"], numbers))
    for part in np.unique(there["part"][single]).tolist():
        of_part = single & (there["part"] == part)
        for pid, pids_here in _processes(there["pid"][of_part], own.pid):
            mine = np.flatnonzero(of_part & (there["pid"] == pid))
            rows = np.flatnonzero(among(own.pid, pids_here))
            sizes = [np.concatenate([own.sizes[name][rows], there[name][mine]]) for name in _SIZES]
            found = launch_places(
                np.concatenate([own.number[rows], wanted[mine]]), sizes, len(rows), len(names)
            )
            row[mine[found >= 0]] = own.row[rows][found[found >= 0]]
    is_other = bool((there["part"] != MISSING).any())
    loose = [launches[i]["name_id"] for i in np.flatnonzero(single & (row < 0)).tolist()]
    notes = _notes(timeline, names, set(others), loose, int(single.sum())) if is_other else ()
    return Measured(names, _column(launches, "id"), row, tuple(notes))


def _column(rows: list[dict[str, int | None]], name: str) -> Array:
    values = (row[name] for row in rows)
    return np.array([MISSING if value is None else value for value in values], np.int64)


def _notes(
    timeline: Timeline, names: Mapping[str, str], others: set[str], loose: list[int], count: int
) -> Iterator[Note]:
    if names:
        text = "metrics are of another run, of kernels with the same names"
        yield Note("metrics-of-another-run", Severity.APPROXIMATED, text, len(names))
    if loose:
        text = "measured launches without a certain launch here: they count for all of their name"
        first = timeline.profile.names([loose[0]])[loose[0]]
        yield Note("launches-unmatched", Severity.INFO, text, len(loose), first, of=count)
    alone = others - set(names.values())
    if alone and not names:
        text = "metrics of another run are of no kernel that ran here: it may be another program"
        yield Note("metrics-without-kernel", Severity.DROPPED, text, len(alone), min(alone))
    elif alone:
        text = (
            "kernels with metrics of another run that did not run here, or whose name fits several"
        )
        yield Note("metrics-without-kernel", Severity.INFO, text, len(alone), min(alone))


# -- names


def same_kernels(names: set[str], others: set[str], symbols: Mapping[str, str]) -> dict[str, str]:
    """Return by kernel that of `others` with the same name; `symbols` are those known, by name.

    It is the same as profilers spell it, by its symbol, without parameters and blanks, without template
    arguments and scopes, or cut off. A name that several have stays that of none, also when the others
    have found theirs.
    """
    found: dict[str, str] = {}

    def symbol(name: str) -> str:
        return symbols.get(name, name)

    for shorten in (str, symbol, _spelled_alike, _base_name):
        own, theirs = _by_short_name(names, shorten), _by_short_name(others, shorten)
        pairs = ((own[short], theirs[short]) for short in own.keys() & theirs.keys())
        taken = set(found.values())
        found |= {name: other for name, other in pairs if name not in found and other not in taken}
    return found | dict(_cut_off(names - found.keys(), names, others - set(found.values()), others))


def _by_short_name(names: Collection[str], shorten: Callable[[str], str]) -> dict[str, str]:
    # What several kernels are called is the name of none.
    count = Counter(map(shorten, names))
    return {shorten(name): name for name in names if count[shorten(name)] == 1}


def _spelled_alike(name: str) -> str:
    # Demanglers differ in parameters, blanks, and the types of constants: (unsigned long)3 and 3ul.
    name = _TYPED_CONSTANT.sub(r"\1", plain_kernel(name).replace(" ", ""))
    return _TRUTH.sub(lambda found: str(int(found[0] == "true")), name)


def _base_name(name: str) -> str:
    return plain_kernel(name).partition("<")[0].rpartition("::")[2]


def _cut_off(
    left: set[str], names: set[str], left_there: set[str], others: set[str]
) -> Iterator[tuple[str, str]]:
    # Pairs of names one of which was cut off, and is the beginning of the other and of no third.
    for short in (name for name in left_there if name.endswith(_CUT)):
        fitting = [name for name in names if name.startswith(short.rstrip(".…"))]
        if len(fitting) == 1 and fitting[0] in left:
            yield fitting[0], short
    for short in (name for name in left if name.endswith(_CUT)):
        fitting = [name for name in others if name.startswith(short.rstrip(".…"))]
        if len(fitting) == 1 and fitting[0] in left_there:
            yield short, fitting[0]


def _symbols(timeline: Timeline, name_ids: Array, symbol_ids: Array) -> dict[str, str]:
    # The names of kernels, each with its symbol; with itself if none is recorded.
    _, (ids, symbols) = factorize(name_ids, symbol_ids)
    texts = timeline.profile.names(np.unique(np.concatenate([ids, symbols])))
    pairs = zip(ids.tolist(), symbols.tolist(), strict=True)
    return {texts[i]: texts[i if j == MISSING else j] for i, j in pairs if i != MISSING}


def _numbered(timeline: Timeline, ids: Array, numbers: Mapping[str, int]) -> Array:
    # The number of each name, by ids; -1 for others.
    known = distinct(ids)
    texts = timeline.profile.names(known)
    of_known = [-1 if i == MISSING else numbers.get(texts[i], -1) for i in known.tolist()]
    return np.array(of_known, np.int64)[np.searchsorted(known, ids)]


# -- launches


class _Launched:
    # Kernels here with such a number, in the order of their launches.
    def __init__(self, timeline: Timeline, numbers: Array) -> None:
        whole = timeline.whole
        ops, calls = whole.ops, whole.calls
        kernels = np.flatnonzero(ops.kind == OpKind.KERNEL)
        kernels = kernels[numbers[ops.row[kernels]] >= 0]
        owner, launched = whole.owner[kernels], ops.start[kernels]
        if len(calls):
            launched = np.where(owner >= 0, calls.start[owner], launched)
        kernels = kernels[np.lexsort((ops.start[kernels], launched))]
        self.row = ops.row[kernels].astype(np.int64)
        self.pid, self.number = ops.pid[kernels], numbers[self.row]
        columns = whole.profile.columns("kernel", _SIZES)
        self.sizes = {name: values[self.row] for name, values in columns.items()}


def _processes(there: Array, here: Array) -> Iterator[tuple[int, Array]]:
    # Each measured process with the same one here: both are the only one, or they have one number.
    pids, own = np.unique(there), np.unique(here)
    if len(pids) == 1 and len(own) == 1:
        yield int(pids[0]), own
    else:
        yield from ((pid, np.array([pid])) for pid in pids.tolist() if pid != MISSING)


def launch_places(numbers: Array, sizes: list[Array], count: int, names: int) -> Array:
    """Return for each measured launch its place among those here, the first `count` ones; or -1.

    `numbers` say which kernel of `names` each is. The measured launches are a part of those here without
    a gap, or these of them, if it fits in one place only: all kernels together; else each with equally
    many launches on both sides; else the others together, or each. Sizes have to be the same where both
    sides have them.
    """
    known = all((column != MISSING).all() for column in sizes)
    keys, _ = factorize(numbers, *(sizes if known else ()))
    here, there = keys[:count], keys[count:]
    own, others = by_group(numbers[:count], names), by_group(numbers[count:], names)
    found = np.full(len(there), -1, np.int64)
    left = [n for n in range(names) if len(own[n]) and len(others[n])]

    def fit(group: list[int]) -> bool:
        # Sets the places of these kernels' launches, if they fit in one place; returns whether.
        mine = np.sort(np.concatenate([own[n] for n in group]))
        theirs = np.sort(np.concatenate([others[n] for n in group]))
        is_part = len(theirs) <= len(mine)
        short, long = (there[theirs], here[mine]) if is_part else (here[mine], there[theirs])
        at = _only_place(short.astype(np.int32), long.astype(np.int32))
        if at is not None:
            window = slice(at, at + len(short))
            found[theirs if is_part else theirs[window]] = mine[window] if is_part else mine
        return at is not None

    if not left or fit(left):
        return found
    of_one_length = [n for n in left if len(own[n]) == len(others[n]) and fit([n])]
    left = [n for n in left if n not in of_one_length]
    if left and not fit(left):
        for n in left:
            fit([n])
    return found


def _only_place(short: Array, long: Array) -> int | None:
    # Where the numbers are in the others, if that is one place.
    sought, text, width = short.tobytes(), long.tobytes(), short.itemsize
    places: list[int] = []
    at = text.find(sought)
    while at >= 0 and len(places) < 2:
        places += [at // width] * (at % width == 0)
        at = text.find(sought, at + 1)
    return places[0] if len(places) == 1 else None
