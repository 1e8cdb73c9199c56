"""Write the pages of docs/ that follow from the code.

python scripts/generate_docs.py            write schema, sources, reports, cli, api, messages, SKILL, llms
python scripts/generate_docs.py --check    exit 1 and name the pages that are out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docs_nsys_rep
from docs_agents import WHOLE
from docs_api import api_page
from docs_ci import comment_block
from docs_cli import cli_page
from docs_messages import messages_page
from docs_peaks import PAGE as PEAKS_PAGE
from docs_peaks import peaks_table
from docs_reports import reports_page
from docs_schema import schema_page
from docs_sources import sources_page

DOCS = Path(__file__).parent.parent / "docs"

PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "schema.md": schema_page,
    "sources.md": sources_page,
    "reports.md": reports_page,
    "cli.md": cli_page,
    "api.md": api_page,
    "messages.md": messages_page,
    **WHOLE,
}


def formats() -> Iterator[str]:
    """Yield the pages on formats of files, by their headings."""
    for page in sorted((DOCS / "formats").glob("*.md")):
        title = page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        yield f"* [{title}](formats/{page.name})"


# Parts of pages that people write, by page and name: what lies between two marks.
PARTS: dict[tuple[str, str], Callable[[], Iterator[str]]] = {
    ("ci.md", "comment"): comment_block,
    ("README.md", "formats"): formats,
    (PEAKS_PAGE, "peaks"): peaks_table,
    **{(docs_nsys_rep.PAGE, name): part for name, part in docs_nsys_rep.PARTS.items()},
}

_MARK = "<!-- Written by scripts/generate_docs.py from the code. Do not edit; run `make docs`. -->"


def text_of(page: str) -> str:
    """Return the whole text of a generated page."""
    if page in WHOLE:
        return "\n".join(WHOLE[page]()) + "\n"
    title, *rest = PAGES[page]()
    return "\n".join([title, "", _MARK, *rest]) + "\n"


def with_part(page: str, name: str) -> str:
    """Return the text of a page with one of its generated parts made anew. Raises ValueError without."""
    begin, end = f"<!-- Written by `make docs`: {name}. -->\n", "<!-- End. -->\n"
    text = (DOCS / page).read_text("utf-8")
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"docs/{page} has no place for the part {name}")
    return "".join([before, begin, *(f"{line}\n" for line in PARTS[page, name]()), end, after])


def stale() -> list[str]:
    """Return the pages that are missing or out of date."""
    pages = [
        page
        for page in PAGES
        if not (DOCS / page).exists() or (DOCS / page).read_text("utf-8") != text_of(page)
    ]
    parts = [
        page
        for page, name in PARTS
        if (DOCS / page).read_text("utf-8") != with_part(page, name)
    ]
    return pages + parts


def main() -> int:
    """Write or check; returns the exit status."""
    parser = argparse.ArgumentParser(description="write the generated pages of docs/")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    if not parser.parse_args().check:
        for page in PAGES:
            (DOCS / page).write_text(text_of(page), "utf-8")
        for page, name in PARTS:
            (DOCS / page).write_text(with_part(page, name), "utf-8")
        return 0
    old = stale()
    for page in old:
        print(f"docs/{page} is out of date; run: make docs")
    if not old:
        print("all generated pages are up to date")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
