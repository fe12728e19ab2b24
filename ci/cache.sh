#!/usr/bin/env bash
# Shares what cargo built of third-party crates between clean clones of one user.
#
#   ci/cache.sh restore debug|release   fills target/debug or target/release, where nothing was built yet
#   ci/cache.sh save debug|release      keeps what was built there, if an entry lacks some of it
#
# Only third-party crates: their sources never change, so cargo decides by checksums whether an artifact of theirs is
# current. It decides by times of files for crates of the workspace, which means nothing in another clone; they are built
# in every clone.
#
# An entry is an archive with its checksum, named by toolchain, lock file, profiles and flags. An entry whose checksum
# does not match is deleted. Cargo has all that decides about an artifact in the artifact's own fingerprint, so an entry
# under a wrong name is of no use and does no harm.
#
# CLAWRL_BUILD_CACHE=off turns it off. It never fails: without an entry everything is built.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 0

readonly ENTRIES=4 # One or two gigabytes each, for the branches in work.

case ${1-}:${2-}:$# in
restore:debug:2 | restore:release:2 | save:debug:2 | save:release:2) ;;
*) printf 'usage: ci/cache.sh restore|save debug|release\n' >&2 && exit 2 ;;
esac
[[ ${CLAWRL_BUILD_CACHE-} != off ]] || exit 0

say() { printf 'cache: %s\n' "$@" >&2; }

readonly profile=$2 target=${CARGO_TARGET_DIR:-target}/$2
readonly cache=${XDG_CACHE_HOME:-${HOME-/nonexistent}/.cache}/clawrl/build
key=$({
    rustc --version --verbose
    cat Cargo.lock .cargo/config.toml
    sed -n '/^\[profile/,$p' Cargo.toml
    env | grep -E '^(CARGO_(BUILD|ENCODED|PROFILE)_|RUSTFLAGS=|CFLAGS=|CXXFLAGS=)' | sort
} 2>/dev/null | b2sum | cut -c 1-16)
readonly entry=$cache/$profile-$key
# Says which entry a folder was begun with: what is older in it would only make entries larger.
readonly stamp=$target/.clawrl-cache-key

begin_target() {
    # As cargo does it, where the folder is not there yet: backups leave it out.
    [[ -e ${target%/*} ]] || {
        mkdir -p "${target%/*}" && printf 'Signature: 8a477f597d28d172789f06886806bc55\n' >"${target%/*}/CACHEDIR.TAG"
    }
    mkdir -p "$target" && printf '%s\n' "$key" >"$stamp"
}

restore() {
    [[ ! -e $target ]] || return 0
    begin_target
    [[ -e $entry ]] || return 0
    if (cd "$entry" && b2sum --quiet --status --check sum) && tar --extract --file "$entry/archive.tar" --directory "$target"; then
        touch "$entry" # Used last, so deleted last.
    else
        say "$entry is broken, and is deleted"
        rm -rf "$entry" "$target"
        begin_target
    fi
}

# Prints the units of third-party crates in the target folder, as the fingerprint folders PACKAGE-HASH.
third_party_units() {
    local name
    local -A registry=()
    while read -r name; do registry[$name]=1; done < <(awk -F '"' '/^name = /{name = $2} /^source = "registry/{print name}' Cargo.lock)
    for name in "$target"/.fingerprint/*; do
        name=${name##*/}
        [[ -z ${registry[${name%-*}]-} ]] || printf '%s\n' "$name"
    done
}

# Prints the files and folders of the units on standard input.
files_of_units() {
    local unit file hash
    local -A hashes=()
    while read -r unit; do
        hashes[${unit##*-}]=1
        printf '%s\n' ".fingerprint/$unit"
        [[ ! -e $target/build/$unit ]] || printf '%s\n' "build/$unit"
    done
    for file in "$target"/deps/*; do
        file=${file##*/}
        hash=${file##*-}
        [[ -z ${hashes[${hash%%.*}]-} ]] || printf '%s\n' "deps/$file"
    done
}

save() {
    [[ -e $stamp && $(<"$stamp") == "$key" ]] || return 0
    mkdir -p "$cache"
    new=$(mktemp --directory "$cache/.new-XXXXXX") || return 0 # Global, since the trap outlives this function.
    trap 'rm -rf "$new"' EXIT
    third_party_units >"$new/units"
    # Nothing that the entry has not.
    if [[ -e $entry/units && -z $(comm -23 <(sort "$new/units") <(sort "$entry/units")) ]]; then return 0; fi
    files_of_units <"$new/units" >"$new/files"
    # With the fractions of times, by which cargo orders artifacts.
    if ! tar --create --format posix --file "$new/archive.tar" --directory "$target" --files-from "$new/files" ||
        ! (cd "$new" && b2sum archive.tar units >sum && sync archive.tar); then
        say "cannot write to $cache"
        return 0
    fi
    rm -rf "$entry"
    mv --no-target-directory "$new" "$entry"
    # Those that were used last stay.
    find "$cache" -mindepth 1 -maxdepth 1 -name '[!.]*' -printf '%T@ %p\n' | sort --reverse --numeric-sort |
        tail -n "+$((ENTRIES + 1))" | cut -d ' ' -f 2- | xargs --no-run-if-empty --delimiter '\n' rm -rf
    find "$cache" -mindepth 1 -maxdepth 1 -name '.new-*' -mmin +60 -exec rm -rf {} +
}

"$1" || say "$1 went wrong; everything is built"
exit 0
