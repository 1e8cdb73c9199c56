"""Pages for the tests of them: made-up rows whose answer is known, with names that try to break out."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from small_store import Call, Kernel, Memcpy, Operator, Range, Row, write

from nsysconv import api
from nsysconv.document import Picture, Section
from nsysconv.render import Options, renderer
from nsysconv.report import Column, Unit, build_table

Node = tuple[int, str, int | None, int | None, int | None]

INJECTIONS = (
    "<script>window.broken='tag'</script>",
    "</script><script>window.broken='end'</script>",
    '"><img src=x onerror="window.broken=\'attribute\'">',
    "' onmouseover='window.broken=1' x='",
    "</td></table></main><h1>out</h1>",
    "]]><!-- <svg onload=window.broken=2>",
    "&lt;b&gt; &amp;amp;",
    "javascript:window.broken=3",
    "</style><style>*{display:none}</style>",
    "\u2028\u2029 \u202e line ends and turns",
)

# A device from 0 to 1000: busy 600, kernels 500 of it; idle 400, in which the host was to blame for
# 295: the call of the kernel after the gap began at 795, and took 5; the kernel began with its end.
ROWS: tuple[Row, ...] = (
    Kernel(0, 400, name="gemm"),
    Memcpy(400, 500, direction="HtoD", bytes=2_000_000),
    Call(795, 800, 1),
    Kernel(900, 1000, 1, name="norm"),
    Range(700, 760, "load"),
)


def hostile() -> tuple[Row, ...]:
    """Rows whose every name is hostile."""
    rows: list[Row] = []
    for i, name in enumerate(INJECTIONS):
        at = i * 1000
        rows += [
            Range(at, at + 900, name),
            Operator(at + 10, at + 800, name),
            Call(at + 20, at + 30, i + 1, name=name),
            Kernel(at + 40, at + 400 + i, i + 1, name=name),
        ]
    return tuple(rows)


def rendered(reports: Any) -> str:
    """The page of these reports."""
    out = io.StringIO()
    renderer("html")(reports, out, Options())
    return out.getvalue()


def page_of(folder: Path, *rows: Row, options: dict[str, Any] | None = None, **asked: Any) -> str:
    """The page of these rows; `options` are those of the store, `asked` those of the page."""
    store = folder / "rows.db"
    write(store, *rows, **(options or {}))
    return rendered(api.page(store, **asked))


TREE = (
    Column("profile", Unit.TEXT, "Profile.", key=True),
    Column("rank", Unit.ID, "Rank.", key=True),
    Column("path", Unit.TEXT, "Names from the outermost.", key=True, brief=False),
    Column("level", Unit.ID, "How deep it lies.", brief=False),
    Column("name", Unit.TEXT, "Name."),
    Column("call_count", Unit.COUNT, "Calls."),
    Column("host_sum_ns", Unit.NS, "Time on the host.", counted_by="call_count"),
    Column("host_self_sum_ns", Unit.NS, "The same without what is inside."),
    Column("device_sum_ns", Unit.NS, "Time on the device."),
    Column("device_self_sum_ns", Unit.NS, "The same without what is inside."),
)
FLAME = Picture(
    "flame", x=("name",), values=("host_sum_ns", "device_sum_ns"), by=("rank",), level="level"
)
# Name, calls, host time, device time, set in by what it lies in. In `step` 20 are its own; on the device
# `conv2d` and `add` take 30 and 60 of its 80, as on two streams.
NODES: tuple[Node, ...] = (
    (0, "step", 2, 100, 80),
    (1, "conv2d", 4, 50, 30),
    (2, "add", 4, 10, 0),
    (1, "add", 8, 30, 60),
    (0, "other", 1, 100, None),
)


def tree_report(nodes: Sequence[Node] = NODES, **changed: Any) -> Section:
    """A report whose rows are a tree: of each node level, name, calls, host time, device time."""
    names = ("level", "name", "call_count", "host_sum_ns", "device_sum_ns")
    given = dict(zip(names, zip(*nodes, strict=True), strict=True)) if nodes else {}
    data = {column.name: given.get(column.name, [None] * len(nodes)) for column in TREE}
    table = build_table(TREE, data)
    told = {"row_count": len(nodes), "picture": FLAME, "part": "Operators", **changed}
    return Section("modules", "Modules as a tree", TREE, table, **told)
