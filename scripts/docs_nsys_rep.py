"""The parts of docs/formats/nsys-rep.md that take a report apart: its bytes, and what they mean.

The report is that of `two_calls.py`. Bytes are shown as xxd shows them, and read by `nsys_rep_wire.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import nsys_rep_fields as fields
from nsys_rep_wire import BYTES, MAGIC, SAMPLES, Block, read_fields, read_sized, read_varint
from two_calls import write_two_calls

PAGE = "formats/nsys-rep.md"
REPORT, EVENTS, STRINGS = "two-calls.nsys-rep", "events.bin", "strings.bin"
"""The file that is taken apart, and those that the page writes its blocks to."""
_FOOTER_BYTES = 16
_COLUMN = 32  # where the meaning of some bytes begins

Words = Mapping[tuple[int, ...], str]
"""What fields are, by path: with a colon at the end texts, with a dash in front what is skipped."""


@cache
def report() -> bytes:
    """Return the report's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / REPORT
        write_two_calls(path)
        return path.read_bytes()


def hex_dump(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[str]:
    """Yield the lines in which xxd shows these bytes."""
    last = len(data) if end is None else end
    for at in range(begin, last, 16):
        line = data[at : min(at + 16, last)]
        pairs = " ".join(line[place : place + 2].hex() for place in range(0, len(line), 2))
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
        yield f"{at:08x}: {pairs:39}  {text}"


def _dump(begin: int, end: int) -> Iterator[str]:
    yield f"$ xxd -s {begin:#x} -l {end - begin:#x} {REPORT}"
    yield from hex_dump(report(), begin, end)
    yield ""


def _line(content: bytes, text: str, depth: int = 0) -> str:
    return f"{content.hex(' '):{_COLUMN}}{'  ' * depth}{text}"


# -- messages


def _fields(message: bytes, words: Words, path: tuple[int, ...] = ()) -> Iterator[str]:
    # A line for each field: its bytes, or of a message or text those in front of it.
    at = 0
    for number, kind, value in read_fields(message):
        here, (_, begin) = (*path, number), read_varint(message, at)
        _, end = read_varint(message, begin)
        word = words.get(here, "")
        key = message[at:end]
        at = end + (len(value) if kind == BYTES else 0)
        yield _line(key, f"{number}{_meaning(word, kind, value)}", len(path))
        if kind == BYTES and word and word[0] != "-" and word[-1] != ":":
            yield from _fields(value, words, here)


def _meaning(word: str, kind: int, value: int | bytes) -> str:
    if isinstance(value, int):
        shown = f" = {hex(value) if word in _PLACES else value}  {word}"
        return f"{shown}: {_strings()[value]}" if word in _NAMES else shown
    if not word:
        return f": {len(value)} bytes, skipped"
    if word.startswith("-"):
        return f": {len(value)} bytes, {word[1:]}, skipped"
    if word.endswith(":"):
        return f": {len(value)} bytes, {word} {value.decode()}"
    return f": {len(value)} bytes, {word}"


def _columns(spec: fields.Spec, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], str]]:
    # The columns that fields become.
    for number, part in spec.items():
        if isinstance(part, str) and not part.startswith("_"):
            yield (*path, number), part.partition("=")[0].partition("|")[0]
        elif isinstance(part, Mapping):
            yield from _columns(part, (*path, number))


_PLACES = {"offset", "size"}
_NAMES = {"nameId", "demangledName", "shortName", "mangledName", "the same again"}
_CALLS, _KERNELS = (fields.EVENTS[f"CUPTI_ACTIVITY_KIND_{name}"] for name in ("RUNTIME", "KERNEL"))
EVENT: Words = {
    **dict(_columns(_CALLS, (1,))), **dict(_columns(_KERNELS, (1,))),
    (1,): "an event", (1, 1): "the kind of event", (1, 108): "a call", (1, 107): "GPU activity",
    (1, 107, 7): "not known", (1, 107, 101): "what only a kernel has", (1, 107, 101, 8): "the same again",
    (1, 107, 101, 26): "not known",
}  # fmt: skip
HEAD: Words = {
    (1,): "the machine", (1, 2): "what is known of it", (1, 2, 1): "an entry",
    (1, 2, 1, 1): "TargetInstallDir", (1, 2, 1, 2): "the folder that nsys was in:", (1, 3): "globalVid",
    (2,): "the options", (2, 2): "what was traced", (2, 2, 1): "Cuda",
    (2, 26): "the program that nsys launched", (2, 26, 10): "-its path", (2, 26, 12): "-its folder",
    (2, 26, 30): "-a variable of its environment", (2, 92): "options of CUDA's trace",
    **{(2, 92, new): name for name, (_, new, _) in fields.CUDA_OPTIONS.items()},
    (2, 92, 9): "graphs", (2, 92, 9, 1): "MODE", (2, 92, 9, 2): "TRACE_DEVICE_GRAPH_LAUNCH",
    (2, 92, 10): "scope", (2, 92, 10, 1): "ProcessTree", (17,): "startTime", (18,): "stopTime",
}  # fmt: skip
COUNTS: Words = {(1,): "events", (3,): "strings", (5,): "names of threads", (9,): "blocks are packed by:"}
THREADS: Words = {(1,): "a thread", **dict(_columns({1: fields.THREAD}, ()))}
TARGETS: Words = {
    (1,): "a machine", (1, 1): "vmId", (1, 2): "what it has", (1, 2, 7): "a GPU",
    **dict(_columns({7: fields.MACHINE["TARGET_INFO_GPU"][1]}, (1, 2))),
    (1, 2, 7, 2): "name:", (1, 2, 7, 3): "busLocation:",
}  # fmt: skip


