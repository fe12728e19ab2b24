#!/bin/sh
# Installs the Python peers of the benchmarks into a virtual environment in the user's folder for caches; nothing else
# is touched. PYTHON names the Python to use, 3.12 or newer. Run it again to repair or update; delete the folder to
# remove it.
set -eu
python=${PYTHON:-python3}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/clawrl/bench/peers
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || {
    echo "$0: $python is older than 3.12; name a newer one: PYTHON=python3.12 $0" >&2
    exit 2
}
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --requirement "$(dirname "$0")/requirements.txt"
echo "installed in $folder" >&2
