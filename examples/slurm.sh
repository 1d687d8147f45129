#!/bin/bash
# A fit on two machines: sbatch examples/slurm.sh. One rank for each core; the chain is the same for any number.
#SBATCH --job-name=unbounded
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=16
#SBATCH --cpus-per-task=1
#SBATCH --time=08:00:00
#SBATCH --requeue

set -euo pipefail
RUN=${RUN:-run}
DATA=${DATA:-pieces/} # on a file system that all machines see: unbounded shard data.parquet --shards 64 --out pieces/

# When a rank dies, the job ends; when a machine dies, Slurm starts it again. Submitted again, with other numbers if you
# like, it goes on from the run directory.
# Where your Slurm speaks no PMI that your MPI knows, put `mpiexec` in the place of `srun ...`.
launch=(srun --mpi=pmi2 --kill-on-bad-exit=1)

if [ -e "$RUN/run.json" ]; then
    "${launch[@]}" unbounded resume "$RUN" --quiet
else
    "${launch[@]}" unbounded fit dp "$DATA" --out "$RUN" --shards 64 --engine mpi --quiet
fi
