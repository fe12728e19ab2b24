//! Hints: text after the instruction that only a teacher reads, not the policy.
//!
//! I1. A hint contains another member's successful actions as the policy would write them, the messages of the failed checks, or
//! judges' hints about single turns. No member is shown its own actions, even if another member did the same. I2. Two views of an
//! episode differ only by the hint. I3. Hints are a function of the group's records, the judges' results and the plan.
//!
//! Pure; nothing to cancel.

use clawrl_config::{DistillationPlan, HintSource, HintedEpisodes, Reward};
use clawrl_core::{CheckReport, Grade, Message, Part, Role, TaskSpec, ToolSpec, Turn};
use clawrl_judge::MAX_HINTS;
use clawrl_learn::CONSTANT_SPREAD;
use clawrl_record::{JudgedTurn, Judgement};
use clawrl_scripted::script_actions;
use clawrl_torch::{Chat, written_text};

use super::attempt_sink::ScoredAttempt;
use super::samples::worth;

/// Separator between an instruction and a hint.
pub(super) const HINT_MARK: &str = "\n\n[hint]\n";

/// The hint of an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hint {
    /// There is no hint.
    None,
    /// This many hints are longer than the plan allows.
    TooLong(u64),
    /// The plan wants no hint: the teacher reads the episode unchanged.
    Plain,
    /// A hint after the instruction.
    Given(String),
    /// Hints before single turns.
    OfTurns {
        /// At least one, of different turns.
        turns: Vec<TurnHints>,
        /// Number of other hints that are longer than the plan allows.
        too_long: u64,
    },
}

/// Hints of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TurnHints {
    /// Index of the turn, from 0.
    pub(super) turn: usize,
    /// At least one, the shortest first: one if the teacher scores sampled tokens, at most [`MAX_HINTS`] if it scores candidates.
    pub(super) hints: Vec<String>,
}

/// The hints of a group's members, all of which tried this task.
pub(super) fn hints(
    plan: &DistillationPlan,
    chat: &Chat,
    reward: Reward,
    task: &TaskSpec,
    members: &[ScoredAttempt],
) -> Vec<Hint> {
    let constant = is_constant(members, reward);
    let successes = successes(members);
    let of = |ScoredAttempt { record: member, turns: judged, .. }: &ScoredAttempt| {
        let Some(grade) = member.outcome.grade() else { return Hint::None };
        let hinted = match plan.episodes {
            HintedEpisodes::All => true,
            HintedEpisodes::Failed => !grade.passed,
            HintedEpisodes::Constant => constant,
        };
        if plan.hints.is_empty() {
            return if hinted { Hint::Plain } else { Hint::None };
        }
        let own = deeds(&member.trajectory.turns);
        let mut all_too_long = 0;
        for source in plan.hints.iter().filter(|_| hinted) {
            let text = match source {
                HintSource::Sibling => successes.iter().find(|deeds| **deeds != own).cloned(),
                HintSource::Demonstration => demonstration(task, &member.trajectory.reset.tools),
                HintSource::Feedback => feedback(grade),
                HintSource::Judge => {
                    let (turns, too_long) = of_turns(plan, chat, judged);
                    if !turns.is_empty() {
                        return Hint::OfTurns { turns, too_long };
                    }
                    all_too_long += too_long;
                    continue;
                }
            };
            let Some(text) = text else { continue };
            match tokens(chat, &text) {
                count if count <= plan.max_hint_tokens as usize => return Hint::Given(text),
                _ => all_too_long += 1,
            }
        }
        if all_too_long == 0 { Hint::None } else { Hint::TooLong(all_too_long) }
    };
    members.iter().map(of).collect()
}

/// Judges' hints about turns, as far as the plan allows, and the number of hints that are too long.
fn of_turns(plan: &DistillationPlan, chat: &Chat, judged: &[JudgedTurn]) -> (Vec<TurnHints>, u64) {
    let most = if plan.top_k.is_some() { MAX_HINTS } else { 1 };
    let (mut turns, mut too_long) = (Vec::new(), 0);
    for judged in judged {
        let said = judged.hint.iter().flat_map(Judgement::hints);
        let mut hints: Vec<(usize, &str)> = said.map(|hint| (tokens(chat, hint), hint)).collect();
        let all = hints.len();
        hints.retain(|(count, _)| *count <= plan.max_hint_tokens as usize);
        too_long += (all - hints.len()) as u64;
        hints.sort();
        let hints: Vec<String> = hints.into_iter().take(most).map(|(_, hint)| hint.to_owned()).collect();
        if !hints.is_empty() {
            turns.push(TurnHints { turn: judged.turn as usize, hints });
        }
    }
    (turns, too_long)
}

