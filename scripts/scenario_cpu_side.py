"""`cpu_side`: what two ranks did beside kernels and copies, in exports of Nsight Systems alone.

Process 9001 is rank 0 and runs on GPU 0, 9002 is rank 1 and runs on GPU 1; each calls its GPU 0. Times
in ns. Rank 0 has a second thread, 9011, of another priority, and a green context, 3, made from its
context 1: all its GPU work runs there.

  OS runtime      9001  poll          10000 - 14000   with read 11000 - 12000 (16 bytes) inside
                  9011  sem_wait      10500 - 13500
                  9002  write         10000 - 10400   failed: -1
  scheduling      9001  on CPU 2 200 - 10100, off (interruptible) until 13000, on CPU 3 until 44000 (ends)
                  9011  on CPU 2 10200 - 12900, off (ready) until 13100, on CPU 2 until 13600 (ends)
                  777   of another user, and not of the profile: on CPU 5 100 - 300
  samples         9001  at 9000 in solve_step, which main called; at 39000 in a function without a name
                  9011  at 11000 in prepare
                  777   at 200
  MPI             9001  MPI_Init        500 -   900
                  both  MPI_Send/Recv 4096 bytes with tag 7, 20000 - 20800 and 20100 - 21000
                  both  MPI_Allreduce 800 bytes, 22000 - 22900 and 22100 - 22900
                  9001  MPI_Reduce to rank 0 of 80 bytes; rank 1 sends only
                  9001  MPI_Waitall for three requests: three rows of one call, 24000 - 24500
                  9002  MPI_Wait      24100 - 24400
  libraries       9001  cublasSgemm_v2 30000 - 31000 and cudnnConvolutionForward 31500 - 32500
  OpenACC         9001  an upload of `u` at solve.c:80, a launch at solve.c:85, a wait
  OpenMP          9001  a parallel region 34000 - 36000 with a barrier 35000 - 35800 inside
  device memory   9001  1,000,000 + 500 - 500 bytes; 4,096 pinned, which are the host's
                  9002  2,000 bytes at an address that 9001 uses, too; 8,192 managed
  page faults     9001  one of the CPU; 16 of the GPU in one row, at the address of a migration
                  9002  2 of the GPU
  metrics         both GPUs, at 1000 and 2000: clock and SMs active, whose numbers differ by GPU
"""

from __future__ import annotations

from machine import REDUCE, SAXPY, a100, stream
from workload import (
    ApiCall,
    Block,
    Construct,
    CpuSample,
    CpuSwitch,
    Events,
    GreenContext,
    Kernel,
    LibraryCall,
    Memcpy,
    Memset,
    Migration,
    MpiCall,
    OsrtCall,
    PageFault,
    Process,
    Sample,
    Thread,
    Workload,
    combine,
)

GPU_0 = a100(0)
GPU_1 = a100(1)
FIRST = Process(9001, "solve", (GPU_0,), 0)
SECOND = Process(9002, "solve", (GPU_1,), 1)
MAIN = Thread(FIRST, 9001, "solve")
HELPER = Thread(FIRST, 9011, "helper", 10)
STRANGER = Thread(Process(777, "SECRET-program", (), None), 777, "SECRET-thread")
OTHER_MAIN = Thread(SECOND, 9002, "solve")
STREAM = stream(FIRST, 7, "null")
OTHER_STREAM = stream(SECOND, 7, "null")
GREEN = GreenContext(FIRST, 0, 3, 1)
BASE = 0x7F00_0000_0000
WORLD = 0x4400_0000

CLOCK = "GPC Clock Frequency [MHz]"
ACTIVE = "SMs Active [Throughput %]"
REQUESTS = "PCIe Read Requests to BAR1 [Requests]"

# As an export holds them; what is imported has no folder.
SOLVE = "/home/SECRET-source-folder/solve.c"
INIT = "/home/SECRET-source-folder/init.c"
MODULE = "/home/SECRET-module-folder/solve"

