#!/bin/sh
# Installs Python peers of the benchmarks into a virtual environment in the user's cache folder and changes nothing else.
# PYTHON names the interpreter. Run it again to repair or update; delete the folder to remove it.
#
#   ci/bench/peers/install.sh          for terminal-step; Python 3.12 or newer
#   ci/bench/peers/install.sh torch    for engine and learner, about 5 GB; Python 3.10 or newer
set -eu
python=${PYTHON:-python3}
case "${1-terminals}" in
terminals) name=peers requirements=requirements.txt minor=12 ;;
torch) name=torch-peers requirements=requirements-torch.txt minor=10 ;;
*)
    echo "usage: $0 [terminals|torch]" >&2
    exit 2
    ;;
esac
folder=${XDG_CACHE_HOME:-$HOME/.cache}/clawrl/bench/$name
"$python" -c "import sys; sys.exit(sys.version_info < (3, $minor))" || {
    echo "$0: $python is older than 3.$minor; name a newer one: PYTHON=python3.$minor $0 ${1-}" >&2
    exit 2
}
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --requirement "$(dirname "$0")/$requirements"
echo "installed in $folder" >&2
