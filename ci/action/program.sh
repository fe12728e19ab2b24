#!/usr/bin/env bash
# First step of action.yml: finds the program, or builds the version of the action, and names it as output `program`.
#
# Reads CLAWRL_BINARY, which may be empty, GITHUB_ACTION_PATH and GITHUB_OUTPUT.
# Exit codes: 0 done. 2 the named program is none. Otherwise that of cargo.
set -euo pipefail

named=${CLAWRL_BINARY-}
if [[ -n $named ]]; then
    # An output is a line: what follows a line end would be another output.
    if [[ $named == *$'\n'* || ! -x $named || -d $named ]]; then
        echo "::error title=ClawRL::the input binary names no program"
        exit 2
    fi
    program=$(realpath -- "$named")
elif program=$(command -v clawrl); then
    :
else
    target=${RUNNER_TEMP:-/tmp}/clawrl-target
    cargo build --release --locked --manifest-path "$GITHUB_ACTION_PATH/Cargo.toml" --target-dir "$target" \
        --package clawrl --package clawrl-sandbox
    program=$target/release/clawrl
fi
"$program" --version
echo "program=$program" >>"$GITHUB_OUTPUT"
