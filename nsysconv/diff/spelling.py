"""What makes one name of two sides' spellings of it: symbols, other demanglers, HIP and CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from nsysconv.diff.compared import ONLY_BASE, ONLY_OTHER, Compared
from nsysconv.diff.names import Match, kernel_key
from nsysconv.diff.rows import Spelling
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline

_SYMBOLS_ONLY = "symbols-only"
_AMD = re.compile(r"AMD|Instinct|Radeon|gfx[0-9]", re.IGNORECASE)
_INTEL = re.compile("Intel", re.IGNORECASE)
_HIP = re.compile(r"^hip(?=[A-Z])")


def makers_differ(base: Iterable[Timeline], other: Iterable[Timeline]) -> bool:
    """Whether the GPUs of the sides are of other makers, as far as both sides tell what they are."""
    first, second = _makers(base), _makers(other)
    return bool(first and second) and not first & second


def _makers(side: Iterable[Timeline]) -> set[str]:
    names = [row["name"] for timeline in side for row in timeline.profile.rows("device")]
    return {_maker(name) for name in names if name}


def _maker(name: str) -> str:
    """Who made a GPU of this name. NVIDIA's older ones have no maker in their names."""
    return "AMD" if _AMD.search(name) else "Intel" if _INTEL.search(name) else "NVIDIA"


def of_calls() -> Spelling:
    """HIP's functions as those of CUDA that they stand for: `hipMemcpyAsync` is `cudaMemcpyAsync`."""
    return lambda name: _HIP.sub("cuda", name)


def of_kernels(base: Iterable[Timeline], other: Iterable[Timeline], match: Match) -> Spelling:
    """Kernels' names as `match` says; a symbol counts as the name that the other side has for it."""
    base, other = list(base), list(other)
    names: dict[str, str] = {}
    if symbols_on_one_side(base, other):
        for timeline in (*base, *other):
            names |= _names(timeline)

    def spelling(text: str) -> str:
        return kernel_key(names.get(text, text), match)

    return cache(spelling)


def symbols_on_one_side(base: Iterable[Timeline], other: Iterable[Timeline]) -> list[Note]:
    """That a side's kernels are shown by their symbols, and the other's by their names."""
    told = {
        name: note
        for name, side in (("base", base), ("other", other))
        for timeline in side
        for note in timeline.profile.notes
        if note.slug == _SYMBOLS_ONLY
    }
    if len(told) != 1:
        return []
    ((name, note),) = told.items()
    text = f"{name}: {note.text}; kernels that have no symbol on the other side stand alone"
    return [Note(_SYMBOLS_ONLY, Severity.INFO, text, note.count, facts=note.facts)]


def other_arguments(rows: Iterable[Compared]) -> list[Note]:
    """That kernels of one side differ from kernels of the other in their template arguments alone."""
    alone: dict[str, dict[str, list[str]]] = {ONLY_BASE: {}, ONLY_OTHER: {}}
    for row in rows:
        name = (row.base or row.other).get("name")
        if row.where in alone and name is not None:
            alone[row.where].setdefault(kernel_key(name, "name"), []).append(name)
    base, other = alone.values()
    shared = [function for function in base if function in other]
    if not shared:
        return []
    text = (
        "kernels of one side only are functions that the other side has with other template arguments; "
        "--match name takes them for the same"
    )
    count = sum(len(side[function]) for side in (base, other) for function in shared)
    return [Note("template-arguments-differ", Severity.INFO, text, count, shared[0])]


def _names(timeline: Timeline) -> dict[str, str]:
    """Demangled names of kernels by their symbols, as far as the profile holds both."""
    profile = timeline.profile
    columns = profile.columns("kernel", ("name_id", "mangled_name_id"))
    _, (ids, symbols) = factorize(columns["name_id"], columns["mangled_name_id"])
    pairs = [(i, s) for i, s in zip(ids.tolist(), symbols.tolist(), strict=True)
             if i != s and MISSING not in (i, s)]  # fmt: skip
    texts = profile.names(each for pair in pairs for each in pair)
    return {texts[s]: texts[i] for i, s in pairs}
