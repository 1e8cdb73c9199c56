"""What is told of a trace in notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nsysconv.facts import Fact
from nsysconv.importers.kineto.packed import ACCELERATOR, FURTHER_ARRAY
from nsysconv.notes import Note, Severity

_TIMED = frozenset(
    {
        Fact.KERNELS,
        Fact.MEMCPYS,
        Fact.MEMSETS,
        Fact.API_CALLS,
        Fact.OPERATORS,
        Fact.RANGES,
        Fact.SYNCS,
        Fact.OVERHEAD,
        Fact.MEMORY_EVENTS,
        Fact.COLLECTIVES,
    }
)
# What workers count -> slug, severity and text.
_COUNTED = {
    "no number": ("json-repaired", Severity.INFO, "values like inf or N/A are not recorded"),
    "no UTF-8": ("json-repaired", Severity.INFO, "bytes of names that are no UTF-8 were replaced"),
    "lone backslash": (
        "json-repaired",
        Severity.INFO,
        "events with lone backslashes were repaired",
    ),
    "unescaped quote": (
        "json-repaired",
        Severity.INFO,
        "events with unescaped quotes were repaired",
    ),
    "control character": (
        "json-repaired",
        Severity.INFO,
        "events with raw control characters were repaired",
    ),
    "unreadable": (
        "event-unreadable",
        Severity.DROPPED,
        "events that are no JSON and could not be repaired were left out",
    ),
    "no time stamp": (
        "wrong-type",
        Severity.DROPPED,
        "events whose time is no number were left out",
    ),
    "no duration": (
        "wrong-type",
        Severity.DROPPED,
        "events whose duration is no number were left out",
    ),
    "negative duration": (
        "negative-duration",
        Severity.DROPPED,
        "events that end before they start were left out",
    ),
    "impossible time": (
        "impossible-time",
        Severity.DROPPED,
        "events more than 104 days away from the first were left out",
    ),
    FURTHER_ARRAY: (
        "events-in-two-arrays",
        Severity.APPROXIMATED,
        "the trace names traceEvents more than once; the events of all were read, where most programs "
        "read the last only; what stands between them was not",
    ),
    "category assumed": (
        "category-assumed",
        Severity.APPROXIMATED,
        "rows of categories that this version does not know were taken for kernels or API calls",
    ),
    "category unknown": (
        "category-unknown",
        Severity.INFO,
        "rows of categories that this version does not know were left out",
    ),
    "python functions": (
        "python-functions-left-out",
        Severity.INFO,
        "Python functions were left out; --include python_functions reads them",
    ),
}
_ONLY = {
    "python functions": frozenset({Fact.PYTHON_FUNCTIONS}),
    "category assumed": frozenset({Fact.KERNELS, Fact.API_CALLS}),
}

PARTIAL_API = Note(
    "api-calls-partial",
    Severity.INFO,
    "PyTorch leaves out API calls (cudaGetDevice, cudaSetDevice, cudaGetLastError, event calls, most of "
    "the driver): sums of API time are smaller than those of other profilers",
    facts=frozenset({Fact.API_CALLS}),
)
COARSE_TIMES = Note(
    "coarse-times",
    Severity.INFO,
    "times are whole microseconds: shorter operations take 0 or 1 us",
    facts=_TIMED,
)
NO_BASE = Note(
    "no-time-base",
    Severity.INFO,
    "the trace's times count from an unknown moment (its end, where the base stands, is missing)",
    facts=frozenset({Fact.UTC}),
)
LOST_GPU_WORK = Note(
    "gpu-activity-missing",
    Severity.DROPPED,
    "API calls put work on a GPU, but no GPU work was recorded",
    facts=frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}),
)
METADATA = Note(
    "metadata-unreadable",
    Severity.APPROXIMATED,
    "what the trace says of itself is no JSON; what is known by name was read from it",
    facts=frozenset({Fact.DEVICES, Fact.RANKS, Fact.UTC}),
)

NOT_CONVERTED = "The trace is of an accelerator whose events nsysconv does not convert."
"""Advice where a GPU's work would be asked for."""


def counted(counts: Mapping[str, int], first: Mapping[str, int]) -> Iterable[Note]:
    """Notes on what workers counted, each with the byte where it was met first."""
    for what, count in counts.items():
        slug, severity, text = _COUNTED.get(what) or _of_accelerator(what)
        place = f"byte {first[what]:,}" if what in first else ""
        yield Note(slug, severity, text, count, place, _ONLY.get(what, _TIMED))


def _of_accelerator(what: str) -> tuple[str, Severity, str]:
    text = (
        f"events of an accelerator that nsysconv does not convert (category "
        f"{what.removeprefix(ACCELERATOR)}) were left out: its work is in no table"
    )
    return "accelerator-left-out", Severity.DROPPED, text


def truncated(lost_bytes: int, place: int) -> Note:
    """The file ends in the middle of its events."""
    return Note(
        "trace-truncated",
        Severity.DROPPED,
        f"the file ends early; {lost_bytes:,} bytes of an unfinished event were left out, "
        "and what would have followed is missing",
        1,
        f"byte {place:,}",
        _TIMED,
    )


def gzip_damage(what: str, place: int) -> Note:
    """The compressed data cannot be inflated to its end."""
    return Note(
        "trace-truncated",
        Severity.DROPPED,
        f"the compressed data is damaged ({what}); what follows is missing",
        1,
        f"byte {place:,} of the content",
        _TIMED,
    )


def trailing(size: int, place: int) -> Note:
    """Something that is no gzip stands behind the compressed data."""
    text = f"{size:,} bytes behind the compressed trace are no gzip and were left out"
    return Note("trailing-data", Severity.DROPPED, text, 1, f"byte {place:,}", _TIMED)


def further_events(count: int) -> Note:
    """A second array of events."""
    return Note(
        "event-unreadable",
        Severity.DROPPED,
        "events of a second traceEvents were left out",
        count,
        facts=_TIMED,
    )


def merged_processes(count: int) -> Note:
    """A file that holds several processes' traces."""
    return Note(
        "process-assumed",
        Severity.APPROXIMATED,
        "several processes are merged in this file; GPU rows were given to the process whose rows "
        "stand before them",
        count,
        facts=frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_LINKS}),
    )


def device_unnamed(count: int) -> Note:
    """Devices that the trace does not describe."""
    return Note(
        "device-unnamed",
        Severity.APPROXIMATED,
        "devices that the trace does not describe have no name",
        count,
        facts=frozenset({Fact.DEVICES}),
    )
