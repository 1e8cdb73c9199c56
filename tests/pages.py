"""Pages for the tests of them: made-up rows whose answer is known, with names that try to break out."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from small_store import Call, Kernel, Memcpy, Operator, Range, Row, write

from nsysconv import api
from nsysconv.render import Options, renderer

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
