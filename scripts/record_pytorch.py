"""Record the fixtures that come from a program: a small training under PyTorch's profiler.

    python -m venv FOLDER && FOLDER/bin/pip install torch==2.13.0 numpy
    FOLDER/bin/python scripts/record_pytorch.py

PyTorch is no dependency of this project, so it needs an environment of its own; a build for CPUs is
enough. The traces go to tests/fixtures/kineto; run `make_fixtures.py` afterwards, which lists them
in the README. Every run gives other times, so record again only for a reason, and read the diff of
what the tests say.

Nothing of the machine may stay in the files. `cleaned` replaces the host's name, the ids of the
process and its threads, the id of the trace, the path that the file was written to, the paths of
Python code and the addresses in names of Python objects; `check` refuses a text in which the name
of the host, the user, the home or the working folder is left. Times, names and order of the events
are as PyTorch wrote them, invalid JSON included.
"""

from __future__ import annotations

import getpass
import gzip
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures" / "kineto"
VERSION = "2.13.0"
ORIGIN = f"recorded, `scripts/record_pytorch.py`, PyTorch {VERSION} (CPU build)"
# file: what it holds.
RECORDED = {
    "recorded-training.json.gz": "two steps of a training: operators with shapes, Python functions, "
    "modules, memory; PyTorch's own schedule of steps",
    "recorded-plain.json.gz": "the same training without any option: operators and annotations",
    "recorded-quotes.json.gz": "an annotation with quotes and one with an accent in their names, "
    "and a user's key with quotes: no valid JSON, as PyTorch wrote it",
    "recorded-gloo-rank0.json.gz": "rank 0 of two that add up gradients with gloo: "
    "`distributedInfo`, `c10d::` operators, `gloo:` annotations on threads of their own",
    "recorded-gloo-rank1.json.gz": "rank 1 of the same run",
}
# In place of the ids of processes; threads follow.
PIDS = {"recorded-gloo-rank1.json.gz": 31500}
PID = 31000
HOST = "node01"
# Processes of traces with ids up to here are devices.
MOST_DEVICES = 64
# Before these stand paths of Python code.
HERE = (Path(__file__).parent.parent, sys.prefix, sys.base_prefix)


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a folder for what PyTorch writes; its name is checked for afterwards."""
    with tempfile.TemporaryDirectory(prefix="record-pytorch-") as name:
        yield Path(name)


def model() -> tuple[Any, Any]:
    """Return two layers and their optimizer, the same every time."""
    import torch

    torch.manual_seed(7)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


def step(net: Any, optimizer: Any) -> None:
    """Run one step of the training."""
    import torch

    with torch.profiler.record_function("load"):
        data, target = torch.randn(32, 8), torch.randn(32, 4)
    with torch.profiler.record_function("forward"):
        loss = torch.nn.functional.mse_loss(net(data), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def training(path: Path) -> None:
    """Record everything that the profiler can record without a GPU, for two of four steps."""
    from torch.profiler import ProfilerActivity, profile, schedule

    net, optimizer = model()
    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2),
        record_shapes=True, with_stack=True, profile_memory=True, with_modules=True,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:  # fmt: skip
        for _ in range(4):
            step(net, optimizer)
            profiler.step()


def plain(path: Path) -> None:
    """Record the training without any option."""
    from torch.profiler import ProfilerActivity, profile

    net, optimizer = model()
    step(net, optimizer)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(2):
            step(net, optimizer)
    profiler.export_chrome_trace(str(path))


def quotes(path: Path) -> None:
    """Record names and a key that PyTorch does not escape."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        with torch.profiler.record_function('the "first" part'):
            torch.ones(4).add(1)
        with torch.profiler.record_function("la première partie"):
            torch.ones(4).mul(2)
        with torch.profiler.record_function("C:\\data\\part"):
            torch.ones(4).sum()
        profiler.add_metadata("note", 'he said "stop" here')
        profiler.add_metadata_json("settings", '{"depth": 2}')
    profiler.export_chrome_trace(str(path))


