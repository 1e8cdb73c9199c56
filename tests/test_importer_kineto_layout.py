"""Events laid out as libkineto does give the rows that they give one by one; all else is left to that."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, REAL_TRACES, in_room, real
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysconv.importers.kineto import arrays, decode, layout, trace
from nsysconv.importers.kineto.alike import alike
from nsysconv.importers.kineto.decode import Decoder
from nsysconv.importers.kineto.layout import Laid, laid
from nsysconv.importers.kineto.numerals import Words, decimals, lengths, numbers
from nsysconv.importers.kineto.piece import NAMES, Piece
from nsysconv.importers.kineto.repair import BORDER
from nsysconv.importers.kineto.trace import PADDING, Texts, Trace

HEAD = '"cat": "{}", "name": "{}", "pid": {}, "tid": {}'
OPERATOR = HEAD.format("cpu_op", "aten::add", 7, 71)
CALL = HEAD.format("cuda_runtime", "cudaLaunchKernel", 7, 71)
KERNEL = HEAD.format("kernel", "gemm", 0, 5)
WHERE = '"External id": 9,      "queued": 0, "device": 0, "context": 1,      "stream": 5, '
ARROW = """{
    "ph": "s", "id": 9, "pid": 7, "tid": 71, "ts": 100.001,
    "cat": "ac2g", "name": "ac2g"
  }"""


def event(head: str, times: str = '"ts": 100.250, "dur": 3.482', args: str | None = None) -> str:
    """An event as libkineto writes it."""
    told = "" if args is None else f',\n    "args": {{\n      {args}\n    }}'
    return f'{{\n    "ph": "X", {head},\n    {times}{told}\n  }}'


def newer(text: bytes) -> bytes:
    """The same as PyTorch writes it since 2.13: each member on a line of its own."""
    args = r',\n    "args": \{\n      .*\n    \}'
    lasting = rf'(\{{\n    "ph": "X"), (.*)(,\n    "ts": .*), ("dur": [^,\n]*)({args})?\n  \}}'

    def apart(match: re.Match[str]) -> str:
        begin, head, start, dur, told = match.groups()
        told = "\n    " + (told or "")
        head = head.replace(', "', ',\n    "')
        return f"{begin},\n    {head}{start},\n    {dur}{told}\n  }}"

    found = re.sub(lasting, apart, text.decode())
    arrow = re.sub(', *"', ',\n    "', ARROW).replace("\n  }", "\n    \n  }")
    return found.replace(ARROW, arrow).encode()


def joined(*events: str) -> bytes:
    return ",\n  ".join(events).encode()


def found_in(text: bytes) -> Laid | None:
    return laid(in_room(text))


def told(piece: Piece) -> dict[str, Any]:
    """All that a piece holds, to be compared; the rows of a table in the order of their times."""
    tables = arrays.tables(piece, 0)
    found = asdict(piece)
    found["tables"] = {}
    for table, columns in tables.items():
        cells = {
            name: [piece.names[n] if n >= 0 else None for n in values.tolist()]
            if name in NAMES
            else values.tolist()
            for name, values in columns.items()
        }
        rows = zip(*(cells[name] for name in sorted(cells)), strict=True)
        found["tables"][table] = sorted(cells), sorted(rows, key=repr)
    found["names"] = set(piece.names)
    return found


@pytest.fixture(autouse=True)
def _any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_LEAST_BYTES", 1)


def decoded(text: bytes, *, at_once: bool, python_functions: bool = True) -> dict[str, Any]:
    decoder = Decoder(python_functions=python_functions, at_once=at_once)
    return told(decoder.decode(in_room(text), 1000))


def require_the_same(text: bytes) -> None:
    for python_functions in (True, False):
        found = decoded(text, at_once=True, python_functions=python_functions)
        assert found == decoded(text, at_once=False, python_functions=python_functions)


def require_as_told(text: bytes, place: int, changed: bytes) -> None:
    """The same, of a text that was changed at one place. In an arrow, which is no row, without a note."""
    found, expected = decoded(changed, at_once=True), decoded(changed, at_once=False)
    around = changed[max(place - 60, 0) : place + 60]
    assert found["tables"] == expected["tables"], around
    in_arrow = any(begin <= place < end for begin, end in arrows(text))
    assert found == expected or in_arrow, around


def arrows(text: bytes) -> list[tuple[int, int]]:
    """Where arrows stand."""
    return [match.span() for match in re.finditer(rb'\{\n    "ph": "[sf]",[^{}]*\n  \}', text)]


# -- numbers


@given(st.lists(st.tuples(st.text("0123456789", max_size=21), st.sampled_from(',. \n"aA:/-\0'))))
def test_numbers(parts: list[tuple[str, str]]) -> None:
    texts = [digits + other for digits, other in parts]
    places = np.cumsum([0, *map(len, texts)])[:-1]
    words = Words(in_room("".join(texts).encode() + b" "))
    count, values = numbers(words, places)
    assert lengths(words, places).tolist() == count.tolist()
    for n, (digits, _) in enumerate(parts):
        is_number = re.fullmatch("0|[1-9][0-9]{0,17}", digits) is not None
        assert count[n] == (len(digits) if is_number else 0)
        if is_number:
            assert values[n] == int(digits)


def test_decimals() -> None:
    text = in_room(b"5,25,125,")
    places, count = np.array([0, 2, 5]), np.array([1, 2, 3])
    assert decimals(Words(text)[places], count).tolist() == [500, 250, 125]


# -- lines


def test_of_three_events() -> None:
    args = '"External id": 9,"Record function id": 0, "Sequence number": 44, "Fwd thread id": 0, '
    text = joined(
        event(OPERATOR, args=args + '"Input Dims": [[64]], "Ev Idx": 8'),
        ARROW,
        event(KERNEL, '"ts": 101.000, "dur": 0.001', WHERE + '"correlation": 31, "grid": [1, 2, 3]'),
        event(OPERATOR, '"ts": 4311856494815.899, "dur": 12.5'),
    )
    found = found_in(text)
    assert found is not None
    assert found.passed == 1
    assert found.heads == [OPERATOR.encode(), KERNEL.encode()]
    assert found.head.tolist() == [0, 1, 0]
    assert found.tails == [
        b'"Input Dims": [[64]]',
        b'"grid": [1, 2, 3]',
        b"",
    ]
    assert found.tail.tolist() == [0, 1, 2]
    assert {name: values.tolist() for name, values in found.numbers.items()} == {
        "device": [-1, 0, -1], "context": [-1, 1, -1], "stream": [-1, 5, -1],
        "correlation": [-1, 31, -1], "Sequence number": [44, -1, -1],
    }  # fmt: skip
    assert found.start.tolist() == [100_250, 101_000, 4_311_856_494_815_899]
    assert found.dur.tolist() == [3_482, 1, 12_500]
    assert found.has_fractions


def test_whole_microseconds() -> None:
    found = found_in(joined(event(CALL, '"ts": 1712867402348700, "dur": 0')))
    assert found is not None
    assert (found.start.tolist(), found.dur.tolist()) == ([1_712_867_402_348_700_000], [0])
    assert not found.has_fractions


@pytest.mark.parametrize(
    ("args", "tail", "numbers_of"),
    [
        ('"External id": 7', "", {}),
        ('"Ev Idx": 7', "", {}),
        ('"Ev Idx": 3, "Fwd thread id": 4, "Sequence number": 5', "", {"Sequence number": 5}),
        ('"External id": 7,      "cbid": 2, "correlation": 12345678901', "",
         {"correlation": 12345678901}),
        ('      "cbid": 211, "correlation": 4', '      "cbid": 211, "correlation": 4', {}),
        ('"External id": 7,"Record function id": 3, "Ev Idx": 5', '"Record function id": 3', {}),
        ('"External id": 7, "stream": -1, "correlation": 4', '"stream": -1, "correlation": 4', {}),
        ('"External id": 7, "stream": 1.5', '"stream": 1.5', {}),
        ('"External id": 07, "stream": 1', '"External id": 07, "stream": 1', {}),
        ('"External id": 7,  "stream": 1', '"External id": 7,  "stream": 1', {}),
        ('"x": 1, "Ev Idx": 05', '"x": 1, "Ev Idx": 05', {}),
        ('"x": 1,"Ev Idx": 5', '"x": 1,"Ev Idx": 5', {}),
        ('"x": [1, "Ev Idx": 5', '"x": [1', {}),
        (', "Ev Idx": 5', ', "Ev Idx": 5', {}),
        ('"x": 1, ""v Idx": 5', '"x": 1, ""v Idx": 5', {}),
    ],
)  # fmt: skip
def test_numbers_of_args(args: str, tail: str, numbers_of: dict[str, int]) -> None:
    found = found_in(joined(event(CALL, args=args)))
    assert found is not None
    assert found.tails == [tail.encode()]
    assert {n: v[0] for n, v in found.numbers.items() if v[0] != -1} == numbers_of


GOOD = joined(
    event(OPERATOR, args='"External id": 9,"Ev Idx": 8'),
    ARROW,
    event(CALL, args='"External id": 9,      "cbid": 211, "correlation": 31'),
    event(OPERATOR),
)


def test_what_is_refused_is_refused_for_what_was_changed() -> None:
    assert found_in(GOOD) is not None
    assert found_in(newer(GOOD)) is not None


@pytest.mark.parametrize("layout", [bytes, newer])
def test_a_character_more_or_less(layout: Callable[[bytes], bytes]) -> None:
    """A space anywhere, and anything left out, gives what it gives one by one."""
    text = layout(GOOD)
    for place in range(len(text)):
        require_as_told(text, place, text[:place] + b" " + text[place:])
        require_as_told(text, place, text[:place] + text[place + 1 :])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"ph": "X", "cat": "cpu_op"', b'"ph": "i", "cat": "cpu_op"'),
        (b'"ph": "s"', b'"ph": "t"'),
        (b'"ac2g",', b'"cpu_op",'),
        (b'    "cat": "ac2g"', b'    "bat": "ac2g"'),
        (b'    "ts": 100.250', b'    "tz": 100.250'),
        (b'"ts": 100.250', b'"ts":a100.250'),
        (b'"ts": 100.250', b'"ts": -100.250'),
        (b'"ts": 100.250', b'"ts": 0100.250'),
        (b'"ts": 100.250', b'"ts": 100.'),
        (b'"ts": 100.250', b'"ts": 100.2501'),
        (b'"ts": 100.250', b'"ts": 100.25e1'),
        (b'"ts": 100.250', b'"ts": 9007199254740993'),
        (b'"ts": 100.250', b'"ts": "100.250"'),
        (b', "dur": 3.482', b', "dur": 3.482 '),
        (b', "dur": 3.482', b', "duu": 3.482'),
        (b', "dur": 3.482', b',  "dur": 3.482'),
        (b', "dur": 3.482,', b', "dur": 3.482'),
        (b"71,\n", b"71\n"),
        (b'"args": {\n', b'"args": {\n\n'),
        (b'    "args": {\n', b'    "args": { \n'),
        (b'    "args": {\n', b'    "arg2": {\n'),
        (b'    "args": {\n      "', b'    "args": {\n     "'),
        (b"    }\n  }", b"    }\n }"),
        (b"    }\n  }", b"    }  }"),
        (b"  },\n  {", b"  },\n\n  {"),
        (b"  },\n  {", b"  }, {"),
        (b"  },\n  {\n", b"  },\n  {\r\n"),
        (b"  },\n  {\n", b"  },\n  { \n"),
    ],
)
def test_another_layout(old: bytes, new: bytes) -> None:
    assert GOOD.count(old) > 0
    text = GOOD.replace(old, new, 1)
    assert found_in(text) is None
    require_the_same(text)


@pytest.mark.parametrize("text", [ARROW.encode(), b"{}", b"{\n\n  }", b"{\n  }", b"", b"\n" * 40])
def test_a_text_without_events(text: bytes) -> None:
    assert found_in(text) is None


# -- rows


def require_read_at_once(text: bytes) -> None:
    for either in (text, newer(text)):
        assert alike(in_room(either)) is not None
        require_the_same(either)
    assert decoded(text, at_once=True) == decoded(newer(text), at_once=True)


def test_rows_that_differ_in_what_is_read_apart() -> None:
    """Two devices, streams and contexts, with and without a call's number, sequence numbers."""
    kernel = '"device": {}, "context": {},      "stream": {}, "correlation": {}, "grid": [1, 1, 1]'
    places = [(0, 1, 7, 3), (1, 1, 7, 4), (0, 2, 7, 5), (0, 1, 8, 6), (0, 1, 7, 9)]
    text = joined(
        *(event(KERNEL, args='"External id": 1,      ' + kernel.format(*place)) for place in places),
        event(KERNEL, args='"External id": 1,      "device": 0, "stream": 7'),
        event(KERNEL),
        event(OPERATOR, args='"External id": 1,"Sequence number": 3, "Fwd thread id": 0, "Ev Idx": 1'),
        event(OPERATOR, args='"External id": 2,"Ev Idx": 2'),
    )
    require_read_at_once(text)


