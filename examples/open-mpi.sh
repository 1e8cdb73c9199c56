#!/bin/bash
# Open MPI without a batch system: every fourth rank is profiled. Nothing tells which ranks are one run,
# so it gets a name.
#
#   examples/open-mpi.sh
#

# One rank that fails makes mpirun kill the others, and its patience is a second: more of it lets
# their reports be finished.
mpirun -n 8 --mca odls_base_sigkill_timeout 30 \
    nsysconv profile --ranks %4 --run first-try -- \
    nsys profile -t cuda,nvtx,mpi -o prof/solver ./solver --steps 100
