"""What functions of the APIs do, by their names."""

from __future__ import annotations

import re

import pytest

from nsysconv.names import WAITS, api_roles, called

BY_ROLES = {
    "wait": "cudaDeviceSynchronize cudaThreadSynchronize cuCtxSynchronize hipStreamSynchronize",
    "wait_event": "cudaEventSynchronize hsa_signal_wait_scacquire",
    "blocking_copy copy": "cudaMemcpy cudaMemcpy2DToArray cuMemcpyDtoH hipMemcpyDtoH hipMemcpyWithStream "
    "hsa_memory_copy",
    "copy": "cudaMemcpyAsync cuMemcpyBatchAsync hipMemcpyDtoHAsync hsa_amd_memory_async_copy",
    "set": "cudaMemsetAsync cuMemsetD8 hipMemset hsa_amd_memory_fill",
    "allocation": "cudaMalloc cudaMallocAsync cuMemAlloc hipMalloc hsa_amd_memory_pool_allocate",
    "allocation free": "cudaFreeHost cuMemFree hipFree hsa_amd_memory_pool_free",
    "kernel_launch": "cudaLaunch cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel "
    "cuLaunchKernel cuLaunchKernelEx cuLaunchGridAsync hipLaunchKernel hipModuleLaunchKernel "
    "hipExtModuleLaunchKernel hipHccModuleLaunchKernel hipExtLaunchKernel hipDrvLaunchKernelEx",
    "graph_launch": "cudaGraphLaunch cuGraphLaunch hipGraphLaunch",
    "host_launch": "cudaLaunchHostFunc cuLaunchHostFunc",
    "initialisation": "cuDevicePrimaryCtxRetain cuCtxCreate hipCtxCreate "
    "hsa_executable_load_agent_code_object",
    "initialisation query": "cuModuleLoadData cuInit hipInit hsa_init hipModuleLoad cudaGetFuncBySymbol "
    "cudaFuncGetAttributes __hipRegisterFatBinary",
    "query": "cudaGetDeviceProperties cudaEventQuery",
    "begin_capture": "cudaStreamBeginCapture cuStreamBeginCaptureToGraph",
    "end_capture": "hipStreamEndCapture",
    "": "cudaStreamWaitEvent cudaThreadExchangeStreamCaptureMode cudaSetDevice cudaGraphInstantiate "
    "cuStreamCreate",
}
ROLES = {name: set(roles.split()) for roles, names in BY_ROLES.items() for name in names.split()}


@pytest.mark.parametrize("name", ROLES)
def test_the_roles_of_a_function(name: str) -> None:
    assert {role for role in api_roles() if called(role)(name)} == ROLES[name]


def test_several_roles_are_asked_for_at_once() -> None:
    names = ("cudaStreamSynchronize", "cuEventSynchronize", "cuInit")
    assert [bool(called(*WAITS)(name)) for name in names] == [True, True, False]
    with pytest.raises(KeyError):
        called("waits")


def test_every_pattern_is_of_use() -> None:
    unused = [
        pattern
        for role, patterns in api_roles().items()
        for pattern in patterns
        if not any(re.match(pattern, name) for name, roles in ROLES.items() if role in roles)
    ]
    assert unused == []
