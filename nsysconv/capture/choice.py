"""Which ranks are profiled: `--ranks 0,8,16-31`, `local0`, `node%4:local0`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nsysconv.errors import CaptureError
from nsysconv.launch import Launch

_TERM = re.compile(r"(rank|local|node)?(?:(\d{1,9})(?:-(\d{1,9}))?|%([1-9]\d{0,8}))", re.ASCII)
_WORDS = {"rank": "rank", "local": "local rank", "node": "number of the node"}


@dataclass(frozen=True)
class _Term:
    """Numbers of one kind: those of [first, last], or every one that `every` divides."""

    kind: str
    first: int = 0
    last: int = 0
    every: int | None = None

    def holds(self, number: int) -> bool:
        if self.every is not None:
            return number % self.every == 0
        return self.first <= number <= self.last


@dataclass(frozen=True)
class Choice:
    """A choice of ranks: one of `any_of`, all of whose terms hold. None of them: every rank."""

    any_of: tuple[tuple[_Term, ...], ...] = ()

    def __contains__(self, launch: object) -> bool:
        """Whether a process is chosen. Raises CaptureError where what is asked of it is not known."""
        assert isinstance(launch, Launch)
        if not self.any_of:
            return True
        numbers = {"rank": launch.rank, "local": launch.local_rank, "node": launch.node}
        for kind in {term.kind for terms in self.any_of for term in terms}:
            if numbers[kind] is None:
                raise CaptureError(
                    f"--ranks asks for the {_WORDS[kind]}, which no variable of a launcher tells",
                    hint="Start it by srun, mpirun or the like; without --ranks every process is "
                    "profiled.",
                )
        return any(
            all(term.holds(numbers[term.kind] or 0) for term in terms) for terms in self.any_of
        )


def choice(text: str | None) -> Choice:
    """Reads a choice: items are joined by `,` (any of them), their terms by `:` (all of them).

    A term is `8`, `16-31` or `%8` (every eighth), of ranks, or with `local` or `node` before it of local
    ranks or nodes. None or `all`: every rank. Raises CaptureError for anything else.
    """
    if text is None or text == "all":
        return Choice()
    return Choice(
        tuple(tuple(_term(term, text) for term in item.split(":")) for item in text.split(","))
    )


def _term(term: str, text: str) -> _Term:
    match = _TERM.fullmatch(term.strip())
    if match is None:
        raise CaptureError(
            f"--ranks {text!r}: {term.strip()!r} names no ranks",
            hint="Such as 0,8,16-31 or %8 (every eighth rank), local0 (the first of each node), "
            "node%4:local0 (that of every fourth node).",
        )
    kind, first, last, every = match.groups()
    if every is not None:
        return _Term(kind or "rank", every=int(every))
    return _Term(kind or "rank", int(first), int(last if last is not None else first))
