#!/usr/bin/env bash
# Makes this machine ready for ClawRL, and says nothing when it already is (well under a second).
#
#   ci/setup.sh          everything: build, run and test
#   ci/setup.sh demo     only what building and running needs (no tmux, no cargo-nextest)
#
# It installs what is missing through apt-get (as root, or through a sudo that asks for no password), rustup and
# `cargo install`; elsewhere it names what to install and stops. It honours what is there, never writes into the
# checkout, and may be run twice at once. With CARGO_NET_OFFLINE=true it installs nothing.
#
# Exit codes: 0 ready. 2 wrong usage. 3 system packages are missing and cannot be installed from here.
#             4 the kernel or its settings forbid the sandbox. 5 no fitting Rust toolchain.
#             6 an installation was tried and failed.
set -euo pipefail

readonly NEXTEST_VERSION=0.9.143 # Installed when there is none; .config/nextest.toml says which ones fit.
readonly BWRAP_VERSION=0.8       # The first with --disable-userns.
readonly APT_WAIT_SECONDS=600    # For another apt-get, or an unattended upgrade, to finish.
readonly NOBODY=65534            # Any uid without rights does for the trial sandbox.
readonly EXIT_USAGE=2 EXIT_PACKAGES=3 EXIT_KERNEL=4 EXIT_RUST=5 EXIT_INSTALL=6

say() { printf 'setup: %s\n' "$@" >&2; }

die() {
    local code=$1
    shift
    say "$@"
    exit "$code"
}

case "$#:${1-}" in
0: | 1:test) purpose='test' ;;
1:demo) purpose='demo' ;;
*) die "$EXIT_USAGE" 'usage: ci/setup.sh [demo|test]' ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
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
    have_certificates || missing+=(ca-certificates)
    for program in make pkg-config git; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    command -v setpriv >/dev/null && command -v flock >/dev/null || missing+=(util-linux)
    for program in bash less perl python3; do
        have_in_usr "$program" || missing+=("$program")
    done
    have_in_usr ps || missing+=(procps)
    [[ $purpose == demo ]] || command -v tmux >/dev/null || missing+=(tmux)
}

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

may_download() { [[ ${CARGO_NET_OFFLINE-} != true ]]; }

# --- Installing ------------------------------------------------------------------------------------------------

# Everything below runs under this lock, so a second set-up waits and then finds the work done. Installers get the
# descriptor closed: a daemon that a package starts would hold the lock for good.
take_lock() {
    local cache="${XDG_CACHE_HOME:-${HOME:?setup: set HOME, or XDG_CACHE_HOME}/.cache}/clawrl"
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

# --- The kernel ------------------------------------------------------------------------------------------------

# A sandbox as ClawRL starts it: never as root, which bubblewrap could not hold.
try_sandbox() {
    local -a drop=()
    ((EUID != 0)) || drop=(setpriv "--reuid=$NOBODY" "--regid=$NOBODY" --clear-groups)
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

# --- All of it -------------------------------------------------------------------------------------------------

find_missing_packages
if ((${#missing[@]})) || ! have_rust || ! have_nextest; then
    take_lock
    install_packages
    install_rust
    install_nextest
    exec 9>&-
    say 'ready'
fi
check_kernel
