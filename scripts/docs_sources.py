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
    yield "What nsysconv reads, and what a profile of each kind holds. A file is recognised by its"
    yield "content; its name does not matter. What a *particular* file holds, `nsysconv info FILE` says."
    yield ""
    yield "*always*: every file of the source holds it · *may*: a file holds it if it was recorded ·"
    yield "*never*: the source cannot hold it."
    yield ""
    header = ("kind of information", "fact", *(importer.TITLE for importer in importers))
    yield from markdown_table(
        header, ((f.label, f"`{f}`", *(_held(i, f) for i in importers)) for f in Fact)
    )
    yield ""
    yield f"Report files of Nsight Systems ({suffixes}) are read without nsys. nsysconv"
    yield "decodes them into the tables of the SQLite export, and reads those: the column of the export"
    yield "is theirs, too. To have these tables as a file:"
    yield ""
    yield "    nsysconv export run.nsys-rep --to nsys-sqlite"
    yield ""
    yield "Not decoded are calls of MPI, OpenACC and OpenMP, GPU metrics, page faults, where nodes of"
    yield "CUDA graphs were made, and NCCL's sizes of messages. For these, give nsysconv the export: see"
    yield "[what is not read](formats/nsys-rep.md#what-is-not-read). If a report cannot be decoded and"
    yield "nsys is on `PATH`, nsys exports it into a temporary folder, and a note says so."
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
