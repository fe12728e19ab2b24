#!/usr/bin/env bash
# Makes this machine ready for ClawRL, and says nothing when it already is (well under a second).
#
#   ci/setup.sh          everything: build, run and test
#   ci/setup.sh demo     only what building and running needs (no tmux, jq, vi, cargo-nextest)
#   ci/setup.sh env      libtorch alone, and prints how a shell finds it: eval "$(ci/setup.sh env)"
#   ci/setup.sh run CMD  libtorch alone, and runs CMD with it: ci/setup.sh run cargo nextest run -p clawrl-torch
#   ci/setup.sh tests    prints which tests can run here, as a filterset of nextest; says on standard error which ones
#                        cannot, and why: they need a container engine, a base image, a browser, or servers and clients
#                        of others. In CI it installs the last ones and makes the base image first
#   ci/setup.sh mcp      installs the MCP servers that tests run (ci/mcp/install.sh)
#   ci/setup.sh image    makes the base image of SWE tasks, once, and prints its folder; `image import` gives it to the
#                        engine instead, and prints its name there (ci/image.sh)
#
# An engine and a browser are installed in CI alone (variable CI): on a machine that people use, `apt-get install
# docker.io` starts a daemon, which must not happen unasked, and a browser is the user's choice.
#
# It installs what is missing through apt-get (as root, or through a sudo that asks for no password), rustup,
# `cargo install` and pip; elsewhere it names what to install and stops. It honours what is there, never writes into
# the checkout, and may be run twice at once. With CARGO_NET_OFFLINE=true it installs nothing.
#
# libtorch is PyTorch's C++ half: headers and libraries out of PyTorch's wheel, in the user's cache folder, for all
# checkouts; with CUDA where there is an NVIDIA GPU. LIBTORCH, a folder with `include` and `lib`, names another one;
# with LIBTORCH_USE_PYTORCH=1 it is the PyTorch of the Python on the PATH.
#
# Exit codes: 0 ready. 2 wrong usage. 3 system packages are missing and cannot be installed from here.
#             4 the kernel or its settings forbid the sandbox. 5 no fitting Rust toolchain.
#             6 an installation was tried and failed. 7 the libtorch that the environment names does not do.
#             `run` ends as CMD does.
set -euo pipefail

readonly NEXTEST_VERSION=0.9.143 # Installed when there is none; .config/nextest.toml says which ones fit.
readonly BWRAP_VERSION=0.8       # The first with --disable-userns.
readonly APT_WAIT_SECONDS=600    # For another apt-get, or an unattended upgrade, to finish.
readonly TRIAL_UID=65534            # Any uid without rights does for the trial sandbox.
readonly TORCH_VERSION=2.11.0    # What tch, in Cargo.toml, is written for; policies/torch/src/runtime.rs checks it.
readonly TORCH_PYTHON=3.12       # The wheel to unpack. No Python runs what is in it, so any that exists does.
# libtorch_cpu.so is linked against these two; the versions are those that the wheel asks for.
readonly TORCH_CPU_NEEDS=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
readonly EXIT_USAGE=2 EXIT_PACKAGES=3 EXIT_KERNEL=4 EXIT_RUST=5 EXIT_INSTALL=6 EXIT_LIBTORCH=7

say() { printf 'setup: %s\n' "$@" >&2; }

die() {
    local code=$1
    shift
    say "$@"
    exit "$code"
}

purpose=${1-test}
case "$purpose:$#" in
test:[01] | demo:1 | env:1 | tests:1 | mcp:1 | image:[12] | run:[!1] | run:??*) ;;
*) die "$EXIT_USAGE" 'usage: ci/setup.sh [test|demo|env|tests|mcp|image], or ci/setup.sh run COMMAND [ARGUMENT...]' ;;
esac

readonly started_in=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache="${XDG_CACHE_HOME:-${HOME:?setup: set HOME, or XDG_CACHE_HOME}/.cache}/clawrl"
# A rustup that was installed a moment ago is not yet on the PATH of this login.
PATH="$PATH:${CARGO_HOME:-${HOME-}/.cargo}/bin"

# --- What is there ---------------------------------------------------------------------------------------------

# Is version $1 at least version $2?
at_least() { printf '%s\n%s\n' "$2" "$1" | sort --version-sort --check=silent; }

bwrap_version() { bwrap --version 2>/dev/null | sed 's/^[^0-9]*//'; }

