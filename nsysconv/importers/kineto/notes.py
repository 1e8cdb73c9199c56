"""Notes on a trace: what was repaired, left out or assumed while it was read."""

from __future__ import annotations

from collections.abc import Iterator

from nsysconv.facts import Fact
from nsysconv.importers.kineto import POSSIBLE
from nsysconv.importers.kineto.packed import ACCELERATOR, FURTHER_ARRAY, Chunk
from nsysconv.importers.kineto.trace import Metadata, Trace
from nsysconv.notes import Note, Severity
from nsysconv.schema import EVENT_TABLES

GPU_FACTS = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS})
_TIMED = POSSIBLE.intersection(EVENT_TABLES.values())
_INFO, _APPROXIMATED, _DROPPED = Severity.INFO, Severity.APPROXIMATED, Severity.DROPPED
# Slug and severity of what is counted -> key of Chunk.counts -> text.
_COUNTED = {
    ("json-repaired", _INFO): {
        "no number": "values like inf or N/A are not recorded",
        "no UTF-8": "bytes of names that are no UTF-8 were replaced",
        "lone backslash": "events with lone backslashes were repaired",
        "unescaped quote": "events with unescaped quotes were repaired",
        "control character": "events with raw control characters were repaired",
    },
    ("event-unreadable", _DROPPED): {
        "unreadable": "events that are no JSON and could not be repaired were left out",
    },
    ("wrong-type", _DROPPED): {
        "no time stamp": "events whose time is no number were left out",
        "no duration": "events whose duration is no number were left out",
    },
    ("negative-duration", _DROPPED): {
        "negative duration": "events that end before they start were left out",
    },
    ("impossible-time", _DROPPED): {
        "impossible time": "events more than 104 days away from the first were left out",
    },
    ("events-in-two-arrays", _APPROXIMATED): {
        FURTHER_ARRAY: "the trace names traceEvents more than once; the events of all were read, where "
        "most programs read the last only; what stands between them was not",
    },
    ("category-assumed", _APPROXIMATED): {
        "category assumed": "rows of categories that this version does not know were taken for kernels "
        "or API calls",
    },
    ("category-unknown", _INFO): {
        "category unknown": "rows of categories that this version does not know were left out",
    },
    ("python-functions-left-out", _INFO): {
        "python functions": "Python functions were left out; --include python_functions reads them",
    },
}
_NOTES_OF_COUNTED = {
    key: (slug, severity, text)
    for (slug, severity), texts in _COUNTED.items()
    for key, text in texts.items()
}
_FACTS_OF_COUNTED = {
    "python functions": frozenset({Fact.PYTHON_FUNCTIONS}),
    "category assumed": frozenset({Fact.KERNELS, Fact.API_CALLS}),
}

PARTIAL_API = Note(
    "api-calls-partial",
    _INFO,
    "PyTorch leaves out API calls (cudaGetDevice, cudaSetDevice, cudaGetLastError, event calls, most of "
    "the driver): sums of API time are smaller than those of other profilers",
    facts=frozenset({Fact.API_CALLS}),
)
COARSE_TIMES = Note(
    "coarse-times",
    _INFO,
    "times are whole microseconds: shorter operations take 0 or 1 us",
    facts=_TIMED,
)
NO_BASE = Note(
    "no-time-base",
    _INFO,
    "the trace's times count from an unknown moment (its end, where the base stands, is missing)",
    facts=frozenset({Fact.UTC}),
)
LOST_GPU_WORK = Note(
    "gpu-activity-missing",
    _DROPPED,
    "API calls put work on a GPU, but no GPU work was recorded",
    facts=GPU_FACTS,
)
MERGED_PROCESSES = Note(
    "process-assumed",
    _APPROXIMATED,
    "several processes are merged in this file; GPU rows were given to the process whose rows "
    "stand before them",
    facts=GPU_FACTS | {Fact.API_LINKS},
)
UNNAMED_DEVICES = Note(
    "device-unnamed",
    _APPROXIMATED,
    "devices that the trace does not describe have no name",
    facts=frozenset({Fact.DEVICES}),
)
_METADATA = Note(
    "metadata-unreadable",
    _APPROXIMATED,
    "what the trace says of itself is no JSON; what is known by name was read from it",
    facts=frozenset({Fact.DEVICES, Fact.RANKS, Fact.UTC}),
)

NOT_CONVERTED = "The trace is of an accelerator whose events nsysconv does not convert."
"""Advice on how to record GPU work where an accelerator's work was left out."""


def counted(findings: Chunk) -> Iterator[Note]:
    """Yield notes on what was counted while chunks were decoded, each with the offset of the first."""
    for key, count in findings.counts.items():
        slug, severity, text = _NOTES_OF_COUNTED.get(key) or (
            "accelerator-left-out",
            _DROPPED,
            f"events of an accelerator that nsysconv does not convert (category "
            f"{key.removeprefix(ACCELERATOR)}) were left out: its work is in no table",
        )
        offset = findings.first_offsets.get(key)
        where = "" if offset is None else f"byte {offset:,}"
        yield Note(slug, severity, text, count, where, _FACTS_OF_COUNTED.get(key, _TIMED))


def damage(trace: Trace, file_size: int, metadata: Metadata) -> Iterator[Note]:
    """Yield notes on damage to the file itself, once all of it was read."""
    if trace.gzip_damage:
        text = f"the compressed data is damaged ({trace.gzip_damage}); what follows is missing"
        where = f"byte {trace.offset:,} of the content"
        yield Note("trace-truncated", _DROPPED, text, 1, where, _TIMED)
    elif trace.lost_bytes is not None:
        text = (
            f"the file ends early; {trace.lost_bytes:,} bytes of an unfinished event were left out, "
            "and what would have followed is missing"
        )
        yield Note("trace-truncated", _DROPPED, text, 1, f"byte {trace.offset:,}", _TIMED)
    if trace.trailing_offset is not None:
        size = file_size - trace.trailing_offset
        text = f"{size:,} bytes behind the compressed trace are no gzip and were left out"
        yield Note("trailing-data", _DROPPED, text, 1, f"byte {trace.trailing_offset:,}", _TIMED)
    if metadata.further_events:
        text = "events of a second traceEvents were left out"
        yield Note("event-unreadable", _DROPPED, text, metadata.further_events, facts=_TIMED)
    if metadata.damaged and trace.lost_bytes is None:
        yield _METADATA
