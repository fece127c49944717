#!/bin/sh
# A Dask scheduler and workers on this machine: ./start.sh [workers] [port]
# Then, in another shell: opsplit predict data --out out --cluster tcp://127.0.0.1:8786
# Ctrl-C ends them all. Both bind to the loopback: no other machine can reach them.
set -eu
workers=${1:-2} port=${2:-8786} here=127.0.0.1

# An item that ends its worker is reported to the client at once, which tries it once more.
export DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=0
export OMP_NUM_THREADS=1

dask scheduler --host "$here" --port "$port" --no-dashboard &
trap 'kill $(jobs -p) 2>/dev/null' EXIT INT TERM
dask worker "tcp://$here:$port" --host "$here" --nworkers "$workers" --nthreads 1 --no-dashboard
