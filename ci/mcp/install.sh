#!/usr/bin/env bash
# Installs the MCP servers that tests run, the clients that talk to ours, and what builds the wheel, in the user's cache folder, once for all checkouts; says nothing when they are
# there. Everything in that folder can be read by everybody, as sandboxes have users of their own.
#
#   ci/mcp/install.sh         installs what is missing
#   ci/mcp/install.sh check   succeeds when all is there; installs nothing
#
# It needs /usr/bin/python3 with venv, and /usr/bin/node with npm: sandboxes see the host's /usr and nothing else of it.
#
# Exit codes: 0 all is there. 1 something is not (check). 2 wrong usage. 3 Python or Node is missing. 6 an installation failed.
set -euo pipefail

readonly PYTHON_SERVERS=(mcp-server-time==2026.10.19 mcp-server-git==2026.10.19)
readonly PYTHON_CLIENTS=(openai==3.57.0 'pydantic-ai-slim[openai]==2.68.0') # Of chat.
readonly PYTHON_TOOLS=(hatchling==1.33.0) # Builds the wheel, as in ci/wheel.sh.
readonly NODE_SERVERS=(@modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31)
readonly EXIT_MISSING=1 EXIT_USAGE=2 EXIT_PROGRAMS=3 EXIT_INSTALL=6

say() { printf 'mcp: %s\n' "$@" >&2; }

die() {
    local code=$1
    shift
    say "$@"
    exit "$code"
}

purpose=${1-install}
[[ $# -le 1 && $purpose =~ ^(install|check)$ ]] || die "$EXIT_USAGE" 'usage: ci/mcp/install.sh [check]'

cache="${XDG_CACHE_HOME:-${HOME:?mcp: set HOME, or XDG_CACHE_HOME}/.cache}/clawrl"
readonly place=$cache/mcp
readonly wanted="${PYTHON_SERVERS[*]} ${PYTHON_CLIENTS[*]} ${PYTHON_TOOLS[*]} ${NODE_SERVERS[*]}"

have_servers() {
    [[ -r $place/installed && $(<"$place/installed") == "$wanted" && -x $place/venv/bin/mcp-server-time &&
        -x $place/venv/bin/mcp-server-git && -x $place/node_modules/.bin/mcp-server-everything &&
        -x $place/node_modules/.bin/mcp-server-filesystem ]]
}

have_servers && exit
[[ $purpose != check ]] || exit "$EXIT_MISSING"
[[ -x /usr/bin/python3 ]] || die "$EXIT_PROGRAMS" 'there is no /usr/bin/python3; install the package python3'
/usr/bin/python3 -c 'import ensurepip' 2>/dev/null ||
    die "$EXIT_PROGRAMS" '/usr/bin/python3 makes no environments; install the package python3-venv'
[[ -x /usr/bin/node ]] && command -v npm >/dev/null ||
    die "$EXIT_PROGRAMS" 'there is no /usr/bin/node, or no npm; install the packages nodejs and npm'

# A second one waits here and then finds the work done.
mkdir -p "$cache" 2>/dev/null || die "$EXIT_INSTALL" "cannot create $cache: make it writable, or set XDG_CACHE_HOME"
exec 9>"$cache/mcp.lock"
flock 9
have_servers && exit

say "installing MCP servers for tests in $place"
readonly log=$cache/mcp.log
umask 022
rm -rf "$place"
mkdir -p "$place"
{
    /usr/bin/python3 -m venv "$place/venv" &&
        PIP_REQUIRE_VIRTUALENV=false "$place/venv/bin/python" -m pip install --no-input --disable-pip-version-check \
            --quiet "${PYTHON_SERVERS[@]}" "${PYTHON_CLIENTS[@]}" "${PYTHON_TOOLS[@]}" &&
        npm install --prefix "$place" --no-audit --no-fund --no-update-notifier --ignore-scripts --loglevel=error \
            "${NODE_SERVERS[@]}"
} </dev/null >"$log" 2>&1 9>&- || die "$EXIT_INSTALL" 'this failed:' "$(tail -n 20 "$log")"
printf '%s\n' "$wanted" >"$place/installed"
have_servers || die "$EXIT_INSTALL" "installed, and yet not all of it is in $place"
