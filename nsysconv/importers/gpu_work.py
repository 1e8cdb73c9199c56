"""What importers say of profiles without GPU work."""

from __future__ import annotations

from nsysconv.notes import Note, Severity

# Calls that put work on a GPU: if one succeeded and there are no GPU rows, the work was not recorded.
WORKING_CALLS = ("cudaLaunch", "cuLaunch", "cudaMemcpy", "cuMemcpy", "cudaMemset", "cuMemset",
                 "cudaGraphLaunch", "cuGraphLaunch")  # fmt: skip

NO_GPU_WORK = Note("no-gpu-work", Severity.INFO, "the profile holds no GPU operation")


def lost_gpu_work(call: str) -> Note:
    """The note that there should be GPU work, because this call succeeded."""
    text = f"no GPU work was recorded, although {call} was called"
    return Note("gpu-activity-missing", Severity.INFO, text)
