#!/usr/bin/env bash
# Runs a suite end to end against a server that others wrote: llama.cpp's, from PyPI, with a tiny model made on the spot.
# Not part of CI, because it downloads some 60 MB of Python packages, into the user's cache folder.
#
#   ci/remote/third-party.sh [SUITE]     default: tasks/terminal-basics, one task of every family
#
# It builds clawrl, or takes the one that CLAWRL names. Expected: every slot is finished, none by a fault; the
# model said each of its replies; tokens are reported by the server. The results are printed. PYTHON names the Python to use, 3.10 or newer.
#
# Exit codes: 0 all holds. 1 something does not. 2 a program is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

suite=${1-tasks/terminal-basics}
python=${PYTHON:-python3}
home="${XDG_CACHE_HOME:-$HOME/.cache}/clawrl/remote/third-party"
command -v jq >/dev/null || {
    echo "$0: jq is missing" >&2
    exit 2
}
if [ -z "${CLAWRL-}" ]; then
    cargo build --release --locked -p clawrl -p clawrl-sandbox
    CLAWRL=target/release/clawrl
fi
"$python" -m venv "$home"
"$home/bin/pip" install --quiet --requirement ci/remote/requirements.txt

folder=$(mktemp -d)
# The server ends with its standard input, which ends with this descriptor.
coproc server { exec "$home/bin/python" ci/remote/serve.py "$folder" 2>"$folder/server.log"; }
server_pid=$server_PID
finish() {
    exec {server[1]}>&- || true
    wait "$server_pid" || true
    rm -rf "$folder"
}
trap finish EXIT
read -r base_url <&"${server[0]}" || {
    tail -n 40 "$folder/server.log" >&2
    exit 1
}
echo "llama.cpp serves at $base_url"

cat >"$folder/policy.yaml" <<END
format: 1
model: tiny-chain
base_url: $base_url
key_env: none
sampling: { temperature: 1, max_tokens: 16, seed: true }
END
"$CLAWRL" run "$suite" --limit 26 --concurrency 8 --policy "remote:$folder/policy.yaml" --name third-party \
    --results "$folder/results" --json --quiet >"$folder/end.json"
jq '{slots: .summary.total.slots, finished: .summary.total.finished, faulted: .summary.total.faulted,
     turns: .summary.total.turns, usage: .summary.total.usage}' "$folder/end.json"
jq --exit-status '.summary.total
    | .finished == .slots and .faulted == 0 and .usage.replies == .turns and .usage.estimated_replies == 0' \
    "$folder/end.json" >/dev/null
"$CLAWRL" show third-party --results "$folder/results" --attempt s0.0 --json >"$folder/attempt.json"
jq --exit-status '[.. | .turns? // empty] | flatten
    | map(.reply.parts[0].text | IN("ls", "pwd", "submit")) | length > 0 and all' "$folder/attempt.json" >/dev/null
echo "all holds"
