#!/usr/bin/env bash
# Lets mini-swe-agent, from PyPI, work on two tasks of tasks/swe-basics through harness/bridges/mini-swe-agent, with its
# own model of written replies: one change that is right, and one that is not.
# Not part of CI, because it downloads some 200 MB of Python packages, into the user's cache folder.
#
#   ci/remote/mini-swe-agent.sh
#
# It builds clawrl, or takes the one that CLAWRL names. Expected: the grades are 1 and 0, by the runner and by
# `mini` itself; a command that takes too long, one that fails and one that prints much come back as mini-swe-agent has
# them; nothing is left. The results are printed. PYTHON names the Python to use, 3.10 or newer.
#
# Exit codes: 0 all holds. 1 something does not. 2 a program is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python3}
home="${XDG_CACHE_HOME:-$HOME/.cache}/clawrl/remote/mini-swe-agent"
for program in jq "$python"; do
    command -v "$program" >/dev/null || {
        echo "$0: $program is missing" >&2
        exit 2
    }
done
if [ -z "${CLAWRL-}" ]; then
    cargo build --release --locked -p clawrl -p clawrl-sandbox
    CLAWRL=$PWD/target/release/clawrl
fi
"$python" -m venv "$home"
"$home/bin/pip" install --quiet --requirement ci/remote/mini-swe-agent.txt

bridge=harness/bridges/mini-swe-agent
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Settings of this user's mini-swe-agent stay out of it.
export CLAWRL MSWEA_GLOBAL_CONFIG_DIR="$folder/settings" MSWEA_SILENT_STARTUP=1 MSWEA_CONFIGURED=true
export PYTHONPATH="$bridge" PYTHONDONTWRITEBYTECODE=1

# Settings with a model that says these commands, one a reply.
replies() {
    jq --null-input '{model: {model_class: "deterministic", model_name: "written", outputs: [$ARGS.positional[]
        | {role: "assistant", content: ., extra: {actions: [{command: .}], cost: 0}}]}}' --args "$@"
}
done='echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT'
mend="sed -i 's|total // size + 1|max(1, (total + size - 1) // size)|' shelf/pages.py"
replies 'cat shelf/pages.py' 'cd shelf && false' 'pwd; seq 1 5000' "$mend" 'git diff' "$done" >"$folder/right.yaml"
hasty="sed -i 's|environment.get(\"LOGFETCH_VERIFY\") == \"1\"|environment.get(\"LOGFETCH_VERIFY\", \"1\") == \"1\"|'"
replies 'echo begun; sleep 60' "$hasty logfetch/settings.py" "$done" >"$folder/wrong.yaml"

# run.py TASK REPLIES SETTING...
play() {
    local task=$1 model=$2
    shift 2
    "$home/bin/python" "$bridge/run.py" tasks/swe-basics "$task" -c mini.yaml -c "$folder/$model.yaml" "$@" \
        --seed $$ -o "$folder/$model.json" >"$folder/$model.out"
    jq --compact-output '{task, exit_status, model_calls, score, passed, flags, tests: .checks[0].message}' "$folder/$model.out"
}
play empty-last-page right
play certificates-unchecked wrong -c environment.timeout=2

# What has to hold of a file: its name, then a filter of jq.
holds() {
    jq --exit-status "$2" "$folder/$1" >/dev/null || {
        echo "$0: of $1 this does not hold: $2" >&2
        exit 1
    }
}
holds right.out '.score == 1 and .passed and .exit_status == "Submitted" and .model_calls == 6'
holds right.out '.patch | contains("+    return max(1, (total + size - 1) // size)")'
holds wrong.out '.score == 0 and (.passed | not) and .exit_status == "Submitted" and .model_calls == 3'
holds right.json '.info.grade.score == 1'
seen='[.messages[].extra | select(has("returncode"))]'
holds right.json "$seen | .[1].returncode == 1 and (.[2].raw_output | startswith(\"/work\n\") and endswith(\"\n5000\n\"))"
holds wrong.json "$seen | .[0] | .returncode == -1 and .exception_type == \"TimeoutExpired\" and (.raw_output | contains(\"begun\"))"

# `mini` itself, with the environment as a setting.
issue=$("$home/bin/python" "$bridge/run.py" tasks/swe-basics empty-last-page --issue)
"$home/bin/mini" -c mini.yaml -c "$folder/right.yaml" --environment-class clawrl_environment.ClawrlEnvironment \
    -c environment.suite=tasks/swe-basics -c environment.task=empty-last-page -c environment.grade=true \
    -c environment.seed=$$ \
    -t "$issue" --yolo --exit-immediately -o "$folder/mini.json" >"$folder/mini.log" 2>&1 </dev/null || {
    tail -n 40 "$folder/mini.log" >&2
    exit 1
}
jq --compact-output '{mini: .info.mini_version, exit_status: .info.exit_status, score: .info.grade.score}' "$folder/mini.json"
holds mini.json '.info.grade.score == 1 and .info.exit_status == "Submitted"'

# No other sandboxes have this seed.
left=$(pgrep --full --list-full -- " env open .* --seed $$\$" || true)
if [ -n "$left" ]; then
    echo "$0: still there: $left" >&2
    exit 1
fi
echo "all holds"
