"""What of a profile is drawn in a trace: one kind per sort of rows, and the tracks they stand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nsysconv import codes, schema
from nsysconv.export import told
from nsysconv.export.about import About
from nsysconv.export.telling import Teller
from nsysconv.export.told import MARK
from nsysconv.report import MISSING

Array = np.ndarray

START_END = codes.RANGE_KINDS.index("start_end")
_KERNEL = codes.COLLECTIVE_KINDS.index("kernel")


@dataclass(frozen=True)
class Kind:
    """One kind of rows: `what` they are called in counts, their table and which of its rows they are.

    Rows with equal `groups` share a track, whose title `title` makes of them. On a track slices nest
    where `nests` says so, and are apart otherwise. `instant`: they have no length.
    """

    what: str
    table: str
    groups: tuple[str, ...]
    title: Callable[[About, Mapping[str, int]], str]
    tells: Teller
    nests: bool = True
    instant: bool = False
    of: Callable[[Mapping[str, Array]], Array] | None = None
    reads: tuple[str, ...] = ()

    @property
    def on_gpu(self) -> bool:
        """Whether its tracks are a device's."""
        return "device_id" in self.groups

    @property
    def shows(self) -> tuple[str, ...]:
        """The columns of its table that something of it is drawn from."""
        table = schema.metadata.tables[self.table]
        drawn = {"start_ns", "dur_ns", "pid", "correlation_id", *self.tells.columns}
        return tuple(column.name for column in table.c if column.name in drawn)


def _range_title(about: About, key: Mapping[str, int]) -> str:
    name = about.domains.get((key["pid"], key["domain_id"]))
    # Domain 0 need not be named, and a domain may have no row.
    other = f" of domain {key['domain_id']}" if key["domain_id"] not in (0, MISSING) else ""
    domain = f" {name}" if name else other
    word = {START_END: "start/end ranges", MARK: "marks"}.get(key["kind"], "ranges")
    return f"{word}{domain}"


_THREAD = ("pid", "tid")
_STREAM = ("device_id", "pid", "stream_id")
_OPERATOR_TITLES = ("operators", "Python functions", "directives", "library calls")


def _titled(title: str) -> Callable[[About, Mapping[str, int]], str]:
    return lambda about, key: title


def _one_of(column: str, titles: tuple[str, ...], otherwise: str) -> Callable[..., str]:
    def title(about: About, key: Mapping[str, int]) -> str:
        code = key[column]
        return titles[code] if 0 <= code < len(titles) else otherwise

    return title


_OPS = _titled("")
OPS = (
    Kind("kernel", "kernel", _STREAM, _OPS, told.kernel, nests=False),
    Kind("memcpy", "memcpy", _STREAM, _OPS, told.memcpy, nests=False),
    Kind("memset", "memset", _STREAM, _OPS, told.memset, nests=False),
    Kind(
        "unified_memory_event", "unified_memory_event", _STREAM, _OPS, told.migration, nests=False
    ),
    Kind("graph_launch", "graph_launch", _STREAM, _OPS, told.graph_launch, nests=False),
)
"""GPU operations: all kinds share the tracks of their streams."""

ON_THREADS = (
    Kind("range", "range", (*_THREAD, "domain_id", "kind"), _range_title, told.range_,
         of=lambda columns: (columns["kind"] != MARK) & (columns["kind"] != START_END),
         reads=("kind",)),
    Kind("range", "range", (*_THREAD, "domain_id", "kind"), _range_title, told.range_, nests=False,
         of=lambda columns: columns["kind"] == START_END, reads=("kind",)),
    Kind("mark", "range", (*_THREAD, "domain_id", "kind"), _range_title, told.range_, instant=True,
         of=lambda columns: columns["kind"] == MARK, reads=("kind",)),
    Kind("operator", "operator", (*_THREAD, "kind"),
         _one_of("kind", _OPERATOR_TITLES, "operators"), told.operator),
    Kind("api_call", "api_call", (*_THREAD, "layer"),
         _one_of("layer", ("CUDA runtime", "CUDA driver"), "CUDA API"), told.api_call),
    Kind("collective", "collective", _THREAD, _titled("collectives"), told.collective,
         of=lambda columns: columns["kind"] != _KERNEL, reads=("kind",)),
    Kind("mpi_call", "mpi_call", _THREAD, _titled("MPI"), told.mpi_call),
    Kind("osrt_call", "osrt_call", _THREAD, _titled("OS runtime"), told.osrt_call),
    Kind("overhead", "overhead", _THREAD, _titled("overhead"), told.overhead),
    Kind("memory_event", "memory_event", _THREAD, _titled("memory"), told.memory_event, instant=True),
    Kind("graph_node", "graph_node", _THREAD, _titled("graph nodes"), told.graph_node, instant=True),
)  # fmt: skip
"""What happened on threads, in the order of their tracks from above."""

ON_DEVICES = (
    Kind("sync", "sync", _STREAM, _titled("waits"), told.sync, nests=False),
    Kind("collective", "collective", _STREAM, _titled("collectives"), told.collective, nests=False,
         of=lambda columns: columns["kind"] == _KERNEL, reads=("kind",)),
    Kind("page_fault", "page_fault", ("device_id", "pid"), _titled("page faults"), told.page_fault,
         nests=False),
)  # fmt: skip
"""What happened on devices beside operations."""