/// A hint that cannot be encoded counts as too long.
fn tokens(chat: &Chat, hint: &str) -> usize {
    chat.tokenizer().encode_content(hint).map_or(usize::MAX, |ids| ids.len())
}

/// The actions of these turns, in order. Replies without a valid action are left out.
pub(super) fn deeds(turns: &[Turn]) -> String {
    let acted = turns.iter().filter(|turn| !turn.flags.malformed);
    acted.map(|turn| turn.reply.joined_text()).collect::<Vec<_>>().join("\n")
}

/// A conversation that begins with this prompt, with a hint: at the end of the prompt's last message that is not the policy's.
/// Nothing else changes: text that follows the prompt's own parts stays after them.
pub(super) fn with_hint(prompt: &[Message], mut conversation: Vec<Message>, hint: &str) -> Vec<Message> {
    if let Some(at) = prompt.iter().rposition(|message| message.role != Role::Assistant)
        && let Some(message) = conversation.get_mut(at)
    {
        let hint = format!("{HINT_MARK}{hint}");
        let own = prompt[at].parts.len().min(message.parts.len());
        match message.parts[..own].last_mut() {
            Some(Part::Text { text }) => text.push_str(&hint),
            _ => message.parts.insert(own, Part::Text { text: hint }),
        }
    }
    conversation
}

fn is_constant(members: &[ScoredAttempt], reward: Reward) -> bool {
    let worths = || members.iter().filter_map(|member| worth(&member.record.outcome, reward));
    worths().fold(f64::NEG_INFINITY, f64::max) - worths().fold(f64::INFINITY, f64::min) <= CONSTANT_SPREAD
}

/// The actions of members that passed, the shortest first.
fn successes(members: &[ScoredAttempt]) -> Vec<String> {
    let records = members.iter().map(|member| &member.record);
    let passed = records.filter(|member| member.outcome.grade().is_some_and(|grade| grade.passed));
    let mut found: Vec<String> = passed.map(|member| deeds(&member.trajectory.turns)).collect();
    found.retain(|deeds| !deeds.is_empty());
    found.sort_by_key(String::len);
    found
}

/// The task's oracle as the policy would write it. `None` for a solver, or if the format cannot express it.
fn demonstration(task: &TaskSpec, tools: &[ToolSpec]) -> Option<String> {
    let actions = script_actions(task.oracle.as_ref()?, tools);
    let written: Option<Vec<String>> = actions
        .iter()
        .map(|action| written_text(&action.text, &action.tool_calls, task.action_format, tools).ok())
        .collect();
    written.filter(|written| !written.is_empty()).map(|written| written.join("\n"))
}

