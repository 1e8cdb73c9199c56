"""Profiles of Scalene: 10 s of a program in four lines of two files, in round numbers.

             python   native   system   share       time    GPU   allocated   peak
train.py:5     10 %     20 %     10 %    40 %        4 s   75 %       2 MiB   1 MiB
train.py:9      5 %      0 %     30 %    35 %      3.5 s   25 %
train.py:12    15 %      0 %      0 %    15 %      1.5 s
data.py:2       0 %     10 %      0 %    10 %        1 s
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fixture import Fixture

SECRET = "SECRET-scalene"
"""Lies in arguments, in folders and in the program's text."""


def line(
    number: int, python: float, native: float, system: float, function: int = 0, **more: Any
) -> dict[str, Any]:
    """Return a line; `function` is the line of its `def`."""
    return {
        "line": f"x = '{SECRET}'\n", "lineno": number, "n_cpu_percent_python": python,
        "n_cpu_percent_c": native, "n_sys_percent": system, "n_gpu_percent": 0.0,
        "n_gpu_peak_memory_mb": 0.0, "n_malloc_mb": 0.0, "n_peak_mb": 0.0,
        "start_function_line": function, **more,
    }  # fmt: skip


def profile() -> dict[str, Any]:
    """Return a profile with memory and a GPU."""
    train = [
        line(3, 0, 0, 0),
        line(4, 0, 0, 0, 4),
        line(5, 10, 20.0, 10, 4, n_gpu_percent=75.0, n_malloc_mb=2.0, n_peak_mb=1.0,
             n_gpu_peak_memory_mb=512.0),
        line(8, 0, 0, 0, 8),
        line(9, 5, 0, 30, 8, n_gpu_percent=25.0),
        line(12, 15, 0, 0),
    ]  # fmt: skip
    # The list of functions begins at decorators, and lacks those without samples.
    functions = [{"line": "step", "lineno": 3}]
    return {
        "alloc_samples": 4,
        "args": ["train.py", f"--token={SECRET}"],
        "elapsed_time_sec": 10.0,
        "entrypoint_dir": f"/home/{SECRET}",
        "files": {
            f"/home/{SECRET}/train.py": {"functions": functions, "lines": train},
            f"/home/{SECRET}/lib/python3.11/site-packages/loader/data.py": {
                "functions": [{"line": "batches", "lineno": 1}],
                "lines": [line(1, 0, 0, 0, 1), line(2, 0, 10, 0, 1)],
            },
        },
        "gpu": True,
        "memory": True,
        "program": f"/home/{SECRET}/train.py",
        "start_time_absolute": 1767225600.5,
    }


def old() -> dict[str, Any]:
    """Return one of 2022, without GPU, memory and lines of functions, and with what is left out."""
    lines = [
        line(5, 60, 0, 0),
        line(6, 40, 0, 0),
        line(7, -1, 0, 0),
        {"lineno": 8},
        line(0, 0, 0, 0),
        SECRET,
    ]
    for each in lines:
        if isinstance(each, dict):
            each.pop("start_function_line", None)
    functions = [{"line": "train", "lineno": 4}]
    files = {"train.py": {"functions": functions, "lines": lines}}
    return {"elapsed_time_sec": 2, "files": files, "gpu": False, "memory": False, "program": SECRET}


def _write(make: Callable[[], Any], path: Path) -> None:
    path.write_text(json.dumps(make(), indent=1) + "\n", encoding="utf-8")


ABOUT = """\
`scalene/` holds profiles as Scalene writes them with `--json` (`scripts/fixtures_scalene.py`), with a
made-up secret in arguments, folders and the program's text.
"""
EXAMPLE = "scalene/training.json"
FILES = [
    Fixture(f"scalene/{name}.json", holds, partial(_write, make))
    for name, holds, make in (
        ("training", "eight lines with memory and a GPU", profile),
        ("old", "two lines, as of 2022, and four that are left out", old),
    )
]
