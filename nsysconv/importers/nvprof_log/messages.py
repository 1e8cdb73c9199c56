"""What nvprof says in sentences: known ones become notes, in our words; no other text is copied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity

_GPU = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS})
_API = frozenset({Fact.API_CALLS, Fact.API_TOTALS})
_ALL: frozenset[Fact] = frozenset()

# What a message says -> slug, severity, our text, what it touches. `{}` is the message's number.
_KNOWN: tuple[tuple[re.Pattern[str], str, Severity, str, frozenset[Fact]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), slug, severity, text, facts)
    for pattern, slug, severity, text, facts in (
        (
            r"\b(\d{1,18}) API trace records have same start and end",
            "profiler-diagnostic",
            Severity.INFO,
            "{} API calls were too short for the timer and have a duration of 0",
            _API,
        ),
        (
            r"\b(\d{1,18}) records have invalid timestamps due to insufficient",
            "profiler-diagnostic",
            Severity.DROPPED,
            "the profiler lost the times of {} records because its buffers were too small "
            "(--device-buffer-size)",
            _GPU,
        ),
        (
            r"kernel\(s\) will be replayed",
            "kernels-serialised",
            Severity.INFO,
            "kernels were run several times, one after the other, to collect events or metrics",
            _GPU | {Fact.METRICS},
        ),
        (
            r"One or more events or metrics can't be profiled",
            "profiler-diagnostic",
            Severity.DROPPED,
            "some events or metrics could not be measured",
            frozenset({Fact.METRICS}),
        ),
        (
            r"Found (\d{1,18}) invalid range marker",
            "profiler-diagnostic",
            Severity.DROPPED,
            "{} markers of ranges were invalid",
            frozenset({Fact.RANGE_TOTALS}),
        ),
        (
            r"Profiling results might be incorrect with current version of nvcc",
            "profiler-diagnostic",
            Severity.INFO,
            "the profiler doubts its results for programs built with a compiler before CUDA 9",
            _ALL,
        ),
        (
            r"not supported on devices with compute capability|doesn't support the underlying device",
            "profiler-diagnostic",
            Severity.DROPPED,
            "nvprof does not support this GPU and recorded nothing of it; use nsys profile",
            _GPU,
        ),
        (
            r"Unified Memory Profiling is not supported",
            "profiler-diagnostic",
            Severity.DROPPED,
            "unified memory was not profiled: the GPUs have no peer-to-peer access",
            frozenset({Fact.UNIFIED_MEMORY, Fact.UNIFIED_MEMORY_TOTALS}),
        ),
        (
            r"Auto boost enabled",
            "profiler-diagnostic",
            Severity.INFO,
            "the GPU changed its clock by itself while it was profiled",
            _ALL,
        ),
        (
            r"Application received signal (\d{1,18})|Application returned non-zero code (\d{1,18})",
            "profiler-diagnostic",
            Severity.INFO,
            "the program ended with signal or status {}",
            _ALL,
        ),
        (
            r"ERR_NVGPUCTRPERM|not have permission to (?:profile|access)",
            "profiler-diagnostic",
            Severity.DROPPED,
            "the user was not permitted to read the GPU's counters",
            frozenset({Fact.METRICS, *_GPU}),
        ),
    )
)
# What goes on from a message before it, or tells only that nvprof is at work.
_IDLE = re.compile(r"Replaying kernel|This can happen because|Profiling all processes|\(done\)")


def notes(messages: Iterable[tuple[int, str]]) -> Iterator[Note]:
    """The messages' notes; those that are not known are counted."""
    unknown: list[int] = []
    for line, said in messages:
        if _IDLE.search(said):
            continue
        for pattern, slug, severity, text, facts in _KNOWN:
            if match := pattern.search(said):
                number = next((group for group in match.groups() if group), "")
                yield Note(slug, severity, text.format(number), 1, f"line {line}", facts)
                break
        else:
            unknown.append(line)
    if unknown:
        yield Note(
            "profiler-diagnostic",
            Severity.INFO,
            "the profiler left messages that nsysconv does not know; read them in the log",
            len(unknown),
            f"line {unknown[0]}",
        )
