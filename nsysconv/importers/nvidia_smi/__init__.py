"""Output of nvidia-smi while it watches GPUs: `--query-gpu=… --format=csv` and `dmon`.

What the columns mean, and where the traps are: docs/formats/nvidia-smi.md.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

NAME = "nvidia_smi"
VERSION = 1
TITLE = "nvidia-smi log (--query-gpu as CSV, or dmon)"

GUARANTEED = frozenset({Fact.METRICS})
POSSIBLE = frozenset({Fact.DEVICES, Fact.UTC})
JOINS = False
INCLUDABLE: Mapping[str, str] = {}
_PROFILE = "nvidia-smi only samples the GPU: record a profile at the same time, `nsys profile …`."
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.RANGES), _PROFILE),
    Fact.DEVICES: "Ask for more columns: "
    "`nvidia-smi --query-gpu=timestamp,index,uuid,pci.bus_id,name,…`.",
    Fact.UTC: "Record the time: `nvidia-smi --query-gpu=timestamp,…`, or `nvidia-smi dmon -o DT`.",
}


def sniff(probe: Probe) -> Yes | No:
    """Accept text with the header of a query of GPUs, or of `dmon`, among its first lines."""
    if probe.is_sqlite:
        return No("it is a SQLite database")
    from nsysconv.importers.nvidia_smi.columns import parse_header, refusal_of
    from nsysconv.importers.printed.text import encoding_of

    encoding = encoding_of(probe.head) or "utf-8"
    lines = probe.head.decode(encoding, "replace").lstrip("\ufeff").splitlines()
    if any(parse_header(line) for line in lines):
        return Yes()
    refusals = filter(None, map(refusal_of, lines))
    return next(refusals, No("it holds no header that nvidia-smi prints"))


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a log."""
    from nsysconv.importers.nvidia_smi.reader import read_recording

    for probe in probes:
        yield from read_recording(probe, GUARANTEED | POSSIBLE, ADVICE)