have_bwrap() {
    command -v bwrap >/dev/null && at_least "$(bwrap_version)" "$BWRAP_VERSION" &&
        [[ $(bwrap --help 2>&1) == *--disable-userns* ]]
}

# A compiler without the C library's headers is of no use to zstd-sys.
have_compiler() { command -v cc >/dev/null && cc -E -x c - <<<'#include <stdlib.h>' >/dev/null 2>&1; }

# Nor is one of C++ without its library's headers to torch-sys.
have_cxx_compiler() { command -v c++ >/dev/null && c++ -E -x c++ - <<<'#include <cstdlib>' >/dev/null 2>&1; }

# A sandbox shows its shells the host's /usr, so their programs have to be there, wherever else PATH points.
have_in_usr() { [[ -x /usr/bin/$1 || -x /bin/$1 || -x /usr/local/bin/$1 ]]; }

have_certificates() {
    local file
    for file in "${SSL_CERT_FILE-}" "${CARGO_HTTP_CAINFO-}" /etc/ssl/certs/ca-certificates.crt \
        /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        [[ -n $file && -e $file ]] && return
    done
    return 1
}

# Sets `missing` to the Debian packages of what is not there.
find_missing_packages() {
    local program
    missing=()
    have_bwrap || missing+=(bubblewrap)
    have_compiler || missing+=(gcc libc6-dev)
    have_cxx_compiler || missing+=(g++)
    have_certificates || missing+=(ca-certificates)
    for program in make pkg-config git; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    command -v setpriv >/dev/null && command -v flock >/dev/null || missing+=(util-linux)
    for program in bash less perl python3; do
        have_in_usr "$program" || missing+=("$program")
    done
    if [[ $purpose != demo ]]; then
        # What tasks of terminal-hard are done with.
        for program in git jq make; do
            have_in_usr "$program" || missing+=("$program")
        done
        have_in_usr gcc || missing+=(gcc libc6-dev)
        have_in_usr vi || missing+=(vim-tiny)
    fi
    have_in_usr ps || missing+=(procps)
    [[ $purpose == demo ]] || command -v tmux >/dev/null || missing+=(tmux)
    have_libtorch || have_pip || missing+=(python3-venv)
    ! wants_engine || have_engine || missing+=(docker.io)
    ! wants_browser || have_browser || missing+=(chromium chromium-driver)
}

# Tests in containers need the daemon alone, not its client.
have_engine() { command -v dockerd >/dev/null; }

# As envs/gui finds them: the driver, and one of the browsers that it drives.
have_browser() {
    local program
    command -v chromedriver >/dev/null || return 1
    for program in /usr/lib/chromium/chromium-headless-shell chrome-headless-shell \
        /usr/lib/chromium/chromium /opt/google/chrome/chrome chromium chromium-browser google-chrome chrome; do
        command -v "$program" >/dev/null && return
    done
    return 1
}

# The browser without windows, in which tests take less time. Distributions other than Debian have none.
lacks_browser_shell() {
    wants_browser && ! command -v /usr/lib/chromium/chromium-headless-shell chrome-headless-shell >/dev/null &&
        command -v apt-cache >/dev/null && can_be_root && may_download || return 1
    [[ -n $(apt-cache madison chromium-headless-shell) ]]
}

wants_browser() { [[ $purpose == test && -n ${CI-} ]]; }

wants_engine() { [[ $purpose == test && -n ${CI-} && $EUID == 0 ]]; }

pinned_rust() { sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml; }

