"""Record programs whose weakness is known, under PyTorch's profiler on a GPU.

    python scripts/record_gpu.py record FOLDER [NAME ...]    # on a machine with PyTorch and a GPU
    python scripts/record_gpu.py keep FOLDER                 # anywhere: cleans them into tests/recorded

Each function below is one program, made to have one weakness, or none: what its trace shows is known
before anybody looks. `record` runs each in a process of its own and writes `NAME.json`, the trace, and
`NAME.table.json`, what PyTorch itself says of the same run: its table of operators, what its allocator
held, and what a clock around the steps measured. `keep` takes out what identifies the machine, as
`record_pytorch.py` does. PyTorch is no dependency of this project. Every run gives other times, so record
again only for a reason.

Ranks share the one GPU. For those that talk by NCCL this needs NCCL 2.30 or later
(`LD_PRELOAD=.../libnccl.so.2` where PyTorch has an older one) and `NCCL_MULTI_RANK_GPU_ENABLE=1`. The GPU
takes turns between processes, some milliseconds each, unless `nvidia-cuda-mps-control -d` runs: it ran,
but for `two_ranks_gloo` and those that say so.
"""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from record_pytorch import PID, check, cleaned

KEPT = Path(__file__).resolve().parent.parent / "tests" / "recorded"
_MIB = 1 << 20
_GIB = 1 << 30
_MOST_SECONDS = 150

README = """# Recorded on a GPU

Programs whose weakness is known, for they were made to have it, under PyTorch's profiler:
`NAME.json.gz` is the trace, `NAME.table.json.gz` what PyTorch itself says of the same run (its table of
operators, the peak of its allocator, the time on a clock of the host). `scripts/record_gpu.py` holds
the programs, and says what was taken out of the files; times, names and order are as recorded. What
must be found in each, and what must not, is in `tests/findings/recorded.toml`.

| file | program | recorded on |
|---|---|---|"""

Program = Callable[["Recorder"], None]
# What one rank does.
Work = Callable[[int, "Recorder"], None]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Take a function for a program to record, by its name."""
    PROGRAMS[function.__name__] = function
    return function


class Recorder:
    """Record a part of a program, and what PyTorch itself says of it."""

    def __init__(self, folder: Path, name: str) -> None:
        """Take the folder to write to, and the name of what is recorded."""
        self.folder, self.name = folder, name

    @contextmanager
    def recording(self, name: str = "", steps: int = 0, **options: Any) -> Iterator[Any]:
        """Record what runs inside, on the host and the GPU; so many steps, if any, are marked."""
        import torch
        from torch.profiler import ProfilerActivity, profile, schedule

        if steps:
            options["schedule"] = schedule(wait=0, warmup=0, active=steps, repeat=1)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with profile(activities=activities, **options) as profiler:
            began = time.perf_counter_ns()
            yield profiler
            torch.cuda.synchronize()
            wall = time.perf_counter_ns() - began
        name = name or self.name
        profiler.export_chrome_trace(str(self.folder / f"{name}.json"))
        held = torch.cuda.memory_stats()
        said = {
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "gpu": torch.cuda.get_device_name(0),
            "machine": [socket.gethostname(), sys.prefix, sys.base_prefix, str(self.folder)],
            "wall_ns": wall,
            "peak_allocated_bytes": held.get("allocated_bytes.all.peak"),
            "peak_reserved_bytes": held.get("reserved_bytes.all.peak"),
            "by_name": rows(profiler.key_averages()),
        }
        if options.get("record_shapes"):
            said["by_shapes"] = rows(profiler.key_averages(group_by_input_shape=True))
        (self.folder / f"{name}.table.json").write_text(json.dumps(said))


def rows(averages: Any) -> list[dict[str, Any]]:
    """Return PyTorch's table, times in µs and memory in bytes, as it computes them."""
    return [
        {
            "name": each.key,
            "count": each.count,
            "device": str(each.device_type).rpartition(".")[2],
            "is_range": bool(getattr(each, "is_user_annotation", False)),
            "cpu_us": each.cpu_time_total,
            "self_cpu_us": each.self_cpu_time_total,
            "device_us": each.device_time_total,
            "self_device_us": each.self_device_time_total,
            "cpu_bytes": each.cpu_memory_usage,
            "self_cpu_bytes": each.self_cpu_memory_usage,
            "device_bytes": each.device_memory_usage,
            "self_device_bytes": each.self_device_memory_usage,
            "flops": each.flops,
            "shapes": str(each.input_shapes),
        }
        for each in averages
    ]


