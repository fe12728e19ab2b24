#!/usr/bin/env bash
# Makes the base image of SWE tasks out of Debian's packages, once for all checkouts; no registry is asked. Prints its
# folder, and says nothing else when it is there.
#
#   ci/image.sh          makes it if it is not there
#   ci/image.sh check    succeeds, and prints the folder, when it is there; makes nothing
#   ci/image.sh import   makes it if it is not there, gives it to the engine as clawrl-base:1 unless the engine has it,
#                        and prints that name. DOCKER_HOST says which engine; needs the program docker
#
# The folder holds `rootfs/`, for `image: { rootfs: … }` in bubblewrap, `rootfs.tar`, which is the same for
# `docker import`, and `packages`, the names and versions of what is in it. Its name stands for the recipe: how and of
# what it was made, the release and the architecture. So another recipe makes another folder, and no run that is under
# way sees its image change. Those of older recipes stay, until you delete them.
#
# It is in the user's cache folder, as everything that is made here; but where that is closed to other users, as a
# root's home is, in /var/cache: sandboxes have users of their own.
#
# It takes root and debootstrap, which is installed in CI alone. Where one is missing it says so, prints nothing and
# succeeds. Mirror, proxy and certificates are those of the machine's apt, and its release is that of the image.
#
# Exit codes: 0 there, or it cannot be made here. 1 not there (check). 2 wrong usage. 6 making or importing it failed.
set -euo pipefail

# git is what a submission is taken with, pytest what most tests run by, and `python` what their commands call.
readonly PACKAGES=bash,coreutils,git,patch,python3,python3-pytest,python-is-python3
readonly IMAGE=clawrl-base:1 WORKDIR=/testbed
readonly EXIT_MISSING=1 EXIT_USAGE=2 EXIT_FAILED=6

say() { printf 'image: %s\n' "$@" >&2; }

die() {
    local code=$1
    shift
    say "$@"
    exit "$code"
}

# Nothing was made. That is not an error: a caller that needs the image finds no folder printed.
leave() {
    say "the base image is left out: $1"
    exit 0
}

