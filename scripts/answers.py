"""The form of the answers that stand beside each scenario, worked out by hand.

They use the definitions of the documentation: windows run from the first to the last GPU op that is
not a migration, `busy_ns` is the union of all GPU ops in the window, and the parts of a gap follow
the API call of the op that ends it. GPUs go by their number in the machine.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict


class DeviceAnswer(TypedDict):
    """The work of one GPU. `no_kernel_idle_ns`: the window less kernels and graph intervals."""

    window_start_ns: int
    window_ns: int
    busy_ns: int
    idle_ns: int
    no_kernel_idle_ns: int
    kernel_count: int
    kernel_sum_ns: int
    kernel_union_ns: int
    memcpy_count: int
    memcpy_sum_ns: int
    memset_count: int
    memset_sum_ns: int
    um_count: int
    um_sum_ns: int
    um_bytes_sum: int
    graph_launch_count: int
    graph_launch_sum_ns: int


class GapAnswer(NamedTuple):
    """One gap without any GPU op, and its parts; they add up to `dur_ns`."""

    start_ns: int
    dur_ns: int
    cause: str
    host_ns: int = 0
    launch_ns: int = 0
    queue_ns: int = 0
    migration_ns: int = 0
    profiler_ns: int = 0
    unknown_ns: int = 0


class TransferAnswer(NamedTuple):
    """All copies (or migrations) of one kind on one GPU."""

    memcpy_count: int
    bytes_sum: int
    sum_ns: int


class KernelAnswer(NamedTuple):
    """All kernels of one name on one GPU."""

    kernel_count: int
    sum_ns: int


class ApiAnswer(NamedTuple):
    """All calls of one plain name in one layer, and the GPU work they own.

    Latencies count once per call with GPU work; queue times only where they are not negative.
    """

    call_count: int
    api_sum_ns: int
    gpu_op_count: int = 0
    kernel_sum_ns: int = 0
    memcpy_sum_ns: int = 0
    memset_sum_ns: int = 0
    latency_count: int = 0
    latency_sum_ns: int = 0
    queue_count: int = 0
    queue_sum_ns: int = 0


class ProjectionAnswer(NamedTuple):
    """The GPU ops whose API calls start inside a range, on the threads the definition names."""

    start_ns: int
    end_ns: int
    union_ns: int
    op_count: int


# (GPU, direction, kind at the source, kind at the destination); migrations have "UM " before the
# direction and no kinds. (GPU, demangled name). (layer, plain name). (pid, text).
TransferKey = tuple[int, str, str | None, str | None]
NO_API_CALL = (None, "[no API call]")


class Answers(TypedDict):
    """Everything a test may ask of a workload. `api_outermost_sum_ns`: nested calls left out."""

    devices: dict[int, DeviceAnswer]
    gaps: dict[int, list[GapAnswer]]
    transfers: dict[TransferKey, TransferAnswer]
    kernels: dict[tuple[int, str], KernelAnswer]
    api: dict[tuple[str | None, str], ApiAnswer]
    api_call_count: dict[int, int]
    api_sum_ns: dict[int, int]
    api_outermost_sum_ns: dict[int, int]
    projections: dict[tuple[int, str], ProjectionAnswer]
