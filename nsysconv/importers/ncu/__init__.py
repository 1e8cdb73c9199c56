"""Nsight Compute: reports (`.ncu-rep`), and the tables that `ncu --csv` prints, with the log around them.

What the metrics mean, and where the traps are: docs/formats/ncu.md.
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

NAME = "ncu"
VERSION = 2
TITLE = "Nsight Compute report or table"
GUARANTEED = frozenset({Fact.METRICS})
POSSIBLE = frozenset({Fact.KERNELS, Fact.DEVICES})
JOINS = False
INCLUDABLE: Mapping[str, str] = {}
_TIMELINE = "Nsight Compute measures single kernels. For a timeline, record with `nsys profile …`."
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.MEMCPYS, Fact.API_CALLS, Fact.RANGES, Fact.UTC), _TIMELINE),
    Fact.KERNELS: "Print each launch: `ncu --import FILE --csv`, without `--print-summary`.",
    Fact.DEVICES: "Import the report itself (`ncu -o FILE …`), or print it with `--page raw`.",
}

MAGIC = b"NVR\0"
"""How reports begin."""
HEADER = re.compile(
    rb'^\s*(?:("?)ID\1,)?("?)Process ID\2,\2Process Name\2,\2Host Name\2,\2Kernel Name\2,',
    re.MULTILINE,
)
"""How the line begins that names the columns of a table."""
_LOG = re.compile(rb'^==PROF== |^[^\n]{0,200}"Warp Stall Sampling ', re.MULTILINE)
_LONGEST_SIGN = 256


def sniff(probe: Probe) -> Yes | No:
    """Return Yes for a report, and for text with the header of a table."""
    if probe.head.startswith(MAGIC):
        return Yes(alone=True)
    if probe.is_sqlite:
        return No("it is a SQLite database")
    from nsysconv.importers.printed.text import text_chunks

    is_log = False
    for text in text_chunks(probe, _LONGEST_SIGN):
        if HEADER.search(text):
            return Yes(alone=True)
        is_log = is_log or _LOG.search(text) is not None
    if is_log:
        reason = "Nsight Compute (ncu) output without a CSV table of metrics"
        return No(reason, close=True, hint="Print the report as CSV: ncu --import FILE --csv")
    return No("it holds no report and no CSV table of Nsight Compute")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a file."""
    # Loaded only for such files: pyarrow comes with it.
    from nsysconv.importers.ncu.rows import LaunchRows
    from nsysconv.store.recording import Recording

    (probe,) = probes
    yield Recording(LaunchRows(probe).batches(), possible=GUARANTEED | POSSIBLE)
