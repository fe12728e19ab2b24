#!/bin/sh
# Measures one area against its peer: ci/bench/run.sh AREA [options]; `ci/bench/run.sh --help` lists the areas.
# Prints a table; raw rows are appended to results/bench/AREA.jsonl.
set -eu
cd "$(dirname "$0")/../.."
built=${CARGO_TARGET_DIR:-target}/release
case ${1-} in
engine | learner | weight-swap | turns | rl-loop | async-gain)
    ci/setup.sh run cargo build --quiet --release --locked --package clawrl-bench --features clawrl-bench/torch
    # As `clawrl` starts its other program; the peers get what they would have without it.
    GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000} exec "$built/clawrl-bench-torch" "$@"
    ;;
esac
# The second program is the spawner of sandboxes, which is looked for beside the first; so is the one that some measure.
measured= setup=
case ${1-} in
report | suite) measured="--package clawrl" ;;
swe) measured="--package clawrl-node" ;;
objectives | chat-learning | gate-sampling) measured="--package clawrl --features clawrl/torch" setup="ci/setup.sh run" ;;
esac
# shellcheck disable=SC2086 # Nothing, or several words.
$setup cargo build --quiet --release --locked --package clawrl-bench --package clawrl-sandbox $measured
exec "$built/clawrl-bench" "$@"
