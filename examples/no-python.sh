#!/bin/bash
# Nodes without Python, or an old cluster with nvprof: the shell twin runs with nothing but POSIX sh.
# Its reports are imported elsewhere.
#
#   sbatch examples/no-python.sh
#
#SBATCH --job-name=solver
#SBATCH --ntasks=4
#SBATCH --gpus-per-task=1
#SBATCH --time=00:30:00

srun nsysconv-rank.sh -o prof/solver --ranks 0,2 -- nvprof -- ./solver --steps 100

# On the login node, or a laptop: nsysconv import prof -o solver.db
