"""Facts: the kinds of information a profile may hold.

An importer states which facts its source always and sometimes gives, the store records which of them
a profile really holds, and a query states which it needs. "Not recorded" is the difference of two sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Fact(StrEnum):
    """A kind of information. The value is what the store keeps; `label` is what people read."""

    KERNELS = "kernels"
    MEMCPYS = "memcpys"
    MEMSETS = "memsets"
    UNIFIED_MEMORY = "unified_memory"
    GRAPH_LAUNCHES = "graph_launches"
    GRAPH_NODES = "graph_nodes"
    API_CALLS = "api_calls"
    API_LINKS = "api_links"
    SYNCS = "syncs"
    RANGES = "ranges"
    OPERATORS = "operators"
    PYTHON_FUNCTIONS = "python_functions"
    COLLECTIVES = "collectives"
    MEMORY_EVENTS = "memory_events"
    DIRECTIVES = "directives"
    LIBRARY_CALLS = "library_calls"
    MPI_CALLS = "mpi_calls"
    OSRT_CALLS = "osrt_calls"
    PAGE_FAULTS = "page_faults"
    KERNEL_TOTALS = "kernel_totals"
    MEMORY_TOTALS = "memory_totals"
    API_TOTALS = "api_totals"
    UNIFIED_MEMORY_TOTALS = "unified_memory_totals"
    RANGE_TOTALS = "range_totals"
    DIRECTIVE_TOTALS = "directive_totals"
    OSRT_TOTALS = "osrt_totals"
    METRICS = "metrics"
    OVERHEAD = "overhead"
    THREADS = "threads"
    DEVICES = "devices"
    RANKS = "ranks"
    UTC = "utc"

    @property
    def label(self) -> str:
        """Return the fact in a few words, as messages and tables show it."""
        return _LABELS[self]


_LABELS: dict[Fact, str] = {
    Fact.KERNELS: "kernel events",
    Fact.MEMCPYS: "memory copies",
    Fact.MEMSETS: "memory sets",
    Fact.UNIFIED_MEMORY: "unified-memory migrations",
    Fact.GRAPH_LAUNCHES: "graph launches as intervals",
    Fact.GRAPH_NODES: "graph nodes",
    Fact.API_CALLS: "API calls",
    Fact.API_LINKS: "links from API calls to GPU operations",
    Fact.SYNCS: "synchronisations",
    Fact.RANGES: "ranges (NVTX, user annotations)",
    Fact.OPERATORS: "operators of the framework",
    Fact.PYTHON_FUNCTIONS: "Python functions",
    Fact.COLLECTIVES: "collective communication",
    Fact.MEMORY_EVENTS: "memory taken and given back",
    Fact.DIRECTIVES: "constructs of OpenACC and OpenMP",
    Fact.LIBRARY_CALLS: "calls of cuBLAS and cuDNN",
    Fact.MPI_CALLS: "MPI calls",
    Fact.OSRT_CALLS: "calls of the operating system's runtime libraries",
    Fact.PAGE_FAULTS: "page faults on unified memory",
    Fact.KERNEL_TOTALS: "totals of kernels by name",
    Fact.MEMORY_TOTALS: "totals of copies and memory sets",
    Fact.API_TOTALS: "totals of API calls by name",
    Fact.UNIFIED_MEMORY_TOTALS: "totals of unified-memory migrations",
    Fact.RANGE_TOTALS: "totals of ranges by name",
    Fact.DIRECTIVE_TOTALS: "totals of constructs of OpenACC and OpenMP by name",
    Fact.OSRT_TOTALS: "totals of calls of the operating system's runtime libraries by name",
    Fact.METRICS: "metrics and events that hardware counters measured",
    Fact.OVERHEAD: "profiler overhead",
    Fact.THREADS: "threads of API calls",
    Fact.DEVICES: "device properties",
    Fact.RANKS: "ranks of processes",
    Fact.UTC: "time of day (UTC) of the profile's zero",
}


def in_order(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts in the order of their declaration, each once."""
    wanted = set(facts)
    return [fact for fact in Fact if fact in wanted]
