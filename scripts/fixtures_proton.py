"""A profile of Triton's Proton: two scopes with kernels on two GPUs, in round numbers.

                          count   ns       in scope
    matmul_kernel  GPU 0      3   3,000    train, train/forward
    matmul_kernel  GPU 0      1   1,500    train
    add_kernel     GPU 1      2     400    train
    init_kernel    GPU 0      1     100    none
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fixture import Fixture

_TIME = "time (ns)"
SECRET = "hunter2-proton"
"""Lies where a program leaves texts that nobody needs."""


def node(name: str, children: Sequence[Any] = (), /, **metrics: Any) -> dict[str, Any]:
    """Return a node of the tree."""
    frame = {"name": name, "type": "function"}
    return {"children": [*children], "frame": frame, "metrics": metrics}


def kernel(name: str, device: int, count: float, time_ns: float) -> dict[str, Any]:
    """Return a leaf, as Proton spells its metrics."""
    return node(name, count=count, device_id=str(device), device_type="CUDA", **{_TIME: time_ns})


def profile(*more: Any) -> list[Any]:
    """Return the trees and the devices."""
    forward = node("forward", [kernel("matmul_kernel", 0, 3, 3000)], flops16=1e9)
    python = node(f"/home/{SECRET}/train.py:step@12", [kernel("matmul_kernel", 0, 1, 1500.0)])
    train = node("train", [forward, python, kernel("add_kernel", 1, 2, 400)], note=SECRET)
    root = node("ROOT", [train, kernel("init_kernel", 0, 1, 100), *more], count=0, **{_TIME: 0})
    properties = {"arch": "90", "bus_width": 6144, "clock_rate": 1980000, "num_sms": 132}
    return [root, {"CUDA": {"0": properties, "1": properties}}]


def odd() -> list[Any]:
    """Return the same with what is left out: sums of scopes, odd counts, nodes without a name."""
    summed = node("summed", [kernel("add_kernel", 0, 1, 70)], count=1, **{_TIME: 70})
    return profile(summed, kernel("half", 0, 0.5, 10), node("scope without work"), {"frame": {}})


def _write(make: Callable[[], list[Any]], path: Path) -> None:
    path.write_text(json.dumps(make(), indent=2) + "\n", encoding="utf-8")


ABOUT = """\
`proton/` holds profiles as Triton's Proton writes them (`scripts/fixtures_proton.py`), with a made-up
secret in a folder and in a metric.
"""
EXAMPLE = "proton/training.hatchet"
FILES = [
    Fixture(f"proton/{name}.hatchet", holds, partial(_write, make))
    for name, holds, make in (
        ("training", "four kernels on two GPUs", profile),
        ("odd", "the same, and nodes that are left out", odd),
    )
]
