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
    OVERHEAD = "overhead"
    THREADS = "threads"
    DEVICES = "devices"
    RANKS = "ranks"
    UTC = "utc"

    @property
    def label(self) -> str:
        """The fact in a few words, as messages and tables show it."""
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
    Fact.MEMORY_EVENTS: "memory taken and given back by the framework",
    Fact.OVERHEAD: "profiler overhead",
    Fact.THREADS: "threads of API calls",
    Fact.DEVICES: "device properties",
    Fact.RANKS: "ranks of processes",
    Fact.UTC: "time of day (UTC) of the profile's zero",
}


def in_order(facts: Iterable[Fact]) -> list[Fact]:
    """The facts in the order of their declaration, each once."""
    wanted = set(facts)
    return [fact for fact in Fact if fact in wanted]
