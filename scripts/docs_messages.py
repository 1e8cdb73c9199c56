"""docs/messages.md: notes and errors."""

from __future__ import annotations

from collections.abc import Iterator

from docs_markdown import markdown_table, sentence

from nsysconv import errors, notes


def messages_page() -> Iterator[str]:
    """Yield the lines of docs/messages.md."""
    yield "# Messages"
    yield ""
    yield "## Errors"
    yield ""
    yield "An error says what is wrong, where, and what to do next, and ends with an exit status:"
    yield ""
    yield from markdown_table(
        ("error", "status", "means"),
        ((f"`{e.__name__}`", e.exit_status, sentence(e.__doc__ or "")) for e in _errors()),
    )
    yield ""
    yield "All statuses are listed under [command line](cli.md#exit-status). In Python these are"
    yield "exceptions of `nsysconv.errors`."
    yield ""
    yield "## Notes"
    yield ""
    yield "A note is a caveat about numbers: something in the source was dropped, guessed, repaired, or"
    yield "cannot be taken at its word. Notes are kept in the store (table `note`) and shown under every"
    yield "report that they touch, with how often and where first. How much a note weighs:"
    yield ""
    yield from markdown_table(
        ("severity", "means"),
        (
            (f"`{notes.Severity.INFO}`", "a remark; the numbers hold"),
            (f"`{notes.Severity.APPROXIMATED}`", "some number is not exact; fatal with `--strict`"),
            (f"`{notes.Severity.DROPPED}`", "rows were left out; fatal with `--strict`"),
        ),
    )
    for slug, meaning in sorted(notes.meanings().items()):
        yield ""
        yield f"### {slug}"
        yield ""
        yield meaning


def _errors() -> list[type[errors.NsysconvError]]:
    return list(errors.NsysconvError.__subclasses__())
