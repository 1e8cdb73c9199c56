"""Numbers as nsys prints them in the user's locale.

Text groups digits and marks decimals as the locale has it: 1,234.5 or 1.234,5 or 1 234,5 or 1’234.5; in
groups of four (1,2345.6) or as in India (1,23,456.7). What a lone `1.234` means is told by the other
cells of its table, or by what its column holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from nsysconv.importers.printed.quantities import ValueRange

# Spaces of all widths, and what is left of one that was written in another encoding; apostrophes.
_BLANKS = " \u00a0\u2007\u2009\u202f\ufffd'\u2019"
_GROUP_SIGN = re.compile(rf"[.,{_BLANKS}]")
_NUMBER = re.compile(rf"-?[0-9][0-9.,{_BLANKS}]*$")
# Of more, Python makes no number, and no table has them.
_MOST_DIGITS = 1000
# What stands around a number where somebody made another table of it.
_AROUND = " %*`\t"
LARGEST = 1 << 62
"""No number of ns, bytes or rows is larger."""


class CellKind(Enum):
    """What the cells of a column look like: whole numbers, numbers with three decimals, or any."""

    WHOLE = 0
    THOUSANDTHS = 3
    ANY = -1


@dataclass(frozen=True)
class SpelledNumber:
    """A number and how many decimals it was spelled with."""

    value: Fraction
    decimals: int
    is_grouped: bool = field(default=False, compare=False)

    def quantity(self, scale: Fraction | int, decimals: int | None = None) -> ValueRange:
        """All that is spelled so with this many decimals (None: its own), times the scale."""
        half = Fraction(1, 2 * 10 ** (self.decimals if decimals is None else decimals))
        return ValueRange((self.value - half) * scale, (self.value + half) * scale)

    def cut(self, scale: Fraction | int) -> ValueRange:
        """All that is spelled so where decimals are cut, times the scale."""
        return ValueRange(self.value * scale, (self.value + 1) * scale)


class _Locale(Enum):
    """How locales spell numbers; the value is a pattern of one: sign, groups, decimals."""

    POINT = rf"(-?(?:[1-9][0-9]{{0,2}}(?:[,{_BLANKS}][0-9]{{3}})+|[0-9]+))(?:\.([0-9]*))?"
    COMMA = rf"(-?(?:[1-9][0-9]{{0,2}}(?:[.{_BLANKS}][0-9]{{3}})+|[0-9]+))(?:,([0-9]*))?"
    # Of locales with other groups all have these signs.
    FOURS = r"(-?(?:[1-9][0-9]{0,3}(?:,[0-9]{4})+|[0-9]+))(?:\.([0-9]*))?"
    INDIAN = r"(-?(?:[1-9][0-9]?(?:,[0-9]{2})*,[0-9]{3}|[0-9]+))(?:\.([0-9]*))?"


_PATTERNS = {locale: re.compile(locale.value) for locale in _Locale}


@dataclass(frozen=True)
class NumberFormat:
    """The locales that a table may have been printed in: those that most of its cells fit."""

    locales: tuple[_Locale, ...]

    @property
    def has_commas(self) -> bool:
        """Whether commas mark decimals for sure."""
        return self.locales == (_Locale.COMMA,)

    def number(self, text: str, holds: CellKind) -> SpelledNumber | None:
        """The number that a cell is; None where it is none, or could be several."""
        found = self._readings(text, holds)
        return found.pop() if len(found) == 1 else None

    def is_ambiguous(self, text: str, holds: CellKind) -> bool:
        """Whether a cell could be several numbers, and nothing tells which."""
        return len(self._readings(text, holds)) > 1

    def _readings(self, text: str, holds: CellKind) -> set[SpelledNumber]:
        digits = _digits(text)
        if not digits:
            return set()
        found = {number for locale in self.locales if (number := _number(digits, locale))}
        likely = {number for number in found if _fits(number, holds)}
        if holds is CellKind.WHOLE and not likely:
            return {number for number in found if number.value.denominator == 1}
        return likely or found


def number_format(
    found: Iterable[tuple[str, CellKind]], *, has_points: bool = False
) -> NumberFormat:
    """How a table spells numbers, told by all of its cells and what their columns hold.

    `has_points`: where they do not tell, points mark decimals, as CSV and JSON have them.
    """
    odd = dict.fromkeys(_Locale, 0)
    for text, holds in found:
        digits = _digits(text)
        if _GROUP_SIGN.search(digits):
            for locale in _Locale:
                number = _number(digits, locale)
                odd[locale] += number is None or not _fits(number, holds)
    fewest = min(odd.values())
    best = tuple(locale for locale in _Locale if odd[locale] == fewest)
    return NumberFormat((_Locale.POINT,) if has_points and _Locale.POINT in best else best)


def _digits(text: str) -> str:
    """A cell without what may stand around its number; empty where it holds none."""
    digits = text.strip(_AROUND)
    return digits if _NUMBER.match(digits) and len(digits) <= _MOST_DIGITS else ""


def _number(digits: str, locale: _Locale) -> SpelledNumber | None:
    """The number that is spelled so in a locale; None where nothing is."""
    match = _PATTERNS[locale].fullmatch(digits)
    if match is None:
        return None
    whole, behind = match.group(1), match.group(2) or ""
    plain = _GROUP_SIGN.sub("", whole)
    value = Fraction(f"{plain}.{behind}" if behind else plain)
    return SpelledNumber(value, len(behind), plain != whole) if abs(value) <= LARGEST else None


def _fits(number: SpelledNumber, holds: CellKind) -> bool:
    """Whether a column of this kind holds such a number: whole ones, or such with decimals."""
    if holds is CellKind.WHOLE:
        return number.decimals == 0
    return holds is CellKind.ANY or not number.is_grouped or number.decimals > 0
