#!/bin/bash
# Two nodes, one task per GPU: the first task of each node is profiled, the others run as ever.
#
#   sbatch examples/slurm-srun.sh
#
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-task=1
#SBATCH --time=01:00:00
# Ten minutes before the end SIGTERM comes: time enough to finish a large report.
#SBATCH --signal=TERM@600

# The line behind -- is what you would write without nsysconv; -o is completed by job and rank:
# prof/train.JOB.STEP.rankN.nsys-rep, the store beside it (.db), and a record (.nsysconv.json).
# On a job's own local disk, where there is one, --scratch "$SLURM_TMPDIR" keeps /tmp free.
srun nsysconv profile --ranks local0 -- \
    nsys profile -t cuda,nvtx -o prof/train python train.py
status=$?

# All ranks of the job as one run, read once more from their stores.
nsysconv import prof -o "job-$SLURM_JOB_ID.db"
nsysconv report "job-$SLURM_JOB_ID.db"
exit $status