/// The messages of the failed checks.
fn feedback(grade: &Grade) -> Option<String> {
    let unmet = |check: &&CheckReport| check.score < 1.0 && !check.message.is_empty();
    let said: Vec<&str> = grade.checks.iter().filter(unmet).map(|check| check.message.as_str()).collect();
    (!said.is_empty()).then(|| said.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use clawrl_core::{
        ActionFormat, AttemptId, AttemptRecord, Boundary, Epoch, Fault, Observation, Outcome, PhaseTimes,
        Script, SlotId, StopReason, ToolCall, Trajectory, TurnFlags,
    };
    use clawrl_record::CastVote;
    use clawrl_torch::{DEFAULT_TEMPLATE, END, Training, train_tokenizer};
    use serde_json::json;

    use super::*;

    fn chat() -> Chat {
        let tokenizer = train_tokenizer(&["cp apple melon"], &Training::default()).unwrap();
        let end = tokenizer.added_token(END).unwrap();
        Chat::new(tokenizer, DEFAULT_TEMPLATE.to_owned(), BTreeMap::new(), vec![end]).unwrap()
    }

    fn turn(said: &str, malformed: bool) -> Turn {
        Turn {
            reply: Message::text(Role::Assistant, said),
            calls: Vec::new(),
            tokens: None,
            usage: None,
            observation: Observation::from_text(""),
            process_reward: None,
            flags: TurnFlags { malformed, ..TurnFlags::default() },
            policy_time: Duration::ZERO,
            step_time: Duration::ZERO,
        }
    }

    fn tools() -> Vec<ToolSpec> {
        let tool = |name: &str, text_argument: Option<&str>| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
            text_argument: text_argument.map(str::to_owned),
        };
        vec![tool("run", Some("command")), tool("submit", None)]
    }

    fn record(outcome: Outcome, said: &[&str]) -> AttemptRecord {
        AttemptRecord {
            attempt: AttemptId { slot: SlotId(0), number: 0 },
            epoch: Epoch(0),
            closes_slot: true,
            outcome,
            times: PhaseTimes::default(),
            trajectory: Trajectory {
                prompt: vec![Message::text(Role::User, "do it")],
                reset: Observation { tools: tools(), ..Observation::default() },
                turns: said.iter().map(|said| turn(said, *said == "?")).collect(),
                cast: None,
            },
        }
    }

    fn finished(score: f64, said: &[&str]) -> AttemptRecord {
        let message = if score < 1.0 { "a is missing" } else { "a is there" };
        let check = CheckReport { label: "a".into(), score, weight: 1.0, message: message.into() };
        let grade = Grade::from_checks(vec![check], Vec::new());
        record(Outcome::Finished { stop: StopReason::Submitted, grade, reward: score }, said)
    }

    fn faulted() -> AttemptRecord {
        record(Outcome::Faulted(Fault::permanent(Boundary::Env, "gone", "gone")), &["rm"])
    }

    /// Hints of members without judged turns.
    fn unjudged(plan: &DistillationPlan, task: &TaskSpec, members: &[AttemptRecord]) -> Vec<Hint> {
        let members: Vec<ScoredAttempt> = members.iter().cloned().map(ScoredAttempt::from).collect();
        hints(plan, &chat(), Reward::Passed, task, &members)
    }

    fn check(plan: DistillationPlan, members: &[AttemptRecord], expected: &[Option<&str>]) {
        let oracle = Script::Calls(vec![ToolCall::new("run", json!({ "command": "cp apple melon" }))]);
        let task = TaskSpec {
            oracle: Some(oracle),
            action_format: ActionFormat::Raw,
            ..clawrl_testkit::task("copy")
        };
        let found = unjudged(&plan, &task, members);
        let expected: Vec<Hint> = expected
            .iter()
            .map(|hint| hint.map_or(Hint::None, |hint| Hint::Given(hint.to_owned())))
            .collect();
        assert_eq!(found, expected);
    }

    fn from(hints: &[HintSource]) -> DistillationPlan {
        DistillationPlan { hints: hints.to_vec(), ..DistillationPlan::default() }
    }

    #[test]
    fn i1_a_sibling_that_passed_the_shortest_way_and_never_itself() {
        let members = [
            finished(1.0, &["ls", "?", "cp a b"]),
            finished(1.0, &["cp a b"]),
            finished(0.5, &["cp"]),
            faulted(),
        ];
        let longer = "ls\ncp a b";
        let expected = [Some("cp a b"), Some(longer), Some("cp a b"), None];
        check(from(&[HintSource::Sibling]), &members, &expected);
        let alike = [finished(1.0, &["cp a b"]), finished(1.0, &["cp a b"])];
        check(from(&[HintSource::Sibling]), &alike, &[None, None]);
        check(
            from(&[HintSource::Sibling]),
            &[finished(1.0, &["cp"]), finished(0.0, &["rm"])],
            &[None, Some("cp")],
        );
        check(from(&[HintSource::Sibling]), &[finished(0.0, &["cp"]), finished(0.0, &["rm"])], &[None, None]);
    }

    #[test]
    fn the_first_source_that_has_one() {
        let (failed, passed) = (finished(0.0, &["rm"]), finished(1.0, &["cp a b"]));
        let oracle = "cp apple melon\nsubmit";
        let both = [HintSource::Sibling, HintSource::Demonstration];
        check(from(&both), &[failed.clone(), failed.clone()], &[Some(oracle), Some(oracle)]);
        check(from(&both), &[failed.clone(), passed.clone()], &[Some("cp a b"), Some(oracle)]);
        let feedback = [HintSource::Feedback];
        check(from(&feedback), &[failed, passed], &[Some("a is missing"), None]);
    }

    #[test]
    fn only_the_episodes_that_the_plan_names() {
        let (failed, passed) = (finished(0.0, &["rm"]), finished(1.0, &["cp a b"]));
        let oracle = "cp apple melon\nsubmit";
        let of = |episodes| DistillationPlan { episodes, ..from(&[HintSource::Demonstration]) };
        check(of(HintedEpisodes::Failed), &[failed.clone(), passed.clone()], &[Some(oracle), None]);
        check(of(HintedEpisodes::Constant), &[failed.clone(), passed], &[None, None]);
        let constant = [failed.clone(), faulted(), failed];
        check(of(HintedEpisodes::Constant), &constant, &[Some(oracle), None, Some(oracle)]);
        let (failed, passed) = (finished(0.0, &["rm"]), finished(1.0, &["cp a b"]));
        let plain = DistillationPlan { episodes: HintedEpisodes::Failed, ..from(&[]) };
        let found = unjudged(&plain, &clawrl_testkit::task("copy"), &[failed, passed, faulted()]);
        assert_eq!(found, [Hint::Plain, Hint::None, Hint::None], "a teacher without hints");
    }

    #[test]
    fn a_hint_over_its_budget_is_left_out() {
        let most = chat().tokenizer().encode_content("cp apple melon").unwrap().len() as u32;
        let plan = DistillationPlan { max_hint_tokens: most, ..from(&[HintSource::Sibling]) };
        let members = [finished(1.0, &["cp apple melon"]), finished(0.0, &["rm"])];
        check(plan.clone(), &members, &[None, Some("cp apple melon")]);
        let longer = [finished(1.0, &["cp apple melon melon"]), finished(0.0, &["rm"])];
        let task = clawrl_testkit::task("copy");
        assert_eq!(unjudged(&plan, &task, &longer), [Hint::None, Hint::TooLong(1)]);
        // A hint that fits is preferred to none.
        let said = chat().tokenizer().encode_content("a is missing").unwrap().len() as u32;
        let hints = vec![HintSource::Sibling, HintSource::Feedback];
        let both = DistillationPlan { hints, max_hint_tokens: said.max(most), ..plan };
        let far_too_long = "cp apple melon apple melon apple melon apple melon apple melon apple melon";
        let members = [finished(1.0, &[far_too_long]), finished(0.0, &["rm"])];
        check(both, &members, &[None, Some("a is missing")]);
    }

    #[test]
    fn what_judges_say_stands_at_its_turn_the_shortest_first() {
        let vote = |hint: &str| CastVote { verdict: 1, reason: String::new(), hint: Some(hint.to_owned()) };
        let judged = |turn: u32, verdict: i8, said: &[&str]| JudgedTurn {
            attempt: AttemptId { slot: SlotId(0), number: 0 },
            turn,
            process: None,
            hint: Some(Judgement {
                verdict: Some(verdict),
                votes: said.iter().map(|hint| vote(hint)).collect(),
                missing: Vec::new(),
                usage: None,
            }),
        };
        let long = "cp apple melon apple melon apple melon apple melon";
        let turns = vec![
            judged(0, 1, &["cp apple melon", "cp", "cp"]),
            judged(1, 0, &["cp"]),
            judged(2, 1, &[long]),
            judged(3, 1, &[long, "cp apple"]),
        ];
        let most = tokens(&chat(), "cp apple melon") as u32;
        let member =
            ScoredAttempt { record: finished(0.0, &["a", "b", "c", "d"]), turns, teacher_scores: None };
        let found = |plan: DistillationPlan, member: &ScoredAttempt| {
            let plan = DistillationPlan { max_hint_tokens: most, ..plan };
            let task = clawrl_testkit::task("copy");
            hints(&plan, &chat(), Reward::Passed, &task, std::slice::from_ref(member)).remove(0)
        };
        let at = |turn, hints: &[&str]| TurnHints {
            turn,
            hints: hints.iter().map(|&hint| hint.to_owned()).collect(),
        };
        let expected = Hint::OfTurns { turns: vec![at(0, &["cp"]), at(3, &["cp apple"])], too_long: 2 };
        assert_eq!(found(from(&[HintSource::Judge, HintSource::Feedback]), &member), expected);
        let candidates = DistillationPlan { top_k: Some(4), ..from(&[HintSource::Judge]) };
        let expected = Hint::OfTurns {
            turns: vec![at(0, &["cp", "cp apple melon"]), at(3, &["cp apple"])],
            too_long: 2,
        };
        assert_eq!(found(candidates, &member), expected);
        // If no hint of a source fits, the next source is used.
        let only_long = ScoredAttempt { turns: vec![judged(2, 1, &[long])], ..member.clone() };
        assert_eq!(found(from(&[HintSource::Judge]), &only_long), Hint::TooLong(1));
        let plan = from(&[HintSource::Judge, HintSource::Feedback]);
        assert_eq!(found(plan, &only_long), Hint::Given("a is missing".to_owned()));
        assert_eq!(
            found(from(&[HintSource::Judge]), &ScoredAttempt { turns: Vec::new(), ..member }),
            Hint::None
        );
    }

    #[test]
    fn a_hint_stands_behind_the_instruction_and_before_what_was_put_behind_that() {
        let text = |role, text: &str| Message::text(role, text);
        let prompt = [text(Role::System, "be brief"), text(Role::User, "do it")];
        let mut conversation = prompt.to_vec();
        conversation[1].parts.push(Part::Text { text: "[2 turns left out]".to_owned() });
        conversation.extend([text(Role::Assistant, "ls"), text(Role::User, "a")]);
        let shown: Vec<String> =
            with_hint(&prompt, conversation, "cp").iter().map(Message::joined_text).collect();
        assert_eq!(shown, ["be brief", "do it\n\n[hint]\ncp\n[2 turns left out]", "ls", "a"]);
        assert_eq!(with_hint(&[], Vec::new(), "cp"), []);
    }
}
