"""The errors that a user can cause or meet. Each says what is wrong, where, and what to do next.

The class alone decides the exit status (`exit_status`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from nsysconv.facts import Fact
from nsysconv.names import escaped, escaped_lines, shorten


class NsysconvError(Exception):
    """An error in words: what is wrong, where (file, and line, table or byte), and what to do next."""

    exit_status: ClassVar[int] = 70

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        """Take what is wrong, where, and a hint what to do next."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """Return the whole message, control characters escaped."""
        return f"{self.brief}\n{escaped_lines(self.hint)}" if self.hint else self.brief

    @property
    def brief(self) -> str:
        """Return the message without the hint."""
        # Both can quote from a file, and paths can have any character.
        return escaped_lines(f"{escaped(self.where)}: {self.what}" if self.where else self.what)


class UsageError(NsysconvError):
    """The call itself cannot be carried out: a name that does not exist, a file in the way."""

    exit_status = 2


class AbsentError(UsageError):
    """A profile has no device, stream, process or thread of that number, or ended before that time.

    Another profile of its run may have it.
    """


class InUseError(UsageError):
    """Another process writes to the same place at this moment; the same call may work later."""


class InputError(NsysconvError):
    """An input cannot be read: it is not a profile, damaged, or of an unknown version."""

    exit_status = 3


class NoProfileError(InputError):
    """An input is no profile: a folder may hold such files beside its profiles."""


class StrictError(NsysconvError):
    """`--strict` was given, and something was dropped or approximated."""

    exit_status = 3


class CaptureError(NsysconvError):
    """`nsysconv profile` could not start the program; 125 is the status of env and timeout, too."""

    exit_status = 125


class NotRecorded(NsysconvError):  # noqa: N818 - an answer, not a failure
    """A report that cannot be made because the profile lacks facts.

    `missing` are facts, or words where no fact fits; `words` is all of it in words; `advice` is how to
    record them.
    """

    exit_status = 4

    def __init__(
        self, report: str, missing: Sequence[Fact | str], advice: Sequence[str] = ()
    ) -> None:
        """Take the report's name, what is missing, and how to record it."""
        self.words = tuple(m.label if isinstance(m, Fact) else m for m in missing)
        names = ", ".join(self.words)
        super().__init__(f"{report}: not recorded in this profile: {names}", hint="\n".join(advice))
        self.report = report
        self.missing = tuple(missing)
        self.advice = tuple(advice)

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to make the error again when it is unpickled in another process."""
        # Exceptions are pickled by their message alone unless they say otherwise.
        return type(self), (self.report, self.missing, self.advice)


_SHORT_LIST = 300
_LINE = 96
_NEAR = 3


def available_hint(
    wanted: str | None, names: Iterable[str] | Mapping[str, str], every: str = ""
) -> str:
    """Return a hint that lists the names there are, or those close to `wanted`; at most five lines.

    A mapping gives the words that a name is shown with. `every` says how to list all names, where they
    are too many for the hint. `wanted` is None if a number was given, not a name.
    """
    shown = names if isinstance(names, Mapping) else {name: name for name in names}
    near = [] if wanted is None else _nearest(wanted, shown)
    listed = ", ".join(map(escaped, shown.values()))
    if len(listed) <= _SHORT_LIST:
        meant = f"Did you mean {' or '.join(map(escaped, near))}? " if near else ""
        return f"{meant}There are: {listed or 'none'}"
    count = f"There are {len(shown):,}"
    if near:
        lines = [f"  {shorten(escaped(shown[name]), _LINE)}" for name in near]
        return "\n".join(["Close to it:", *lines, f"{count}. {every}".rstrip()])
    return f"{count}: {_first(listed)}. {every}".rstrip()


def _nearest(wanted: str, names: Iterable[str]) -> list[str]:
    # Most calls of the program have no need of it.
    from difflib import get_close_matches

    holding = [name for name in names if wanted.casefold() in name.casefold()] if wanted else []
    beginnings: dict[str, str] = {}
    for name in names:
        beginnings.setdefault(name[: len(wanted)], name)
    close = [beginnings[start] for start in get_close_matches(wanted, beginnings, _NEAR)]
    return list(dict.fromkeys([*holding[:_NEAR], *close]))[:_NEAR]


def _first(listed: str) -> str:
    cut = listed.rfind(", ", 0, _LINE)
    return f"{listed[:cut]}, \u2026" if cut > 0 else shorten(listed, _LINE)
