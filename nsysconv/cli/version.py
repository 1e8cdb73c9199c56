"""The lines of `--version`: nsysconv, Python, the system, and the packages that are installed."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from nsysconv import __version__

_OF_DEVELOPERS = ("dev", "docs", "system")
_REQUIREMENT = re.compile(r"([\w-]+)[^;]*(?:;.*extra == [\"'](\w+)[\"'])?.*")


def version_lines() -> Iterator[str]:
    """Yield the lines: the version, the machine, the packages, and those of extras that are there."""
    yield f"nsysconv {__version__}"
    yield f"Python {platform.python_version()}, {sys.platform} {platform.machine()}"
    needed: list[str] = []
    more: list[str] = []
    for text in requires("nsysconv") or ():
        name, extra = _REQUIREMENT.fullmatch(text).groups()  # type: ignore[union-attr]
        if extra not in _OF_DEVELOPERS:
            try:
                (more if extra else needed).append(f"{name} {version(name)}")
            except PackageNotFoundError:
                continue
    yield ", ".join(needed)
    if more:
        yield f"extras: {', '.join(more)}"
