#!/usr/bin/env bash
# Tests the extension for OpenClaw: its types, its units, every request of the real client, with it and without, and the record of its
# conversations with the real `clawrl serve`.
#
#   ci/openclaw/run.sh           all of it; some minutes
#   ci/openclaw/run.sh units     types and units alone; some seconds
#   ci/openclaw/run.sh serve     conversations with `clawrl serve` alone; some minutes, and a build
#   ci/openclaw/run.sh install   installs the client, and says nothing when it is there
#   ci/openclaw/run.sh check     succeeds when the client is there; installs nothing
#
# It installs Node and OpenClaw with npm in the user's cache folder, once for all checkouts, and writes nothing into the
# checkout. Every test has a home of its own, which is removed, and listens on loopback alone.
#
# CLAWRL: the `clawrl` to serve with, built with the feature `torch` and with clawrl-torch beside it; without it, one is built.
# CLAWRL_BASE_URL and CLAWRL_KEY: a gateway to talk to, as http://127.0.0.1:30000/v1, instead of one that the tests bring.
# CLAWRL_CAPTURES: a folder in which the requests are kept, one line of JSON each.
#
# Exit codes: 0 all well. 1 a test failed, or the client is not there (check). 2 wrong usage. 3 npm or Node is missing.
#             6 an installation, or the build, failed.
set -euo pipefail

readonly NODE_VERSION=24.21.0 OPENCLAW_VERSION=2026.9.6
readonly EXIT_FAILED=1 EXIT_USAGE=2 EXIT_PROGRAMS=3 EXIT_INSTALL=6

say() { printf 'openclaw: %s\n' "$@" >&2; }

die() {
    local code=$1
    shift
    say "$@"
    exit "$code"
}

purpose=${1-all}
[[ $# -le 1 && $purpose =~ ^(all|units|serve|install|check)$ ]] ||
    die "$EXIT_USAGE" 'usage: ci/openclaw/run.sh [units|serve|install|check]'

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
extension=$root/harness/gateway/openclaw-extension
cache="${XDG_CACHE_HOME:-${HOME:?openclaw: set HOME, or XDG_CACHE_HOME}/.cache}/clawrl"
readonly root extension place=$cache/openclaw
readonly node=$place/node_modules/.bin/node modules=$place/node_modules
readonly wanted="node@$NODE_VERSION openclaw@$OPENCLAW_VERSION"

have_client() {
    [[ -r $place/installed && $(<"$place/installed") == "$wanted" && -x $node &&
        -f $modules/openclaw/openclaw.mjs && -f $modules/typescript/bin/tsc && -d $modules/@types/node ]]
}

install_client() {
    ! have_client || return 0
    command -v npm >/dev/null && command -v node >/dev/null ||
        die "$EXIT_PROGRAMS" 'there is no npm, or no node; install the packages nodejs and npm'
    # A second one waits here and then finds the work done.
    mkdir -p "$cache" 2>/dev/null || die "$EXIT_INSTALL" "cannot create $cache: make it writable, or set XDG_CACHE_HOME"
    exec 9>"$cache/openclaw.lock"
    flock 9
    ! have_client || return 0
    say "installing Node $NODE_VERSION and OpenClaw $OPENCLAW_VERSION (0.8 GB) in $place"
    local log=$cache/openclaw.log
    rm -rf "$place"
    mkdir -p "$place"
    # OpenClaw's own scripts ask for this Node, and npm runs them with the one in PATH.
    {
        npm_install "node@$NODE_VERSION" && PATH="$modules/.bin:$PATH" npm_install "openclaw@$OPENCLAW_VERSION"
    } </dev/null >"$log" 2>&1 9>&- || die "$EXIT_INSTALL" 'this failed:' "$(tail -n 20 "$log")"
    printf '%s\n' "$wanted" >"$place/installed"
    have_client || die "$EXIT_INSTALL" "installed, and yet not all of it is in $place"
    exec 9>&-
}

npm_install() {
    npm install --prefix "$place" --save-exact --no-audit --no-fund --no-update-notifier --loglevel=error "$@"
}

# The types are those of the client that is installed. TypeScript looks for them above a file, so it is shown a copy.
check_types() {
    work=$(mktemp --directory) # No local: the trap outlives this function.
    trap 'rm -rf "$work"' EXIT
    cp -r "$extension"/{package.json,tsconfig.json,src,test} "$work"
    ln -s "$modules" "$work/node_modules"
    "$node" "$modules/typescript/bin/tsc" --project "$work" || die "$EXIT_FAILED" 'the types are wrong'
}

# Sets CLAWRL to a program that serves a policy of its own, too.
build_program() {
    if [[ -n ${CLAWRL-} ]]; then
        CLAWRL=$(realpath "$CLAWRL")
    else
        say 'building clawrl with the feature torch; CLAWRL names one that is built'
        (cd "$root" && ci/setup.sh run cargo build --release --locked -p clawrl -p clawrl-sandbox --features clawrl/torch) ||
            die "$EXIT_INSTALL" 'clawrl cannot be built'
        CLAWRL=${CARGO_TARGET_DIR:-$root/target}/release/clawrl
    fi
    export CLAWRL
}

run_tests() {
    OPENCLAW_FOLDER=$place "$node" --test "$@" || die "$EXIT_FAILED" 'a test failed'
}

case $purpose in
check)
    have_client || exit "$EXIT_FAILED"
    exit
    ;;
install)
    install_client
    exit
    ;;
esac
install_client
check_types
if [[ $purpose != serve ]]; then
    run_tests "$extension"/test/*.test.ts
fi
if [[ $purpose == all ]]; then
    run_tests "$extension/test/end-to-end.ts"
fi
if [[ $purpose == all || $purpose == serve ]]; then
    build_program
    run_tests "$extension/test/serve.ts"
fi
