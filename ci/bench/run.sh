#!/bin/sh
# Measures one area against its peer: ci/bench/run.sh AREA [options]; `ci/bench/run.sh --help` lists the areas.
# Prints a table; raw rows are appended to results/bench/AREA.jsonl.
set -eu
cd "$(dirname "$0")/../.."
built=${CARGO_TARGET_DIR:-target}/release
ci/cache.sh restore release
# Whatever the area: the same packages and features as `make demo`, and the benchmarks, so that nothing is built twice. The
# spawner of sandboxes, `clawrl-node` and `clawrl` are looked for beside the benchmarks' programs.
ci/setup.sh run cargo build --quiet --release --locked --package clawrl --package clawrl-sandbox --package clawrl-node \
    --package clawrl-bench --features clawrl/torch,clawrl-bench/torch
ci/cache.sh save release
case ${1-} in
engine | learner | weight-swap | turns | rl-loop | async-gain)
    # As `clawrl` starts its other program; the peers get what they would have without it.
    GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000} exec "$built/clawrl-bench-torch" "$@"
    ;;
esac
exec "$built/clawrl-bench" "$@"
