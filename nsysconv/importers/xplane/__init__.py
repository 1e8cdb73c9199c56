"""Profiles of XLA's profiler (`*.xplane.pb`): JAX, TensorFlow, PyTorch/XLA.

What planes, lines and stats mean, and where the traps are: docs/formats/xplane.md.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

NAME = "xplane"
VERSION = 1
TITLE = "XLA profile (xplane.pb)"

_GPU = (
    "Record on a GPU: `with jax.profiler.trace(FOLDER): …`; if the program ran on one, check the "
    "messages of the profiler (CUPTI, rocprofiler) on its stderr."
)
_HOST = "Record with `host_tracer_level` 1 or more in `jax.profiler.ProfileOptions()`, its default is 2."
_ANNOTATIONS = (
    "Annotate steps: `with jax.profiler.StepTraceAnnotation('train', step_num=i): …`, and record with "
    "`host_tracer_level` 1 or more."
)
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.API_LINKS), _GPU),
    Fact.MEMSETS: "XLA's profiler records memsets on NVIDIA GPUs; HIP sets memory with kernels "
    "(__amd_rocclr_fillBuffer…): see the report kernels.",
    Fact.RANGES: _ANNOTATIONS,
    **dict.fromkeys((Fact.OPERATORS, Fact.THREADS), _HOST),
    Fact.PYTHON_FUNCTIONS: "Record with `python_tracer_level = 1` in `jax.profiler.ProfileOptions()`, "
    "and import with `--include python_functions`.",
    Fact.MEMORY_EVENTS: "Record with `host_tracer_level = 2` in `jax.profiler.ProfileOptions()`, on a "
    "GPU whose memory XLA's allocator (BFC) gives out.",
    Fact.DEVICES: "Record on a GPU that the program uses: others are listed without properties.",
    Fact.UTC: "Record with jaxlib 0.4 or later, TensorFlow 2.11 or later.",
}
GUARANTEED: frozenset[Fact] = frozenset()
POSSIBLE = frozenset(ADVICE) | {Fact.OVERHEAD}
JOINS = False
PYTHON_FUNCTIONS = "python_functions"
INCLUDABLE: Mapping[str, str] = {
    PYTHON_FUNCTIONS: "calls of Python functions, of profiles recorded with the Python tracer"
}

_GZIP = b"\x1f\x8b"
# A plane, the first field of the file, with its name as first or second field; its length may be damaged.
_BEGIN = re.compile(
    rb"\x0a[\x80-\xff]{0,29}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12."
    rb"(?:/host:|/device:|Task Environment)",
    re.DOTALL,
)


def sniff(probe: Probe) -> Yes | No:
    """Accept protobuf, maybe compressed, whose first message is a plane: by the name in it."""
    if probe.is_sqlite:
        return No("it is a SQLite database")
    head = probe.head
    if head.startswith(_GZIP):
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, len(head))
    if _BEGIN.match(head):
        return Yes(alone=True)
    return No("its first message is no plane of an XLA profile")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a file: one process of a session."""
    from nsysconv.importers.xplane.reader import batches
    from nsysconv.store.recording import Recording

    yield Recording(batches(probes[0], options, ADVICE), possible=POSSIBLE)
