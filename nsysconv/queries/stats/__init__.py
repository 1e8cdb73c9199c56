"""The tables that `nsys stats` prints, for every source: by its names, with its columns and rounding.

Formulas, and the few deliberate deviations: docs/nsys-stats.md.
"""

REPORTS: tuple[str, ...] = (
    "cuda_api_gpu_sum",
    "cuda_api_sum",
    "cuda_api_trace",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_sum",
    "cuda_gpu_trace",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    "mpi_event_sum",
    "mpi_event_trace",
    "nvtx_gpu_proj_sum",
    "nvtx_gpu_proj_trace",
    "nvtx_kern_sum",
    "nvtx_pushpop_sum",
    "nvtx_pushpop_trace",
    "nvtx_startend_sum",
    "nvtx_sum",
    "openacc_sum",
    "osrt_sum",
    "um_cpu_page_faults_sum",
    "um_sum",
    "um_total_sum",
)
"""Modules of this folder, one table each, in the order in which `nsys stats` lists them."""

ALIASES: dict[str, str] = {
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
"""What these tables were called before nsys 2023."""

MODULES: dict[str, str] = {}
