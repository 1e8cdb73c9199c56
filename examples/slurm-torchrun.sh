#!/bin/bash
# torchrun starts the workers of a node: either it is profiled with all of them (one report per node, as
# here), or each worker by itself (see the line below).
#
#   sbatch examples/slurm-torchrun.sh
#
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --time=01:00:00

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

# One report per node; every second node is profiled.
srun nsysconv profile --ranks node%2 -- \
    nsys profile -t cuda,nvtx --trace-fork-before-exec=true -o prof/node \
    torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 4 \
    --rdzv-backend c10d --rdzv-endpoint "$head:29500" train.py

# One report per worker: torchrun starts the wrapper instead of Python.
#
#   srun torchrun … --no-python \
#       nsysconv profile --ranks 0,4 -- nsys profile -o prof/train python train.py
