"""The GPUs and kernel functions that the scenarios run."""

from __future__ import annotations

from workload import Device, Function, Process, Stream, StreamKind


def a100(gpu_id: int) -> Device:
    """Return a GPU whose uuid and bus id follow from its number."""
    return Device(
        gpu_id=gpu_id,
        name="NVIDIA A100-SXM4-40GB",
        chip="GA100",
        uuid=f"a100a100-0000-4000-8000-00000000000{gpu_id}",
        bus_id=f"0000:0{gpu_id + 1}:00.0",
        sm_count=108,
        compute=(8, 0),
        memory_bytes=42_505_273_344,
    )


def stream(
    process: Process, stream_id: int, kind: StreamKind = "non_blocking", ordinal: int = 0
) -> Stream:
    """Return a stream of the process's only context on that device."""
    return Stream(process, ordinal, ordinal + 1, stream_id, kind)


# A template in an anonymous namespace: the compiler's hash is in the symbol only.
SAXPY = Function(
    demangled="void <unnamed>::saxpy<float, (int)4>(int, T1, const T1 *, T1 *)",
    itanium="void (anonymous namespace)::saxpy<float, 4>(int, float, float const*, float*)",
    short="saxpy",
    mangled="_ZN40_GLOBAL__N__5c1d2f0e_8_train_cu_7d2c1a9b5saxpyIfLi4EEEviT_PKS1_PS1_",
)
REDUCE = Function(
    demangled="void reduce_sum<double>(const T1 *, T1 *, unsigned long)",
    itanium="void reduce_sum<double>(double const*, double*, unsigned long)",
    short="reduce_sum",
    mangled="_Z10reduce_sumIdEvPKT_PS0_m",
)
# Instantiated with a lambda.
APPLY = Function(
    demangled="void apply<main::[lambda(int) (instance 1)]>(T1, int)",
    itanium="void apply<main::{lambda(int)#1}>(main::{lambda(int)#1}, int)",
    short="apply",
    mangled="_Z5applyIZ4mainEUliE_EvT_i",
)
# extern "C", and one that a compiler other than nvcc named: no C++ name at all.
STENCIL = Function("stencil", "stencil", "stencil", "stencil")
TRITON = Function(*["triton_poi_fused_add_0"] * 4)
