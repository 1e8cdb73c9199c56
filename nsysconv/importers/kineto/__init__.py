"""PyTorch's Kineto traces (`torch.profiler`, `*.pt.trace.json[.gz]`), every generation of them.

What the events mean, release by release, and where the traps are: docs/formats/kineto.md.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:  # worker processes import this package on their way to `decode`
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

NAME = "kineto"
VERSION = 2
TITLE = "PyTorch Kineto trace"

_CUDA = "Record with `torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])`."
_CPU = "Record with `ProfilerActivity.CPU` among the activities."
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS), _CUDA),
    **dict.fromkeys((Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS), _CUDA),
    **dict.fromkeys((Fact.OVERHEAD, Fact.DEVICES), _CUDA),
    Fact.SYNCS: "Record with `_ExperimentalConfig(enable_cuda_sync_events=True)`, PyTorch 2.1 or later.",
    **dict.fromkeys((Fact.RANGES, Fact.OPERATORS), _CPU),
    **dict.fromkeys((Fact.INPUT_SHAPES, Fact.INPUT_TYPES), "Record with `record_shapes=True`."),
    Fact.STACKS: "Record with `with_stack=True` and "
    "`experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True)`. Where Python functions "
    "were recorded, operators:by=stack:functions says the same.",
    Fact.FORWARD_LINKS: "Record a backward pass; inference has none.",
    Fact.PYTHON_FUNCTIONS: "Record with `with_stack=True`, and import with "
    "`--include python_functions`.",
    Fact.COLLECTIVES: "Record a distributed job with PyTorch 2.2 or later and `record_shapes=True`.",
    Fact.MEMORY_EVENTS: "Record with `profile_memory=True`.",
    Fact.RANKS: "Initialize `torch.distributed` before the profiler starts.",
    Fact.UTC: "The trace's end is missing; record again.",
}
_SET = "`{}=True` was set, but it is not in the trace."
ADVICE_WHERE_SET: Mapping[str, Mapping[Fact, str]] = {
    "record_shapes": {
        **dict.fromkeys((Fact.INPUT_SHAPES, Fact.INPUT_TYPES), _SET.format("record_shapes")),
        Fact.COLLECTIVES: "Record a distributed job with PyTorch 2.2 or later.",
    },
    "with_stack": {
        Fact.STACKS: "`with_stack=True` was set, but no stack is in the trace: PyTorch 2.0 and later "
        "need `experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True)`, too. Where "
        "Python functions were recorded, operators:by=stack:functions says the same.",
        Fact.PYTHON_FUNCTIONS: _SET.format("with_stack"),
    },
    # It turns shapes on.
    "with_flops": dict.fromkeys((Fact.INPUT_SHAPES, Fact.INPUT_TYPES), _SET.format("with_flops")),
    "profile_memory": {Fact.MEMORY_EVENTS: _SET.format("profile_memory")},
}
"""By option of the profiler that the trace says was set: what to say of facts in place of ADVICE."""
GUARANTEED: frozenset[Fact] = frozenset()
POSSIBLE = frozenset(ADVICE)
JOINS = False
PYTHON_FUNCTIONS = "python_functions"
INCLUDABLE: Mapping[str, str] = {
    PYTHON_FUNCTIONS: "calls of Python functions, of traces recorded with stacks"
}

_BEGINNING_BYTES = 1 << 20
_CATEGORY = re.compile(rb'"cat"\s*:\s*"([^"]*)"')
_OTHER_PROGRAMS_CATEGORIES = {"user", "python", "runtime", "operator", "kernel"}
_METADATA_KEYS = tuple(
    b'"%b"' % key
    for key in (b"schemaVersion", b"deviceProperties", b"baseTimeNanoseconds", b"distributedInfo")
)
_PHASE = re.compile(rb'"ph"\s*:\s*"')
_AUTOGRAD = re.compile(rb'"pid"\s*:\s*"(?:CPU|CUDA) functions"')


def sniff(probe: Probe) -> Yes | No:
    """Return Yes for JSON traces with events of Kineto's categories, or with Kineto's metadata."""
    if probe.is_sqlite:
        return No("it is a SQLite database")
    # Imported late: that takes longer than it takes to see that a file is a database.
    from nsysconv.importers import foreign
    from nsysconv.importers.kineto.events import CATEGORIES
    from nsysconv.importers.kineto.trace import EVENTS_KEY, GZIP, read_beginning

    text = probe.head
    if text.startswith(GZIP):
        text = read_beginning(probe.path, _BEGINNING_BYTES)
    opening = text[:_BEGINNING_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not opening.startswith((b"{", b"[")):
        return No("it is not a JSON object or list")
    if len(text) < _BEGINNING_BYTES and probe.size > len(text):
        text = read_beginning(probe.path, _BEGINNING_BYTES)
    categories = {match.lower().decode("latin-1") for match in _CATEGORY.findall(text)}
    known = categories & CATEGORIES.keys()
    metadata_keys = sum(key in text for key in _METADATA_KEYS)
    has_phases = bool(_PHASE.search(text))
    # A list of events is what an object holds as its traceEvents.
    has_events = bool(EVENTS_KEY.search(text)) or (opening.startswith(b"[") and has_phases)
    if known - _OTHER_PROGRAMS_CATEGORIES:
        return Yes(alone=True)
    # With two keys and no events, the metadata is longer than the text that was searched.
    is_like_one = (known and (metadata_keys or has_events)) or (
        opening.startswith(b"{") and (metadata_keys >= 2 or (metadata_keys and has_events))
    )
    if is_like_one and foreign.kind_of(probe) is None:
        return Yes(alone=True)
    if _AUTOGRAD.search(text):
        return No(
            "a trace of PyTorch's old autograd profiler, which has no GPU times of its own",
            close=True,
            hint="Record with torch.profiler (PyTorch 1.8.1 or later).",
        )
    if has_events or has_phases:
        return No(
            "a Chrome trace, but not of PyTorch's profiler: none of its events is of a category "
            "that it writes",
            close=True,
        )
    return No("it has no traceEvents")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield one recording per file; several where traces of several processes were merged."""
    from nsysconv.importers.kineto.reader import KinetoReader

    yield from KinetoReader(probes[0], options).recordings()
