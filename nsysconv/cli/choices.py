"""The words that flags choose from."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Output formats."""

    TEXT = "text"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"
    COLUMN = "column"


class Idle(StrEnum):
    """Kinds of idle time."""

    NO_OP = "no_op"
    NO_KERNEL = "no_kernel"
    STREAM = "stream"


class Names(StrEnum):
    """Spellings of kernel names."""

    DEMANGLED = "demangled"
    SHORT = "short"
    MANGLED = "mangled"


class Match(StrEnum):
    """Ways to match kernels' names."""

    EXACT = "exact"
    SIGNATURE = "signature"
    NAME = "name"


class CannotTell(StrEnum):
    """What a limit of which nothing can be said does."""

    FAIL = "fail"
    PASS = "pass"


class By(StrEnum):
    """What rows may be given for, one by one."""

    RANK = "rank"
    HOST = "host"
    DEVICE = "device"
    STEP = "step"
