"""Programs of several processes on one GPU whose weakness is known; `record_gpu.py` records them.

Ranks that talk by NCCL need NCCL 2.30 or later (`LD_PRELOAD=.../libnccl.so.2` where PyTorch has an older
one) and `NCCL_MULTI_RANK_GPU_ENABLE=1`. The GPU takes turns between processes, some milliseconds each,
unless `nvidia-cuda-mps-control -d` runs: it ran, but for `two_ranks_gloo` and those that say so.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gpu_recorder import Recorder, data, network, program, trained

Work = Callable[[int, Recorder], None]
"""What one rank does."""

def _rank(rank: int, work: Work, count: int, backend: str, folder: str, meeting: str, name: str) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=count)
    work(rank, Recorder(Path(folder), f"{name}-rank{rank}"))
    dist.barrier()
    dist.destroy_process_group()


def together(recorder: Recorder, work: Work, count: int = 2, backend: str = "nccl") -> None:
    """Run the work in so many processes that share one GPU."""
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        arguments = (work, count, backend, str(recorder.folder), f"{folder}/meeting", recorder.name)
        mp.start_processes(_rank, args=arguments, nprocs=count, start_method="spawn")


def on_time(rank: int, step: int) -> float:
    """Return 0: no rank sleeps in any step."""
    return 0.0


def rank_1_late(rank: int, step: int) -> float:
    """Return how long a rank sleeps in a step, in seconds: always the same one."""
    return 0.02 * (rank == 1)


def late_in_turn(rank: int, step: int) -> float:
    """Return how long a rank sleeps in a step, in seconds: each of three in its turn."""
    return 0.02 * (rank == step % 3)


def train_on_ranks(
    rank: int, recorder: Recorder, width: int = 256, layers: int = 1, sizes: Sequence[int] = (16, 16, 16),
    steps: int = 4, bucket_mb: float = 25, late: Callable[[int, int], float] = on_time,
) -> None:  # fmt: skip
    """Train with gradients that are added up over the ranks; record some steps."""
    import torch
    import torch.distributed as dist

    net = torch.nn.parallel.DistributedDataParallel(network(width, layers), bucket_cap_mb=bucket_mb)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    batch, label = data(sizes[rank], width=width)
    for _ in range(3):
        trained(net, optimizer, batch, label)
    torch.cuda.synchronize()
    dist.barrier()
    with recorder.recording(steps=steps, record_shapes=True) as profiler:
        for step in range(steps):
            time.sleep(late(rank, step))
            trained(net, optimizer, batch, label)
            profiler.step()


def train_in_shards(rank: int, recorder: Recorder) -> None:
    """Train with parameters of which each rank holds a part."""
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    net = network(256, 3)
    for layer in net[0].layers:
        fully_shard(layer)
    fully_shard(net)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    batch, label = data(16)
    for _ in range(3):
        trained(net, optimizer, batch, label, half=False)
    torch.cuda.synchronize()
    dist.barrier()
    with recorder.recording(steps=3, record_shapes=True) as profiler:
        for _ in range(3):
            trained(net, optimizer, batch, label, half=False)
            profiler.step()


def infer_in_halves(rank: int, recorder: Recorder) -> None:
    """Infer with a half of the layers on each rank: the first one sends, the second one receives."""
    import torch
    import torch.distributed as dist

    net = network(256, 2)[0].eval()
    batch, _ = data(32)

    def step() -> None:
        for part in batch.chunk(4):
            if rank == 0:
                dist.send(net(part), 1)
            else:
                received = torch.empty_like(part)
                dist.recv(received, 0)
                net(received)

    with torch.no_grad():
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        dist.barrier()
        with recorder.recording(steps=4, record_shapes=True) as profiler:
            for _ in range(4):
                step()
                profiler.step()


SMALL_BUCKETS = partial(train_on_ranks, width=192, layers=4, bucket_mb=0.01)


@program
def two_ranks_gloo(recorder: Recorder) -> None:
    """Share one GPU between two processes that add up gradients on the host."""
    together(recorder, partial(train_on_ranks, bucket_mb=1), backend="gloo")


@program
def two_ranks(recorder: Recorder) -> None:
    """Train on two ranks; gradients are added up in large pieces, beside the backward pass."""
    together(recorder, partial(train_on_ranks, width=512, layers=4, sizes=(512, 512)))


@program
def small_buckets(recorder: Recorder) -> None:
    """Train on two ranks that take turns: gradients are added up by tensor, each sum takes 4.6 ms."""
    together(recorder, SMALL_BUCKETS)


@program
def small_buckets_at_once(recorder: Recorder) -> None:
    """Train on two ranks: gradients are added up by tensor, each sum takes 7 µs."""
    together(recorder, SMALL_BUCKETS)


@program
def one_late_rank(recorder: Recorder) -> None:
    """Train on two ranks, of which one is 20 ms late in each step."""
    together(recorder, partial(train_on_ranks, steps=5, late=rank_1_late))


@program
def late_in_turns(recorder: Recorder) -> None:
    """Train on three ranks that take turns, of which another one is 20 ms late in each step."""
    together(recorder, partial(train_on_ranks, steps=6, late=late_in_turn), count=3)


@program
def uneven_ranks(recorder: Recorder) -> None:
    """Train on two ranks, of which one has eight times the batch of the other."""
    together(recorder, partial(train_on_ranks, layers=2, sizes=(32, 256)))


@program
def shards(recorder: Recorder) -> None:
    """Train on two ranks that hold a half of each parameter."""
    together(recorder, train_in_shards)


@program
def pipeline(recorder: Recorder) -> None:
    """Infer on two ranks with a half of the layers each."""
    together(recorder, infer_in_halves)


# -- one program, again and again


def _again(_: int, folder: str, name: str) -> None:
    import torch

    net = network(256, 2)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    batch, label = data(512)
    for _ in range(5):
        trained(net, optimizer, batch, label)
    with Recorder(Path(folder), name).recording(steps=20) as profiler:
        for _ in range(20):
            trained(net, optimizer, batch, label)
            profiler.step()


@program
def same(recorder: Recorder) -> None:
    """Train the same in six processes, one after the other, on a host whose speed varies."""
    import torch.multiprocessing as mp

    for i in range(6):
        arguments = (str(recorder.folder), f"{recorder.name}-run{i}")
        mp.start_processes(_again, args=arguments, nprocs=1, start_method="spawn")
