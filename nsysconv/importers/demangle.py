"""Demangled names of kernels, for sources that keep symbols only.

The C++ library of the machine knows how; `cxxfilt` (the extra `demangle`) asks it. Without that package,
or without such a library, symbols are shown as they are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable


def demangler() -> Callable[[str], str] | None:
    """What turns a symbol into a demangled name, other texts being kept; None where there is none."""
    try:
        library = importlib.import_module("cxxfilt")
    except ImportError:
        return None
    try:
        library.demangle("_Z1fv")
    except (OSError, library.Error):
        return None

    def demangled(symbol: str) -> str:
        if not symbol.startswith("_Z"):
            return symbol
        try:
            return str(library.demangle(symbol))
        except (library.Error, ValueError):
            return symbol

    return demangled