# rustc stands for the whole toolchain; with rustup it is the one that rust-toolchain.toml pins.
have_rust() {
    local version
    version=$(RUSTUP_AUTO_INSTALL=0 rustc --version 2>/dev/null) && command -v cargo >/dev/null || return 1
    version=${version#rustc }
    at_least "${version%% *}" "$(pinned_rust)"
}

# nextest itself compares its version with the one .config/nextest.toml asks for.
have_nextest() { [[ $purpose == demo ]] || cargo nextest show-config version >/dev/null 2>&1; }

# The version of the PyTorch whose headers and libraries are in folder $1; fails where there are none.
version_of_libtorch() {
    local header file
    [[ -e $1/lib/libtorch_cpu.so && -e $1/lib/libc10.so ]] || return 1
    # PyTorch's own archive has the file, a wheel has not, Debian's package neither.
    if [[ -r $1/build-version ]]; then
        cat "$1/build-version"
        return
    fi
    for file in torch/headeronly/version.h torch/csrc/api/include/torch/version.h; do
        header=$1/include/$file
        if [[ -r $header ]] && grep --quiet 'define TORCH_VERSION ' "$header"; then
            sed -n '/define TORCH_VERSION /,/"/s/.*"\(.*\)".*/\1/p' "$header"
            return
        fi
    done
    return 1
}

# Is folder $1 a libtorch that tch can be built against?
fits() { [[ $(version_of_libtorch "$1") == "$TORCH_VERSION"?(+*) ]]; }

have_gpu() { [[ -e /dev/nvidia0 ]] || { command -v nvidia-smi && nvidia-smi --list-gpus; } >/dev/null 2>&1; }

# Sets `libtorch` to the folder to build with, which may not be there yet. A folder named by the environment comes first,
# and is an error where it does not fit: to build with another one in silence would surprise.
choose_libtorch() {
    local source version
    if [[ -n ${LIBTORCH_USE_PYTORCH-} ]]; then
        source="LIBTORCH_USE_PYTORCH is set, and the PyTorch of $(command -v python3 || echo 'no python3')"
        libtorch=$(cd / && python3 -c 'from importlib import util; print(*util.find_spec("torch").submodule_search_locations)' \
            2>/dev/null) || die "$EXIT_LIBTORCH" "$source is not there" \
            "install PyTorch $TORCH_VERSION for it, or unset LIBTORCH_USE_PYTORCH: then ci/setup.sh brings its own"
    elif [[ -n ${LIBTORCH-} ]]; then
        source="LIBTORCH, which is $LIBTORCH,"
        libtorch=$LIBTORCH
        [[ $libtorch == /* ]] || libtorch=$started_in/$libtorch
    else
        local cpu=$cache/libtorch-$TORCH_VERSION/cpu/torch cuda=$cache/libtorch-$TORCH_VERSION/cuda/torch
        libtorch=$cpu
        # Without the network, the smaller one does on a GPU machine too.
        if have_gpu && { fits "$cuda" || may_download || ! fits "$cpu"; }; then libtorch=$cuda; fi
        return
    fi
    version=$(version_of_libtorch "$libtorch") || die "$EXIT_LIBTORCH" "$source has no include and lib of libtorch" \
        "name a folder that has them, or unset the variable: then ci/setup.sh brings its own"
    fits "$libtorch" || die "$EXIT_LIBTORCH" "$source is PyTorch $version; it has to be $TORCH_VERSION" \
        'name one of that version, or unset the variable: then ci/setup.sh brings its own'
}

have_libtorch() { fits "$libtorch"; }

# Debian's python3 comes without; its package python3-venv brings a pip for environments.
have_pip() { python3 -m pip --version >/dev/null 2>&1 || python3 -c 'import ensurepip' 2>/dev/null; }

may_download() { [[ ${CARGO_NET_OFFLINE-} != true ]]; }

# --- Installing ------------------------------------------------------------------------------------------------

# Everything below runs under this lock, so a second set-up waits and then finds the work done. Installers get the
# descriptor closed: a daemon that a package starts would hold the lock for good.
take_lock() {
    mkdir -p "$cache" 2>/dev/null || die "$EXIT_INSTALL" "cannot create $cache: make it writable, or set XDG_CACHE_HOME"
    log=$cache/setup.log
    exec 9>"$cache/setup.lock"
    if command -v flock >/dev/null && ! flock --nonblock 9; then
        say 'waiting for another set-up of this user to finish'
        flock 9
    fi
}

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

can_be_root() { ((EUID == 0)) || sudo -n true 2>/dev/null; }

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o "DPkg::Lock::Timeout=$APT_WAIT_SECONDS" "$@" \
        </dev/null >>"$log" 2>&1 9>&-
}

# The lists have a lock of their own, which apt-get does not wait for.
update_lists() {
    local give_up=$((SECONDS + APT_WAIT_SECONDS))
    : >"$log"
    until apt update; do
        if ((SECONDS >= give_up)) || ! grep -q 'Could not get lock' "$log"; then return 1; fi
        : >"$log"
        sleep 2
    done
}

install_packages() {
    find_missing_packages
    ((${#missing[@]})) || return 0
    local command="apt-get install ${missing[*]}"
    if ! command -v apt-get >/dev/null; then
        die "$EXIT_PACKAGES" "missing, by their Debian names: ${missing[*]} (bubblewrap $BWRAP_VERSION or newer)" \
            'install them with your package manager, then run this again'
    elif ! may_download; then
        die "$EXIT_PACKAGES" "CARGO_NET_OFFLINE forbids to install what is missing; run as root: $command"
    elif ! can_be_root; then
        die "$EXIT_PACKAGES" "missing: ${missing[*]}" "run as root, then try again: $command"
    fi
    say "installing ${missing[*]}"
    : >"$log"
    # Lists that are absent or stale show as a failed installation; only then are they worth fetching.
    apt install --yes --no-install-recommends "${missing[@]}" ||
        { update_lists && apt install --yes --no-install-recommends "${missing[@]}"; } ||
        die "$EXIT_INSTALL" "$command failed:" "$(tail -n 20 "$log")"
    find_missing_packages
    ((${#missing[@]} == 0)) || die "$EXIT_PACKAGES" \
        "installed, and yet not usable: ${missing[*]}" \
        "bubblewrap has to be $BWRAP_VERSION or newer (here: $(bwrap_version || echo none)), and PATH has to hold the programs"
}

# Debian 13 and Ubuntu 24.04 do; absent lists of packages are fetched before the answer is no.
distribution_has_rustup() {
    command -v apt-get >/dev/null && can_be_root || return 1
    [[ -n $(apt-cache madison rustup) ]] || { update_lists && [[ -n $(apt-cache madison rustup) ]]; }
}

# Without it the same tests run in the other browser, for longer.
install_browser_shell() {
    lacks_browser_shell || return 0
    say 'installing chromium-headless-shell'
    : >"$log"
    apt install --yes --no-install-recommends chromium-headless-shell ||
        { update_lists && apt install --yes --no-install-recommends chromium-headless-shell; } ||
        say 'apt-get install chromium-headless-shell failed; tests in browsers take Chromium'
}

install_rust() {
    have_rust && return
    local pinned
    pinned=$(pinned_rust)
    if ! command -v rustup >/dev/null && ! command -v cargo >/dev/null && may_download && distribution_has_rustup; then
        say 'installing rustup'
        : >"$log"
        apt install --yes --no-install-recommends rustup ||
            die "$EXIT_INSTALL" 'apt-get install rustup failed:' "$(tail -n 20 "$log")"
    fi
    if ! command -v rustup >/dev/null; then
        die "$EXIT_RUST" "Rust $pinned or newer is needed; here: $(rustc --version 2>/dev/null || echo none)" \
            'install rustup (package rustup of your system, or as rust-lang.org says), then run this again'
    fi
    local -a command=(rustup toolchain install "$pinned" --profile minimal --component rustfmt --component clippy)
    may_download || die "$EXIT_RUST" "CARGO_NET_OFFLINE forbids to install Rust $pinned; run: ${command[*]}"
    say "installing Rust $pinned"
    "${command[@]}" >&2 9>&- || die "$EXIT_INSTALL" "this failed: ${command[*]}"
    have_rust || die "$EXIT_RUST" "rustup installed $pinned, but rustc is $(rustc --version 2>&1 | head -n 1)" \
        "an override or RUSTUP_TOOLCHAIN may hide it; 'rustup show' tells"
}

install_nextest() {
    have_nextest && return
    local -a command=(cargo install --locked cargo-nextest --version "$NEXTEST_VERSION"
        --no-default-features --features default-no-update)
    may_download || die "$EXIT_INSTALL" "CARGO_NET_OFFLINE forbids to install cargo-nextest; run: ${command[*]}"
    say "building cargo-nextest $NEXTEST_VERSION, once; this takes some minutes"
    "${command[@]}" --quiet >&2 9>&- || die "$EXIT_INSTALL" "this failed: ${command[*]}"
    have_nextest || die "$EXIT_INSTALL" 'cargo-nextest was built, but does not accept .config/nextest.toml:' \
        "$(cargo nextest show-config version 2>&1 | tail -n 5)"
}

# Unpacks PyTorch's wheels and keeps what building and running need; without CUDA that is 0.5 of 1.2 GB. It happens
# in a folder of its own, which takes its final name when it is complete.
install_libtorch() {
    ! have_libtorch || return 0
    local place=${libtorch%/torch} size='4 GB, with CUDA'
    local -a wanted=("torch==$TORCH_VERSION") pip=(python3 -m pip) quiet=()
    if [[ ${place##*/} == cpu ]]; then
        size='0.5 GB, without CUDA'
        wanted+=(--no-deps "${TORCH_CPU_NEEDS[@]}")
    fi
    may_download || die "$EXIT_INSTALL" "CARGO_NET_OFFLINE forbids to download PyTorch $TORCH_VERSION ($size)" \
        'run ci/setup.sh once without it, or let LIBTORCH name a folder that has it'
    have_pip || die "$EXIT_PACKAGES" 'python3 has no pip; install the package python3-venv, then run this again'
    say "downloading PyTorch $TORCH_VERSION ($size) to $place, once for all checkouts"
    work=${place%/*}/.new # No local: the trap outlives this function when it dies.
    # Leftovers of a killed set-up; the lock shows that no other one is at work.
    rm -rf "$work"
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work"/{tmp,wheels,kept/torch} || die "$EXIT_INSTALL" "cannot create $work"
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$work/pip" >&2 9>&- || die "$EXIT_INSTALL" "python3 -m venv $work/pip failed"
        pip=("$work/pip/bin/python" -m pip)
    fi
    [[ -t 2 ]] || quiet=(--quiet)
    # Its downloads are too large for a /tmp in memory, and for pip's cache to keep them as well.
    TMPDIR=$work/tmp PIP_REQUIRE_VIRTUALENV=false PIP_USER=false PIP_ROOT_USER_ACTION=ignore \
        "${pip[@]}" install --no-input --disable-pip-version-check --no-cache-dir --no-compile "${quiet[@]}" \
        --only-binary=:all: --python-version "$TORCH_PYTHON" --target "$work/wheels" "${wanted[@]}" \
        </dev/null >&2 9>&- || die "$EXIT_INSTALL" "pip cannot install ${wanted[*]}"
    keep_libtorch "${place##*/}" "$work/wheels" "$work/kept"
    # The stamp, which torch-sys reads too.
    printf '%s\n' "$TORCH_VERSION" >"$work/kept/torch/build-version"
    fits "$work/kept/torch" || die "$EXIT_INSTALL" "the wheel of PyTorch $TORCH_VERSION lacks libraries"
    rm -rf "$place"
    mv "$work/kept" "$place"
    rm -rf "$work"
    trap - EXIT
}

