"""What makes one name of two sides' spellings of it: symbols, other demanglers, HIP and CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from nsysconv.diff.compare import ONLY_BASE, ONLY_OTHER, Compared
from nsysconv.diff.names import Match, kernel_key
from nsysconv.diff.rows import Spelling
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.timeline.statistics import number
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
    """Kernels' names as `match` says; where one side has symbols only, by the symbols of both."""
    base, other = list(base), list(other)
    symbols: dict[str, str] = {}
    if any(map(_has_symbols_only, base)) != any(map(_has_symbols_only, other)):
        for timeline in (*base, *other):
            if not _has_symbols_only(timeline):
                symbols |= _symbols(timeline)
    return cache(lambda name: symbols.get(name) or kernel_key(name, match))


def symbols_on_one_side(base: Iterable[Timeline], other: Iterable[Timeline]) -> list[Note]:
    """That a side's kernels are shown by their symbols, and the other's by their names."""
    told = [next((_symbol_note(t) for t in side if _has_symbols_only(t)), None) for side in (base, other)]
    if (told[0] is None) == (told[1] is None):
        return []
    note, where = (told[0], "base") if told[0] is not None else (told[1], "other")
    assert note is not None
    text = f"{where}: {note.text}; kernels that have no symbol on the other side stand alone"
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


def _has_symbols_only(timeline: Timeline) -> bool:
    return any(note.slug == _SYMBOLS_ONLY for note in timeline.profile.notes)


def _symbol_note(timeline: Timeline) -> Note:
    return next(note for note in timeline.profile.notes if note.slug == _SYMBOLS_ONLY)


def _symbols(timeline: Timeline) -> dict[str, str]:
    """Symbols of kernels by their demangled names; of several of one name, the first by the others."""
    profile = timeline.profile
    columns = profile.columns("kernel", ("name_id", "mangled_name_id"))
    names, mangled = columns["name_id"], columns["mangled_name_id"]
    _, (name_ids, symbol_ids) = number(names, mangled)
    pairs = [(n, s) for n, s in zip(name_ids.tolist(), symbol_ids.tolist(), strict=True)
             if MISSING not in (n, s)]  # fmt: skip
    texts = profile.names(each for pair in pairs for each in pair)
    found: dict[str, str] = {}
    for name, symbol in sorted((texts[n], texts[s]) for n, s in pairs):
        found[symbol] = found.setdefault(name, symbol)
    return found
