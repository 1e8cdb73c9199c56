"""Words of rocprofiler-sdk, which rocprofv3 writes into databases and tables: categories, functions."""

from __future__ import annotations

from nsysconv import codes

HIP, HSA = range(len(codes.API_LAYERS))
"""HIP's calls are those of the runtime; HSA is the layer below it."""

_CATEGORIES: dict[int | str, tuple[str, ...]] = {
    HIP: ("HIP_RUNTIME_API", "HIP_COMPILER_API", "rocm_hip_api"),
    HSA: ("HSA_CORE_API", "HSA_AMD_EXT_API", "HSA_IMAGE_EXT_API", "HSA_FINALIZE_EXT_API",
          "rocm_hsa_api"),
    "range": ("MARKER_CORE_API", "MARKER_CORE_RANGE_API", "rocm_marker_api", "user", "host", "mpi"),
    "collective": ("RCCL_API", "rocm_rccl_api"),
    "library_call": ("ROCDECODE_API", "ROCJPEG_API", "HIPFILE_API", "ROCSHMEM_API"),
    "directive": ("OMPT",),
    "python_function": ("python",),
    # Pauses and names, which are no work; and the categories of the other tables' rows.
    "": ("MARKER_CONTROL_API", "MARKER_NAME_API", "KERNEL_DISPATCH", "MEMORY_COPY",
         "MEMORY_ALLOCATION", "SCRATCH_MEMORY", "COUNTER_COLLECTION", ""),
}  # fmt: skip
_BECOMES = {word: kind for kind, words in _CATEGORIES.items() for word in words}

OPERATIONS = {
    "ncclAllReduce": "allreduce",
    "ncclAllGather": "allgather",
    "ncclReduceScatter": "reduce_scatter",
    "ncclBroadcast": "broadcast",
    "ncclBcast": "broadcast",
    "ncclReduce": "reduce",
    "ncclAllToAll": "alltoall",
    "ncclGather": "gather",
    "ncclScatter": "scatter",
    "ncclSend": "send",
    "ncclRecv": "recv",
}
"""Function of RCCL -> what it does."""


def becomes(category: str) -> int | str | None:
    """Return the layer of calls of a category, or what else its rows become; None: it is not known.

    Newer versions write HIP_RUNTIME_API_EXT for HIP_RUNTIME_API.
    """
    return _BECOMES.get(category, _BECOMES.get(category.removesuffix("_EXT")))


def range_kind(function: str) -> int:
    """Return the code of the kind of a range, by the function that made it."""
    if function.startswith(("roctxProcessRange", "roctxRangeStart")):
        return codes.RANGE_KINDS.index("start_end")
    return codes.RANGE_KINDS.index("mark" if function.startswith("roctxMark") else "push_pop")
