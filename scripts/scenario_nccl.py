"""`nccl`: two ranks of a run in one recording, and what NCCL says of its calls in payloads of ranges.

Processes 4600 (rank 0) and 4601 (rank 1), a GPU each, one stream. Communicator A is of two ranks, B of
four (the other two are recorded elsewhere). Times in us of rank 0; rank 1 does all 1 us later, but its
kernels end with those of rank 0:

  id   calls                              launched in         GPU time  S of the kernel
  ---  ---------------------------------  ------------------  --------  ----------------------------
  801  AllReduce A 4 MiB                  the call 10 - 12     20 -  60  4 MiB
  802  AllReduce A 1 KiB                  the call 14 - 16     70 -  80  1 KiB
  803  AllGather B 1 MiB                  GroupEnd 22 - 24     90 - 130  4 ranks: 4 MiB
  804  ReduceScatter B 512 KiB            the call 26 - 28    140 - 160  4 ranks: 2 MiB
  805  Send A 3000, Recv A 5000           GroupEnd 34 - 36    170 - 180  5000 (gives 3000, gets 5000)
  806  AllReduce A 1 MiB twice            GroupEnd 42 - 44    190 - 220  2 MiB, by one kernel
  807  AllReduce A 64, Broadcast A 64     GroupEnd 50 - 52    230 - 240  not known: two operations
  808  AllReduce A 256, AllReduce B 256   GroupEnd 58 - 60    250 - 260  not known: two communicators
  809  none                               cudaGraphLaunch     270 - 280  not known: of a graph
  810  saxpy                              62 - 63             290 - 292  no collective
"""

from __future__ import annotations

from collections.abc import Iterator

from machine import SAXPY, a100, stream
from workload import (
    ApiCall,
    Domain,
    Events,
    Function,
    Kernel,
    NcclPayload,
    NcclSchema,
    Process,
    Range,
    Thread,
    Workload,
    combine,
)

A, B = 0x00C0_FFEE_0000_00A1, 0xF00D_0000_0000_00B2
KIB, MIB = 1 << 10, 1 << 20
GPUS = (a100(0), a100(1))
PROCESSES = tuple(
    Process(4600 + rank, "python", (gpu,), rank=rank) for rank, gpu in enumerate(GPUS)
)
THREADS = tuple(Thread(process, process.pid, "python") for process in PROCESSES)
STREAMS = tuple(stream(process, 16) for process in PROCESSES)
DOMAIN_IDS = (1, 3)


def _kernel(name: str) -> Function:
    full = f"ncclDevKernel_{name}(ncclDevKernelArgsStorage<(unsigned long)4096>)"
    return Function(full, full, f"ncclDevKernel_{name}", f"_Z{14 + len(name)}ncclDevKernel_{name}")


ALL_REDUCE = _kernel("AllReduce_Sum_f32_RING_LL")
ALL_GATHER = _kernel("AllGather_RING_LL")
REDUCE_SCATTER = _kernel("ReduceScatter_Sum_f32_RING_LL")
SEND_RECV = _kernel("SendRecv")

# Correlation id, kernel, its time on rank 0 in us, and where it was launched.
KERNELS = (
    (801, ALL_REDUCE, 20, 60, 11), (802, ALL_REDUCE, 70, 80, 15), (803, ALL_GATHER, 90, 130, 23),
    (804, REDUCE_SCATTER, 140, 160, 27), (805, SEND_RECV, 170, 180, 35),
    (806, ALL_REDUCE, 190, 220, 43), (807, ALL_REDUCE, 230, 240, 51),
    (808, ALL_REDUCE, 250, 260, 59), (809, ALL_REDUCE, 270, 280, 61), (810, SAXPY, 290, 292, 62),
)  # fmt: skip


def _ranges(rank: int) -> Iterator[Range]:
    thread, domain_id, peer = THREADS[rank], DOMAIN_IDS[rank], 1 - rank

    def of_nccl(
        name: str, start: float, end: float, schema: NcclSchema | None = None, *values: int
    ) -> Range:
        payload = None if schema is None else NcclPayload(schema, values)
        shift = 1_000 * rank
        return Range(thread, f"nccl{name}", int(start * 1000) + shift, int(end * 1000) + shift,
                     domain_id=domain_id, registered=True, payload=payload)  # fmt: skip

    yield of_nccl("CommInitRank", 1, 2, "init", A, 2, rank, 0)
    yield of_nccl("CommInitRankConfig", 3, 4, "init", B, 4, rank, 0)
    yield of_nccl("AllReduce", 10, 12, "reduction", A, 4 * MIB, 0)
    yield of_nccl("AllReduce", 14, 16, "reduction", A, KIB, 0)
    yield of_nccl("GroupStart", 18, 18.1)
    yield of_nccl("AllGather", 20, 20.5, "message", B, MIB)
    yield of_nccl("GroupEnd", 22, 24)
    yield of_nccl("ReduceScatter", 26, 28, "reduction", B, 512 * KIB, 0)
    yield of_nccl("GroupStart", 30, 30.1)
    yield of_nccl("Send", 31, 31.5, "peer", A, 3000, peer)
    yield of_nccl("Recv", 32, 32.5, "peer", A, 5000, peer)
    yield of_nccl("GroupEnd", 34, 36)
    yield of_nccl("GroupStart", 38, 38.1)
    yield of_nccl("AllReduce", 39, 39.5, "reduction", A, MIB, 0)
    yield of_nccl("GroupStart", 39.6, 39.7)
    yield of_nccl("AllReduce", 40, 40.5, "reduction", A, MIB, 0)
    yield of_nccl("GroupEnd", 40.6, 40.7)
    yield of_nccl("GroupEnd", 42, 44)
    yield of_nccl("GroupStart", 46, 46.1)
    yield of_nccl("AllReduce", 47, 47.5, "reduction", A, 64, 0)
    yield of_nccl("Broadcast", 48, 48.5, "root", A, 64, 1)
    yield of_nccl("GroupEnd", 50, 52)
    yield of_nccl("GroupStart", 54, 54.1)
    yield of_nccl("AllReduce", 55, 55.5, "reduction", A, 256, 0)
    yield of_nccl("AllReduce", 56, 56.5, "reduction", B, 256, 0)
    yield of_nccl("GroupEnd", 58, 60)


def _work(rank: int) -> Events:
    shift = 1_000 * rank
    symbols = {809: "cudaGraphLaunch_v10000", 810: "cudaLaunchKernel_v7000"}
    return Events(
        calls=tuple(
            ApiCall(THREADS[rank], number, symbols.get(number, "cudaLaunchKernelExC_v11060"),
                    launched * 1_000 + shift, launched * 1_000 + 500 + shift)
            for number, _, _, _, launched in KERNELS
        ),
        kernels=tuple(
            Kernel(STREAMS[rank], number, function, start * 1_000 + shift, end * 1_000)
            for number, function, start, end, _ in KERNELS
        ),
        domains=(Domain(PROCESSES[rank], DOMAIN_IDS[rank], "NCCL"),),
        ranges=tuple(_ranges(rank)),
    )  # fmt: skip


WORKLOAD = Workload(
    name="nccl",
    title="calls of NCCL with payloads, alone and in groups, on two communicators",
    duration_ns=300_000,
    devices=GPUS,
    processes=PROCESSES,
    threads=THREADS,
    streams=STREAMS,
    events=combine(_work(rank) for rank in (0, 1)),
    command="torchrun",
    arguments=("train.py",),
)
