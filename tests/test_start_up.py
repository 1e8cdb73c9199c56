"""What each command loads of other packages, and why. A module-level import in a wrong place fails here.

A package that is listed may be loaded, no other. What each costs: benchmarks/imports.py.
"""

from __future__ import annotations

from pathlib import Path

import imports
import pytest
from conftest import CHILD_ENVIRONMENT
from loading import loaded

# What users type is read, completed and helped with; annotated_doc and shellingham come with typer.
COMMAND_LINE = {"typer", "annotated_doc", "shellingham"}
# A store is opened: sqlalchemy states and compiles, ADBC carries, Arrow holds, numpy computes. nvtx marks
# phases; cloudpickle comes with pyarrow, typing_extensions with sqlalchemy. isal sums the rows that an
# import wrote; imports come first here, and what they load the others have.
STORE = COMMAND_LINE | {
    "sqlalchemy", "typing_extensions", "adbc_driver_manager", "adbc_driver_sqlite", "pyarrow",
    "cloudpickle", "numpy", "nvtx", "isal",
}  # fmt: skip
LOCKS = {"filelock"}  # a temporary folder is made
TERMINAL = {"rich"}  # widths of what is printed as a table
JSON = {"msgspec"}  # looking into, and reading, a file that may be a (gzipped) JSON trace
SYMBOLS = {"cxxfilt"}  # names of kernels, where a log has symbols only

ALLOWED = {
    "--help": COMMAND_LINE,
    "--version": COMMAND_LINE,
    "import --help": COMMAND_LINE,
    "report --help": COMMAND_LINE,
    "diff --help": COMMAND_LINE,
    "info --help": COMMAND_LINE,
    "runs --help": COMMAND_LINE,
    "sql --help": COMMAND_LINE,
    "export --help": COMMAND_LINE,
    "profile --help": COMMAND_LINE,
    # The rows of a database are copied by the database: nothing that reads text.
    "import of an nsys export": STORE,
    "import of an nsys report": STORE | LOCKS,
    "import of a Kineto trace": STORE | JSON | LOCKS,
    "import of an nvprof log": STORE | JSON | SYMBOLS | LOCKS,
    "answer on a store": STORE | TERMINAL,
    "report of a store": STORE | TERMINAL,
    "report of an nsys export": STORE | TERMINAL,
    "report of a Kineto trace": STORE | TERMINAL | JSON | LOCKS,
    "report -f json": STORE,
    "report -o page.html": STORE,
    "diff of two stores": STORE | TERMINAL,
    "info": STORE | TERMINAL,
    "runs": STORE | TERMINAL,
    "sql": STORE | TERMINAL,
    "export --to parquet": STORE,
    "export --to chrome": STORE,
    # The program begins in place of this process: every rank of a job waits for what is loaded here.
    "profile of a rank not chosen": COMMAND_LINE,
}

# Modules of packages that may be loaded, and where they are of use.
LOGS, EXPORTS = {"import of an nvprof log"}, {"export --to parquet", "export --to chrome"}
ONLY = {
    # 0.4 s. Arrow loads it for `pa.array`, `pa.scalar` and `to_numpy`; report.py has ways without.
    "pandas": set[str](),
    "pyarrow.pandas_compat": set[str](),
    # 30 ms. Arrow loads it for `cast` and `dictionary_encode`; `view` does for texts what a cast does.
    "pyarrow.compute": LOGS | EXPORTS,
    "pyarrow.parquet": {"export --to parquet"},
    "pyarrow.dataset": set[str](),
    # 8 ms. `np.unique` loads it; timeline.statistics.distinct does not.
    "numpy.ma": {"report -o page.html"},
    # Only a diff of repeats draws samples.
    "numpy.random": {"diff of two stores"},
    "numpy.fft": set[str](),
    # Core states the schema; there are no objects to be mapped.
    "sqlalchemy.orm": set[str](),
    # Dask is asked for with --dask.
    "nsysconv.api.dask_workers": set[str](),
    # Processes are started without it: it runs the caller's script again.
    "multiprocessing": set[str](),
    # Nothing goes over the network.
    "http": set[str](),
}  # fmt: skip


# What the first of a group loads, all of it and of the groups behind it load; it may be loaded there.
FIRST = ("--help", "import of an nsys export", "report -f json", "report of a store")


def _group(name: str) -> int:
    if name in FIRST:
        return FIRST.index(name)
    return max(n for n, first in enumerate(FIRST) if ALLOWED[first] <= ALLOWED[name])


GROUPS = [sorted((name for name in ALLOWED if _group(name) == n), key=first.__ne__)
          for n, first in enumerate(FIRST)]  # fmt: skip


def cold_commands(folder: Path) -> dict[str, imports.Cold]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYTHONPATH", "PATH"):
            patch.setenv(name, CHILD_ENVIRONMENT[name])
        return {each.name: each for each in imports.commands(folder)}


def test_every_command_loads_what_it_needs_and_no_more(tmp_path: Path) -> None:
    commands = cold_commands(tmp_path)
    assert commands.keys() == ALLOWED.keys()
    groups = [[(name, commands[name].arguments) for name in group] for group in GROUPS]
    found = loaded(groups, {**CHILD_ENVIRONMENT, "RANK": "0"})
    packages = {name: imports.third_party(modules) for name, modules in found.items()}
    assert {name: more for name in ALLOWED if (more := packages[name] - ALLOWED[name])} == {}
    assert [(name, module) for module, allowed in ONLY.items() for name, modules in found.items()
            if module in modules and name not in allowed] == []  # fmt: skip
    # What they do load is seen.
    assert packages["--help"] == COMMAND_LINE
    assert {"sqlalchemy", "numpy", "rich"} <= packages["report of a store"]


def test_a_library_import_loads_nothing_large(tmp_path: Path) -> None:
    """`import nsysconv` in a notebook: what is not used costs nothing."""
    done = imports.loaded_by("import nsysconv; nsysconv.Slice", CHILD_ENVIRONMENT)
    assert not imports.third_party(done)
