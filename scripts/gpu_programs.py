"""Programs of one process whose weakness is known; `record_gpu.py` records them."""

from __future__ import annotations

import time
from typing import Any

from gpu_recorder import Recorder, data, network, program, trained

_MIB = 1 << 20
_GIB = 1 << 30

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
    """Multiply in half precision with sizes that are not multiples of 8."""
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
    """Synchronize after each kernel."""
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
