"""The ages of Kineto's JSON that fixtures are written in, and what each of them records."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workload import ApiCall

# All releases since 2.4 count from a multiple of this: about three months.
_BASE_STEP_NS = 7_889_238 * 1_000_000_000
_NEVER = frozenset({"cudaGetDevice", "cudaSetDevice", "cudaGetLastError"})
_NOT_SINCE_1_12 = frozenset({"cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy"})
# Numbers of the calls that scenarios make, as NVIDIA's headers count them.
_CBIDS = {
    "cudaGetDeviceCount": 3, "cudaSetDevice": 16, "cudaMalloc": 20, "cudaMemcpy": 31,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51, "cudaStreamSynchronize": 131, "cudaEventCreateWithFlags": 134,
    "cudaEventRecord": 135,
    "cudaEventQuery": 138, "cudaStreamWaitEvent": 147, "cudaMemcpyPeerAsync": 161,
    "cudaDeviceSynchronize": 165, "cudaLaunchKernel": 211, "cudaLaunchKernel_ptsz": 214,
    "cudaGraphLaunch": 311, "cudaStreamBeginCapture": 315, "cudaStreamEndCapture": 319,
    "cudaLaunchKernelExC": 430, "cudaGraphInstantiate": 443, "cuLaunchKernel": 307,
    "cuLaunchKernelEx": 652,
}  # fmt: skip
_LAUNCHES = frozenset({
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch", "cudaStreamSynchronize",
    "cudaDeviceSynchronize", "cudaStreamWaitEvent", "cuLaunchKernel", "cuLaunchKernelEx",
})  # fmt: skip


@dataclass(frozen=True)
class Age:
    """One release of PyTorch, and what its files hold.

    `driver_calls`: the only driver calls that it records. `relative`: times are decimal
    microseconds since `baseTimeNanoseconds`, else whole microseconds since 1970.
    """

    version: tuple[int, int]
    driver_calls: frozenset[str]
    relative: bool
    syncs: bool
    overheads: bool
    graph_nodes: bool

    @property
    def product(self) -> str:
        """Return how people call it."""
        return "PyTorch " + ".".join(map(str, self.version))

    def resolution_ns(self) -> int:
        """Return the resolution of times and durations."""
        return 1 if self.relative else 1_000

    def records(self, call: ApiCall) -> bool:
        """Return whether this call has a row at all."""
        name = plain(call.symbol)
        if call.layer == "driver":
            return name in self.driver_calls
        return name not in _NEVER and (self.version < (1, 12) or name not in _NOT_SINCE_1_12)


_LAUNCHED_BY_DRIVER = frozenset({"cuLaunchKernel", "cuLaunchKernelEx"})
AGES = {
    "1.9": Age((1, 9), frozenset(), False, False, False, False),
    "2.5": Age((2, 5), _LAUNCHED_BY_DRIVER, True, True, True, False),
    "2.13": Age((2, 13), _LAUNCHED_BY_DRIVER, True, True, True, True),
}


def plain(symbol: str) -> str:
    """Return the name of a call as Kineto writes it: without the version that CUPTI appends."""
    return re.sub(r"_v\d{4,}$", "", symbol)


def cbid(call: ApiCall) -> int:
    """Return CUPTI's number of the function."""
    return _CBIDS[plain(call.symbol)]


def starts_arrow(call: ApiCall) -> bool:
    """Return whether an arrow to the GPU begins at the call."""
    return plain(call.symbol) in _LAUNCHES or (call.layer == "runtime" and 31 <= cbid(call) <= 52)


def base_ns(utc_ns: int) -> int:
    """Return the `baseTimeNanoseconds` of a file written at that time."""
    return utc_ns // _BASE_STEP_NS * _BASE_STEP_NS
