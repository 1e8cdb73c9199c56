"""Rules: each looks for one known way to waste time, and its rows are the findings.

What each looks for, and where it differs from the rule of this name of `nsys analyze`: docs/rules.md.
"""

MODULES = {
    "cuda_memcpy_async": "api_calls",
    "cuda_memcpy_sync": "api_calls",
    "cuda_memset_sync": "api_calls",
    "cuda_api_sync": "api_calls",
    "gpu_gaps": "device_use",
    "gpu_time_util": "device_use",
}
"""The module of this folder that declares each rule."""

REPORTS = tuple(MODULES)
