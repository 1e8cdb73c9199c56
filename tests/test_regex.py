"""Regular expressions that somebody typed: each way in says what is wrong with one, and ends with 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import BASIC, FIXTURES, run
from small_store import Kernel, write

from nsysconv.errors import UsageError
from nsysconv.regex import regular_expression

PROFILE = FIXTURES / BASIC
# Too large for Python, a mistake, and one that would take years of some names.
WRONG = ["a{99999999999999999999}", "(", "(a+)+$"]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("words", [
    ("report", PROFILE, "kernels", "--name", "{}"),
    ("report", PROFILE, "steps", "--step-kernel", "{}"),
    ("report", PROFILE, "cuda_gpu_kern_hist:name={}"),
    ("report", PROFILE, "phases", "--grammar", "rules.toml"),
    ("import", PROFILE, "-o", "new.db", "--rank-from", "{}"),
    ("history", "runs.db", "kernels[/{}/].avg_ns"),
    ("diff", "runs.db", "runs.db", "--fail-on", "kernels[/{}/].avg_ns:3%"),
])  # fmt: skip
def test_each_way_in_says_what_is_wrong(words: tuple[str, ...], wrong: str, tmp_path: Path) -> None:
    if words[0] in ("history", "diff"):
        write(tmp_path / "runs.db", Kernel(0, 10))
    rule = f"[[rule]]\nframework = 'mine'\nis = 'step'\nphase = 'x'\npattern = '{wrong}'\n"
    (tmp_path / "rules.toml").write_text(rule, encoding="utf-8")
    asked = [str(word).replace("{}", wrong) for word in words]
    outcome = run(*asked, cwd=tmp_path)
    assert outcome.status == 2
    said = "may take forever" if "+" in wrong else "is not a regular"
    assert f"{wrong!r} {said}" in outcome.err or f"/{wrong}/ {said}" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("text", [
    "(a+)+", "(a|b+)*", "(?i:a+b?)+", "(a+){2,}", "(?P<n>a*)*?", "(x)?(?(1)a+|b)+", r"(\s*\w+\s*)*$",
    "((a|b)+c?)+", r"x(\d+,?)+y", "(?:(?:a{1,20})*?)+",
])  # fmt: skip
def test_a_repeat_of_a_repeat_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it repeats a repeat") as caught:
        regular_expression(text)
    assert caught.value.hint == "Repeat once: (a+)+ is a+, and (a*|b)+ is (a|b)*."


@pytest.mark.parametrize("text", [
    r"(\w+::)*x", "(?:[a-z]+_)*", "(a+){3}", "(?>a+)+", "(a++)+", "(a|b)*c", "(a{2})+", "((x+)?y)*",
    r"^a.*b.*$", r"(\d{1,3},?)+", "(?i)a+", "(?x) a + # b", "(?:(?=a+)b)*",
])  # fmt: skip
def test_what_ends_is_compiled(text: str) -> None:
    assert regular_expression(text).pattern == text
