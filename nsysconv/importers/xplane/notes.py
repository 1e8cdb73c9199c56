"""Notes on what an XLA profile lacks, and on what was left out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity

_GPU = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS})
_KERNELS = frozenset({Fact.KERNELS})
_HOST = frozenset({Fact.OPERATORS, Fact.RANGES})
_TIMED = _GPU | _HOST | {Fact.API_CALLS, Fact.MEMORY_EVENTS}
_INFO, _APPROXIMATED, _DROPPED = Severity.INFO, Severity.APPROXIMATED, Severity.DROPPED
_NOTES = {
    "aggregated": ("rows-not-read", _DROPPED, "events that only count occurrences were left out", _TIMED),
    "negative duration": (
        "negative-duration", _DROPPED, "events that end before they start were left out", _TIMED),
    "impossible time": (
        "impossible-time", _DROPPED, "events more than 104 days from the first were left out", _TIMED),
    "stream event unknown": (
        "category-unknown", _DROPPED,
        "events of streams that are neither kernels nor copies nor memsets were left out", _GPU),
    "nameless": ("nameless-id", _APPROXIMATED, "events whose name is not in the file", _TIMED),
    "garbage": (
        "details-not-believed", _INFO,
        "kernels whose registers and shared memory the profiler wrote as garbage", _KERNELS),
    "occupancy": (
        "occupancy-theoretical", _INFO,
        "kernels whose occupancy is the theoretical one of the profiler", _KERNELS),
    "unnamed calls": (
        "api-names-missing", _INFO,
        "API calls recorded under what they launched, not under their function: (unnamed launch)",
        frozenset({Fact.API_CALLS})),
    "python functions": (
        "python-functions-left-out", _INFO,
        "Python functions were left out; --include python_functions reads them",
        frozenset({Fact.PYTHON_FUNCTIONS})),
    "derived": (
        "rows-not-read", _INFO,
        "events of derived lines (steps, operators, name scopes) repeat the GPU's work and were not read",
        frozenset({Fact.UTC})),
    "markers": ("rows-not-read", _INFO, "marks of thread pools were not read", frozenset({Fact.UTC})),
    "planes": (
        "rows-not-read", _INFO, "planes of other kinds (TPU, custom, offload) were not read", _TIMED),
    "messages": (
        "profiler-diagnostic", _APPROXIMATED,
        "errors or warnings of the profiler (not copied: they may hold paths)", _TIMED),
}  # fmt: skip


class Tally:
    """Counts by key of what a note is due on, each with the place of the first."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, key: str, count: int, where: str = "") -> None:
        """Add to a count."""
        if count:
            self._counts[key] += count
            self._first.setdefault(key, where)

    def mark(self, key: str, mask: np.ndarray, byte: np.ndarray) -> None:
        """Add the events of a mask, which lie at these bytes of the file."""
        found = np.flatnonzero(mask)
        if len(found):
            self.add(key, len(found), f"byte {int(byte[found[0]]):,}")

    def __contains__(self, key: str) -> bool:
        """Return whether something was counted under a key."""
        return key in self._counts

    def notes(self) -> Iterator[Note]:
        """Yield a note for each key."""
        for key, (slug, severity, text, facts) in _NOTES.items():
            if count := self._counts[key]:
                yield Note(slug, severity, text, count, self._first[key], facts)
