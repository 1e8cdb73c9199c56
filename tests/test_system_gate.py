"""The gate of ci/ with baselines in PostgreSQL: the newest of a name counts, and no password is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_ci import BASE_NOISE, NEW_NOISE, SLOWER, record, run_gate
from postgres import PASSWORD, Server, programs, server

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        programs() is None, reason="no PostgreSQL server; .ci/install-system installs it"
    ),
]


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as started:
        yield started


def test_the_newest_baseline_of_a_name_counts(running: Server, tmp_path: Path) -> None:
    url = running.database().secret
    record(tmp_path / "main", BASE_NOISE)
    record(tmp_path / "new", NEW_NOISE, SLOWER)

    def gate(profiles: str, name: str, update: str = "never", store: str = url) -> tuple[int, str]:
        done = run_gate(
            tmp_path, profiles=profiles, baseline=store, name=name, update=update, commit="1f3a9c",
            fail_on="kernels.per_step_ns:5%",
        )  # fmt: skip
        comment = (tmp_path / "nsysconv-comment.md").read_text(encoding="utf-8")
        assert PASSWORD not in done.stdout + done.stderr + comment
        return done.returncode, comment

    # An empty database has no store yet, and one of another name no baseline.
    assert gate("main/*.sqlite", "gpu_1")[1].startswith("### no baseline: `gpu_1` has none yet; this run")
    assert gate("main/*.sqlite", "gpu_1", "passed")[1].endswith("these profiles are it from now on\n")
    assert gate("main/*.sqlite", "gpuX1")[1].startswith("### no baseline: `gpuX1` has none yet")
    status, comment = gate("new/*.sqlite", "gpu_1")
    assert status == 1
    assert "vectorized_layer_norm_kernel" in comment
    # Accepted, it is what the next is compared with; the older one is still there.
    assert gate("new/*.sqlite", "gpu_1", "always")[0] == 1
    record(tmp_path / "next", [noise + 1 for noise in NEW_NOISE], SLOWER)
    status, comment = gate("next/*.sqlite", "gpu_1")
    assert (status, comment.partition(":")[0]) == (0, "### PASS")
    # A server that is not there is no first run.
    wrong = url.replace(running.url().secret.rpartition("host=")[2], "%2Fnowhere")
    status, comment = gate("main/*.sqlite", "gpu_1", "passed", wrong)
    assert status == 2
    assert comment.startswith("### no answer: nsysconv could not look for the baseline, status 2\n")