GPU_WORK = Events(
    calls=(
        ApiCall(MAIN, 601, "cudaLaunchKernel_v7000", 1_000, 2_000),
        ApiCall(OTHER_MAIN, 601, "cudaLaunchKernel_v7000", 1_500, 2_500),
        ApiCall(MAIN, 602, "cudaMemcpyAsync_v3020", 5_000, 5_500),
        ApiCall(MAIN, 603, "cudaMemsetAsync_v3020", 7_000, 7_500),
    ),
    kernels=(
        Kernel(STREAM, 601, SAXPY, 3_000, 5_000, green_context_id=3),
        Kernel(OTHER_STREAM, 601, REDUCE, 3_000, 6_000),
    ),
    memcpys=(
        Memcpy(STREAM, 602, "HtoD", "pinned", "device", 4_096, 6_000, 7_000, green_context_id=3),
    ),
    memsets=(Memset(STREAM, 603, 0, 500, 8_000, 8_500, green_context_id=3),),
    migrations=(Migration(FIRST, 0, "HtoD", 65_536, 37_000, 37_500, "page_fault", BASE + 0x2000),),
)
CALLS = Events(
    osrt_calls=(
        OsrtCall(MAIN, "poll", 10_000, 14_000),
        OsrtCall(MAIN, "read", 11_000, 12_000, 16, 1),
        OsrtCall(HELPER, "sem_wait", 10_500, 13_500),
        OsrtCall(OTHER_MAIN, "write", 10_000, 10_400, -1),
    ),
    cpu_switches=(
        CpuSwitch(STRANGER, 100, 5, True),
        CpuSwitch(MAIN, 200, 2, True),
        CpuSwitch(STRANGER, 300, 5, False, 2),
        CpuSwitch(MAIN, 10_100, 2, False, 2),
        CpuSwitch(HELPER, 10_200, 2, True),
        CpuSwitch(HELPER, 12_900, 2, False, 1),
        CpuSwitch(MAIN, 13_000, 3, True),
        CpuSwitch(HELPER, 13_100, 2, True),
        CpuSwitch(HELPER, 13_600, 2, False, 5),
        CpuSwitch(MAIN, 44_000, 3, False, 5),
    ),
    cpu_samples=(
        CpuSample(STRANGER, 200, (("SECRET-function", "/home/SECRET-folder/SECRET-library"),)),
        CpuSample(MAIN, 9_000, (("solve_step", MODULE), ("main", MODULE))),
        CpuSample(HELPER, 11_000, (("prepare", MODULE),)),
        CpuSample(MAIN, 39_000, (("0x7f00deadbeef", "/usr/lib/libm.so.6"), ("main", MODULE))),
    ),
    mpi_calls=(
        MpiCall(MAIN, "other", "MPI_Init", 500, 900),
        MpiCall(MAIN, "p2p", "MPI_Send", 20_000, 20_800, WORLD, 7, 1, bytes=4_096),
        MpiCall(OTHER_MAIN, "p2p", "MPI_Recv", 20_100, 21_000, WORLD, 7, 0, bytes=4_096),
        MpiCall(MAIN, "collective", "MPI_Allreduce", 22_000, 22_900, WORLD,
                bytes=800, received_bytes=800),
        MpiCall(OTHER_MAIN, "collective", "MPI_Allreduce", 22_100, 22_900, WORLD,
                bytes=800, received_bytes=800),
        MpiCall(MAIN, "collective", "MPI_Reduce", 23_000, 23_500, WORLD, root=0,
                bytes=80, received_bytes=80),
        MpiCall(OTHER_MAIN, "collective", "MPI_Reduce", 23_000, 23_100, WORLD, root=0, bytes=80),
        MpiCall(MAIN, "wait", "MPI_Waitall", 24_000, 24_500, requests=3),
        MpiCall(OTHER_MAIN, "wait", "MPI_Wait", 24_100, 24_400),
    ),
    library_calls=(
        LibraryCall(MAIN, "cublas", "cublasSgemm_v2", 30_000, 31_000),
        LibraryCall(MAIN, "cudnn", "cudnnConvolutionForward", 31_500, 32_500),
    ),
    constructs=(
        Construct(MAIN, 4, 32_600, 32_700, (SOLVE, 85), "solve_85_gpu"),
        Construct(MAIN, 5, 33_000, 33_200, (SOLVE, 80), "u"),
        Construct(MAIN, 13, 33_300, 33_300, (SOLVE, 80), "u"),
        Construct(MAIN, 7, 33_400, 33_900),
        Construct(MAIN, "Parallel region", 34_000, 36_000),
        Construct(MAIN, "Implicit barrier", 35_000, 35_800),
    ),
)  # fmt: skip
MEMORY = Events(
    blocks=(
        Block(FIRST, 0, 1, "device", 0x1000, 1_000_000, 200),
        Block(FIRST, 0, 1, "pinned", 0x9000, 4_096, 250),
        Block(FIRST, 0, 1, "device", 0x2000, 500, 300),
        Block(SECOND, 0, 1, "device", 0x1000, 2_000, 400),
        Block(SECOND, 0, 1, "managed", BASE, 8_192, 410),
        Block(FIRST, 0, 1, "device", 0x2000, 500, 38_000, is_release=True),
    ),
    page_faults=(
        PageFault(FIRST, None, BASE, 600, 600, instruction="initialize", module=MODULE,
                  source=(INIT, 12)),
        PageFault(FIRST, 0, BASE + 0x2000, 36_500, 36_900, 16, "write"),
        PageFault(SECOND, 0, BASE, 4_000, 4_100, 2, "atomic"),
    ),
    samples=(
        Sample(GPU_0, CLOCK, 1_000, 1_410_000_000),
        Sample(GPU_0, ACTIVE, 1_000, 75),
        Sample(GPU_1, ACTIVE, 1_000, 50),
        Sample(GPU_1, CLOCK, 1_000, 1_095_000_000),
        Sample(GPU_1, REQUESTS, 1_000, 1_200_000),
        Sample(GPU_0, CLOCK, 2_000, 0),
        Sample(GPU_0, ACTIVE, 2_000, 0),
        Sample(GPU_1, ACTIVE, 2_000, 100),
    ),
)  # fmt: skip

WORKLOAD = Workload(
    name="cpu_side",
    title="two ranks' calls of OS runtime, MPI, libraries, OpenACC and OpenMP; memory, page faults, "
    "GPU metrics, a green context",
    duration_ns=45_000,
    devices=(GPU_0, GPU_1),
    processes=(FIRST, SECOND),
    threads=(MAIN, HELPER, OTHER_MAIN),
    streams=(STREAM, OTHER_STREAM),
    events=combine((GPU_WORK, CALLS, MEMORY)),
    command="./solve.sh",
    mpi_traced=True,
    green_contexts=(GREEN,),
)
