#!/usr/bin/env bash
# Puts mistakes that other systems are known for into a copy of this checkout, one at a time, and runs the tests that are there to
# notice them. A mistake that no test notices fails the script.
#
#   ci/mutations/run.sh              all of them, some ten minutes
#   ci/mutations/run.sh clip prefix  those whose name has one of these words
#
# The copy is a worktree of HEAD in the target folder, with a target folder of its own; this checkout does not change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly copy=$PWD/target/mutations/tree words=("$@")
export CARGO_TARGET_DIR=$PWD/target/mutations/built CARGO_INCREMENTAL=0
noticed=0 missed=()

# mistake NAME PACKAGE TESTS FILE EXPRESSION: EXPRESSION is of perl, over the whole file, and has to change it.
mistake() {
    local name=$1 package=$2 tests=$3 file=$4 expression=$5 word code=0
    if ((${#words[@]})); then
        for word in "${words[@]}" ''; do [[ -z $word || $name == *"$word"* ]] && break; done
        [[ -n $word ]] || return 0
    fi
    perl -0pi -e "$expression" "$copy/$file"
    if git -C "$copy" diff --quiet; then
        printf '%s: the expression changes nothing in %s any more\n' "$name" "$file" >&2
        exit 2
    fi
    (cd "$copy" && ci/setup.sh run cargo nextest run --locked --package "$package" --no-fail-fast -E "test(/$tests/)") \
        >"$copy.log" 2>&1 || code=$?
    git -C "$copy" checkout --quiet -- .
    # 100: tests ran, and one failed. Anything else says nothing about the tests.
    case $code in
    100) printf 'noticed  %s\n' "$name" && noticed=$((noticed + 1)) ;;
    0) printf 'MISSED   %s\n' "$name" && missed+=("$name") ;;
    *) tail -n 30 "$copy.log" >&2 && printf '%s: the tests did not run\n' "$name" >&2 && exit 2 ;;
    esac
}

git worktree remove --force "$copy" 2>/dev/null || true
mkdir -p "$(dirname "$copy")"
git worktree add --quiet --detach "$copy" HEAD
trap 'git worktree remove --force "$copy"' EXIT

readonly learn=harness/learn/src torch=policies/torch/src

mistake 'text encoded anew is trained on, not the sampled ids' clawrl-torch 'splices_recorded_ids|nothing_is_encoded_twice' \
    $torch/conversation/state.rs 's/\(0, self\.recorded_replies\(messages\)\)/(0, vec![None; messages.len()])/'
mistake 'log-probabilities are shifted by a position' clawrl-torch 'an_update_is_that_of_pytorch|i1_it_is_the_function' \
    $torch/learner/direct/piece.rs 's/own\.start \+ place,/(own.start + place + 1).min(own.end - 1),/'
mistake 'the first token of a reply has no word of the teacher' clawrl-learn 'views::' \
    $learn/views.rs 's/\(0\.\.segment\.len\(\)\)\.filter\(\|&at\| segment\.mask\[at\]\)/(0..segment.len()).filter(|&at| at > 0 && segment.mask[at] && segment.mask[at - 1])/'
mistake 'a teacher is asked at temperature 1' clawrl-torch 'a_step_of_every_objective' \
    $learn/batch.rs 's/view\.temperatures\[place\.view\] = of\.temperatures\[place\.segment\];//'
mistake 'crashes are members with a middling reward' clawrl-learn 'assembly::' \
    $learn/stream/assembly.rs 's/MemberResult::Faulted => group\.faulted \+= 1,/MemberResult::Faulted => group.episodes.push(Episode { attempt, reward: 0.5, process: Vec::new(), segments: Vec::new(), views: Vec::new() }),/'
mistake 'what is over a batch is thrown away' clawrl-learn 'schedules|world' \
    $learn/stream/streaming.rs 's/(let informative = .*?\n.*?collect\(\);)/$1 self.waiting.clear();/'
mistake 'process rewards are shifted where a step has none' clawrl-learn 'process::' \
    $learn/process.rs 's/steps\.get\(index\)\.copied\(\)\.flatten\(\)\?/steps.iter().flatten().nth(index).copied()?/'
mistake 'long episodes weigh more' clawrl-learn 'aggregation::' \
    $learn/aggregation.rs 's/totals\.episodes as f64 \* tokens as f64/totals.tokens as f64 + 0.0 * tokens as f64/'
mistake 'the normaliser is that of a micro-batch' clawrl-torch 'an_update_is_that_of_pytorch|a_step_of_every_objective' \
    $learn/aggregation.rs 's/Aggregation::TokenMean => totals\.tokens as f64,/Aggregation::TokenMean => totals.tokens.min(8) as f64,/'
mistake 'a prefix serves another version' clawrl-torch 'weights_change_between|two_versions_computed' \
    $torch/engine/prefixes.rs 's/tree\.find\(self\.clock, version,/tree.find(self.clock, 0,/; s/tree\.insert\(self\.clock, version,/tree.insert(self.clock, 0,/; s/self\.trees\.insert\(owner, PrefixCache::new\(version\)\);/let _ = version; self.trees.entry(owner).or_insert_with(|| PrefixCache::new(0));/'
mistake 'a prefix serves another adapter' clawrl-torch 'an_owner_finds|every_request_gets_the_adapter' \
    $torch/engine/prefixes.rs 's/self\.trees\.get_mut\(owner\)/self.trees.values_mut().next()/g'
mistake 'a running reply is ended by an update' clawrl-torch 'weights_change_between' \
    $torch/engine/worker.rs 's/self\.stats\.swaps \+= 1;/self.stats.swaps += 1; self.running.clear();/'
mistake 'an adapter ignores the teacher' clawrl-torch 'gradients_of_every_objective' \
    $torch/learner/beforehand.rs 's/self\.targets\.teacher\(&self\.params\)\.zip/self.targets.teacher(&self.params).filter(|_| self.base().is_none()).zip/'
mistake 'a merge in bf16 rounds the adapter away' clawrl-torch 'a_merged_model_is_kept_in_fp32' \
    $torch/model/lora.rs 's/dtype: "float32"\.to_owned\(\), //'
mistake 'the mask of a cached prefix is top-left' clawrl-torch 'log_probabilities_are_the_learners' \
    $torch/engine/kernels/attention.rs 's/last\[position % PAGE \+ 1\.\.\]/last[(position % PAGE).min(1) + 1..]/'
mistake 'the clip of GRPO is that of GSPO' clawrl-learn 'the_clip_of_sequences' \
    $learn/loss_config.rs 's/SEQUENCE: Self = Self \{ low: 3e-4, high: 4e-4 \}/SEQUENCE: Self = Self { low: 0.2, high: 0.28 }/'
mistake 'an attempt that was cut has answered that there is nothing' clawrl-workspace 'right_and_wrong_answers' \
    envs/workspace/src/answers/answer.rs \
    's/let Some\(answer\) = answer else \{ return Ok\(Finding::fail\("no answer was submitted"\)\) \};/let answer = answer.unwrap_or_default();/'

printf '%d noticed, %d missed\n' "$noticed" "${#missed[@]}"
((${#missed[@]} == 0))
