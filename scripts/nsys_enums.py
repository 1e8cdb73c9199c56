"""The ENUM_* tables of Nsight Systems' exports (since schema 3.0): those about what we write.

Each table is id, symbol and label. Real exports of 3.0 to 3.17 hold some 50 of them whatever was
recorded; since 3.20 only those that the recorded kinds of events need.
"""

from __future__ import annotations

from nsys_tables import Age

EnumRow = tuple[int, str, str]


def _rows(prefix: str, words: str, first: int = 0) -> list[EnumRow]:
    pairs = [word.partition("=") for word in words.split()]
    return [
        (number, prefix + symbol, label.replace("_", " "))
        for number, (symbol, _, label) in enumerate(pairs, first)
    ]


_MEMCPY = _rows(
    "CUDA_MEMCPY_KIND_",
    "UNKNOWN=Unknown HTOD=Host-to-Device DTOH=Device-to-Host HTOA=Host-to-Array "
    "ATOH=Array-to-Host ATOA=Array-to-Array ATOD=Array-to-Device DTOA=Device-to-Array "
    "DTOD=Device-to-Device HTOH=Host-to-Host PTOP=Peer-to-Peer UVM_HTOD=Unified_Host-to-Device "
    "UVM_DTOH=Unified_Device-to-Host UVM_DTOD=Unified_Device-to-Device",
)
_MEMORY = _rows(
    "CUDA_MEMOPR_MEMORY_KIND_",
    "PAGEABLE=Pageable PINNED=Pinned DEVICE=Device ARRAY=Array MANAGED=Managed "
    "DEVICE_STATIC=Device_Static MANAGED_STATIC=Managed_Static UNKNOWN=Unknown",
)
_LAUNCH = _rows(
    "CUDA_KERNEL_LAUNCH_TYPE_",
    "UNKNOWN=Unknown REGULAR=Regular COOPERATIVE_SINGLE_DEVICE=Coop_Single_Device "
    "COOPERATIVE_MULTI_DEVICE=Coop_Multi_Device",
)
_CAUSE = _rows(
    "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_",
    # "prefecth" is what the exporter writes.
    "UNKNOWN=Unknown USER=User_prefetch COHERENCE=Page_fault PREFETCH=Speculative_prefecth "
    "EVICTION=Eviction ACCESS_COUNTERS=Access_counters",
)
_SYNC = _rows(
    "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_",
    "UNKNOWN=Unknown EVENT_SYNCHRONIZE=Event_sync STREAM_WAIT_EVENT=Stream_wait_sync "
    "STREAM_SYNCHRONIZE=Stream_sync CONTEXT_SYNCHRONIZE=Context_sync",
)
_STREAM = _rows(
    "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_",
    "UNKNOWN=Unknown_stream_type DEFAULT=Default_stream NON_BLOCKING=Non-blocking_stream "
    "NULL=Null_stream",
)
_OVERHEAD = _rows(
    "OVERHEAD_",
    "UNDEFINED=Undefined UNKNOWN=Unknown DRIVER_COMPILER=Driver_JIT_compiler_(CUDA) "
    "CUPTI_BUFFER_FLUSH=Buffer_flush_(Profiler) "
    "CUPTI_INSTRUMENTATION=Instrumentation_(Profiler) "
    "CUPTI_RESOURCE=Resource_creation/destruction_(Profiler) "
    "RUNTIME_TRIGGERED_MODULE_LOADING=Runtime_module_loading_(CUDA) "
    "LAZY_FUNCTION_LOADING=Lazy_function_loading_(CUDA) "
    "COMMAND_BUFFER_FULL=Command_buffer_full_(CUDA)",
)
_CLASS: list[EnumRow] = [
    (0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
    (1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
    (13, "TRACE_PROCESS_EVENT_CUDA_EGL_DRIVER", "CUDA EGL driver"),
    (27, "TRACE_PROCESS_EVENT_OS_RUNTIME", "OSRT runtime"),
    (67, "TRACE_PROCESS_EVENT_CUDABACKTRACE", "CUDA backtrace"),
    (77, "TRACE_PROCESS_EVENT_CUDA_GRAPH_NODE_CREATION", "CUDA graph node creation"),
]
_TYPE: list[EnumRow] = [
    (number, name, name)
    for number, name in (
        (33, "NvtxCategory"), (34, "NvtxMark"), (39, "NvtxThread"), (59, "NvtxPushPopRange"),
        (60, "NvtxStartEndRange"), (75, "NvtxDomainCreate"), (76, "NvtxDomainDestroy"),
    )
]  # fmt: skip
_SEVERITY = _rows("", "UnknownLevel=Unknown Info=Info Warning=Warning Error=Error Verbose=Verbose")
_SOURCE = _rows(
    "", "UnknownSource=Unknown_source Injection=Injection Daemon=Daemon Analysis=Analysis"
)
_CLOCK = _rows(
    "",
    "UnknownTimestamp=Unknown_timestamp TargetTimestamp=Target_timestamp "
    "HostTimestamp=Host_timestamp",
)


def enums(age: Age, tables_written: set[str]) -> dict[str, list[EnumRow]]:
    """Return the ENUM tables of an export of that age with those tables."""
    if age.version < (3, 0, 0):
        return {}
    found: dict[str, list[EnumRow]] = {
        "ENUM_NSYS_EVENT_TYPE": _TYPE,
        "ENUM_NSYS_EVENT_CLASS": _CLASS,
    }
    if age.version < (3, 20, 0) or "CUPTI_ACTIVITY_KIND_RUNTIME" in tables_written:
        # The misspelling is NVIDIA's, up to 3.1.
        launch = "KRENEL" if age.version < (3, 4, 0) else "KERNEL"
        found |= {
            f"ENUM_CUDA_{launch}_LAUNCH_TYPE": _LAUNCH,
            "ENUM_CUDA_MEMCPY_OPER": _MEMCPY,
            "ENUM_CUDA_MEM_KIND": _MEMORY,
            "ENUM_CUDA_UNIF_MEM_MIGRATION": _CAUSE,
            "ENUM_CUPTI_SYNC_TYPE": _SYNC,
        }
        if age.version >= (3, 1, 0):
            found["ENUM_CUPTI_STREAM_TYPE"] = _STREAM
        if age.version >= (3, 24, 0):
            found["ENUM_CUPTI_OVERHEAD_TYPE"] = _OVERHEAD
    if age.version >= (3, 13, 0):
        found |= {
            "ENUM_DIAGNOSTIC_SEVERITY_LEVEL": _SEVERITY,
            "ENUM_DIAGNOSTIC_SOURCE_TYPE": _SOURCE,
            "ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE": _CLOCK,
        }
    return found
