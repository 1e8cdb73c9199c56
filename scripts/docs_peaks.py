"""The table of peaks in docs/definitions/devices.md."""

from __future__ import annotations

from collections.abc import Iterator

from docs_markdown import markdown_table

from nsysconv.timeline.peaks import KINDS, Model, models

PAGE = "definitions/devices.md"
_TERA = 1e12


def peaks_table() -> Iterator[str]:
    """Yield a row per model, and a list of the publications that their numbers are from."""
    sources = list(dict.fromkeys((model.source, model.url) for model in models()))
    heads = [kind.replace("_tensor", " TC") for kind in KINDS]
    yield ""
    yield from markdown_table(
        ("names", "SMs", *heads, "memory", "from"),
        (tuple(_row(model, sources.index((model.source, model.url)) + 1)) for model in models()),
    )
    yield ""
    for number, (name, url) in enumerate(sources, 1):
        yield f"{number}. [{name}]({url})"
    yield ""


def _row(model: Model, number: int) -> Iterator[str]:
    yield ", ".join(model.names)
    yield str(model.sms or "")
    for kind in KINDS:
        yield f"{model.flop_per_s[kind] / _TERA:g}" if kind in model.flop_per_s else ""
    yield f"{model.bytes_per_s / _TERA:g}"
    yield f"{number}; {model.share}" if model.share else str(number)
