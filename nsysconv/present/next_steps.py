"""The lines below an answer: commands to go on with, as they are typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from nsysconv.names import cut_off
from nsysconv.notes import Note

WIDTH, INDENT = 98, "   "
_RULES_NOTED = ("rules-ignored", "rules-cannot-look")
_NOT_NAMED = (*_RULES_NOTED, "rules-found-nothing")
_NAMES = "names: --list; all notes: findings"
# What is left of a line beside the number of other notes.
_ROOM = WIDTH - len("; notes: 99")


def lines_of(line: str) -> int:
    """Return how many rows of a screen a line takes."""
    return max(1, len(wrap(_plain(line), WIDTH, subsequent_indent=INDENT)))


def _plain(line: str) -> str:
    # As a terminal shows it that has no arrows.
    return line.replace("→", "->")


def next_steps(
    notes: Mapping[str, Note], command: str, why: str | None, further: Sequence[str], room: int
) -> Iterator[str]:
    """Yield the lines below an answer, of at most so many rows of a screen.

    `command` is the target as it is typed, `why` how to ask about the first event of a finding, and
    `further` are events of the next ones. No name in a command is shortened: it is to be copied.
    """
    # The lines say how to go on. There are two or three, or fewer if there is not enough room.
    ignored, blind = map(notes.get, _RULES_NOTED)
    said = [ignored.text] if ignored else []
    if why is not None and room > 1:
        line = f"→ why: {why}"
        for other in further:
            line = f"{line}; for {other}" if len(_plain(f"{line}; for {other}")) <= _ROOM else line
        yield one_line(line)
        room, why = room - lines_of(line), None
    if room < 2:
        table = f"nsysconv report {command} NAME"
        ways = (f"→ {why}; {table}", f"→ {why}") if why else (f"→ {table} ({_NAMES})", f"→ {table}")
        fitting = [way for way in ways if len(_plain(way)) <= WIDTH]
        line = one_line((fitting or ways[1:])[0], *said, "--open: a page")
        if said and said[0] not in line:
            yield cut_off(said[0], WIDTH)
        elif fitting or why or room == lines_of(ways[1]):
            yield line
        return
    yield one_line(tables_line(command), "a page: add --open")
    room -= lines_of(tables_line(command))
    if blind is not None:
        look_up = f"checks that could not run: nsysconv report {command} findings"
        # Half of a reason says nothing.
        said.append(
            next(
                (each for each in (blind.text, look_up) if len("; ".join((*said, each))) <= _ROOM),
                "some checks could not run",
            )
        )
    others = [slug for slug in notes if slug not in _NOT_NAMED]
    if others:
        named = f"notes: {', '.join(others)}"
        fits = len("; ".join((*said, named))) <= WIDTH
        said.append(named if fits else f"notes: {len(others):,}")
    if said and room > 0:
        yield cut_off(one_line(*said), WIDTH)


def tables_line(command: str) -> str:
    """Return the line on how to get a table."""
    line = f"→ a table: nsysconv report {command} NAME"
    return f"{line} (names: --list)" if len(_plain(f"{line} (names: --list)")) <= WIDTH else line


def one_line(*parts: str) -> str:
    """Return parts on one line; further ones that have no room are left out. None is cut off."""
    text = parts[0]
    for part in parts[1:]:
        text = f"{text}; {part}" if len(_plain(f"{text}; {part}")) <= WIDTH else text
    return text
