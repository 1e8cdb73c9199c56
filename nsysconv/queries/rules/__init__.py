"""Rules: each looks for one known way to waste time, and its rows are the findings.

What each looks for, and where it differs from the rule of this name of `nsys analyze`: docs/rules.md.
"""

REPORTS: tuple[str, ...] = (
    "cuda_memcpy_async",
    "cuda_memcpy_sync",
    "cuda_memset_sync",
    "cuda_api_sync",
    "gpu_gaps",
    "gpu_time_util",
)
"""Modules of this folder, one rule each."""

MODULES: dict[str, str] = {}
