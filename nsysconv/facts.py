"""Facts: the kinds of information a profile may hold.

An importer states which facts its source always and sometimes gives, the store records which of them
a profile really holds, and a query states which it needs. "Not recorded" is the difference of two sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self


class Fact(StrEnum):
    """A kind of information. The value is what the store keeps; `label` is what people read."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        """Return the member with its label."""
        member = str.__new__(cls, value)
        member._value_, member.label = value, label
        return member

    KERNELS = "kernels", "kernel events"
    MEMCPYS = "memcpys", "memory copies"
    MEMSETS = "memsets", "memsets"
    UNIFIED_MEMORY = "unified_memory", "unified-memory migrations"
    GRAPH_LAUNCHES = "graph_launches", "graph launches as intervals"
    GRAPH_NODES = "graph_nodes", "graph nodes"
    API_CALLS = "api_calls", "API calls"
    API_LINKS = "api_links", "links from API calls to GPU operations"
    SYNCS = "syncs", "synchronizations"
    RANGES = "ranges", "ranges (NVTX, user annotations)"
    OPERATORS = "operators", "operators of the framework"
    INPUT_SHAPES = "input_shapes", "shapes of operators' inputs"
    INPUT_TYPES = "input_types", "types of operators' inputs"
    STACKS = "stacks", "call stacks"
    FORWARD_LINKS = "forward_links", "links from backward operators to their forward"
    PYTHON_FUNCTIONS = "python_functions", "Python functions"
    COLLECTIVES = "collectives", "collective communication"
    MEMORY_EVENTS = "memory_events", "allocations and frees of memory"
    MEMORY_BLOCKS = "memory_blocks", "blocks of memory held at the end"
    DIRECTIVES = "directives", "constructs of OpenACC and OpenMP"
    LIBRARY_CALLS = "library_calls", "calls of cuBLAS and cuDNN"
    MPI_CALLS = "mpi_calls", "MPI calls"
    OSRT_CALLS = "osrt_calls", "calls of the operating system's runtime libraries"
    SCHEDULING = "scheduling", "scheduling of threads on CPUs"
    CPU_SAMPLES = "cpu_samples", "samples of what threads ran"
    PAGE_FAULTS = "page_faults", "page faults on unified memory"
    KERNEL_TOTALS = "kernel_totals", "totals of kernels by name"
    MEMORY_TOTALS = "memory_totals", "totals of copies and memsets"
    API_TOTALS = "api_totals", "totals of API calls by name"
    UNIFIED_MEMORY_TOTALS = "unified_memory_totals", "totals of unified-memory migrations"
    RANGE_TOTALS = "range_totals", "totals of ranges by name"
    DIRECTIVE_TOTALS = "directive_totals", "totals of constructs of OpenACC and OpenMP by name"
    OSRT_TOTALS = (
        "osrt_totals",
        "totals of calls of the operating system's runtime libraries by name",
    )
    CPU_LINES = "cpu_lines", "host time by source line"
    METRICS = "metrics", "metrics and events that hardware counters measured"
    OVERHEAD = "overhead", "profiler overhead"
    THREADS = "threads", "threads of API calls"
    DEVICES = "devices", "device properties"
    RANKS = "ranks", "ranks of processes"
    UTC = "utc", "time of day (UTC) of the profile's zero"


def in_order(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts in the order of their declaration, each once."""
    wanted = set(facts)
    return [fact for fact in Fact if fact in wanted]
