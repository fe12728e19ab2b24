#!/bin/sh
# Runs one benchmark: ci/bench/run.sh AREA [options]; `ci/bench/run.sh --help` lists the areas.
# Prints a table and appends raw rows to results/bench/AREA.jsonl.
set -eu
cd "$(dirname "$0")/../.."
built=${CARGO_TARGET_DIR:-target}/release
ci/cache.sh restore release
# All areas build the same packages and features as `make demo`, plus the benchmarks, so that nothing is built twice. The
# benchmarks look for the spawner of sandboxes and for `clawrl` beside their own programs.
ci/setup.sh run cargo build --quiet --release --locked --package clawrl --package clawrl-sandbox \
    --package clawrl-bench --features clawrl/torch,clawrl-bench/torch
ci/cache.sh save release
case ${1-} in
engine | learner | weight-swap)
    # `clawrl` sets this variable when it starts `clawrl-torch`; the peers run without it.
    GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000} exec "$built/clawrl-bench-torch" "$@"
    ;;
esac
exec "$built/clawrl-bench" "$@"
