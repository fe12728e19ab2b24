#!/usr/bin/env bash
# Second step of action.yml: runs the gates, annotates the job, adds to its summary, and names what was written as outputs.
#
# Reads CLAWRL_PROGRAM, CLAWRL_GATES and CLAWRL_ARGUMENTS (one a line), CLAWRL_POLICY, CLAWRL_RESULTS, CLAWRL_OUT, CLAWRL_ANNOTATIONS,
# CLAWRL_SUMMARY, GITHUB_OUTPUT and GITHUB_STEP_SUMMARY.
# Exit codes: 0 for any verdict, so that results are stored before the job fails. 2 invalid input.
set -euo pipefail

readonly MOST_SUMMARY_BYTES=1048576 # What GitHub takes of a step.

refuse() {
    echo "::error title=ClawRL::$1"
    exit 2
}

# Lines of $1 that hold something, into the array $2.
lines() {
    local -n into=$2
    local line
    while IFS= read -r line; do
        [[ -z ${line//[[:space:]]/} ]] || into+=("$line")
    done <<<"$1"
}

gates=() arguments=()
lines "${CLAWRL_GATES-}" gates
lines "${CLAWRL_ARGUMENTS-}" arguments
((${#gates[@]})) || refuse 'the input gates names no file'
out=${CLAWRL_OUT:?}
# An output is a line: what follows a line end would be another output.
[[ $out != *$'\n'* ]] || refuse 'the input out is not a path'
[[ -z ${CLAWRL_POLICY-} ]] || arguments+=(--policy "$CLAWRL_POLICY")

# Of an earlier step nothing is to be taken for what this one says.
rm -f -- "$out"/{report.html,summary.md,junit.xml,assessments.json,annotations.txt,assessment.txt}
code=0
"${CLAWRL_PROGRAM:?}" ci --out "$out" "${arguments[@]}" -- "${gates[@]}" || code=$?

case $code in
0) verdict=pass ;;
10) verdict=fail ;;
11) verdict=inconclusive ;;
*) verdict=error ;;
esac
# Nothing was judged, for example with --help among the arguments.
if [[ $verdict != error && ! -e $out/annotations.txt ]]; then
    verdict=error
    ((code)) || code=1
fi
if [[ $verdict == error ]]; then
    echo "::error title=ClawRL::clawrl ci could not judge, and ended with $code; its log says why"
elif [[ ${CLAWRL_ANNOTATIONS-true} == true ]]; then
    cat -- "$out/annotations.txt"
fi
if [[ ${CLAWRL_SUMMARY-true} == true && -e $out/summary.md && -n ${GITHUB_STEP_SUMMARY-} ]]; then
    begun=$(stat -c %s -- "$GITHUB_STEP_SUMMARY" 2>/dev/null || echo 0)
    added=$(stat -c %s -- "$out/summary.md")
    if ((begun + added < MOST_SUMMARY_BYTES)); then
        printf '\n' | cat - "$out/summary.md" >>"$GITHUB_STEP_SUMMARY"
    fi
fi
# The path of what was written; nothing where it was not.
written() { [[ ! -e $out/$1 ]] || printf '%s' "$out/$1"; }

{
    echo "verdict=$verdict"
    echo "exit-code=$code"
    echo "report=$(written report.html)"
    echo "summary=$(written summary.md)"
    echo "junit=$(written junit.xml)"
    echo "json=$(written assessments.json)"
} >>"$GITHUB_OUTPUT"