def test_processes_that_take_turns() -> None:
    """Rows of a GPU are of the process whose rows stood before: none, 7, 8, 7."""
    of = [HEAD.format("cuda_runtime", "cudaFree", pid, 1) for pid in (7, 8, 7, '"x"', 0)]
    text = joined(
        event(KERNEL), event(of[0]), event(KERNEL), event(of[1]), event(KERNEL), event(KERNEL),
        event(of[2]), event(KERNEL), event(of[3]), event(KERNEL), event(of[4]), event(KERNEL),
    )  # fmt: skip
    require_read_at_once(text)
    found = decoded(text, at_once=True)
    assert (found["processes_seen"], found["last_process"]) == ([7, 8], 7)


def test_bytes_that_calls_tell_and_sms_out_of_blocks() -> None:
    copy = '"External id": 1, "correlation": {}, "size": {}'
    shape = '"External id": 1, "device": {}, "stream": 0, "blocks per SM": {}, "grid": [{}, 1, 1]'
    text = joined(
        *(event(CALL, args=copy.format(n, 64)) for n in (3, 4)),
        event(CALL, args='"External id": 1, "correlation": 5'),
        event(KERNEL, args=shape.format(0, 0.3, 1)),
        event(KERNEL, args=shape.format(1, 2, 216)),
        event(KERNEL, args=shape.format(0, 2, 264)),
    )
    require_read_at_once(text)
    found = decoded(text, at_once=True)
    assert found["sizes"] == {(7, 3): 64, (7, 4): 64}
    assert found["sm_counts"] == {0: 132, 1: 108}


