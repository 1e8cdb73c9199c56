"""Regular expressions that somebody typed: each way in says what is wrong with one, and ends with 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import BASIC, FIXTURES, run
from small_store import Kernel, write

PROFILE = FIXTURES / BASIC
# Too large for Python, and a mistake.
WRONG = ["a{99999999999999999999}", "("]


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
    assert (
        f"{wrong!r} is not a regular" in outcome.err or f"/{wrong}/ is not a regular" in outcome.err
    )
    assert "Traceback" not in outcome.err