def network(width: int = 256, layers: int = 1) -> Any:
    """Return a small transformer that gives 64 classes for each of a sequence."""
    import torch

    torch.manual_seed(7)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    body = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return torch.nn.Sequential(body, torch.nn.Linear(width, 64)).to("cuda")


def trained(net: Any, optimizer: Any, batch: Any, label: Any, half: bool = True) -> Any:
    """Run one step of a training; return its loss."""
    import torch
    from torch.profiler import record_function

    with record_function("forward"), torch.autocast("cuda", torch.bfloat16, enabled=half):
        out = net(batch)
        loss = torch.nn.functional.cross_entropy(out.float().flatten(0, 1), label.flatten())
    with record_function("backward"):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def data(size: int = 64, length: int = 128, width: int = 256, device: str = "cuda") -> Any:
    """Return a batch and its classes."""
    import torch

    return (torch.randn(size, length, width, device=device),
            torch.randint(64, (size, length), device=device))  # fmt: skip


# -- trainings


@program
def training_all(recorder: Recorder) -> None:
    """Train with everything that the profiler records."""
    import torch

    net = network(128, 1)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    batches = [[part.pin_memory() for part in data(16, 32, 128, "cpu")] for _ in range(4)]

    def step(i: int) -> None:
        batch, label = (part.to("cuda", non_blocking=True) for part in batches[i])
        trained(net, optimizer, batch, label)

    for i in range(3):
        step(i)
    with recorder.recording(steps=2, record_shapes=True, profile_memory=True, with_stack=True,
                            with_flops=True, with_modules=True) as profiler:  # fmt: skip
        for i in range(2):
            step(i)
            profiler.step()


@program
def training_plain(recorder: Recorder) -> None:
    """Train a larger network without any option."""
    import torch

    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    batch, label = data()
    for _ in range(3):
        trained(net, optimizer, batch, label)
    with recorder.recording(steps=6) as profiler:
        for _ in range(6):
            trained(net, optimizer, batch, label)
            profiler.step()


@program
def first_steps(recorder: Recorder) -> None:
    """Train from the first step on, which loads all code."""
    import torch

    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    batch, label = data()
    with recorder.recording(steps=7) as profiler:
        for _ in range(7):
            trained(net, optimizer, batch, label)
            profiler.step()


@program
def single_tensors(recorder: Recorder) -> None:
    """Train with an optimizer that does one tensor at a time, and set gradients to zero."""
    import torch

    net = network(256, 2)
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    batch, label = data(32)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.cross_entropy(net(batch).flatten(0, 1), label.flatten()).backward()
        optimizer.step()

    for _ in range(3):
        step()
    with recorder.recording(steps=3) as profiler:
        for _ in range(3):
            step()
            profiler.step()


def multiply(recorder: Recorder, left: Any, right: Any) -> None:
    """Record a dozen products, each of the one before."""
    for _ in range(2):
        (left @ right).mul_(1 / 64).tanh_()
    with recorder.recording(record_shapes=True):
        for _ in range(12):
            left = (left @ right).mul_(1 / 64).tanh_()


@program
def single_precision(recorder: Recorder) -> None:
    """Multiply in single precision without TF32."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    multiply(recorder, *torch.randn(2, 4096, 4096, device="cuda"))


@program
def tf32(recorder: Recorder) -> None:
    """Multiply in single precision with TF32."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    multiply(recorder, *torch.randn(2, 4096, 4096, device="cuda"))


@program
def uneven_products(recorder: Recorder) -> None:
    """Multiply in half precision with sizes that are no multiples of 8."""
    import torch

    left, right = (torch.randn(rows, 4101, device="cuda", dtype=torch.bfloat16) for rows in (4099, 4101))
    multiply(recorder, left, right)


