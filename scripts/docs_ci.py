"""The comment that docs/ci.md shows: a training got slower, five runs per side, made up and compared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from machine import a100, stream
from workload import ApiCall, Events, Function, Kernel, Memcpy, Process, Range, Thread, Workload
from write_nsys import write_nsys

from nsysconv.diff.gate import EXCEEDED

GATE = Path(__file__).parent.parent / "ci" / "gate.sh"
STEPS = 20
# Parts in a thousand by which runs of the same program differ, on either side.
BASE_NOISE, NEW_NOISE = (0, 3, -2, 4, -3), (2, -3, 1, -1, 4)
SLOWER = 1.6
LIMITS = """\
limits = [
    "steps.period_ns:3%",
    "overview.kernel_sum_ns:3%",
    "overview.kernel_count:0",
    "transfers.bytes_sum:0%",
]
"""

_GPU = a100(0)
_PROCESS = Process(4242, "train", (_GPU,))
_MAIN = Thread(_PROCESS, 4242, "train")
_STREAM = stream(_PROCESS, 7, "null")
GEMM, NORM, ADAM = (
    Function(*[name] * 4)
    for name in (
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
        "vectorized_layer_norm_kernel",
        "multi_tensor_adam_kernel",
    )
)
LENGTHS = ((GEMM, 4_000_000), (NORM, 600_000), (GEMM, 3_000_000), (ADAM, 1_500_000))
_COPY_BYTES, _COPY_NS = 6_291_456, 500_000


def training_run(per_mille: int = 0, slower: float = 1.0) -> Workload:
    """Return a run of which all work takes so much longer, and layer norms `slower` times as long."""
    calls: list[ApiCall] = []
    kernels: list[Kernel] = []
    copies: list[Memcpy] = []
    ranges: list[Range] = []
    at, number = 10_000, 1_000
    for step in range(STEPS):
        begin, number = at, number + 1
        calls.append(ApiCall(_MAIN, number, "cudaMemcpyAsync_v3020", at, at + 2_000))
        done = at + 3_000 + _COPY_NS
        copies.append(
            Memcpy(_STREAM, number, "HtoD", "pinned", "device", _COPY_BYTES, at + 3_000, done)
        )
        at += 5_000
        for function, length in LENGTHS:
            number += 1
            calls.append(ApiCall(_MAIN, number, "cudaLaunchKernel_v7000", at, at + 4_000))
            length = int(length * (1000 + per_mille) / 1000 * (slower if function is NORM else 1))
            kernels.append(Kernel(_STREAM, number, function, done + 1_000, done + 1_000 + length))
            at, done = at + 10_000, done + 1_000 + length
        at = done + 2_000
        ranges.append(Range(_MAIN, f"ProfilerStep#{step}", begin, at))
        at += 20_000
    events = Events(
        calls=tuple(calls), kernels=tuple(kernels), memcpys=tuple(copies), ranges=tuple(ranges)
    )
    return Workload(
        "training", "Equal steps", at + 10_000, (_GPU,), (_PROCESS,), (_MAIN,), (_STREAM,), events
    )


def record(folder: Path, noise: Sequence[int], slower: float = 1.0) -> None:
    """Write a run for each noise, in parts per thousand, as an export of Nsight Systems."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, per_mille in enumerate(noise, start=1):
        write_nsys(training_run(per_mille, slower), folder / f"{number}.sqlite", "3.25.0")


def run_gate(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ci/gate.sh in a folder, with these variables (`profiles`: GATE_PROFILES)."""
    gate = {f"GATE_{name.upper()}": value for name, value in variables.items()}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["sh", str(GATE)], cwd=folder, env={**os.environ, "PATH": path, **gate}, text=True,
        capture_output=True, check=False,
    )  # fmt: skip


def shown(comment: str) -> Iterator[str]:
    """Yield the lines of a comment as a page shows them: of its tables only that they are there."""
    for line in comment.splitlines():
        yield line
        if line.startswith("<details>"):
            yield from ("…", "</details>")
            return


def comment_block() -> Iterator[str]:
    """Yield the lines of the comment on a training that got slower."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "limits.toml").write_text(LIMITS, encoding="utf-8")
        record(folder / "main", BASE_NOISE)
        record(folder / "new", NEW_NOISE, SLOWER)
        asked = {"baseline": "main.db", "limits": "limits.toml"}
        run_gate(folder, profiles="main/*.sqlite", update="passed", **asked)
        done = run_gate(folder, profiles="new/*.sqlite", **asked)
        if done.returncode != EXCEEDED:
            raise RuntimeError(f"status {done.returncode}: {done.stdout}{done.stderr}")
        comment = (folder / "nsysconv-comment.md").read_text(encoding="utf-8")
    yield from ("```markdown", *shown(comment), "```")
