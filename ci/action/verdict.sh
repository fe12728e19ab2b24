#!/usr/bin/env bash
# Last step of action.yml: ends as the gates did.
#
# Reads CLAWRL_EXIT_CODE, and CLAWRL_INCONCLUSIVE: fail, or warn to let an inconclusive gate pass.
# Exit codes: those of clawrl ci. 2 there is none.
set -euo pipefail

code=${CLAWRL_EXIT_CODE-}
[[ $code =~ ^[0-9]+$ ]] || exit 2
if [[ $code == 11 && ${CLAWRL_INCONCLUSIVE-} == warn ]]; then
    exit 0
fi
exit "$code"
