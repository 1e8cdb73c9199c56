"""The errors a user can cause or meet. Each says what is wrong, where, and what to do next.

Nothing else in the program decides an exit status: `exit_status` of the class is it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from nsysconv.facts import Fact
from nsysconv.names import escaped, escaped_lines, shorten


class NsysconvError(Exception):
    """What is wrong (`what`), where (`where`: file, and line, table or byte), what next (`hint`)."""

    exit_status: ClassVar[int] = 70

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.brief}\n{escaped_lines(self.hint)}" if self.hint else self.brief

    @property
    def brief(self) -> str:
        """Where and what, without what next."""
        # Each of these can repeat what stands in a file, and paths can have any character.
        return escaped_lines(f"{escaped(self.where)}: {self.what}" if self.where else self.what)


class UsageError(NsysconvError):
    """The call itself cannot be carried out: a name that does not exist, a file in the way."""

    exit_status = 2


class InUseError(UsageError):
    """Another process writes there at this moment: the same call may work later."""


class InputError(NsysconvError):
    """An input could not be read: not a profile, damaged, of a version we do not know."""

    exit_status = 3


class StrictError(NsysconvError):
    """`--strict`, and something was dropped or approximated."""

    exit_status = 3


class CaptureError(NsysconvError):
    """`nsysconv profile` could not start the program: the status that env and timeout give, too."""

    exit_status = 125


class NotRecorded(NsysconvError):  # noqa: N818 - an answer, not a failure
    """A report cannot be made because the profile lacks facts, or something in words that no fact
    stands for; `advice` says how to record them. `words` is all of it in words.
    """

    exit_status = 4

    def __init__(
        self, report: str, missing: Sequence[Fact | str], advice: Sequence[str] = ()
    ) -> None:
        self.words = tuple(m.label if isinstance(m, Fact) else m for m in missing)
        names = ", ".join(self.words)
        super().__init__(f"{report}: not recorded in this profile: {names}", hint="\n".join(advice))
        self.report = report
        self.missing = tuple(missing)
        self.advice = tuple(advice)

    def __reduce__(self) -> tuple[object, ...]:
        # Made again of what it was made of: it passes between processes.
        return type(self), (self.report, self.missing, self.advice)


_SHORT_LIST = 300
_LINE = 96
_NEAR = 3


def available_hint(
    wanted: str | None, names: Iterable[str] | Mapping[str, str], every: str = ""
) -> str:
    """What to write instead of a name that there is not: at most five lines, however many there are.

    The nearest ones, where `wanted` is a name and no number; all, where they are few. A mapping gives the
    words that a name is shown with. `every` says what lists them all.
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
    """Names that hold what was wanted; then those that begin nearly so, one of each beginning."""
    # Most calls of the program have no need of it.
    from difflib import get_close_matches

    holding = [name for name in names if wanted.casefold() in name.casefold()] if wanted else []
    beginnings: dict[str, str] = {}
    for name in names:
        beginnings.setdefault(name[: len(wanted)], name)
    close = [beginnings[each] for each in get_close_matches(wanted, beginnings, _NEAR)]
    return list(dict.fromkeys([*holding[:_NEAR], *close]))[:_NEAR]


def _first(listed: str) -> str:
    """As many names as a line has room for, one at least."""
    cut = listed.rfind(", ", 0, _LINE)
    return f"{listed[:cut]}, \u2026" if cut > 0 else shorten(listed, _LINE)
