"""Words that need their author are in no comment, docstring, name or page."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import ROOT

from nsysconv import codes, queries
from nsysconv.facts import Fact
from nsysconv.queries.findings.contract import words

CODE = ("nsysconv", "scripts", "benchmarks", "fuzz", "faults", "ci")
MODULES = sorted(
    path
    for folder in CODE
    for path in (ROOT / folder).rglob("*.py")
    if not path.is_relative_to(ROOT / "benchmarks" / "data")
)
# Generated from texts that users see in reports, too: those are changed only with the outputs.
OF_OUTPUTS = {"cli.md", "reports.md", "schema.md"}
# Names the words that are not used.
OF_RULES = {"CONTRIBUTING.md"}
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name not in OF_OUTPUTS | OF_RULES
)

TELL = r"\b(?:tell|tells|told|telling)\b"
# "of one" without the thing that it is one of: "of one it is not known".
FORBIDDEN = re.compile(
    rf"{TELL}|\bstands\b|(?<!here )\b(?-i:is none)\b|\b(?-i:As for)\b"
    r"|\bof one(?=[,.;:)]| (?:it|is|that|which)\b)",
    re.I,
)
# The third answer of a comparison has this name.
VERDICT = re.compile(r"cannot[ -]tell", re.I)
# A method may be of another library, as `file.tell()`.
IN_NAMES = re.compile(r"(?:^|_)(?:tell|tells|told|telling|stands)(?:_|$)")
# What all of these have in common with a text that they match.
WORD = "(?:tell|tells|told|telling|stands)"
LETTERS = re.compile(rf"{FORBIDDEN.pattern}|_{WORD}(?![a-z])|(?<![a-z]){WORD}_", re.I)
# For users, in messages and tables; forms of tell elsewhere are counted against them.
MOST_TELL_LINES = 150


def test_prose_that_are_forbidden_are_found() -> None:
    for text in ("it tells", "It stands there", "like a row and is none", "As for it", "of one it is"):
        assert FORBIDDEN.search(text), text
        assert LETTERS.search(text), text
    for text in ("the steps of one run", "a file that standardizes", "the hotel", "there is none"):
        assert not FORBIDDEN.search(text), text


def test_comments_docstrings_and_names_use_plain_words() -> None:
    found = {str(path.relative_to(ROOT)): [*_forbidden_in_module(path)] for path in MODULES}
    assert {name: words for name, words in found.items() if words} == {}


def test_pages_use_plain_words() -> None:
    found = {str(path.relative_to(ROOT)): [*_forbidden_in_page(path)] for path in PAGES}
    assert {name: lines for name, lines in found.items() if lines} == {}


def _forbidden_in_module(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if LETTERS.search(text):  # to split a module into tokens takes long
        tokens = [*tokenize.generate_tokens(io.StringIO(text).readline)]
        yield from (*_forbidden_prose(text, tokens), *_forbidden_names(tokens))


def _forbidden_in_page(path: Path) -> Iterator[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.S)
    # Indented blocks are outputs and examples.
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    yield from (line for line in lines if FORBIDDEN.search(VERDICT.sub("", line)))


def test_few_lines_of_the_package_have_a_form_of_tell() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "nsysconv").rglob("*.py")]
    lines = [line for text in texts for line in text.splitlines() if re.search(TELL, line, re.I)]
    assert len(lines) <= MOST_TELL_LINES


def _forbidden_prose(text: str, tokens: Sequence[tokenize.TokenInfo]) -> Iterator[str]:
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield from _matches(token.string, token.start[0])
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:
            # Docstrings, and the strings below constants that say what these are.
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield from _matches(value.value, statement.lineno)


def _matches(prose: str, line: int) -> Iterator[str]:
    prose = VERDICT.sub("", re.sub(r"`[^`\n]*`", "", prose))
    yield from (f"line {line}: {match.group()}" for match in FORBIDDEN.finditer(prose))


def _forbidden_names(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[str]:
    before = ""
    for token in tokens:
        is_method, before = before == ".", token.string
        if token.type != tokenize.NAME or is_method or not IN_NAMES.search(token.string):
            continue
        name = VERDICT.sub("", token.string.replace("_", " ")).replace(" ", "_")
        if IN_NAMES.search(name):
            yield f"line {token.start[0]}: {token.string}"


# What the field has a word for: CPU-bound, allocations, notes.
OWN_WORDS = re.compile(r"given back|had not asked|to mind\b|graphs by\b|ran dry", re.I)


def test_people_read_the_words_of_the_field() -> None:
    declared = [queries.query(name) for name in queries.REPORTS]
    texts = [
        *(each.title for each in declared),
        *(column.doc for each in declared for column in each.columns),
        *(fact.label for fact in Fact),
        *codes.TIME_CLASSES.values(),
        *(text for rule in words().values() for text in (rule.finding, *rule.advice.values())),
        (ROOT / "nsysconv" / "render" / "page" / "__init__.py").read_text(),
    ]
    assert [text for text in texts if OWN_WORDS.search(text)] == []


# Phrases that are wrong wherever they are, and what is written instead.
INSTEAD = {
    r"\bcannot[ _-]tell\b": "inconclusive",
    r"\b(?:runs?|repeats?|values?|profiles?|recordings?) a side\b": "per side",
    r"\brules that cannot look\b": "checks that could not run",
    r"\bat the most\b": "at most",
    r"\bin all(?=[.,;:)])": "in total",
    r"\bwhat holds it back\b": "bottlenecks",
    r"\bif runs differ by\b": "assuming … run-to-run noise",
    r"\bas many as pay\b": "automatic",
    r"\blength of the session\b": "session length",
    r"\bwindow of GPU work\b": "GPU active window",
    r"\btime from step to step\b": "step period",
    r"\branges of NVTX\b": "NVTX ranges",
    r"\bcalls of MPI\b": "MPI calls",
    r"\bkernels of NCCL\b": "NCCL kernels",
    r"\bmemory sets?\b(?! (?:the|a|its)\b)": "memset",
    r"\bwith other options\b": "with different options",
    r"\bbeside each other\b": "side by side",
    r"\bculprits?\b": "contributor",
    r"\b(?:that|which|they|these) are no (?!longer|more|less)\w+s\b": "are not",
    r"(?:[Cc]olour|eighbour|ehaviour|(?:ynchron|erial|nitial|ecogn|ormal|ptim)is(?:e[sdr]?|ing|ation))\b":
        "the American spelling",
}
# The page on words names those that are not used.
WORDS_PAGE = {"style-of-words.md"}
# With which advice begins.
VERBS = {
    "Allocate", "Allow", "Avoid", "Balance", "Capture", "Check", "Combine", "Compute", "Copy",
    "Create", "Detach", "Even", "Exchange", "Exclude", "Free", "Hand", "Hold", "Increase",
    "Keep", "Launch", "Load", "Look", "Make", "Map", "Measure", "Optimize", "Overlap", "Pad",
    "Pin", "Prefetch", "Prepare", "Profile", "Read", "Record", "Remove", "Reuse", "Run", "See",
    "Set", "Shorten", "Skip", "Start", "Synchronize", "Update", "Use", "Wait", "Warm",
}  # fmt: skip
TEXTS = {".py", ".toml", ".js", ".css", ".sh", ".yml", ".md"}
PEOPLE_READ = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *(each for name in ("nsysconv", "ci", "docs") for each in (ROOT / name).rglob("*")),
    )
    if path.suffix in TEXTS and path.name not in OF_RULES | WORDS_PAGE
)


def test_phrases_that_are_wrong_everywhere() -> None:
    """Lines may break within a phrase, in comments, too."""
    found = []
    # The longest word of each, as far as it has one, is found sooner.
    words = {pattern: max(re.findall(r"[a-z]{2,}", re.sub(r"\([^)]*\)|\[.*\]|\\.|.\?", " ", pattern)),
                          key=len, default="") for pattern in INSTEAD}  # fmt: skip
    for path in PEOPLE_READ:
        text = re.sub(r"\s+(?:# )?", " ", path.read_text(encoding="utf-8"))
        lower = text.lower()
        found += [f"{path.relative_to(ROOT)}: {match.group()}; write: {instead}"
                  for pattern, instead in INSTEAD.items() if words[pattern].lower() in lower
                  for match in re.finditer(pattern, text, re.I)]  # fmt: skip
    assert found == []


@pytest.mark.parametrize("rule", words())
def test_a_bottleneck_is_a_sentence_and_its_advice_begins_with_a_verb(rule: str) -> None:
    """Advice begins with a verb in the imperative; a sentence ends with a period."""
    assert words()[rule].finding.endswith(".")
    first = {text.split()[0].rstrip(":") for text in words()[rule].advice.values()}
    assert first <= VERBS, first - VERBS