# -- where things are in the file


def _contents_at() -> int:
    return int.from_bytes(report()[-_FOOTER_BYTES:][:8], "little")


def _sections() -> dict[str, tuple[int, int]]:
    # Where each begins, and its size.
    found = {}
    for _, _, entry in read_fields(report()[_contents_at() : -_FOOTER_BYTES]):
        given = {number: value for number, _, value in read_fields(entry)}
        found[given[1].decode()] = (given.get(2, 0), given.get(3, 0))
    return found


def _messages() -> tuple[int, int, int]:
    # Where the head and the counts begin, and what follows them.
    head = _sections()[SAMPLES][0] + len(MAGIC)
    _, counts = read_sized(report(), head)
    return head, counts, read_sized(report(), counts)[1]


def blocks() -> tuple[tuple[int, Block, int], tuple[int, Block, int]]:
    """Return the blocks of events and of strings: where each begins, what it holds, where it ends."""
    begin = _messages()[2]
    events, middle = Block.read(report(), begin)
    strings, end = Block.read(report(), middle)
    return (begin, events, middle), (middle, strings, end)


def _strings() -> list[str]:
    return [text.decode() for text in blocks()[1][1].fields(1)]


# -- the parts of the page


def _footer() -> Iterator[str]:
    yield f"$ xxd -s -{_FOOTER_BYTES} {REPORT}"
    yield from hex_dump(report(), len(report()) - _FOOTER_BYTES)
    yield ""
    yield _line(report()[-_FOOTER_BYTES:][:8], f"the table of contents begins at {_contents_at():#x}")
    yield _line(report()[-_FOOTER_BYTES:][8:], "U3w[END]")


def _contents() -> Iterator[str]:
    begin, end = _contents_at(), len(report()) - _FOOTER_BYTES
    two = begin + sum(2 + len(entry) for _, _, entry in [*read_fields(report()[begin:end])][:2])
    yield from _dump(begin, two)
    words = {(1,): "an entry", (1, 1): "name:", (1, 2): "offset", (1, 3): "size"}
    yield from _fields(report()[begin:two], words)
    yield ""
    yield f"{'section':24}{'offset':>8}{'size':>8}"
    for name, (offset, size) in _sections().items():
        yield f"{name:24}{offset:#8x}{size:#8x}"


def _beginning() -> Iterator[str]:
    yield from _dump(0, min(offset for offset, _ in _sections().values()))


def _head() -> Iterator[str]:
    head, counts, _ = _messages()
    yield from _dump(head - len(MAGIC), head + 8)
    yield _line(report()[head - len(MAGIC) : head], "QDTEXT00")
    yield from _sized(head, "the head", HEAD)
    yield ""
    yield from _dump(counts, _messages()[2])
    yield from _sized(counts, "the counts", COUNTS)


def _sized(at: int, what: str, words: Words) -> Iterator[str]:
    size, begin = read_varint(report(), at)
    yield _line(report()[at:begin], f"{what}: {size} bytes")
    yield from _fields(report()[begin : begin + size], words)


def _packed(begin: int, end: int) -> Iterator[str]:
    yield from _dump(begin, end)
    packed, middle = read_varint(report(), begin)
    raw, inside = read_varint(report(), middle)
    yield _line(report()[begin:middle], f"{packed} bytes, packed, from {inside:#x} on")
    yield _line(report()[middle:inside], f"{raw} bytes when they are unpacked")


def _packed_events() -> Iterator[str]:
    begin, _, end = blocks()[0]
    yield from _packed(begin, end)


def _packed_strings() -> Iterator[str]:
    begin, _, end = blocks()[1]
    yield from _packed(begin, end)


def _unpacked(file: str, block: Block) -> Iterator[str]:
    yield f"$ xxd {file}"
    yield from hex_dump(block.raw)
    yield ""
    size, begin = read_varint(block.raw, 0)
    yield _line(block.raw[:begin], f"the only message: {size} bytes")


def _events() -> Iterator[str]:
    block = blocks()[0][1]
    yield from _unpacked(EVENTS, block)
    yield from _fields(block.content, EVENT)


def _string_table() -> Iterator[str]:
    block = blocks()[1][1]
    yield from _unpacked(STRINGS, block)
    lines = _fields(block.content, {(1,): "id:"})
    yield from (line.replace("id:", f"id {number}:", 1) for number, line in enumerate(lines))


def _end() -> Iterator[str]:
    begin, (section, size) = blocks()[1][2], _sections()[SAMPLES]
    yield from _dump(begin, section + size)
    yield from _sized(begin, "the names of threads", THREADS)
    yield from _sized(read_sized(report(), begin)[1], "the targets", TARGETS)


_PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "footer": _footer, "contents": _contents, "beginning": _beginning, "head": _head,
    "packed events": _packed_events, "events": _events,
    "packed strings": _packed_strings, "strings": _string_table, "end": _end,
}  # fmt: skip


def _in_a_block(lines: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    def part() -> Iterator[str]:
        yield "```text"
        yield from "\n".join(line.rstrip() for line in lines()).strip().splitlines()
        yield "```"

    return part


PARTS = {name: _in_a_block(lines) for name, lines in _PARTS.items()}
"""What yields the lines of each part of the page."""
