"""What people type first, who know another tool or none: each ends in the command that they want."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import BASIC, FIXTURES, run

NAME = Path(BASIC).name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes((FIXTURES / BASIC).read_bytes())
    return tmp_path


def test_no_word_at_all_is_the_help(folder: Path) -> None:
    outcome = run(cwd=folder)
    assert outcome.status == 2
    assert "Commands:" in outcome.out + outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (f"stats {NAME}", f"nsysconv report {NAME} cuda_gpu_kern_sum"),
        (f"stats --report cuda_gpu_kern_sum {NAME}", f"nsysconv report {NAME} cuda_gpu_kern_sum"),
        (f"analyze {NAME}", f"nsysconv report {NAME} findings"),
        (f"open {NAME}", f"nsysconv {NAME} --open"),
        ("compare a b", "nsysconv diff BASE OTHER"),
        ("help", "nsysconv --help"),
        (f"report {NAME} kernels,overview", "Put spaces between them: kernels overview"),
        (f"{NAME} kernels", f"nsysconv report {NAME} kernels"),
        (f"{NAME} {NAME}", f"nsysconv diff {NAME} {NAME}"),
        (f"report {NAME} -r cuda_gpu_kern_sum", "after the target, without an option"),
        (f"report {NAME} kernels --sort kernel_sum", "`nsysconv sql` sorts"),
        (f"report {NAME} kernels --top 3", "--limit N"),
        (f"report {NAME} kernels --csv", "-f csv"),
        (f"{NAME} --gpu 0", "--device N"),
        (f"export {NAME} --type sqlite", "--to FORMAT"),
        *((f"{words} --join", "nsysconv import --join FILE FILE -o BOTH.db") for words in (
            f"info {NAME}", f"find {NAME} saxpy", f"diff {NAME} {NAME}", f"sql {NAME} x",
            f"export {NAME} --to parquet -o out",
        )),
    ],
)
def test_the_command_that_is_meant_is_named(folder: Path, typed: str, meant: str) -> None:
    outcome = run(*typed.split(), cwd=folder)
    assert outcome.status == 2
    assert meant in outcome.err
