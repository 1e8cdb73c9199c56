"""The oldest versions that pyproject.toml allows of what nsysconv needs, as constraints for pip.

    python scripts/oldest_versions.py > oldest.txt
    pip install -c oldest.txt nsysconv
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What they need in turn, of the same time: later releases of it warn about what they call.
NEEDED_BY_THEM = ("click<8.3",)


def constraints() -> Iterator[str]:
    """Yield `name==version` for every requirement of the package and its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = {text for each in (project["dependencies"], *extras) for text in each}
    for text in sorted(wanted):
        match = re.match(r"([\w-]+)>=([\w.]+)", text)
        if match is None:
            raise SystemExit(f"no lower end: {text}")
        yield f"{match[1]}=={match[2]}"
    yield from NEEDED_BY_THEM


if __name__ == "__main__":
    print("\n".join(constraints()))
