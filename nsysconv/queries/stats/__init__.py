"""The tables that `nsys stats` prints, for every source: by its names, with its columns and rounding.

Formulas, and the few deliberate deviations: docs/nsys-stats.md.
"""

MODULES = {
    "cuda_api_gpu_sum": "cuda_sums",
    "cuda_api_sum": "cuda_sums",
    "cuda_api_trace": "cuda_traces",
    "cuda_gpu_kern_gb_sum": "cuda_sums",
    "cuda_gpu_kern_sum": "cuda_sums",
    "cuda_gpu_mem_size_sum": "cuda_sums",
    "cuda_gpu_mem_time_sum": "cuda_sums",
    "cuda_gpu_sum": "cuda_sums",
    "cuda_gpu_trace": "cuda_traces",
    "cuda_kern_exec_sum": "cuda_traces",
    "cuda_kern_exec_trace": "cuda_traces",
    "mpi_event_sum": "host_calls",
    "mpi_event_trace": "host_calls",
    "nvtx_gpu_proj_sum": "nvtx_tables",
    "nvtx_gpu_proj_trace": "nvtx_tables",
    "nvtx_kern_sum": "nvtx_tables",
    "nvtx_pushpop_sum": "nvtx_tables",
    "nvtx_pushpop_trace": "nvtx_tables",
    "nvtx_startend_sum": "nvtx_tables",
    "nvtx_sum": "nvtx_tables",
    "openacc_sum": "host_calls",
    "osrt_sum": "host_calls",
    "um_cpu_page_faults_sum": "unified_memory",
    "um_sum": "unified_memory",
    "um_total_sum": "unified_memory",
}
"""The module of this folder that declares each table, in the order in which `nsys stats` lists them."""

REPORTS = tuple(MODULES)

ALIASES = {
    "apigpusum": "cuda_api_gpu_sum",
    "cudaapisum": "cuda_api_sum",
    "cudaapitrace": "cuda_api_trace",
    "gpukernsum": "cuda_gpu_kern_sum",
    "gpumemsizesum": "cuda_gpu_mem_size_sum",
    "gpumemtimesum": "cuda_gpu_mem_time_sum",
    "gpusum": "cuda_gpu_sum",
    "gputrace": "cuda_gpu_trace",
    "kernexecsum": "cuda_kern_exec_sum",
    "kernexectrace": "cuda_kern_exec_trace",
    "nvtxgpuproj": "nvtx_gpu_proj_trace",
    "nvtxkernsum": "nvtx_kern_sum",
    "nvtxppsum": "nvtx_pushpop_sum",
    "nvtxpptrace": "nvtx_pushpop_trace",
    "nvtxsssum": "nvtx_startend_sum",
    "nvtxsum": "nvtx_sum",
    "openaccsum": "openacc_sum",
    "osrtsum": "osrt_sum",
    "umcpupagefaults": "um_cpu_page_faults_sum",
    "unifiedmemory": "um_sum",
    "unifiedmemorytotals": "um_total_sum",
}
"""Names of these tables before nsys 2023."""
