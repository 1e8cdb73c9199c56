"""Make the table of API functions that nvprof databases refer to by number.

    pip download --no-deps --dest /tmp/wheels nvidia-cuda-cupti-cu12
    python scripts/make_cbid_names.py /tmp/wheels/nvidia_cuda_cupti_cu12-….whl

CUPTI numbers the functions of CUDA's runtime and driver. The numbers stand in two enumerations of its
headers, which NVIDIA publishes with that wheel; they are only ever added to. What this script takes from
them are facts, a number and the name of a public function for each, and nothing of the headers' text.
The symbol's version (`_v7000`) is left out: the name that people know has none.
"""

from __future__ import annotations

import re
import sys
import textwrap
import zipfile
from pathlib import Path

TARGET = (
    Path(__file__).parent.parent / "nsysconv" / "importers" / "nvprof_database" / "cbid_names.py"
)
_HEADERS = {"cuda": "cupti_runtime_cbid.h", "cu": "cupti_driver_cbid.h"}
_MEMBER = re.compile(r"CUPTI_(?:RUNTIME|DRIVER)_TRACE_CBID_(cu\w+)\s*=\s*(\d+)")
_VERSION = re.compile(r"_v\d{4,}$")
_HOLE = "-"

_TEXT = '''"""The API functions that CUPTI's numbers stand for, by layer.

Made by scripts/make_cbid_names.py from the public numbering in {wheel}.
Each word is the next number's function without `{runtime}` or `{driver}`; `{hole}` stands where there
is none.
"""

_RUNTIME = """
{runtime_words}
"""

_DRIVER = """
{driver_words}
"""

_LAYERS = (("{runtime}", tuple(_RUNTIME.split())), ("{driver}", tuple(_DRIVER.split())))


def function_name(layer: int, number: int) -> str | None:
    """The function with this number in a layer (0 runtime, 1 driver); None where none is known."""
    prefix, words = _LAYERS[layer]
    known = 0 <= number < len(words) and words[number] != "{hole}"
    return prefix + words[number] if known else None
'''


def words(header: str, prefix: str) -> str:
    """Return the names in the order of their numbers, from 0, in lines."""
    numbered = {int(number): _VERSION.sub("", name) for name, number in _MEMBER.findall(header)}
    found = [
        numbered[number].removeprefix(prefix) if number in numbered else _HOLE
        for number in range(max(numbered) + 1)
    ]
    return textwrap.fill(" ".join(found), 98, break_long_words=False, break_on_hyphens=False)


def main() -> int:
    """Write the module from a wheel; returns the exit status."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    wheel = Path(sys.argv[1])
    with zipfile.ZipFile(wheel) as archive:
        texts = {}
        for prefix, header in _HEADERS.items():
            (path,) = (name for name in archive.namelist() if name.endswith("/" + header))
            texts[prefix] = words(archive.read(path).decode(), prefix)
    package, version = wheel.name.split("-")[:2]
    TARGET.write_text(
        _TEXT.format(
            wheel=f"{package} {version}", runtime="cuda", driver="cu", hole=_HOLE,
            runtime_words=texts["cuda"], driver_words=texts["cu"],
        ),
        encoding="utf-8",
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
