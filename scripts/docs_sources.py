"""docs/sources.md: what each source holds."""

from __future__ import annotations

from collections.abc import Iterator

from docs_markdown import markdown_table

from nsysconv.facts import Fact, in_order
from nsysconv.importers import detection
from nsysconv.importers.contract import Importer
from nsysconv.importers.detection import all_importers


def sources_page() -> Iterator[str]:
    """Yield the lines of docs/sources.md."""
    importers = all_importers()
    suffixes = " and ".join(f"`{suffix}`" for suffix in detection.REPORT_SUFFIXES)
    yield "# Sources"
    yield ""
    yield "What nsysconv reads, and what each kind of profile contains. Files are recognized by content,"
    yield "not by name. `nsysconv info FILE` shows what a *particular* file contains."
    yield ""
    yield "*always*: every file has it · *may*: a file has it if it was recorded ·"
    yield "*never*: the source cannot have it."
    yield ""
    header = ("kind of information", "fact", *(importer.TITLE for importer in importers))
    yield from markdown_table(
        header, ((f.label, f"`{f}`", *(_held(i, f) for i in importers)) for f in Fact)
    )
    yield ""
    yield f"Nsight Systems report files ({suffixes}) are read without nsys. nsysconv decodes"
    yield "them into the tables of the SQLite export, so the column of the export applies to them."
    yield "To write these tables to a file:"
    yield ""
    yield "    nsysconv export run.nsys-rep --to nsys-sqlite"
    yield ""
    yield "MPI calls, OpenACC and OpenMP, GPU metrics, page faults, the creation of CUDA graph nodes,"
    yield "and NCCL message sizes are not decoded. For these, use the export"
    yield "([what is not read](formats/nsys-rep.md#what-is-not-read)). If a report cannot be decoded and"
    yield "nsys is on `PATH`, nsys exports it into a temporary folder, with a note."
    for importer in importers:
        yield ""
        yield f"## {importer.TITLE}"
        yield ""
        yield f"Named `{importer.NAME}` in stores and in JSON."
        yield ""
        yield from markdown_table(
            ("what", "how to record it next time"),
            ((fact.label, importer.ADVICE[fact]) for fact in in_order(importer.ADVICE)),
        )


def _held(importer: Importer, fact: Fact) -> str:
    if fact in importer.GUARANTEED:
        return "always"
    return "may" if fact in importer.POSSIBLE else "never"
