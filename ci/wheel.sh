#!/usr/bin/env bash
# Builds the Python wheel that holds the programs, and prints its path.
#
#   ci/wheel.sh                 builds the programs for release, and writes the wheel to target/wheels
#   ci/wheel.sh PROGRAMS OUT    packs the programs in folder PROGRAMS, and writes the wheel to folder OUT
#
# HATCHLING names a Python that has hatchling; without it, one is installed in target/wheel-venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case $# in
0)
    CLAWRL_PORTABLE=1 ci/setup.sh run cargo build --release --locked --package clawrl --package clawrl-sandbox --package clawrl-node --features clawrl/torch
    set -- target/release target/wheels
    ;;
2) ;;
*) printf 'usage: ci/wheel.sh [PROGRAMS OUT]\n' >&2 && exit 2 ;;
esac

python=${HATCHLING-$PWD/target/wheel-venv/bin/python}
if [[ ! -x $python ]]; then
    python3 -m venv target/wheel-venv
    "$python" -m pip install --quiet --disable-pip-version-check hatchling==1.33.0
fi
mkdir -p "$2"
# Of other versions: the image takes the only one there.
rm -f "$2"/clawrl-*.whl
CLAWRL_PROGRAMS=$(realpath "$1") out=$(realpath "$2")
export CLAWRL_PROGRAMS
cd harness/clawrl/wheel
"$python" -m hatchling build --target wheel --directory "$out" 2>&1 | tail -n 1
