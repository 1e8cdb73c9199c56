"""Record programs whose weakness is known, under PyTorch's profiler on a GPU.

    python scripts/record_gpu.py record FOLDER [NAME ...]    # on a machine with PyTorch and a GPU
    python scripts/record_gpu.py keep FOLDER                 # anywhere: cleans them into tests/recorded

Each program of `gpu_programs.py` and `gpu_rank_programs.py` is made to have one weakness or none: what
its trace shows is known before anybody looks. `record` runs each in a process of its own and writes
`NAME.json`, the trace, and `NAME.table.json`, what PyTorch itself says of the same run: its table of
operators, what its allocator held, and what a clock around the steps measured. `keep` takes out what
identifies the machine, as `record_pytorch.py` does. PyTorch is no dependency of this project. Every run
gives other times, so record again only for a reason.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import gpu_programs  # noqa: F401 - fills PROGRAMS
import gpu_rank_programs  # noqa: F401 - fills PROGRAMS
from gpu_recorder import PROGRAMS, Recorder
from record_pytorch import PID, check, cleaned

KEPT = Path(__file__).resolve().parent.parent / "tests" / "recorded"
_MOST_SECONDS = 150

README = """# Recorded on a GPU

Programs whose weakness is known, for they were made to have it, under PyTorch's profiler:
`NAME.json.gz` is the trace, `NAME.table.json.gz` what PyTorch itself says of the same run (its table of
operators, the peak of its allocator, the time on a clock of the host). The programs are in
`scripts/gpu_programs.py` and `gpu_rank_programs.py`; `record_gpu.py` beside them takes out what
identifies the machine; times, names and order are as recorded. What must be found in each, and what
must not, is in `tests/findings/recorded.toml`.

| file | program | recorded on |
|---|---|---|"""


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