@program
def well_tuned(recorder: Recorder) -> None:
    """Multiply large matrices in half precision: nothing to gain but by less work."""
    import torch

    left, right = torch.randn(2, 8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        left = (left @ right).mul_(1 / 128)
    with recorder.recording(record_shapes=True):
        for _ in range(20):
            left = (left @ right).mul_(1 / 128)


# -- the host


@program
def short_kernels(recorder: Recorder) -> None:
    """Launch very many very short kernels one by one."""
    import torch

    values = torch.randn(1024, device="cuda")
    for _ in range(10):
        values = values * 1.01 + 0.5
    with recorder.recording():
        for _ in range(600):
            values = values * 1.01 + 0.5


@program
def read_each_value(recorder: Recorder) -> None:
    """Read the loss back in each iteration."""
    import torch

    weights = torch.randn(2048, 2048, device="cuda")
    total = 0.0

    def step() -> bool:
        nonlocal total
        error = (weights @ weights).square().sum()
        total += error.item()
        return bool(error > 1e30)

    for _ in range(3):
        step()
    with recorder.recording(steps=40) as profiler:
        for _ in range(40):
            if step():
                break
            profiler.step()


@program
def wait_for_each_kernel(recorder: Recorder) -> None:
    """Synchronise after each kernel."""
    import torch

    values = torch.randn(8192, 8192, device="cuda")
    values.mul_(1.01)
    with recorder.recording():
        for _ in range(100):
            values.mul_(1.01)
            torch.cuda.synchronize()


@program
def slow_loader(recorder: Recorder) -> None:
    """Train with a data loader that takes longer than the GPU."""
    import torch

    class Slow(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 96

        def __getitem__(self, index: int) -> Any:
            time.sleep(0.001)
            return torch.randn(128, 256), torch.randint(64, (128,))

    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    loader = torch.utils.data.DataLoader(Slow(), batch_size=16, pin_memory=True)
    for _ in range(3):
        trained(net, optimizer, *data(16))
    with recorder.recording(steps=6) as profiler:
        for batch, label in loader:
            trained(net, optimizer, batch.to("cuda", non_blocking=True), label.to("cuda"))
            profiler.step()


@program
def busy_python(recorder: Recorder) -> None:
    """Compute on the host between inferences, in a range."""
    import torch

    net = network()
    batch, _ = data()
    with torch.no_grad():
        for _ in range(3):
            net(batch)
        with recorder.recording():
            for _ in range(6):
                with torch.profiler.record_function("inference"):
                    net(batch)
                torch.cuda.synchronize()
                with torch.profiler.record_function("tokenise"):
                    sum(i * i for i in range(200_000))


# -- copies and memory


@program
def pageable(recorder: Recorder) -> None:
    """Copy much from pageable memory and back, nothing beside it."""
    import torch

    host = torch.randn(16, _MIB)
    for _ in range(2):
        host = host.to("cuda").mul_(1.01).cpu()
    with recorder.recording():
        for _ in range(8):
            host = host.to("cuda").mul_(1.01).cpu()


@program
def pinned_beside_kernels(recorder: Recorder) -> None:
    """Copy from pinned memory on a stream of its own, beside products that take longer."""
    import torch

    host = torch.randn(8, _MIB).pin_memory()
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    aside = torch.cuda.Stream()

    def step() -> None:
        nonlocal matrix
        with torch.cuda.stream(aside):
            here = host.to("cuda", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        for _ in range(2):
            matrix = (matrix @ matrix).mul_(1 / 128)
        torch.cuda.current_stream().wait_event(done)
        here.record_stream(torch.cuda.current_stream())
        here.mul_(2)

    step()
    with recorder.recording(record_shapes=True):
        for _ in range(6):
            step()


@program
def many_small_copies(recorder: Recorder) -> None:
    """Make very many small tensors on the host, and copy them one by one."""
    import torch

    total = torch.zeros(4, device="cuda")
    total += torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda")
    with recorder.recording():
        for i in range(400):
            total += torch.tensor([float(i), 2.0, 3.0, 4.0], device="cuda")


@program
def allocation_each_time(recorder: Recorder) -> None:
    """Empty the cache in each step, so that each takes its memory from the driver."""
    import torch

    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    batch, label = data()
    for _ in range(3):
        trained(net, optimizer, batch, label)
    with recorder.recording(steps=5, profile_memory=True) as profiler:
        for _ in range(5):
            trained(net, optimizer, batch, label)
            torch.cuda.empty_cache()
            profiler.step()


@program
def nearly_full(recorder: Recorder) -> None:
    """Use almost all of the device's memory."""
    import torch

    size = torch.cuda.get_device_properties(0).total_memory
    torch.ones(1024, device="cuda").mul_(2)
    with recorder.recording(profile_memory=True):
        blocks, held = [], 0
        while held + 3 * _GIB < size * 0.985:
            blocks.append(torch.zeros(2 * _GIB, dtype=torch.uint8, device="cuda"))
            held += 2 * _GIB
        for block in blocks:
            block.add_(1)


@program
def in_pieces(recorder: Recorder) -> None:
    """Leave memory in pieces: free every second block, then ask for larger ones."""
    import torch

    torch.ones(1024, device="cuda").mul_(2)
    with recorder.recording(profile_memory=True):
        blocks = [torch.zeros(_GIB, dtype=torch.uint8, device="cuda") for _ in range(40)]
        del blocks[::2]
        larger = [torch.zeros(3 * _GIB // 2, dtype=torch.uint8, device="cuda") for _ in range(20)]
        for block in (*blocks, *larger):
            block.add_(1)


@program
def graphs_kept(recorder: Recorder) -> None:
    """Keep each loss with its graph."""
    import torch

    net = network()
    batch, label = data()
    kept = []

    def step() -> Any:
        return torch.nn.functional.cross_entropy(net(batch).flatten(0, 1), label.flatten())

    step()
    with recorder.recording(steps=6, profile_memory=True) as profiler:
        for _ in range(6):
            kept.append(step())
            profiler.step()


# -- ways to launch


@program
def cuda_graph(recorder: Recorder) -> None:
    """Replay a graph."""
    import torch

    net = network().eval()
    batch, _ = data()
    with torch.no_grad():
        aside = torch.cuda.Stream()
        with torch.cuda.stream(aside):
            for _ in range(3):
                net(batch)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(batch)
        graph.replay()
        with recorder.recording():
            for _ in range(10):
                graph.replay()


@program
def compiled(recorder: Recorder) -> None:
    """Train a compiled network: Triton's kernels."""
    import torch

    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    batch, label = data()
    fast = torch.compile(net)
    for _ in range(4):
        trained(fast, optimizer, batch, label)
    with recorder.recording(steps=4, record_shapes=True) as profiler:
        for _ in range(4):
            trained(fast, optimizer, batch, label)
            profiler.step()


@program
def compiled_graphs(recorder: Recorder) -> None:
    """Infer with a compiled network and CUDA graphs of PyTorch's own."""
    import torch

    net = network().eval()
    batch, _ = data()
    fast = torch.compile(net, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(5):
            fast(batch)
        with recorder.recording():
            for _ in range(6):
                fast(batch)


@program
def few_blocks(recorder: Recorder) -> None:
    """Run long kernels of a few blocks: the prefix sums of two long rows."""
    import torch

    rows_of = torch.randn(2, 4 * _MIB, device="cuda")
    rows_of.cumsum(1)
    torch.randn(64, device="cuda").cumsum(0)
    with recorder.recording():
        for _ in range(10):
            rows_of.cumsum(1)
            torch.randn(64, device="cuda").cumsum(0)


@program
def sync_events(recorder: Recorder) -> None:
    """Wait for each other by events on two threads and streams; what is waited for is recorded."""
    import threading

    import torch
    from torch._C._profiler import _ExperimentalConfig

    matrices = [torch.randn(2048, 2048, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]

    def work(i: int) -> None:
        with torch.cuda.stream(streams[i]), torch.profiler.record_function(f"thread {i}"):
            for _ in range(6):
                matrices[i] = (matrices[i] @ matrices[i]).mul_(1 / 64)
                streams[i].wait_stream(streams[1 - i])
            streams[i].synchronize()

    for i in range(2):
        work(i)
    config = _ExperimentalConfig(enable_cuda_sync_events=True, profile_all_threads=True)
    with recorder.recording(experimental_config=config):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@program
def generation(recorder: Recorder) -> None:
    """Generate token by token, and look at each for the end."""
    import torch

    net = network(256, 2).eval()
    table = torch.randn(64, 256, device="cuda")
    with torch.no_grad():

        def generate(count: int) -> None:
            context = table[:4].unsqueeze(0)
            for _ in range(count):
                token = net(context)[0, -1].argmax()
                if token.item() < 0:
                    break
                context = torch.cat((context, table[token].view(1, 1, -1)), 1)

        generate(24)
        with recorder.recording(record_shapes=True), torch.profiler.record_function("generate"):
            generate(24)


# -- several processes


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


# -- recording and keeping


def record(folder: Path, names: list[str]) -> int:
    """Record these programs, or all, each in a process of its own; pack what they wrote."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names or PROGRAMS:
        began = time.monotonic()
        command = [sys.executable, __file__, "run", str(folder), name]
        try:
            done = subprocess.run(command, timeout=_MOST_SECONDS, capture_output=True, text=True)
            error = done.stderr[-1500:] if done.returncode else ""
        except subprocess.TimeoutExpired:
            error = "took too long"
        failed += bool(error)
        print(f"{name}: {time.monotonic() - began:.1f} s {error}", flush=True)
        pack(folder)
    return failed


def pack(folder: Path) -> None:
    """Put what is in the folder into one file, compressed one by one, and take it away there."""
    with tarfile.open(folder / "recorded.tar", "a") as packed:
        for path in sorted(folder.glob("*.json")):
            path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
            packed.add(path.with_suffix(".json.gz"), f"{path.name}.gz")
            path.with_suffix(".json.gz").unlink()
            path.unlink()


def keep(folder: Path) -> int:
    """Write what `record` packed into tests/recorded, without what identifies the machine."""
    KEPT.mkdir(exist_ok=True)
    with tarfile.open(folder / "recorded.tar") as packed:
        texts = {
            member.name.removesuffix(".json.gz"): gzip.decompress(file.read()).decode()
            for member in packed
            if (file := packed.extractfile(member)) is not None
        }
    for name in [name for name in texts if not name.endswith(".table")]:
        said = json.loads(texts[f"{name}.table"])
        host, *places = said.pop("machine")
        pid = PID + 500 * int(name.partition("-rank")[2] or 0)
        text = cleaned(texts[name], pid, [*places, "/tmp/torchinductor_root"])
        # A short name is a part of many others.
        check(text, [host] * (len(host) > 3), places)
        for path, content in ((f"{name}.json.gz", text), (f"{name}.table.json.gz", json.dumps(said))):
            (KEPT / path).write_bytes(gzip.compress(content.encode(), mtime=0))
    (KEPT / "README.md").write_text(read_me(), encoding="utf-8")
    return 0


def read_me() -> str:
    """Return the page that says what each file is."""
    lines = [README]
    for path in sorted(KEPT.glob("*.json.gz")):
        name = path.name.removesuffix(".json.gz")
        if not name.endswith(".table"):
            function = PROGRAMS[name.partition("-")[0]]
            what = " ".join(str(function.__doc__).split()).rstrip(".")
            said = json.loads(gzip.decompress((KEPT / f"{name}.table.json.gz").read_bytes()))
            lines.append(f"| `{name}` | {what} | {said['gpu']}, PyTorch {said['torch']} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Do what is asked; return the exit status."""
    what, folder, *names = sys.argv[1:]
    if what == "run":
        PROGRAMS[names[0]](Recorder(Path(folder), names[0]))
        return 0
    return keep(Path(folder)) if what == "keep" else record(Path(folder), names) > 0


if __name__ == "__main__":
    sys.exit(main())
