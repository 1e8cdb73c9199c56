"""Whether both sides did the same work: what they ran, how often, and how large it was.

What is the same work, with the shares below: docs/definitions/comparing.md, "The same work".
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, cast

import numpy as np

from nsysconv.diff.rows import BOTH, RowPair
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, Column, Report, Unit, human
from nsysconv.timeline.annotations import exact_ranges, operators
from nsysconv.timeline.arrays import Array, counts, factorize, sums
from nsysconv.timeline.range_names import SIZES, argument, group_name, without_arguments
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.utilization import BLOCK, GRID

# What differs by a smaller share is that of a program that does not do the same every time.
_LITTLE = 0.01
# A program is the same as far as it runs the same kernels, for this share of their time at least.
_MOST = 0.5
_UNLIKE = ("gpu-differs", "capture-options-differ")


def work_differences(notes: Iterable[Note], *, have_steps: bool) -> list[str]:
    """Return in words which of these notes make the sums of two sides incomparable."""
    slugs = ("steps-differ", *_UNLIKE) if have_steps else _UNLIKE
    return [note.text for note in notes if note.slug in slugs]


def kernel_mix_difference(kernels: Sequence[RowPair]) -> str | None:
    """Return in words that sides without steps run other kernels most of their time, or None."""
    shares = []
    for side in ("base_values", "other_values"):
        spent = [(row.where == BOTH, getattr(row, side)["kernel_sum_ns"] or 0) for row in kernels]
        whole = sum(ns for _, ns in spent)
        shares.append(sum(ns for both, ns in spent if both) / whole if whole else 1.0)
    if min(shares) >= _MOST:
        return None
    return f"only {100 * min(shares):.0f} % of the kernel time is of kernels that both sides run"


def launch_count_difference(kernels: Sequence[RowPair]) -> str | None:
    """Return in words that one side launched most of its kernels less often, or None.

    So it is where a recording was stopped after some time: it holds more of a program that became
    faster. A changed program launches some kernels more or less often, and the others as before. Most
    are more than half of the names that both sides have, and of base's time. Meant for sides without
    steps. `kernels` are the rows of that report.
    """
    rows = [row for row in kernels if row.where == BOTH and row.base_values["kernel_sum_ns"]]
    whole = sum(row.base_values["kernel_sum_ns"] or 0 for row in kernels)
    for sign, word in ((-1, "fewer"), (1, "more")):
        other = [row for row in rows if sign * _share(row) > _LITTLE]
        spent = sum(row.base_values["kernel_sum_ns"] for row in other)
        if 2 * len(other) > len(rows) and 2 * spent > whole:
            before = sum(row.base_values["kernel_count"] or 0 for row in kernels)
            after = sum(row.other_values["kernel_count"] or 0 for row in kernels)
            return f"{100 * abs(after - before) / before:.1f} % {word} launches, of most kernels"
    return None


def _share(row: RowPair) -> float:
    before, after = row.base_values["kernel_count"], row.other_values["kernel_count"]
    return (after - before) / before if before and after is not None else 0.0


def grows_with_work(column: Column) -> bool:
    """Return whether more work makes more of it: sums, counts, unions; not means, extremes, shares."""
    whole = column.unit in (Unit.NS, Unit.BYTES, Unit.COUNT) and not column.real
    return whole and not column.is_extreme


def work_note(reasons: Sequence[str], *, of_sizes: bool) -> Note:
    """Return the note that sums, or `of_sizes` all figures, are not comparable, for these reasons."""
    what = "nothing has a verdict" if of_sizes else "sums and counts have no verdict"
    text = f"different workloads ({'; '.join(reasons)}): {what}"
    return Note("work-differs", Severity.APPROXIMATED, text)


# -- sizes


class Amount(NamedTuple):
    """What ran under one name: how often, how much of a size, and for how long, or what weighs it.

    `threads` are those of all blocks; 0: not known, or nothing that has blocks.
    """

    times: int
    size: int
    weight: int
    threads: int = 0

    def __add__(self, more: object) -> Amount:
        """Return both together."""
        assert isinstance(more, Amount)
        return Amount(*(one + another for one, another in zip(self, more, strict=True)))


Amounts = Mapping[Hashable, Amount]
_NOTHING = Amount(0, 0, 0)

BLOCKS, BYTES, INPUTS, TOKENS = "blocks", "bytes", "inputs", "tokens"
"""Kinds of sizes: blocks of kernels; bytes by direction; elements of operators' inputs; and what
annotations say of a batch."""

# What annotations call a size, by form. Times, rates, shares, one of so many (`batch 3/8`) and tiles of
# kernels are none.
_OF_BATCH = (
    r"(?:tok(?:en)?s|req(?:uest)?s|seq(?:uence)?s|samples|images|prompts|frames|rows|beams|atoms"
    "|points|cells)"
)
_WHOLE = r"(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15}k?)"
_LETTERS = "[BCDHKLMNQSTWbcdhklmnqstw]"
_LETTER_IS = r" ?[=:] ?\d{1,15}"
_OF_PHASE = r"[ _=:]{1,2}\d{1,15}(?:\([^()]{1,40}\))?"
_PREFIXES = "(?:(?:num|n|micro|mini|local|global|train|eval|input|prompt|ctx|gen)[_-]?){0,4}"
_SIZE_WORD = (
    rf"(?:bsz?|(?-i:B(?=\s*[=:-]))|[mg]bs|u?batch(?:[ _-]?size(?:_per_[a-z]+)?)?|tok|{_OF_BATCH}|[io]sl"
    r"|n_(?:prompt|gen|kv)|n[xyz]|numel|concurrency|height|width|accumulation_steps"
    r"|(?:(?:seq(?:uence)?|input|prompt|context|ctx)[ _-]?|(?<!queue.))len(?:gth)?s?(?:_[qk])?)"
)
_FORMS = (
    # [M=64, N=8]; m64_n8_k16, while m16n8k16 is an instruction; b4_s128
    rf"(?P<letters>(?-i:(?<!_)[BMNSTbmn]{_LETTER_IS}(?:[,;|_x ]{{1,2}}{_LETTERS}{_LETTER_IS})+"
    r"|m\d{1,9}[_x]n\d{1,9}[_x]k\d{1,9}"
    rf"|[Bb]\d{{1,9}}(?:[_x ,-]{{0,2}}(?:{_LETTERS}|seq|sl|len)\d{{1,9}})+))",
    # execute_context_1(512)_generation_3(3), where tokens are in parentheses; ctx 1, gen 4
    rf"(?P<phases>(?:context|ctx|new){_OF_PHASE}[ ,_]{{1,2}}(?:generation|gen|cached){_OF_PHASE})",
    # step[DECODE bs=4 toks=4], "batch_size": 512, fwd_bs4, batch of 4
    rf"(?P<word>{_PREFIXES}{_SIZE_WORD})[\"']?(?:\s*(?:[<>]?=>?|:|->)\s*[\"']?"
    rf"|(?P<bare> ?[(\[]| |_|-|(?<=bs)|(?<=bsz)|(?<=batch)| of ))(?P<number>{_WHOLE})",
    # prefill S=128, bert_seq128, pp512
    rf"(?P<short>(?-i:(?<!_)[KLMNST](?==)|(?:seq|sl|pp|tg)(?=\d)))=?(?P<of_short>{_WHOLE})",
    rf"(?P<first>{_WHOLE}) (?P<of_word>(?:[a-z]+ )?{_OF_BATCH})(?!\s?[=:]\s?\d)",  # 4 ctx reqs
    # 8x3x224x224, bf16[8,2048], torch.Size([8, 3]), input: (8, 3)
    r"(?:(?<!tile)(?<!tile.)(?<!block.)(?<!grid.)(?<!launch.)(?<!gemm_)(?=\d+[x×])"
    r"|(?:bf16|(?-i:[fsu]\d\d?))\[|(?-i:Size|(?i:shape|dims|input(?:_id)?)s?)[\"']?[=: ]{0,3}[\[(]{1,2})"
    r"(?P<shape>\d{1,9}(?:(?:[x×]|, ?)\d{1,9})+)",
)
_IN_NAMES = re.compile(
    r"(?=[a-ik-uw\d])"  # their first letters, which are looked at quickly
    rf"(?:(?<![a-z0-9])|(?-i:(?<=[a-z])(?=[A-Z])))(?:{'|'.join(_FORMS)})"
    r"(?![a-z0-9]|\.\d|,\d{3}\b|_[nt]{2}(?![a-z])"
    r"|\s?(?:%|fps\b|/\s?\d|of \d|[kmg]i?b\b|(?:/\s?|per )?[mµnu]?s(?:ec\w*)?\b(?!\s?[=:])))",
    re.IGNORECASE,
)
_LOOKED_AT = 1000  # characters of a name
_NUMBER, _DIGITS = re.compile(r"\d+(?:,\d+)*(?:k\b)?"), re.compile(r"\d+")
_NAMED = re.compile(r"([A-Za-z]+)[ _=:]*(\d+)(?:\((?:sq)?(\d+)[^)]*\))?")
_WORDS = {
    BLOCKS: ("kernel blocks", "kernels"),
    INPUTS: ("operator inputs", "operators"),
    TOKENS: ("batch sizes in annotations", "annotations"),
}
# With fewer kernels a new grid is more often a tuned kernel than other work.
_FEW_KERNELS = 3
# So few consecutive numbers may be sizes.
_FEW_NUMBERS = 2
# Directions with less than this share of all bytes are not looked at: a loss that is read back.
_SMALL = 0.01
# In and out grew alike if their ratios differ by less than this share.
_ALIKE = 0.1


def sizes_of(timeline: Timeline) -> dict[str, Amounts]:
    """Return the sizes of what a profile ran, by kind and name; bytes are in its report `transfers`."""
    named = list(_range_names(timeline))
    return {
        BLOCKS: _blocks(timeline),
        INPUTS: _inputs(timeline, named),
        TOKENS: tokens_in(named),
    }


def bytes_of(transfers: Report) -> Amounts:
    """Return the bytes by direction of the rows of that report."""
    found: defaultdict[Hashable, Amount] = defaultdict(lambda: _NOTHING)
    for row in transfers.rows() if transfers.table is not None else ():
        if row["memcpy_count"] and row["bytes_sum"] is not None:
            found[row["direction"]] += Amount(
                row["memcpy_count"], row["bytes_sum"], row["bytes_sum"]
            )
    return found


def _blocks(timeline: Timeline) -> Amounts:
    if Fact.KERNELS not in timeline.profile.facts:
        return {}
    column = timeline.columns("kernel", ("name_id", "dur_ns", *GRID, *BLOCK))
    blocks, known = np.ones(len(column["dur_ns"]), np.int64), column["dur_ns"] != MISSING
    for axis in GRID:
        known &= column[axis] > 0
        blocks = blocks * column[axis]
    threads = blocks
    for axis in BLOCK:
        threads = threads * np.maximum(column[axis], 0)
    dur = np.where(column["dur_ns"] > 0, column["dur_ns"], 0)
    of_each = (blocks[known], dur[known], threads[known])
    return _by_name(timeline, column["name_id"][known], *of_each)


def _by_name(timeline: Timeline, name_id: Array, *of_each: Array) -> Amounts:
    if not len(name_id):
        return {}
    group, (ids,) = factorize(name_id)
    cells = (counts(group, len(ids)), *(sums(group, each, len(ids)) for each in of_each))
    names = timeline.profile.names(ids)
    found: defaultdict[Hashable, Amount] = defaultdict(lambda: _NOTHING)
    for i, *amount in zip(ids.tolist(), *(each.tolist() for each in cells), strict=True):
        found[names[i]] += Amount(*amount)
    return found


def _inputs(timeline: Timeline, named: Iterable[tuple[str, int]]) -> Amounts:
    found: defaultdict[Hashable, Amount] = defaultdict(lambda: _NOTHING)
    column = timeline.columns("operator", ("name_id", "shapes_id"))
    known = column["shapes_id"] != MISSING
    if known.any():
        group, (names, shapes) = factorize(column["name_id"][known], column["shapes_id"][known])
        texts = timeline.profile.names([*names.tolist(), *shapes.tolist()])
        often = counts(group, len(names)).tolist()
        for name, shape, count in zip(names.tolist(), shapes.tolist(), often, strict=True):
            _add_inputs(found, group_name(texts[name]), texts[shape], count)
    for text, count in named:
        sizes = argument(text, SIZES)
        if sizes is not None:
            _add_inputs(found, group_name(text), sizes, count)
    return found


def _add_inputs(found: defaultdict[Hashable, Amount], name: str, shapes: str, count: int) -> None:
    elements = _elements(shapes)
    if elements:
        found[name] += Amount(count, count * elements, count * elements)


def _elements(shapes: str) -> int:
    # All inputs together; 0 for what is not a list of shapes.
    try:
        listed = json.loads(shapes)
    except (ValueError, RecursionError):
        return 0
    listed = listed if isinstance(listed, list) else []
    sized = (s for s in listed if isinstance(s, list) and s and all(type(n) is int for n in s))
    return sum(max(0, prod(shape)) for shape in sized)


def tokens_in(named: Iterable[tuple[str, int]]) -> Amounts:
    """Return the sizes that names of ranges say, by group of names and word.

    `named` has each name with the number of its ranges.
    """
    found: defaultdict[tuple[str, str], Amount] = defaultdict(lambda: _NOTHING)
    numbers: defaultdict[Hashable, Counter[int]] = defaultdict(Counter)
    bare: dict[Hashable, bool] = {}
    for text, count in named:
        group = ""
        for match in _IN_NAMES.finditer(without_arguments(text)[:_LOOKED_AT]):
            group = group or _NUMBER.sub("#", group_name(text))
            for what, size in _sizes_in(match):
                key = (group, what)
                found[key] += Amount(count, count * size, count)
                numbers[key][size] += count
                bare[key] = (match["bare"] or match["short"]) is not None
    return {
        key: amount
        for key, amount in found.items()
        if not _is_count(numbers[key], is_bare=bare[key], is_batch=key[1].endswith("batch"))
    }


def _sizes_in(match: re.Match[str]) -> Iterator[tuple[str, int]]:
    if match["letters"] or match["phases"]:
        for what, size, tokens in _NAMED.findall(match[0].lower()):
            yield what, int(size)
            if tokens:
                yield f"{what} tokens", int(tokens)
    elif match["shape"]:
        yield "shape", prod(map(int, _DIGITS.findall(match["shape"])))
    else:
        word = match["word"] or match["short"] or match["of_word"]
        number = (match["number"] or match["of_short"] or match["first"]).lower().replace(",", "")
        yield word.lower(), int(number.rstrip("k")) * (1024 if number.endswith("k") else 1)


def _is_count(times: Counter[int], *, is_bare: bool, is_batch: bool) -> bool:
    # `batch: 0`, `batch: 1`, `batch: 2` say which it is, and not how large, in each epoch again. So do
    # the numbers of every tenth batch, and `batch 4`, unless all are called that.
    if is_bare:
        return times.total() <= _FEW_NUMBERS or len(times) > 1
    ordered = sorted(times)
    apart = set(np.diff(ordered).tolist())
    evenly = apart == {1} or (is_batch and len(apart) == 1)
    return len(times) > _FEW_NUMBERS and evenly and max(times.values()) - min(times.values()) <= 1


def _range_names(timeline: Timeline) -> Iterator[tuple[str, int]]:
    for spans in (exact_ranges(timeline), operators(timeline)):
        spans = spans.take(timeline.holds(spans))
        often = counts(spans.name, len(spans.names)).tolist()
        yield from ((name, n) for name, n in zip(spans.names, often, strict=True) if n)


@dataclass(frozen=True)
class SizeDifference:
    """One size that differs: in words, in three words, and whether it shows that the work is another."""

    text: str
    short: str
    is_other_work: bool


@dataclass(frozen=True)
class _Compared:
    # Items of one kind that both sides have. `moved` are those whose size differs in the direction in
    # which more of the weight does.
    kind: str
    items: Sequence[tuple[Hashable, Amount, Amount]]
    moved: Sequence[tuple[Hashable, Amount, Amount]]

    def is_most(self, *, by_weight_alone: bool = False) -> bool:
        weight, whole = (sum(b.weight for _, b, _ in each) for each in (self.moved, self.items))
        heavy = bool(self.moved) and weight > _MOST * whole
        return heavy and (by_weight_alone or len(self.moved) > _MOST * len(self.items))


def size_differences(
    base: Mapping[str, Amounts], other: Mapping[str, Amounts], per: tuple[float, float]
) -> list[SizeDifference]:
    """Return what differs in size between two sides that have it; what shows other work comes first.

    `per` are the numbers of steps of the sides, or of runs: amounts are divided by these.
    """
    found = {kind: _compared(kind, base[kind], other[kind], per) for kind in base}
    bytes_, blocks = found[BYTES], found[BLOCKS]
    most = {kind for kind in (INPUTS, TOKENS) if found[kind].is_most()}
    scaled = _all_scaled(bytes_.items, bytes_.moved)
    many = len(blocks.items) >= _FEW_KERNELS or not bytes_.items or bool(bytes_.moved)
    if blocks.is_most() and many:
        most.add(BLOCKS)
    if scaled or (bytes_.is_most(by_weight_alone=True) and (most or not blocks.items)):
        most.add(BYTES)
    differences = [
        SizeDifference(*words, is_other_work=kind in most)
        for kind, each in found.items()
        for words in _in_words(each, per)
    ]
    return sorted(differences, key=lambda each: not each.is_other_work)


def _compared(kind: str, base: Amounts, other: Amounts, per: tuple[float, float]) -> _Compared:
    items = [(key, base[key], other[key]) for key in base if key in other]
    by_direction: dict[int, list[tuple[Hashable, Amount, Amount]]] = {-1: [], 0: [], 1: []}
    for item in items:
        by_direction[_direction(kind, *item[1:], per)].append(item)
    moved = max(
        (by_direction[-1], by_direction[1]),
        key=lambda side: sum(before.weight for _, before, _ in side),
    )
    if kind == TOKENS:
        # A batch is larger where one of its numbers is, such as that of tokens, and none is smaller.
        names = {_annotation(key) for key, *_ in moved}
        alike = {key for key, *_ in by_direction[0] if _annotation(key) in names}
        items = [item for item in items if item[0] not in alike]
    return _Compared(kind, items, moved)


def _annotation(key: Hashable) -> str:
    return cast("tuple[str, str]", key)[0]


def _direction(kind: str, before: Amount, after: Amount, per: tuple[float, float]) -> int:
    # 1: larger, -1: smaller; both each time and as a whole, for a piece of work that is cut into more
    # and smaller ones is the same.
    if not before.size or not after.size:
        return 0
    count = after.times / per[1] / (before.times / per[0])
    means = [after.size / after.times / (before.size / before.times)]
    if before.threads and after.threads:
        # Twice the blocks of half the threads are the same work.
        means.append(after.threads / after.times / (before.threads / before.times))
    if kind == BYTES and abs(count - 1) > _LITTLE:
        # Copies that are left out, or added, are another program's, and may be a better one.
        return 0
    for sign in (1, -1):
        if min(sign * (mean * more - 1) for mean in means for more in (1.0, count)) > _LITTLE:
            return sign
    return 0


def _all_scaled(
    items: Sequence[tuple[Hashable, Amount, Amount]],
    moved: Sequence[tuple[Hashable, Amount, Amount]],
) -> bool:
    # What goes in and what comes out grew alike.
    whole = sum(before.size for _, before, _ in items)
    large = [item for item in items if item[1].size > _SMALL * whole]
    ratios = [after.size / before.size for _, before, after in large]
    all_moved = {key for key, _, _ in large} <= {key for key, _, _ in moved}
    return len(large) > 1 and all_moved and max(ratios) - min(ratios) <= _ALIKE * min(ratios)


def _in_words(compared: _Compared, per: tuple[float, float]) -> Iterator[tuple[str, str]]:
    if compared.kind == BYTES:
        for key, before, after in compared.moved:
            yield _from_to(f"{key} bytes", before.size / per[0], after.size / per[1], Unit.BYTES)
    elif compared.moved:
        what, names = _WORDS[compared.kind]
        sizes = zip(*((one.size, another.size) for _, one, another in compared.moved), strict=True)
        spent, spent_after = map(sum, sizes)
        some = f"in {len(compared.moved)} of {len(compared.items)} {names}"
        text, short = _from_to(what, spent / per[0], spent_after / per[1], Unit.COUNT)
        yield f"{text} {some}", short


def _from_to(what: str, before: float, after: float, unit: Unit) -> tuple[str, str]:
    values = (human(round(value), unit) for value in (before, after))
    ratio = f"×{after / before:.3g}"
    return f"{what} {' → '.join(values)} ({ratio})", f"{what} {ratio}"


def sizes_note(differences: Sequence[SizeDifference]) -> list[Note]:
    """Return the note that sizes differ, or none."""
    text = "; ".join(each.text for each in differences)
    return [Note("sizes-differ", Severity.INFO, f"sizes: {text}")] if differences else []


def with_keys(amounts: Amounts, key: Callable[[str], Hashable]) -> Amounts:
    """Return amounts by the keys of their names."""
    found: defaultdict[Hashable, Amount] = defaultdict(lambda: _NOTHING)
    for name, amount in amounts.items():
        found[key(str(name))] += amount
    return found


def added(amounts: Iterable[Amounts]) -> Amounts:
    """Return amounts of several profiles as one."""
    found: defaultdict[Hashable, Amount] = defaultdict(lambda: _NOTHING)
    for each in amounts:
        for name, amount in each.items():
            found[name] += amount
    return found
