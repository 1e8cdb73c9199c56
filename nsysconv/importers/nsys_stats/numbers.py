"""Numbers as nsys prints them in the user's locale.

Text groups digits and marks decimals as the locale has it: 1,234.5 or 1.234,5 or 1 234,5 or 1’234.5. What
a lone `1.234` means is told by the other cells of its table, or by what its column holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from nsysconv.importers.printed.quantity import Quantity

# Spaces of all widths, and what is left of one that was written in another encoding.
_SPACES = " \u00a0\u2007\u2009\u202f\ufffd"
_APOSTROPHES = "'\u2019"
_NUMBER = re.compile(rf"-?[0-9][0-9.,{_SPACES}{_APOSTROPHES}]*$")
_GROUPS = re.compile(rf"[{_SPACES}{_APOSTROPHES}]")
_GROUP = 3
# Of more, Python makes no number, and no table has them.
_MOST_DIGITS = 1000
# What stands around a number where somebody made another table of it.
_AROUND = " %*`\t"
LARGEST = 1 << 62
"""No number of ns, bytes or rows is larger."""


class Holds(Enum):
    """What the cells of a column look like: whole numbers, numbers with three decimals, or any."""

    WHOLE = 0
    THOUSANDTHS = 3
    ANY = -1


@dataclass(frozen=True)
class Number:
    """A number and how many decimals it was spelled with."""

    value: Fraction
    decimals: int

    def quantity(self, scale: Fraction | int, decimals: int | None = None) -> Quantity:
        """All that is spelled so with this many decimals (None: its own), times the scale."""
        half = Fraction(1, 2 * 10 ** (self.decimals if decimals is None else decimals))
        return Quantity((self.value - half) * scale, (self.value + half) * scale)


@dataclass(frozen=True)
class Spelling:
    """A table's decimal sign; None: no cell tells, and points are taken for it."""

    sign: str | None

    def number(self, text: str, holds: Holds) -> Number | None:
        """The number that a cell is; None where it is none."""
        digits = text.strip(_AROUND)
        if _NUMBER.match(digits) is None:
            return None
        return _number(digits, _sign_of(digits, holds) or self.sign or ".")

    def is_guess(self, text: str, holds: Holds) -> bool:
        """Whether nothing but a habit says what the sign in this cell is."""
        digits = text.strip(_AROUND)
        return (
            self.sign is None
            and _NUMBER.match(digits) is not None
            and ("." in digits or "," in digits)
            and _sign_of(digits, holds) is None
        )


def spelling(found: Iterable[tuple[str, Holds]]) -> Spelling:
    """How a table spells numbers, told by all of its cells and what their columns hold."""
    votes: Counter[str] = Counter()
    for text, holds in found:
        digits = text.strip(_AROUND)
        if _NUMBER.match(digits) and (sign := _sign_of(digits, holds)):
            votes[sign] += 1
    return Spelling(votes.most_common(1)[0][0] if votes else None)


def _sign_of(digits: str, holds: Holds) -> str | None:
    """The decimal sign that one cell gives away; None where it could be either."""
    found = [sign for sign in ".," if sign in digits]
    if not found:
        return None
    last = max(found, key=digits.rindex)
    other = "," if last == "." else "."
    if len(found) > 1 or digits.count(last) > 1:
        # The one of two that comes last; of one that repeats, the other.
        return last if digits.count(last) == 1 else other
    behind = len(digits) - digits.rindex(last) - 1
    if holds is Holds.WHOLE:
        return other if behind == _GROUP else last
    if behind != _GROUP or holds is Holds.THOUSANDTHS or _GROUPS.search(digits):
        return last
    # More than three digits before it are no group.
    return last if digits.lstrip("-").index(last) > _GROUP or digits.startswith("0") else None


def _number(digits: str, sign: str) -> Number | None:
    digits = _GROUPS.sub("," if sign == "." else ".", digits)
    whole, _, behind = digits.partition(sign)
    first, *groups = whole.split("," if sign == "." else ".")
    if any(len(group) != _GROUP for group in groups) or (
        groups and len(first.lstrip("-")) > _GROUP
    ):
        return None
    text = f"{first}{''.join(groups)}"
    if len(digits) > _MOST_DIGITS:
        return None
    if not behind.isdecimal() and behind:
        return None
    value = Fraction(f"{text}.{behind}" if behind else text)
    return Number(value, len(behind)) if abs(value) <= LARGEST else None
