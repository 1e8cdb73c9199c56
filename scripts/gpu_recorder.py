"""Record a program under PyTorch's profiler: the recorder, the programs, and what several share."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Program = Callable[["Recorder"], None]
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