def _rank(rank: int, paths: list[Path], meeting: Path) -> None:
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile

    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    net, optimizer = model()
    step(net, optimizer)
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step(net, optimizer)
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        dist.broadcast(torch.ones(16), src=1)
    profiler.export_chrome_trace(str(paths[rank]))
    dist.barrier()
    dist.destroy_process_group()


def gloo(paths: list[Path]) -> None:
    """Record two processes that talk to each other."""
    import torch.multiprocessing as mp

    meeting = paths[0].parent / "meeting"
    mp.start_processes(_rank, args=(paths, meeting), nprocs=2, start_method="spawn")


def cleaned(text: str, pid: int, prefixes: Iterable[str | Path] = HERE) -> str:
    """Return the trace without what identifies the machine, nor these prefixes of paths.

    The process that was recorded gets this id, its threads those after it. In a trace of a GPU, devices
    have small ids of processes, and streams those of threads; they stay.
    """
    (process,) = {each for each in re.findall(r'"pid": (\d+),', text) if int(each) > MOST_DEVICES}
    own = rf'("pid": ){process}(,\s*"tid": )(\d+)\b'
    ids = {process: str(pid)}
    for _, _, thread in re.findall(own, text):
        if thread != "0":
            ids.setdefault(thread, str(pid + len(ids)))
    text = re.sub(own, lambda m: f"{m[1]}{pid}{m[2]}{ids.get(m[3], m[3])}", text)
    text = re.sub(r'("sort_index": )(\d+)\b', lambda m: m[1] + ids.get(m[2], m[2]), text)
    text = re.sub(r'"thread (\d+) ', lambda m: f'"thread {ids.get(m[1], m[1])} ', text)
    text = re.sub(r'"host_name": "[^"]*"', f'"host_name": "{HOST}"', text)
    text = re.sub(r'"trace_id": "[^"]*"', '"trace_id": "5EC0DE00000000000000000000000000"', text)
    text = re.sub(r'"traceName": "[^"]*"',
                  f'"traceName": "./log/{HOST}_{pid}.pt.trace.json"', text)  # fmt: skip
    for prefix in prefixes:
        text = re.sub(re.escape(f"{prefix}/") + r"(lib/python[\d.]+/)?(site-packages/)?", "", text)
    return re.sub(r" at 0x[0-9a-f]+", " at 0x7f0000000000", text)


def check(text: str, words: Iterable[str], paths: Iterable[str]) -> None:
    """Raise where one of these words or paths, or a path of any machine, is left in the text."""
    left = [word for word in words if re.search(rf"\b{re.escape(word)}\b", text)]
    left += [path for path in paths if path not in ("/", "/usr") and path in text]
    left += re.findall(r"/(?:home|root|tmp|work|Users|opt|usr)/[^\"]*", text)
    if left:
        raise ValueError(f"something of the machine is left: {sorted(set(left))[:5]}")


def main() -> int:
    """Record all of them; returns the exit status."""
    import torch

    if not torch.__version__.startswith(VERSION):
        print(f"this is PyTorch {torch.__version__}; the fixtures are of {VERSION}")
        return 1
    with folder() as target:
        paths = {name: target / name.removesuffix(".gz") for name in RECORDED}
        training(paths["recorded-training.json.gz"])
        plain(paths["recorded-plain.json.gz"])
        quotes(paths["recorded-quotes.json.gz"])
        gloo([paths[f"recorded-gloo-rank{rank}.json.gz"] for rank in range(2)])
        words = {socket.gethostname(), getpass.getuser(), str(os.getpid())}
        places = {str(Path.home()), str(Path.cwd()), str(target), sys.prefix, sys.base_prefix}
        for name, path in paths.items():
            text = cleaned(path.read_text(encoding="utf-8"), PIDS.get(name, PID))
            check(text, words, places)
            (FIXTURES / name).write_bytes(gzip.compress(text.encode(), mtime=0))
            print(f"{name}: {(FIXTURES / name).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