def test_collectives_have_numbers_of_their_own() -> None:
    said = '"Collective name": "allreduce", "Seq": 12, "dtype": "Float", "Group size": 2'
    text = joined(
        event(
            HEAD.format("cpu_op", "record_param_comms", 7, 71),
            args=f'"External id": 1,"Sequence number": 3, "Fwd thread id": 0, {said}, "Ev Idx": 4',
        ),
        event(KERNEL, args=f"{WHERE}\"correlation\": 9, {said}"),
    )
    require_read_at_once(text)


@pytest.mark.parametrize(
    "changed",
    [
        # Twice the same, the second of which counts.
        event(CALL, args='"External id": 1, "correlation": 3, "x": 1, "correlation": 4'),
        event(OPERATOR, args='"External id": 1, "Sequence number": 3, "x": 1, "Sequence number": 4'),
        event(CALL, args=r'"External id": 1, "correlation": 3, "x": 1, "correl\u0061tion": 4'),
        # An unknown category, and none.
        event(HEAD.format("new_op", "x", 1, 1)),
        event('"name": "x", "pid": 1, "tid": 1'),
        # Texts that close what they did not open.
        event(CALL, args='"x": 1}, "ts": 5, "y": {"z": 1'),
        event(CALL, args='"x": 1}}, {"cat": "cuda_runtime", "ts": 5, "dur": 1, "args": {"z": 1'),
        event(OPERATOR + ', "y": 1}, {"cat": "cpu_op"'),
        # No JSON.
        event(OPERATOR.replace("aten::add", 'a"b')),
        event(CALL, args='"External id": 1, "x": N/A'),
        event(CALL, args='"x": [1, "Ev Idx": 5'),
        # What belongs on another line.
        event(OPERATOR + ', "args": {"Sequence number": 4}'),
        event(OPERATOR + ', "ts": 5'),
        # Places so many that they are told apart in another way.
        event(KERNEL, args='"External id": 1, "device": 0, "context": 1,      "stream": 1023'),
        event(KERNEL, args='"External id": 1, "device": 123456789012345678, "context": 1'),
    ],
)  # fmt: skip
def test_events_that_are_no_usual_ones(changed: str) -> None:
    text = joined(event(OPERATOR), changed, event(CALL))
    assert alike(in_room(text)) is None
    require_the_same(text)


