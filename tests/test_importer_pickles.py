"""Pickles are read as data: whatever else they ask for is refused by name and byte, and nothing runs."""

from __future__ import annotations

import collections
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from fixtures_line_profiler import pickled

from nsysconv.importers.pickles import PickleRefusedError, Record, load

ALLOWED = {("profiler", "Stats"): Record}
DATA = {"numbers": [1, -2, 1 << 80, 0.5, None, True], ("a", 1): {"text": "é" * 300}, "bytes": b"\0"}


class Caller:
    """An object whose pickle calls a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def refusal(content: bytes) -> PickleRefusedError:
    with pytest.raises(PickleRefusedError) as caught:
        load(content, ALLOWED)
    return caught.value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_what_it_was(protocol: int) -> None:
    data = DATA if protocol > 2 else {k: v for k, v in DATA.items() if k != "bytes"}
    assert load(pickle.dumps(data, protocol), {}) == data


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_an_allowed_class_is_a_record_with_the_state(protocol: int) -> None:
    found = load(pickled({"unit": 1, "timings": [2]}, protocol, "profiler", "Stats"), ALLOWED)
    assert type(found) is Record
    assert vars(found) == {"unit": 1, "timings": [2]}


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_called(protocol: int, tmp_path: Path) -> None:
    marker = tmp_path / "was run"
    content = pickle.dumps({"a": [Caller(os.mkdir, str(marker))]}, protocol)
    found = refusal(content)
    # Protocols to 3 name the function in an instruction `c`, later ones by two texts before `\x93`.
    place = content.index(b"cposix") if protocol < 4 else content.index(b"\x93")
    if protocol > 1:
        assert (found.what, found.at) == ("posix.mkdir", place)
    assert not marker.exists()


@pytest.mark.parametrize(("module", "name"), [
    ("builtins", "eval"), ("profiler", "stats"), ("profiler", "Stats.__init__"),
    ("collections", "OrderedDict"), ("nsysconv.importers.pickles", "Record"), ("os", "system"),
])  # fmt: skip
def test_every_other_class_is_refused_by_its_name(module: str, name: str) -> None:
    for protocol in (2, 4):
        assert refusal(pickled({}, protocol, module, name)).what == f"{module}.{name}"


@pytest.mark.parametrize("name", ["a-b", "two words", "", "é", "x" * 200])
def test_texts_that_are_no_names_are_not_repeated(name: str) -> None:
    """A damaged pickle may have any of its texts in the place of a name."""
    found = refusal(pickled({}, 4, "os", name))
    assert found.what == "a class without a name"


def test_many_values_take_time_in_proportion() -> None:
    """30,000 lists below 30,000 values: a search from below would take half a billion steps."""
    content = b"\x80\x02" + b"N" * 30_000 + b"](NNe" * 30_000 + b"."
    assert load(content, {}) == [None, None]


def test_a_class_of_the_standard_library_is_refused_unless_it_is_allowed() -> None:
    content = pickle.dumps(collections.OrderedDict, 4)
    assert refusal(content).what == "collections.OrderedDict"
    assert load(content, {("collections", "OrderedDict"): Record}) is Record


FOUND = b"cprofiler\nStats\n"


@pytest.mark.parametrize(("content", "what", "at"), [
    (b"\x80\x04" + FOUND + b")R.", "the instruction REDUCE", 19),
    (b"\x80\x02(" + FOUND + b"o.", "the instruction OBJ", 19),
    (b"\x80\x02(iprofiler\nStats\n.", "the instruction INST", 3),
    (b"\x80\x02K\x01Q.", "the instruction BINPERSID", 4),
    (b"\x80\x02P7\n.", "the instruction PERSID", 2),
    (b"\x80\x02\x82\x01.", "the instruction EXT1", 2),
    (b"\x80\x04" + FOUND + b")}\x92.", "the instruction NEWOBJ_EX", 20),
    (b"\x80\x05\x97.", "the instruction NEXT_BUFFER", 2),
    (b"\x80\x02I7\n.", "the instruction INT", 2),
    (b"\x80\x04K\x010.", "the instruction POP", 4),
    # Room for two billion remembered values, of a pickle of ten bytes.
    (b"\x80\x02K\x01r\xff\xff\xff\x7f.", "the memo 2,147,483,647", 4),
    # A name whose parts are no texts.
    (b"\x80\x04K\x01K\x02\x93.", "a class without a name", 6),
    (b"\x80\x02h\x07.", "damage", 2),
    (b"\x80\x02\xff.", "damage", 2),
])  # fmt: skip
def test_other_instructions_are_refused_by_name_and_byte(
    content: bytes, what: str, at: int
) -> None:
    found = refusal(content)
    assert (found.what, found.at, found.is_cut) == (what, at, False)


def test_a_key_that_takes_forever_to_hash_is_refused() -> None:
    """Of forty pairs each holds the one before it twice: the last one, 2 ** 40 values."""
    pairs = b"".join(b"h" + bytes([i, ord("h"), i]) + b"\x86\x94" for i in range(40))
    found = refusal(b"\x80\x04}K\x01\x94" + pairs + b"K\x01s.")
    assert found.what == "a tuple of more than 1,000 values"


def test_attributes_of_a_class_are_not_changed() -> None:
    found = refusal(b"\x80\x02" + FOUND + b"N}X\x01\0\0\0xK\x01s\x86b.")
    assert found.what == "damage (AttributeError)"
    assert not hasattr(Record, "x")


def test_a_cut_pickle_is_cut_wherever_it_ends() -> None:
    content = pickled(DATA, 5, "profiler", "Stats")
    for end in range(len(content)):
        assert refusal(content[:end]).is_cut, end


def test_a_changed_byte_raises_nothing_else() -> None:
    content = pickled(DATA, 4, "profiler", "Stats")
    read = 0
    for place in range(len(content)):
        for byte in (0, 0x28, 0x52, 0x63, 0x93, 0xFF, content[place] ^ 1):
            try:
                load(content[:place] + bytes([byte]) + content[place + 1 :], ALLOWED)
                read += 1
            except PickleRefusedError:
                pass
    assert read  # of changed texts, for example
