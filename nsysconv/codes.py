"""The words that codes in integer columns of a store stand for, and those for classes of time.

A code is the index of its word; views and reports show the words. New words go to the end.
"""

DIRECTIONS = (
    "Unknown",
    "HtoD",
    "DtoH",
    "HtoA",
    "AtoH",
    "AtoA",
    "AtoD",
    "DtoA",
    "DtoD",
    "HtoH",
    "PtoP",
)
MEMORY_KINDS = (
    "Pageable",
    "Pinned",
    "Device",
    "Array",
    "Managed",
    "Device Static",
    "Managed Static",
    "Unknown",
)
API_LAYERS = ("runtime", "driver")
RANGE_KINDS = ("push_pop", "start_end", "mark")
OVERHEAD_KINDS = ("profiler", "driver")
OPERATOR_KINDS = ("operator", "python_function", "directive", "library_call")
COLLECTIVE_KINDS = ("call", "kernel")
THREAD_STATES = (
    "Unknown",
    "Running",
    "Interruptible",
    "Uninterruptible",
    "Stopped",
    "Terminated",
    "Unscheduled",
    "Waiting",
    "OSRuntime",
    "Initialized",
    "Transition",
)
MPI_KINDS = ("p2p", "collective", "wait", "other")
MEMORY_EVENT_KINDS = ("block", "segment", "oom")
MEMORY_BLOCK_STATES = ("allocated", "awaiting_free", "inactive")
PAGE_FAULT_KINDS = ("cpu", "gpu")
PAGE_FAULT_NAMES = ("instruction_id", "module_id", "source_file_id")
"""Columns of page_fault that are numbers of names."""
ACCESS_KINDS = ("Unknown", "Read", "Write", "Atomic", "Prefetch")
AGGREGATE_KINDS = (
    "kernel",
    "memcpy",
    "memset",
    "api_call",
    "unified_memory",
    "range",
    "openacc_exclusive",
    "openacc_inclusive",
    "openmp_inclusive",
    "osrt_call",
)
METRIC_KINDS = ("metric", "event")
METRIC_UNITS = ("number", "%", "bytes", "bytes/s", "level", "W", "°C", "Hz")

TIME_CLASSES = {
    "before": "before the first GPU operation",
    "computation": "computation",
    "communication": "exposed communication",
    "memcpy": "exposed copies",
    "memset": "memsets",
    "migration": "page migrations",
    "idle_host": "idle, CPU-bound: next operation not yet launched",
    "idle_launch": "idle, launch latency",
    "idle_queue": "idle, queued: launched and not started",
    "idle_migration": "idle until a page migration",
    "idle_profiler": "idle, profiler overhead",
    "idle_unknown": "idle, cause not recorded",
    "idle_end": "idle, nothing followed",
    "after": "after the last GPU operation",
}
"""The classes of the time account of a device, in their order, in words (docs/definitions/idle.md)."""

TIME_CLASS_COLUMNS = {
    **{name: f"{name}_ns" for name in TIME_CLASSES},
    "computation": "computation_union_ns",
    "communication": "exposed_communication_ns",
    "memcpy": "exposed_memcpy_ns",
    "memset": "exposed_memset_ns",
    "migration": "exposed_um_ns",
}
"""The column of each class in reports."""

COMMUNICATION = "communication"
"""The kind of kernels that communicate; all others are computation."""

DOUBTS = ("time", "work", "size")
"""The parts of a row that may be doubted: its times, or the work that a call launched."""
