#!/bin/bash
# An array of trials. Names have the array's number, the element's and the rank's: none can clash.
#
#   sbatch examples/slurm-array.sh
#
#SBATCH --job-name=trials
#SBATCH --array=0-3
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=1
#SBATCH --time=00:20:00

srun nsysconv profile -- \
    nsys profile -t cuda,nvtx -o prof/trial python train.py --trial "$SLURM_ARRAY_TASK_ID"