# Moves what the set named $1 needs from $2 to $3, to the same places: libtorch finds its libraries by them.
keep_libtorch() {
    local kept=$3
    cd "$2"
    mv torch/include torch/lib "$kept/torch"
    [[ ! -d torch.libs ]] || mv torch.libs "$kept"
    rm -rf "$kept"/torch/lib/{libtorch_python.so,libshm*}
    if [[ $1 == cuda ]]; then
        mv nvidia "$kept"
    else
        rm -f "$kept"/torch/lib/lib{torch_cuda*,c10_cuda,caffe2_nvrtc,torch_nvshmem}.so
        cp --parents nvidia/*/lib/lib{cudart,cupti}.so.* "$kept"
    fi
    cd "$OLDPWD"
}

# --- The kernel ------------------------------------------------------------------------------------------------

# A sandbox as ClawRL starts it: never as root, which bubblewrap could not hold.
try_sandbox() {
    local -a drop=()
    ((EUID != 0)) || drop=(setpriv "--reuid=$TRIAL_UID" "--regid=$TRIAL_UID" --clear-groups)
    (cd / && "${drop[@]}" bwrap --unshare-all --unshare-user --disable-userns --cap-drop ALL --die-with-parent \
        --ro-bind /usr /usr --ro-bind-try /bin /bin --ro-bind-try /lib /lib --ro-bind-try /lib64 /lib64 \
        --proc /proc --dev /dev --tmpfs /tmp /usr/bin/env true) 2>&1
}

# Is the kernel setting $1, a path below /proc/sys, there and equal to $2?
setting_is() { [[ -r /proc/sys/$1 && $(<"/proc/sys/$1") == "$2" ]]; }

check_kernel() {
    local output advice
    output=$(try_sandbox) && return
    if setting_is user/max_user_namespaces 0; then
        advice='run as root: sysctl -w user.max_user_namespaces=65536'
    elif setting_is kernel/unprivileged_userns_clone 0; then
        advice='run as root: sysctl -w kernel.unprivileged_userns_clone=1'
    elif setting_is kernel/apparmor_restrict_unprivileged_userns 1; then
        advice='AppArmor forbids it; run as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0'
    else
        advice='a container has to allow user namespaces and leave /proc unmasked (Docker: --security-opt
       seccomp=unconfined --security-opt systempaths=unconfined); in a chroot the kernel allows none'
    fi
    die "$EXIT_KERNEL" 'a sandbox does not start here without rights:' "$output" "$advice"
}

# --- The engine ------------------------------------------------------------------------------------------------

readonly ENGINE_SECONDS=30 # An engine that does not listen by then is none.

# Starts an engine of its own, as the tests do, and ends it again. Prints what it said last where it does not start.
try_engine() (
    folder=$(mktemp --directory)
    : >"$folder/log"
    setpriv --pdeathsig TERM dockerd --bridge=none --iptables=false --ip6tables=false --data-root "$folder/data" \
        --exec-root "$folder/exec" --pidfile "$folder/pid" --host "unix://$folder/socket" \
        </dev/null >/dev/null 2>"$folder/log" &
    daemon=$!
    trap 'kill "$daemon" 2>/dev/null; wait "$daemon" || true; rm -rf "$folder"' EXIT
    for ((tries = ENGINE_SECONDS * 10; tries > 0; tries--)); do
        if grep --quiet 'API listen' "$folder/log"; then exit 0; fi
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 3 "$folder/log"
    exit 1
)

# --- Which tests can run ---------------------------------------------------------------------------------------

# The tests that a plain `cargo nextest run` leaves out: default-filter in .config/nextest.toml names them all.
readonly ENGINE_TESTS='binary_id(clawrl-container::it)'
readonly IMAGE_TESTS='(binary_id(clawrl-container::it) & test(/^repositories::/))'
readonly BROWSER_TESTS='binary_id(clawrl-gui::it) | test(/(^|::)browser_tests::/)'
readonly SERVER_TESTS='test(/(^|::)real_(servers|clients)::/)'

# leave_out TESTS WHY
leave_out() {
    runnable+=" - ($1)"
    shift
    say "$@"
}

choose_tests() {
    local output
    runnable='all()'
    if ((EUID != 0)); then
        leave_out "$ENGINE_TESTS" 'tests in containers are left out: they need root'
    elif ! have_engine; then
        leave_out "$ENGINE_TESTS" 'tests in containers are left out: there is no dockerd; apt-get install docker.io'
    elif ! output=$(try_engine); then
        leave_out "$ENGINE_TESTS" 'tests in containers are left out: an engine does not start here:' "$output"
    # The base image is made in CI alone: it takes minutes, and a program that is not there otherwise.
    elif [[ ${CI-} == true ]] && may_download && ! output=$(ci/image.sh 2>&1 >/dev/null); then
        leave_out "$IMAGE_TESTS" 'tests of repositories in containers are left out: the base image cannot be made:' "$output"
    elif ! ci/image.sh check >/dev/null; then
        leave_out "$IMAGE_TESTS" \
            'tests of repositories in containers are left out: there is no base image; ci/setup.sh image makes it'
    fi
    have_browser || leave_out "$BROWSER_TESTS" \
        'tests in browsers are left out: there is no Chromium with its driver; apt-get install chromium chromium-driver'
    if [[ ${CI-} == true ]] && may_download && ! output=$(ci/mcp/install.sh 2>&1); then
        leave_out "$SERVER_TESTS" 'tests of real MCP servers and clients are left out:' "$output"
    elif ! ci/mcp/install.sh check; then
        leave_out "$SERVER_TESTS" \
            'tests of real MCP servers and clients are left out: they are not installed; ci/setup.sh mcp installs them'
    fi
    printf '%s\n' "$runnable"
}

# --- All of it -------------------------------------------------------------------------------------------------

case $purpose in
tests)
    choose_tests
    exit
    ;;
mcp) exec ci/mcp/install.sh ;;
image) exec ci/image.sh "${@:2}" ;;
esac
choose_libtorch
case $purpose in
env | run)
    if ! have_libtorch; then
        take_lock
        install_libtorch
        exec 9>&-
    fi
    # Its folder alone says all; the other way to name one takes Python's word at every build.
    unset LIBTORCH_USE_PYTORCH
    export LIBTORCH=$libtorch
    # `clawrl --version` names the commit.
    if CLAWRL_COMMIT=$(git describe --always --exclude='*' --abbrev=12 --dirty 2>/dev/null); then export CLAWRL_COMMIT; fi
    ;;
test | demo)
    find_missing_packages
    if ((${#missing[@]})) || ! have_rust || ! have_nextest || ! have_libtorch || lacks_browser_shell; then
        take_lock
        install_packages
        install_browser_shell
        install_rust
        install_nextest
        install_libtorch
        exec 9>&-
        say 'ready'
    fi
    check_kernel
    ;;
esac
case $purpose in
env) printf 'unset LIBTORCH_USE_PYTORCH; export LIBTORCH=%q\n' "$LIBTORCH" ;;
run)
    cd "$started_in"
    exec "${@:2}"
    ;;
esac
