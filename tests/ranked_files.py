"""Recordings of ranks for tests: an export whose captured environment has these variables."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from conftest import NSYS

ALONE = NSYS / "ranges-3.28.1.sqlite"
"""One process at work, whose environment tells neither rank nor job."""
PAIR = NSYS / "two_processes_two_gpus-3.24.7.sqlite"
"""Two processes at work, without ranks."""


def recorded(path: Path, *, source: Path = ALONE, mark: str = "", **variables: object) -> Path:
    """Writes an export to `path`; `mark` makes its bytes differ from those of another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    text = "\n".join(f"{name}={value}" for name, value in variables.items())
    connection = sqlite3.connect(path)
    insert = "INSERT INTO META_DATA_CAPTURE VALUES (?, ?)"
    connection.execute(insert, ("PROCESS_0:ENVIRONMENT_VARIABLE", text))
    connection.execute(insert, ("MARK", mark or path.name))
    connection.commit()
    connection.close()
    return path


def of_rank(path: Path, rank: int, size: int = 8, job: int | None = None, mark: str = "") -> Path:
    """The same of a rank that srun started, in a job or without one."""
    batch = {} if job is None else {"SLURM_JOB_ID": job, "SLURM_STEP_ID": 0}
    return recorded(path, mark=mark, PMI_RANK=rank, PMI_SIZE=size, **batch)


def written_record(path: Path, **fields: Any) -> Path:
    """A record, as `nsysconv profile` writes it, beside the report `path`."""
    record = path.with_name(path.stem + ".nsysconv.json")
    record.write_text(json.dumps({"nsysconv_record": 1, **fields}), encoding="utf-8")
    return record
