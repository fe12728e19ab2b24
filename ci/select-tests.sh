#!/usr/bin/env bash
# Prints which tests to run, as a filterset of nextest.
#
#   ci/select-tests.sh          all that can run here (ci/setup.sh tests) but the slow ones: those in a module `slow`
#   ci/select-tests.sh all      all that can run here
#   ci/select-tests.sh changed  as the first, and the slow ones of every crate that changed since the newest commit that
#                               is a day older than HEAD, or that depends on one that did. A change outside of all crates
#                               counts for every crate, but for documents.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SLOW='test(/(^|::)slow::/)'

# Prints the package that file $1 belongs to; nothing where it belongs to none.
package_of() {
    local folder=$1
    while [[ $folder == */* ]]; do
        folder=${folder%/*}
        if [[ -e $folder/Cargo.toml ]]; then
            sed -n '/^name = /{s/^name = "\(.*\)"$/\1/p;q}' "$folder/Cargo.toml"
            return
        fi
    done
}

# Prints the slow tests that nothing has changed for.
unchanged_slow() {
    local base file package
    local -A changed=()
    base=$(git rev-list -1 --before="$(($(git log -1 --format=%ct) - 86400))" HEAD)
    # No such commit, as in a shallow clone: there is nothing to compare with.
    [[ -n $base ]] || return 0
    while read -r file; do
        package=$(package_of "$file")
        if [[ -n $package ]]; then
            changed[$package]=1
        elif [[ $file != *.md ]]; then
            return
        fi
    done < <(git diff --name-only "$base" && git ls-files --others --exclude-standard)
    printf '%s' "$SLOW"
    for package in "${!changed[@]}"; do printf ' - rdeps(=%s)' "$package"; done
}

runnable=$(ci/setup.sh tests)
case ${1-} in
'') left_out=$SLOW ;;
all) left_out= ;;
changed) left_out=$(unchanged_slow) ;;
*) printf 'usage: ci/select-tests.sh [all|changed]\n' >&2 && exit 2 ;;
esac
printf '%s%s\n' "$runnable" "${left_out:+ - ($left_out)}"