purpose=${1-make}
[[ $# -le 1 && $purpose =~ ^(make|check|import)$ ]] || die "$EXIT_USAGE" 'usage: ci/image.sh [check|import]'

# One value of what says which system this is; nothing where it does not say.
system() { (. /etc/os-release && eval "printf %s \"\${$1-}\"") 2>/dev/null || true; }

release=$(system VERSION_CODENAME)
architecture=$(dpkg --print-architecture 2>/dev/null) || architecture=

# Can every user get to this folder? What is not there yet is made open.
is_open() {
    local folder=$1
    while [[ $folder == /?* ]]; do
        [[ ! -e $folder || $(stat -L -c %A "$folder") == *[xt] ]] || return 1
        folder=${folder%/*}
    done
}

# --- Making ----------------------------------------------------------------------------------------------------

# One setting of the machine's apt; nothing where it is not set.
apt_setting() {
    local value=
    eval "$(apt-config shell value "$1")"
    printf '%s' "$value"
}

# The mirror that apt has the release from.
mirror() {
    local -a conditions=('Created-By: Packages' "Release: $release" 'Component: main')
    apt-get indextargets --format '$(REPO_URI)' "${conditions[@]}" 2>/dev/null | head -n 1
}

install_debootstrap() {
    local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q)
    local -a install=("${apt[@]}" install --yes --no-install-recommends debootstrap)
    "${install[@]}" >>"$log" 2>&1 </dev/null ||
        { "${apt[@]}" update && "${install[@]}"; } >>"$log" 2>&1 </dev/null
}

# Parts that no task needs, or that belong to this machine. Copyright notices stay.
trim() {
    local root=$1
    rm -rf "$root"/{debootstrap,dev,run,tmp} "$root"/var/tmp "$root"/var/lib/apt/lists \
        "$root"/var/cache/{apt,debconf,ldconfig} "$root"/var/lib/dpkg/*-old \
        "$root"/usr/share/{man,info,locale,lintian,linda,groff,bug,doc-base,gitweb} \
        "$root"/etc/{resolv.conf,hostname}
    find "$root/var/log" -type f -delete
    find "$root/usr/share/doc" '(' -type f -o -type l ')' ! -name copyright -delete
    find "$root/usr/share/doc" -type d -empty -delete
    # Sandboxes could talk through these, so they are refused in an image.
    find "$root" '(' -type p -o -type s -o -type b -o -type c ')' -delete
    : >"$root/etc/machine-id"
    mkdir -p "$root"/{dev,run,tmp,var/tmp,var/lib/apt/lists/partial,var/cache/apt/archives/partial,var/cache/debconf} \
        "$root$WORKDIR"
    chmod 1777 "$root/tmp" "$root/var/tmp"
}

# Runs in a mount namespace of its own: what debootstrap mounts below the folder, the host's /proc for one, is gone with
# it, however it ends, and no later `rm` can meet it.
bootstrap() {
    local root=$1 from certificates
    from=$(mirror)
    [[ $from == http*://* || $from == file:/* ]] || {
        echo "apt has no mirror of '$release' that debootstrap can read: '$from'"
        return 1
    }
    export http_proxy=${http_proxy:-$(apt_setting Acquire::http::Proxy)}
    export https_proxy=${https_proxy:-$(apt_setting Acquire::https::Proxy)}
    [[ $http_proxy != DIRECT ]] || http_proxy=
    [[ $https_proxy != DIRECT ]] || https_proxy=
    certificates=$(apt_setting Acquire::https::CaInfo)
    certificates=${certificates:-${SSL_CERT_FILE-}}
    # debootstrap fetches by wget, which has no variable for certificates but this one.
    if [[ -n $certificates ]]; then
        printf 'ca_certificate = %s\n' "$certificates" >"$work/wgetrc"
        export WGETRC=$work/wgetrc
    fi
    # Ubuntu has pytest in `universe`.
    local components=main
    if [[ $(system ID) == ubuntu ]]; then components=main,universe; fi
    unshare --mount --propagation private debootstrap --variant=minbase --include="$PACKAGES" \
        --components="$components" "$release" "$root" "$from" || {
        tail -n 5 "$root/debootstrap/debootstrap.log" 2>/dev/null
        return 1
    }
}

make_image() {
    [[ -n $release && -n $architecture ]] && command -v apt-get >/dev/null ||
        leave 'it is made of the packages of Debian or Ubuntu, and this machine has another system'
    ((EUID == 0)) || leave 'debootstrap needs root; run as root: ci/setup.sh image'
    command -v unshare >/dev/null && command -v flock >/dev/null ||
        leave 'unshare and flock are missing; run as root: apt-get install util-linux'
    if ! command -v debootstrap >/dev/null && [[ ${CI-} != true ]]; then
        leave 'there is no debootstrap; run as root: apt-get install debootstrap'
    fi
    [[ ${CARGO_NET_OFFLINE-} != true ]] || leave 'CARGO_NET_OFFLINE forbids to download packages'

    umask 022
    mkdir -p "$cache" 2>/dev/null || die "$EXIT_FAILED" "cannot create $cache: make it writable, or set XDG_CACHE_HOME"
    exec 9>"$cache/base-image.lock"
    # debootstrap keeps the descriptor: while one works on, though this script was killed, no other process begins.
    if ! flock --nonblock 9; then
        say 'waiting for another one that is making it'
        flock 9
    fi
    ! have_image || return 0

    log=$cache/base-image.log
    : >"$log"
    command -v debootstrap >/dev/null || install_debootstrap ||
        die "$EXIT_FAILED" 'apt-get install debootstrap failed:' "$(tail -n 20 "$log")"
    say "making the base image of $release in $place, once for all checkouts; this takes some minutes"
    work=$cache/.base-image-new
    # Leftovers of a killed run; the lock shows that no other one is at work.
    rm -rf --one-file-system "$work"
    trap 'rm -rf --one-file-system "$work"' EXIT
    mkdir "$work"
    bootstrap "$work/rootfs" </dev/null >>"$log" 2>&1 ||
        die "$EXIT_FAILED" 'the base image cannot be made:' "$(tail -n 20 "$log")"
    dpkg-query --admindir="$work/rootfs/var/lib/dpkg" --show >"$work/packages"
    trim "$work/rootfs"
    # The folder must be readable by others.
    chmod 755 "$work" "$work/rootfs"
    tar --create --file "$work/rootfs.tar" --directory "$work/rootfs" --numeric-owner --sort=name .
    rm -f "$work/wgetrc"
    rm -rf --one-file-system "$place"
    mv "$work" "$place"
    trap - EXIT
    exec 9>&-
    say "the base image has $(du -sm "$place/rootfs" | cut -f 1) MB"
}

# --- Where it is -----------------------------------------------------------------------------------------------

# All that says what is in it.
recipe=$({ declare -f bootstrap trim && printf '%s\n' "$PACKAGES" "$WORKDIR" "$release" "$architecture"; } |
    sha256sum | cut -c 1-12)
cache="${XDG_CACHE_HOME:-${HOME:?image: set HOME, or XDG_CACHE_HOME}/.cache}/clawrl"
if ((EUID == 0)) && ! is_open "$cache"; then cache=/var/cache/clawrl; fi
readonly place=$cache/base-image-$recipe

have_image() { [[ -x $place/rootfs/usr/bin/git && -r $place/rootfs.tar && -r $place/packages ]]; }

# --- The engine ------------------------------------------------------------------------------------------------

import_image() {
    local label=clawrl.base-image found
    command -v docker >/dev/null || \
        leave 'importing it takes the program docker; apt-get install docker.io, or docker-cli'
    found=$(docker image inspect --format "{{ index .Config.Labels \"$label\" }}" "$IMAGE" 2>/dev/null) || found=
    [[ $found == "$recipe" ]] && return
    docker import --change "WORKDIR $WORKDIR" --change "ENV LANG=C.UTF-8" \
        --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
        --change "LABEL $label=$recipe" "$place/rootfs.tar" "$IMAGE" >/dev/null ||
        die "$EXIT_FAILED" "the engine does not take $place/rootfs.tar"
}

if ! have_image; then
    [[ $purpose != check ]] || exit "$EXIT_MISSING"
    make_image
fi
if [[ $purpose == import ]]; then
    import_image
    printf '%s\n' "$IMAGE"
else
    printf '%s\n' "$place"
fi
