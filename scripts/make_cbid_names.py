"""Make the table of API functions that nvprof databases refer to by number.

    pip download --no-deps --dest /tmp/wheels nvidia-cuda-cupti-cu12
    python scripts/make_cbid_names.py /tmp/wheels/nvidia_cuda_cupti_cu12-….whl

CUPTI numbers the functions of CUDA's runtime and driver in two enumerations of its headers, which NVIDIA
publishes with that wheel; they are only ever added to. What this script takes from them are facts, a
number and the name of a public function for each, and nothing of the headers' text. The symbol's version
(`_v7000`) is left out: the name that people know has none.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "nsysconv" / "importers" / "nvprof_database" / "cbid_names.tsv"
_HEADERS = {"runtime": "cupti_runtime_cbid.h", "driver": "cupti_driver_cbid.h"}
_MEMBER = re.compile(r"CUPTI_(?:RUNTIME|DRIVER)_TRACE_CBID_(cu\w+)\s*=\s*(\d+)")
_VERSION = re.compile(r"_v\d{4,}$")

_COMMENT = """\
# The API functions that CUPTI's numbers stand for: layer, number, symbol without its version.
# Made by scripts/make_cbid_names.py from the public numbering in {wheel}.
"""


def lines(layer: str, header: str) -> list[str]:
    """Return a line for each function of a header, in the order of their numbers."""
    names = {int(number): _VERSION.sub("", name) for name, number in _MEMBER.findall(header)}
    return [f"{layer}\t{number}\t{name}\n" for number, name in sorted(names.items())]


def main() -> int:
    """Write the table from a wheel; return the exit status."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    wheel = Path(sys.argv[1])
    table = []
    with zipfile.ZipFile(wheel) as archive:
        for layer, header in _HEADERS.items():
            (path,) = (name for name in archive.namelist() if name.endswith("/" + header))
            table += lines(layer, archive.read(path).decode())
    package, version = wheel.name.split("-")[:2]
    text = _COMMENT.format(wheel=f"{package} {version}") + "".join(table)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
