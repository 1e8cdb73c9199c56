"""Python pickles, read without running anything of them.

A pickle is a program that may call any function. So its instructions are checked one by one before the
standard library's unpickler gets them: those that call something are refused, and so is every class or
function but those that the caller allows. The unpickler then finds no others either.

Pickles of hundreds of megabytes have no classes, and a check of their own, which takes a seventeenth of
the time: `pytorch_snapshot/plain_pickle.py`.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

Allowed = Mapping[tuple[str, str], Callable[..., Any]]
"""What takes the place of each class that a pickle may name, by its module and name."""

# What makes numbers, texts, tuples, lists, dictionaries and records, and remembers them.
_OPCODES = frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2",
    "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING",
    "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "TUPLE", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "MEMOIZE",
    "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL", "NEWOBJ", "BUILD",
})  # fmt: skip
_TUPLES = frozenset(("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"))
_PUTS, _GETS = frozenset(("BINPUT", "LONG_BINPUT")), frozenset(("BINGET", "LONG_BINGET"))
# A key that is a tuple of tuples takes its whole content to hash, each time that it is met.
_LARGEST_TUPLE = 1000
_NAME = re.compile(r"(?=.{1,100}\Z)[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)


class PickleRefusedError(ValueError):
    """A pickle is damaged, or asks for more than plain data; `what` says for what, `at` is the byte."""

    def __init__(self, what: str, at: int, *, is_cut: bool = False) -> None:
        """Take what was met and where; `is_cut`: the bytes end before the pickle does."""
        super().__init__(f"{what} at byte {at:,}")
        self.what, self.at, self.is_cut = what, at, is_cut


class _Sealed(type):
    # A pickle can set attributes of what is on its stack, also of a class.
    def __setattr__(cls, name: str, value: object) -> None:
        raise AttributeError(name)


class Record(metaclass=_Sealed):
    """A plain record in place of an object of a pickle: its state is in `vars(record)`."""


def load(content: bytes, allowed: Allowed) -> Any:
    """Return the object that a pickle of protocol 2 to 5 holds, made of plain data and allowed classes.

    Nothing else is imported or called. Raises PickleRefusedError with the byte for anything else.
    """
    end = _check(content, allowed)
    unpickler = Unpickler(io.BytesIO(content[:end]), allowed)
    try:
        return unpickler.load()
    except Exception as error:  # the unpickler raises what it likes for damage
        what = f"damage ({type(error).__name__})"
        raise PickleRefusedError(what, end) from None


class Unpickler(pickle.Unpickler):
    """The standard library's unpickler, which finds no class or function but those that are allowed.

    A check of the instructions comes first; if that has missed something, this refuses it.
    """

    def __init__(self, file: BinaryIO, allowed: Allowed) -> None:
        """Take the file, from where it is, and what takes the place of each allowed class."""
        super().__init__(file, encoding="utf-8", errors="replace")
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        """Return what takes the place of an allowed class. Raises UnpicklingError for all others."""
        try:
            return self._allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


class _Item(NamedTuple):
    # What the unpickler will have on its stack: a mark, or a value. `text` is the value if it is a text,
    # `size` how many values are in it if it is a tuple.
    size: int = 1
    text: str | None = None
    is_mark: bool = False


_PLAIN = _Item()  # all of them are one, as a pickle may have millions


def _check(content: bytes, allowed: Allowed) -> int:
    # Returns where the pickle ends. Whatever is not understood here is refused.
    stack: list[_Item] = []
    memo: dict[int, _Item] = {}
    stream = io.BytesIO(content)
    instructions = pickletools.genops(stream)
    while True:
        at = stream.tell()
        try:
            opcode, argument, _ = next(instructions)
            if opcode.name not in _OPCODES:
                raise PickleRefusedError(f"the instruction {opcode.name}", at)
            if opcode.name == "STOP":
                return at + 1
            _follow(opcode, argument, stack, memo, (allowed, at))
        except PickleRefusedError:
            raise
        except Exception:  # damage; what is raised for it is not documented
            is_cut = stream.tell() == len(content)
            what = "its end" if is_cut else "damage"
            raise PickleRefusedError(what, len(content) if is_cut else at, is_cut=is_cut) from None


def _follow(
    opcode: pickletools.OpcodeInfo,
    argument: Any,
    stack: list[_Item],
    memo: dict[int, _Item],
    where: tuple[Allowed, int],
) -> None:
    name, (allowed, at) = opcode.name, where
    if name == "MEMOIZE" or name in _PUTS:
        number = len(memo) if name == "MEMOIZE" else argument
        # The unpickler makes room for all numbers up to this one.
        if number > len(memo) + at:
            raise PickleRefusedError(f"the memo {number:,}", at)
        memo[number] = stack[-1]
        return
    if name in _GETS:
        stack.append(memo[argument])
        return
    taken = _taken(opcode, stack)
    if name == "GLOBAL":
        _require(tuple(argument.split(" ", 1)), allowed, at)
    if name == "STACK_GLOBAL":
        _require(tuple(item.text for item in taken), allowed, at)
    size = 1 + sum(item.size for item in taken) if name in _TUPLES else 1
    if size > _LARGEST_TUPLE:
        raise PickleRefusedError(f"a tuple of more than {_LARGEST_TUPLE:,} values", at)
    is_text = isinstance(argument, str) and name != "GLOBAL"
    is_plain = size == 1 and not is_text and name != "MARK"
    made = _PLAIN if is_plain else _Item(size, argument if is_text else None, name == "MARK")
    stack.extend([made] * len(opcode.stack_after))


def _taken(opcode: pickletools.OpcodeInfo, stack: list[_Item]) -> list[_Item]:
    # Takes what an instruction does off the stack, in order.
    count = len(opcode.stack_before)
    if pickletools.markobject in opcode.stack_before:
        # From the end: what is passed over is taken off, so that no value is passed twice.
        mark = next(place for place in reversed(range(len(stack))) if stack[place].is_mark)
        count = len(stack) - mark + opcode.stack_before.index(pickletools.markobject)
    if count > len(stack):
        raise IndexError
    taken = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken


def _require(wanted: tuple[str | None, ...], allowed: Allowed, at: int) -> None:
    if wanted not in allowed:
        name = ".".join(part or "" for part in wanted)
        # Damage makes other texts into names, which may be anything.
        raise PickleRefusedError(name if _NAME.fullmatch(name) else "a class without a name", at)
