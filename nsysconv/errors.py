"""The errors a user can cause or meet. Each says what is wrong, where, and what to do next.

Nothing else in the program decides an exit status: `exit_status` of the class is it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from nsysconv.facts import Fact
from nsysconv.names import visible, visible_lines


class NsysconvError(Exception):
    """What is wrong (`what`), where (`where`: file, and line, table or byte), what next (`hint`)."""

    exit_status: ClassVar[int] = 70

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        # Each of these can repeat what stands in a file, and paths can have any character.
        text = visible_lines(f"{visible(self.where)}: {self.what}" if self.where else self.what)
        return f"{text}\n{visible_lines(self.hint)}" if self.hint else text


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
