"""What makes one name of two sides' spellings of it: symbols, other demanglers, HIP and CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from nsysconv.diff.names import Match, NameKey, kernel_key
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.timeline.statistics import number
from nsysconv.timeline.timeline import Timeline

_SYMBOLS_ONLY = "symbols-only"
_AMD = re.compile(r"AMD|Instinct|Radeon|gfx[0-9]", re.IGNORECASE)
_INTEL = re.compile("Intel", re.IGNORECASE)
_HIP = re.compile(r"^hip(?=[A-Z])")


def vendors_differ(base: Iterable[Timeline], other: Iterable[Timeline]) -> bool:
    """Whether the GPUs of the sides are of other makers, as far as both sides tell what they are."""
    first, second = _vendors(base), _vendors(other)
    return bool(first and second) and not first & second


def _vendors(side: Iterable[Timeline]) -> set[str]:
    names = [row["name"] for timeline in side for row in timeline.profile.rows("device")]
    return {_vendor(name) for name in names if name}


def _vendor(name: str) -> str:
    """Who made a GPU of this name. NVIDIA's older ones have no maker in their names."""
    return "AMD" if _AMD.search(name) else "Intel" if _INTEL.search(name) else "NVIDIA"


def call_name_key() -> NameKey:
    """HIP's functions as those of CUDA that they stand for: `hipMemcpyAsync` is `cudaMemcpyAsync`."""
    return lambda name: _HIP.sub("cuda", name)


def kernel_name_key(base: Iterable[Timeline], other: Iterable[Timeline], match: Match) -> NameKey:
    """Kernels' names as `match` says; a symbol counts as the name that the other side has for it."""
    base, other = list(base), list(other)
    names: dict[str, str] = {}
    if symbols_only_notes(base, other):
        for timeline in (*base, *other):
            names |= _names_by_symbol(timeline)

    def spelling(text: str) -> str:
        return kernel_key(names.get(text, text), match)

    return cache(spelling)


def symbols_only_notes(base: Iterable[Timeline], other: Iterable[Timeline]) -> list[Note]:
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


def _names_by_symbol(timeline: Timeline) -> dict[str, str]:
    """Demangled names of kernels by their symbols, as far as the profile holds both."""
    profile = timeline.profile
    columns = profile.columns("kernel", ("name_id", "mangled_name_id"))
    _, (ids, symbols) = number(columns["name_id"], columns["mangled_name_id"])
    pairs = [(i, s) for i, s in zip(ids.tolist(), symbols.tolist(), strict=True)
             if i != s and MISSING not in (i, s)]  # fmt: skip
    texts = profile.names(each for pair in pairs for each in pair)
    return {texts[s]: texts[i] for i, s in pairs}