@pytest.mark.parametrize(
    "odd",
    [
        event(HEAD.format("cpu_op", "x", "[1]", '"thread 5 (python)"')),
        event('"cat": "cpu_op", "name": ["x"], "pid": 1, "tid": null'),
        event(OPERATOR, args='"External id": 1, "device": 3, "correlation": 5'),
        event(HEAD.format("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 7),
              args=WHERE + '"correlation": 5,      "bytes": 64, "memory bandwidth (GB/s)": 57.3'),
        event(HEAD.format("kernel", "CopyHostToDevice", 0, 7), args='"External id": 1, "device": 1'),
        event(HEAD.format("python_function", "f", 7, 7), args='"Ev Idx": 1, "Python id": 1'),
        event(HEAD.format("overhead", "Buffer", -1, 0)),
        event(HEAD.format("user_annotation", "ProfilerStep#1", 7, 7), args='"External id": 1'),
        event(HEAD.format("gpu_user_annotation", "ProfilerStep#1", 0, 7)),
        event(HEAD.format("cpu_op", r"\u00e9\n\"", 7, 7)),
        event(HEAD.format("cpu_op", "\u00e9", 7, 7)),
    ],
)  # fmt: skip
def test_odd_events(odd: str) -> None:
    require_read_at_once(joined(event(OPERATOR), odd, ARROW, event(CALL), odd))


def trace_of(seed: int, count: int) -> list[str]:
    """Events of all kinds, in no order, of two processes and two devices."""
    chance = random.Random(seed)
    events = []
    for n in range(count):
        pid = chance.choice([7, 7, 7, 8])
        start, dur = f"{chance.randrange(10**6)}.{chance.randrange(1000):03}", chance.randrange(99)
        times = f'"ts": {start}, "dur": {dur}.5'
        device, stream = chance.randrange(2), chance.randrange(3)
        where = (
            f'"External id": {n},      "queued": 0, "device": {device}, "context": 1,      '
            f'"stream": {stream}, "correlation": {n}'
        )
        call = f'"External id": {n},      "cbid": 211, "correlation": {n}'
        name = chance.choice(["aten::add", "aten::mul", "aten::mm"])
        shapes = f'"Input type": ["float"], "Input Dims": [[{chance.randrange(3)}]]'
        sequence = f'"Sequence number": {n}, "Fwd thread id": 0, ' if chance.random() < 0.5 else ""
        events.append(
            chance.choice([
                ARROW,
                event(HEAD.format("cuda_runtime", "cudaMemcpy", pid, pid), times, call),
                event(
                    HEAD.format("cpu_op", name, pid, pid), times,
                    f'"External id": {n},"Record function id": 0, {sequence}{shapes}, "Ev Idx": {n}',
                ),
                event(KERNEL, times, f'{where},      "grid": [{chance.randrange(1, 4)}, 1, 1]'),
                event(
                    HEAD.format("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 0, 5), times,
                    f'{where},      "bytes": {n}, "memory bandwidth (GB/s)": 1.5',
                ),
                event(HEAD.format("gpu_memset", "Memset (Device)", 0, 5), times, where),
                event(HEAD.format("cuda_sync", "Stream Sync", 0, 5), times, where),
                event(HEAD.format("overhead", "Buffer", -1, 0), times),
                event(HEAD.format("user_annotation", name, pid, pid), times, f'"External id": {n}'),
            ])
        )  # fmt: skip
    return [event(CALL), *events, event(CALL)]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(0, 60))
def test_any_trace(seed: int, count: int) -> None:
    require_read_at_once(joined(*trace_of(seed, count)))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lines_are_found_some_text_at_a_time(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = joined(*trace_of(5, 30))
    whole = decoded(text, at_once=True)
    monkeypatch.setattr(layout, "_SEARCHED_BYTES", size)
    assert found_in(text) is not None
    assert decoded(text, at_once=True) == whole


@pytest.mark.parametrize("key", layout._FRONT, ids=bytes.decode)
def test_a_key_that_begins_as_a_known_one_may_stand_last(key: bytes) -> None:
    """What is compared with the longest of them reaches beyond the end of the text."""
    for length in range(2, len(key)):
        name = key[:length].decode().split('"')[1]
        require_read_at_once(event(OPERATOR, args=f'"{name}": 1').encode())


def test_parts_around_another_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """One event of another layout costs the part around it, not the whole."""
    monkeypatch.setattr(decode, "_PART_BYTES", 2000)
    events = trace_of(6, 300)
    events[150] = events[150].replace("\n", " ")
    text = joined(*events)
    read: list[bool] = []

    def seen(room: memoryview) -> Any:
        found = alike(room)
        read.append(found is not None)
        return found

    monkeypatch.setattr("nsysconv.importers.kineto.alike.alike", seen)
    assert decoded(text, at_once=True) == decoded(text, at_once=False)
    assert read.count(False) == 2  # the whole, and that part
    assert read.count(True) > 10


def test_parts_are_smaller_than_pieces() -> None:
    """Otherwise one event of another layout would cost a whole piece."""
    assert 2 * decode._PART_BYTES < trace._BLOCK_BYTES


@pytest.mark.parametrize("layout", [bytes, newer])
def test_a_byte_changed_loses_no_row_that_is_found_otherwise(layout: Callable[[bytes], bytes]) -> None:
    require_as_told_when_changed(layout(joined(*trace_of(7, 40))), 1000)


def require_as_told_when_changed(text: bytes, times: int) -> None:
    """What is read at once is what is found one by one, whatever byte of a text is another one."""
    chance = random.Random(8)
    for _ in range(times):
        place = chance.randrange(len(text))
        changed = bytearray(text)
        changed[place] = chance.choice(b'"{}[]:,\n 0a-.\\\xff' + bytes([chance.randrange(256)]))
        require_as_told(text, place, bytes(changed))


# -- whole traces


def require_whole(path: Path) -> None:
    with path.open("rb") as file:
        texts = Texts(file)
        for span in Trace(path).pieces():
            text = bytes(texts.read(span)[:-PADDING])
            assert len(text) == span.length
            require_the_same(text)


@pytest.mark.parametrize(
    "path", sorted((FIXTURES / "kineto").glob("*-2.13*.json")), ids=lambda path: path.name
)
def test_fixtures(path: Path) -> None:
    require_whole(path)


@real
@pytest.mark.parametrize("path", REAL_TRACES, ids=lambda path: path.name)
def test_real_traces(path: Path) -> None:
    require_whole(path)


@real
@pytest.mark.parametrize("path", REAL_TRACES, ids=lambda path: path.name)
def test_a_byte_changed_in_a_real_trace(path: Path) -> None:
    """Of a hundred events in the middle, where they are laid out as they are read at once."""
    with path.open("rb") as file:
        texts = Texts(file)
        all_texts = [bytes(texts.read(span)[:-PADDING]) for span in Trace(path).pieces()]
    text = max(all_texts, key=len, default=b"")
    borders = [match.end() for match in BORDER.finditer(text)]
    first = borders[len(borders) // 2 : len(borders) // 2 + 101 : 100]
    part = text[first[0] : first[-1]].rstrip(b", \n") if len(first) == 2 else b""
    if not part or alike(in_room(part)) is None:
        pytest.skip("laid out in another way, or too short")
    require_as_told_when_changed(part, 300)
