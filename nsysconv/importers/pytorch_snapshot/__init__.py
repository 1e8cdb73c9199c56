"""PyTorch memory snapshots: what `torch.cuda.memory._dump_snapshot()` writes.

What the file holds, how it is read without running it, and where the traps are:
docs/formats/pytorch-snapshot.md.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

NAME = "pytorch_snapshot"
VERSION = 1
TITLE = "PyTorch memory snapshot"
GUARANTEED = frozenset({Fact.MEMORY_BLOCKS})
POSSIBLE = frozenset({Fact.MEMORY_EVENTS, Fact.STACKS, Fact.UTC})
JOINS = False
INCLUDABLE: Mapping[str, str] = {}
_HISTORY = "Call torch.cuda.memory._record_memory_history() before the program allocates."
_TIMELINE = (
    "A snapshot has memory only. Record the program with torch.profiler or `nsys profile …`."
)
ADVICE: Mapping[Fact, str] = {
    Fact.MEMORY_EVENTS: _HISTORY,
    Fact.STACKS: _HISTORY,
    Fact.UTC: "Record with PyTorch 2.1 or later.",
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.OPERATORS), _TIMELINE),
}

# A pickle begins with its protocol; those of protocols 0 and 1 with a dictionary or a list.
_PICKLE = re.compile(rb"\x80[\x02-\x05]|\([dl]p\d+\n|[}\]](?:q.)?\(", re.DOTALL)
_WORDS = (b"total_size", b"device_traces", b"blocks")


def sniff(probe: Probe) -> Yes | No:
    """Accept a pickle whose first texts are those of a snapshot; nothing in it is loaded."""
    words = [word for word in _WORDS if word in probe.head]
    is_snapshot = len(words) > 1 or (words and b"segments" in probe.head)
    if is_snapshot and _PICKLE.match(probe.head):
        return Yes(alone=True)
    return No("it is no pickle with segments of memory")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a snapshot."""
    from nsysconv.importers.pytorch_snapshot.reader import SnapshotReader
    from nsysconv.store.recording import Recording

    reader = SnapshotReader(probes[0], GUARANTEED, ADVICE)
    yield Recording(reader.batches(), possible=GUARANTEED | POSSIBLE)
