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
    INPUT_SHAPES = "input_shapes", "input shapes of operators"
    INPUT_TYPES = "input_types", "input types of operators"
    STACKS = "stacks", "call stacks"
    FORWARD_LINKS = "forward_links", "links from backward operators to their forward"
    PYTHON_FUNCTIONS = "python_functions", "Python functions"
    COLLECTIVES = "collectives", "collective communication"
    MEMORY_EVENTS = "memory_events", "memory allocations and frees"
    MEMORY_BLOCKS = "memory_blocks", "memory blocks held at the end"
    DIRECTIVES = "directives", "OpenACC and OpenMP constructs"
    LIBRARY_CALLS = "library_calls", "cuBLAS and cuDNN calls"
    MPI_CALLS = "mpi_calls", "MPI calls"
    OSRT_CALLS = "osrt_calls", "OS runtime library calls"
    SCHEDULING = "scheduling", "thread scheduling on CPUs"
    CPU_SAMPLES = "cpu_samples", "CPU samples of threads"
    PAGE_FAULTS = "page_faults", "page faults on unified memory"
    KERNEL_TOTALS = "kernel_totals", "kernel totals by name"
    MEMORY_TOTALS = "memory_totals", "copy and memset totals"
    API_TOTALS = "api_totals", "API call totals by name"
    UNIFIED_MEMORY_TOTALS = "unified_memory_totals", "unified-memory migration totals"
    RANGE_TOTALS = "range_totals", "range totals by name"
    DIRECTIVE_TOTALS = "directive_totals", "OpenACC and OpenMP construct totals by name"
    OSRT_TOTALS = "osrt_totals", "OS runtime library call totals by name"
    CPU_LINES = "cpu_lines", "host time by source line"
    METRICS = "metrics", "hardware counter metrics and events"
    OVERHEAD = "overhead", "profiler overhead"
    THREADS = "threads", "threads of API calls"
    DEVICES = "devices", "device properties"
    RANKS = "ranks", "ranks of processes"
    UTC = "utc", "time of day (UTC) of the profile's time zero"


def in_order(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts in the order of their declaration, each once."""
    wanted = set(facts)
    return [fact for fact in Fact if fact in wanted]
