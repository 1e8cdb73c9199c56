"""Make the table of metrics and events that nvprof databases refer to by number.

    pip download --no-deps --dest /tmp/wheels nvidia-cuda-cupti-cu11==11.7.101
    python scripts/make_counter_names.py /tmp/wheels/nvidia_cuda_cupti_cu11-….whl

A database has the number of a metric or event, never its name. CUPTI has the name of a number, and
the kind of value of a metric, also without a GPU: the numbers of all GPUs are different. What this script
takes from the library that NVIDIA publishes with that wheel are facts, a number and a name for each, and
none of its descriptions. Events without a public name are left out. CUPTI of CUDA 12 gives the same.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "nsysconv" / "importers" / "nvprof_database" / "counter_names.tsv"
_NAME, _VALUE_KIND = 0, 4
_WORDS = ("real", "whole", "percent", "rate", "signed", "level")
_UNNAMED = "event_name"
# The upper 16 bits of a number are the GPU's, the lower ones count.
_GPUS, _PER_GPU = 0x2000, 0x1000
_FIRST = range(256)

_COMMENT = """\
# The metrics and events that CUPTI's numbers stand for: kind, number, name, what its value is.
# Made by scripts/make_counter_names.py with {wheel}.
"""

Ask = Callable[[int, int], bytes | None]


def main() -> int:
    """Write the table from a wheel; return the exit status."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    wheel = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if "/libcupti.so" in name)
        library = ctypes.CDLL(archive.extract(member, folder))
        metrics = _asked(library.cuptiMetricGetAttribute)
        events = _asked(library.cuptiEventGetAttribute)
        lines = [
            f"metric\t{number}\t{_text(metrics(number, _NAME))}\t"
            f"{_WORDS[(metrics(number, _VALUE_KIND) or b'')[0]]}\n"
            for number in _numbers(metrics)
        ]
        names = ((number, _text(events(number, _NAME))) for number in _numbers(events))
        lines += [f"event\t{number}\t{name}\twhole\n" for number, name in names if name != _UNNAMED]
    package, version = wheel.name.split("-")[:2]
    text = _COMMENT.format(wheel=f"{package} {version}") + "".join(lines)
    TARGET.write_text(text, encoding="utf-8")
    return 0


def _asked(function: Callable[..., int]) -> Ask:
    # The result asks for an attribute of a number: its bytes, None for an unknown number.
    buffer, size = ctypes.create_string_buffer(1024), ctypes.c_size_t()

    def ask(number: int, attribute: int) -> bytes | None:
        size.value = len(buffer)
        failed = function(ctypes.c_uint32(number), attribute, ctypes.byref(size), buffer)
        return None if failed else buffer.raw[: size.value]

    return ask


def _numbers(ask: Ask) -> Iterator[int]:
    for gpu in range(_GPUS):
        if any(ask(gpu << 16 | place, _NAME) is not None for place in _FIRST):
            numbers = (gpu << 16 | place for place in range(_PER_GPU))
            yield from (number for number in numbers if ask(number, _NAME) is not None)


def _text(value: bytes | None) -> str:
    return (value or b"").split(b"\0")[0].decode("ascii")


if __name__ == "__main__":
    sys.exit(main())
