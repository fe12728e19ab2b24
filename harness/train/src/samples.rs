//! Converts recorded attempts to training samples.
//!
//! I1. Training uses the same context as acting: the scheduler's own function computes it again from the trajectory. I2. An
//! attempt for which this fails is not trained on, and the reason is reported.

use std::borrow::Cow;

use clawrl_config::Reward;
use clawrl_core::{
    ActionFormat, AttemptRecord, Message, Outcome, RewardMap, SampledTokens, StopReason, TaskSpec, ToolSpec,
    Trajectory, Turn,
};
use clawrl_learn::{MemberResult, Replies, Segment, TeacherView, teacher_views, turn_view};
use clawrl_scheduler::context;
use clawrl_torch::{Chat, SampledTurn, demonstrated_tokens, described_tools, segments, written_turn};

use super::hints::{Hint, TurnHints, deeds, with_hint};

/// Settings to read the records of a task.
pub(super) struct Reading<'a> {
    pub(super) chat: &'a Chat,
    pub(super) format: ActionFormat,
    pub(super) reward: Reward,
    pub(super) map: RewardMap,
    pub(super) temperature: f32,
}

impl Reading<'_> {
    /// The result of the attempt that closed its slot, for the stream of groups, without a teacher's views.
    ///
    /// # Errors
    /// The recorded tokens are invalid.
    pub(super) fn member(&self, record: &AttemptRecord) -> Result<MemberResult, String> {
        let (grade, reward) = match (&record.outcome, worth(&record.outcome, self.reward)) {
            (Outcome::Finished { grade, .. }, Some(reward)) => (grade, reward),
            (Outcome::Cancelled(_), _) => return Ok(MemberResult::Cancelled),
            _ => return Ok(MemberResult::Faulted),
        };
        if !can_be(reward, self.reward, self.map) {
            return Ok(MemberResult::Unsound);
        }
        let trajectory = &record.trajectory;
        let segments = self.segments(trajectory, None)?;
        let process = trajectory.turns.iter().map(|turn| turn.process_reward).collect();
        let (lengths, _) = lengths(record);
        let tokens = lengths.iter().map(|&(length, _)| u64::from(length)).sum();
        let replies = Replies { count: lengths.len() as u64, tokens };
        let (passed, views) = (grade.passed, Vec::new());
        Ok(MemberResult::Finished { reward, process, passed, replies, segments, views })
    }

    /// The teacher's views of these segments of an attempt, with a hint or without, and the number of hints that are left out
    /// because they exceed the plan's limit, or `most_tokens` together with the rest of the view.
    ///
    /// # Errors
    /// The recorded tokens are invalid.
    pub(super) fn views_with(
        &self,
        trajectory: &Trajectory,
        segments: &[Segment],
        hint: &Hint,
        most_tokens: usize,
    ) -> Result<(Vec<Vec<TeacherView>>, u64), String> {
        match hint {
            Hint::None => Ok((Vec::new(), 0)),
            Hint::TooLong(count) => Ok((Vec::new(), *count)),
            Hint::Plain => {
                teacher_views(segments, segments).map(|views| (views, 0)).map_err(|error| error.to_string())
            }
            Hint::Given(hint) => self
                .views(trajectory, segments, hint, most_tokens)
                .map(|found| found.map_or_else(|| (Vec::new(), 1), |found| (found, 0))),
            Hint::OfTurns { turns, too_long } => self
                .views_of_turns(trajectory, segments, turns, most_tokens)
                .map(|(found, more)| (found, too_long + more)),
        }
    }

    /// The teacher's views of these segments of an attempt, with a hint in the prompt. `None` if a view exceeds `most_tokens`.
    ///
    /// # Errors
    /// The recorded tokens are invalid.
    fn views(
        &self,
        trajectory: &Trajectory,
        segments: &[Segment],
        hint: &str,
        most_tokens: usize,
    ) -> Result<Option<Vec<Vec<TeacherView>>>, String> {
        let hinted = self.segments(trajectory, Some(hint))?;
        let views = teacher_views(segments, &hinted).map_err(|error| error.to_string())?;
        Ok(Some(views).filter(|views| views.iter().flatten().all(|view| view.ids.len() <= most_tokens)))
    }

    /// The teacher's views of turns of an attempt, each with a hint at the end of the last message before the turn that is not
    /// the policy's, and the number of hints that exceed `most_tokens` together with their context.
    ///
    /// # Errors
    /// The recorded tokens are invalid.
    fn views_of_turns(
        &self,
        trajectory: &Trajectory,
        segments: &[Segment],
        hints: &[TurnHints],
        most_tokens: usize,
    ) -> Result<(Vec<Vec<TeacherView>>, u64), String> {
        let mut views = vec![Vec::new(); segments.len()];
        let mut too_long = 0;
        for TurnHints { turn, hints } in hints {
            for hint in hints {
                let hinted = self.hinted_turn(trajectory, *turn, hint)?;
                let number = u32::try_from(*turn).map_err(|error| error.to_string())?;
                match turn_view(segments, number, &hinted).map_err(|error| error.to_string())? {
                    Some((_, view)) if view.ids.len() > most_tokens => too_long += 1,
                    Some((of, view)) => views[of].push(view),
                    None => {}
                }
            }
        }
        Ok((views, too_long))
    }

    /// The attempt up to a turn, with a hint before the turn.
    fn hinted_turn(
        &self,
        trajectory: &Trajectory,
        number: usize,
        hint: &str,
    ) -> Result<Vec<Segment>, String> {
        let told = tools_told(trajectory, self.format);
        let mut turns = Vec::with_capacity(number + 1);
        for ((index, turn), tools) in trajectory.turns.iter().enumerate().zip(told).take(number + 1) {
            let tokens = turn.tokens.as_ref().ok_or("a turn has no recorded tokens")?;
            let plain = shown(&trajectory.prompt, &trajectory.turns[..index], None);
            let messages = if index == number { with_hint(&plain, plain.clone(), hint) } else { plain };
            turns.push(SampledTurn { messages: Cow::Owned(messages), tools, tokens: Cow::Borrowed(tokens) });
        }
        segments(self.chat, turns, self.temperature).map_err(|error| error.to_string())
    }

    /// The segments of an attempt, with a hint in its prompt if there is one.
    fn segments(&self, trajectory: &Trajectory, hint: Option<&str>) -> Result<Vec<Segment>, String> {
        let mut turns = Vec::with_capacity(trajectory.turns.len());
        let told = tools_told(trajectory, self.format);
        for ((index, turn), tools) in trajectory.turns.iter().enumerate().zip(told) {
            let tokens = turn.tokens.as_ref().ok_or("a turn has no recorded tokens")?;
            turns.push(SampledTurn {
                messages: Cow::Owned(shown(&trajectory.prompt, &trajectory.turns[..index], hint)),
                tools,
                tokens: Cow::Borrowed(tokens),
            });
        }
        segments(self.chat, turns, self.temperature).map_err(|error| error.to_string())
    }
}

/// The reward of an episode; `None` if it did not finish.
pub(super) fn worth(outcome: &Outcome, reward: Reward) -> Option<f64> {
    match outcome {
        Outcome::Finished { grade, reward: mapped, .. } => Some(match reward {
            Reward::Passed => f64::from(u8::from(grade.passed)),
            Reward::Score => *mapped,
        }),
        Outcome::Faulted(_) | Outcome::Cancelled(_) => None,
    }
}

/// Tokens of each reply of an attempt, with whether the token limit cut it; and whether the limit of turns or time cut the
/// attempt. An end by three malformed replies in a row does not count as cut, because length is not their defect.
pub(super) fn lengths(record: &AttemptRecord) -> (Vec<(u32, bool)>, bool) {
    let reply = |turn: &Turn| {
        let tokens = turn.tokens.as_ref().map_or(0, |tokens| tokens.ids.len());
        (u32::try_from(tokens).unwrap_or(u32::MAX), turn.flags.reply_truncated)
    };
    let is_cut = matches!(
        &record.outcome,
        Outcome::Finished { stop: StopReason::MaxTurns | StopReason::TimeLimit(_), .. }
    );
    (record.trajectory.turns.iter().map(reply).collect(), is_cut)
}

/// Whether an episode can have this reward: up to rounding, it lies in the range that scores from 0 to 1 map to.
fn can_be(reward: f64, kind: Reward, map: RewardMap) -> bool {
    let (one, other) = match kind {
        Reward::Passed => (0.0, 1.0),
        Reward::Score => (map.apply(0.0), map.apply(1.0)),
    };
    let slack = 1e-9 * (1.0 + one.abs().max(other.abs()));
    (one.min(other) - slack..=one.max(other) + slack).contains(&reward)
}

/// The prompt under which a demonstration is shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum Showing<'a> {
    /// Its own prompt.
    Plain,
    /// Its own prompt, with itself as a hint.
    Hinted,
    /// Another demonstration's prompt, with itself as a hint: its actions follow from the hint alone.
    Contradicted(&'a [Message]),
}

/// The training segments of a demonstration of this task.
///
/// # Errors
/// The task's action format cannot express a call.
pub(super) fn demonstrated(
    chat: &Chat,
    task: &TaskSpec,
    trajectory: &Trajectory,
    showing: Showing<'_>,
) -> Result<Vec<Segment>, String> {
    let written: Result<Vec<Turn>, _> = trajectory
        .turns
        .iter()
        .map(|turn| written_turn(turn, task.action_format, &trajectory.reset.tools))
        .collect();
    let written = written.map_err(|error| error.to_string())?;
    let hint = deeds(&written);
    let (prompt, hint) = match showing {
        Showing::Plain => (trajectory.prompt.as_slice(), None),
        Showing::Hinted => (trajectory.prompt.as_slice(), Some(hint.as_str())),
        Showing::Contradicted(prompt) => (prompt, Some(hint.as_str())),
    };
    let mut turns = Vec::with_capacity(written.len());
    let told = tools_told(trajectory, task.action_format);
    for ((index, turn), tools) in written.iter().enumerate().zip(told) {
        let tokens: SampledTokens =
            demonstrated_tokens(chat, &turn.reply.joined_text()).map_err(|error| error.to_string())?;
        turns.push(SampledTurn {
            messages: Cow::Owned(shown(prompt, &written[..index], hint)),
            tools,
            tokens: Cow::Owned(tokens),
        });
    }
    segments(chat, turns, 1.0).map_err(|error| error.to_string())
}

/// The messages before a turn. A hint does not change which turns are left out: that follows from the original prompt.
fn shown(prompt: &[Message], turns: &[Turn], hint: Option<&str>) -> Vec<Message> {
    let conversation = context(prompt, turns);
    match hint {
        Some(hint) => with_hint(prompt, conversation, hint),
        None => conversation,
    }
}

/// The tools described to the policy before each turn (I1): the available ones, if its format describes tools.
fn tools_told(trajectory: &Trajectory, format: ActionFormat) -> impl Iterator<Item = &[ToolSpec]> {
    let mut offered = trajectory.reset.tools.as_slice();
    trajectory.turns.iter().map(move |turn| {
        let told = described_tools(format, offered);
        if !turn.observation.tools.is_empty() {
            offered = &turn.observation.tools;
        }
        told
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use clawrl_core::{Message, Observation, Role, ToolCall, TurnFlags};
    use clawrl_torch::{MarkupTokens, Training, train_tokenizer};
    use serde_json::json;

    use super::*;

    /// Names the available tools, as templates of larger models do.
    const TEMPLATE: &str = "{% for tool in tools or [] %}<|system|>{{ tool.function.name }}<|end|>{% endfor %}\
                            {% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>\
                            {% endfor %}<|assistant|>";

    fn chat() -> Chat {
        let tokenizer = train_tokenizer(&["look up peel"], &Training::default()).unwrap();
        let end = tokenizer.added_token(clawrl_torch::END).unwrap();
        Chat::new(tokenizer, TEMPLATE.to_owned(), BTreeMap::new(), vec![end]).unwrap()
    }

    fn tool(name: &str, text_argument: Option<&str>) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
            text_argument: text_argument.map(str::to_owned),
        }
    }

    fn turn(observation: Observation) -> Turn {
        let call = ToolCall::new("look", json!({ "key": "x" }));
        let mut reply = Message::text(Role::Assistant, "x");
        reply.tool_calls = vec![call.clone()];
        Turn {
            reply,
            calls: vec![call],
            tokens: None,
            usage: None,
            observation,
            process_reward: None,
            flags: TurnFlags::default(),
            policy_time: Duration::ZERO,
            step_time: Duration::ZERO,
        }
    }

    /// The texts of the segments that two turns make, the second with other tools than the first.
    fn check(format: ActionFormat, expected: &[&str]) {
        let look = vec![tool("look", Some("key"))];
        let both = vec![tool("look", Some("key")), tool("peel", None)];
        let trajectory = Trajectory {
            prompt: vec![Message::text(Role::User, "up")],
            reset: Observation { tools: look, ..Observation::default() },
            turns: vec![
                turn(Observation { tools: both, ..Observation::from_text("a") }),
                turn(Observation::from_text("b")),
            ],
            cast: None,
        };
        let task = TaskSpec { action_format: format, ..clawrl_testkit::task("look") };
        let chat = chat();
        let segments = demonstrated(&chat, &task, &trajectory, Showing::Plain).unwrap();
        let text = |segment: &Segment| chat.tokenizer().decode(&segment.ids, MarkupTokens::Keep).unwrap();
        assert_eq!(segments.iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_context_tells_of_tools_where_it_did_when_it_was_acted_on() {
        let raw = "<|user|>up<|end|><|assistant|>x<|end|><|user|>a<|end|><|assistant|>x<|end|>";
        check(ActionFormat::Raw, &[raw]);
        let call = "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"key\": \"x\"}}\n</tool_call>";
        let first = format!("<|system|>look<|end|><|user|>up<|end|><|assistant|>{call}<|end|>");
        let second = format!(
            "<|system|>look<|end|><|system|>peel<|end|><|user|>up<|end|><|assistant|>{call}<|end|><|user|>a<|end|>\
             <|assistant|>{call}<|end|>"
        );
        check(ActionFormat::Hermes, &[&first, &second]);
    }

    /// Replies `x` and `peel`.
    fn two_turns(chat: &Chat) -> Trajectory {
        let said = |said| {
            let mut turn = turn(Observation::from_text("a"));
            turn.reply = Message::text(Role::Assistant, said);
            turn.tokens = Some(demonstrated_tokens(chat, said).unwrap());
            turn
        };
        Trajectory {
            prompt: vec![Message::text(Role::User, "up")],
            reset: Observation::default(),
            turns: ["x", "peel"].map(said).into(),
            cast: None,
        }
    }

    fn reading(chat: &Chat) -> Reading<'_> {
        Reading {
            chat,
            format: ActionFormat::Raw,
            reward: Reward::Passed,
            map: RewardMap::default(),
            temperature: 1.0,
        }
    }

    #[test]
    fn a_teacher_is_asked_about_the_tokens_that_were_sampled_with_the_hint_before_them() {
        let chat = chat();
        let (trajectory, reading) = (two_turns(&chat), reading(&chat));
        let segments = reading.segments(&trajectory, None).unwrap();
        let views = |most| reading.views(&trajectory, &segments, "peel", most).unwrap();
        let found = views(usize::MAX).unwrap();
        let [view] = found[0].as_slice() else { panic!("{found:?}") };
        let read = chat.tokenizer().decode(&view.ids, MarkupTokens::Keep).unwrap();
        let hinted =
            "<|user|>up\n\n[hint]\npeel<|end|><|assistant|>x<|end|><|user|>a<|end|><|assistant|>peel<|end|>";
        assert_eq!(read, hinted);
        assert!(view.is_of(&segments[0]));
        assert_eq!(view.places.len(), segments[0].trained());
        assert!(views(view.ids.len()).is_some() && views(view.ids.len() - 1).is_none());
    }

    #[test]
    fn rewards_are_what_scores_become() {
        let check = |reward: f64, kind, map: RewardMap, expected: bool| {
            assert_eq!(can_be(reward, kind, map), expected, "{reward} {kind:?} {map:?}");
        };
        let usual = RewardMap::default();
        for (reward, expected) in [(-1.0, true), (0.3, true), (1.0, true), (1.01, false), (f64::NAN, false)] {
            check(reward, Reward::Score, usual, expected);
        }
        check(f64::INFINITY, Reward::Score, usual, false);
        check(-0.5, Reward::Passed, usual, false);
        let third = RewardMap { scale: 1.0 / 3.0, offset: 0.1 };
        check(third.apply(1.0), Reward::Score, third, true);
        check(0.0, Reward::Score, third, false);
        let falling = RewardMap { scale: -2.0, offset: 1.0 };
        check(-1.0, Reward::Score, falling, true);
    }

    #[test]
    fn a_teacher_is_asked_about_a_turn_with_its_hint_before_it() {
        let chat = chat();
        let (trajectory, reading) = (two_turns(&chat), reading(&chat));
        let segments = reading.segments(&trajectory, None).unwrap();
        let hints = |turn, hints: &[&str]| TurnHints {
            turn,
            hints: hints.iter().map(|&hint| hint.to_owned()).collect(),
        };
        let views =
            |all: &[TurnHints], most| reading.views_of_turns(&trajectory, &segments, all, most).unwrap();
        let (found, too_long) = views(&[hints(0, &["look"]), hints(1, &["peel", "look up"])], usize::MAX);
        let [views_of_one] = found.as_slice() else { panic!("{found:?}") };
        let read: Vec<String> = views_of_one
            .iter()
            .map(|view| chat.tokenizer().decode(&view.ids, MarkupTokens::Keep).unwrap())
            .collect();
        let second = "<|user|>up<|end|><|assistant|>x<|end|><|user|>a\n\n[hint]\n";
        let expected = [
            "<|user|>up\n\n[hint]\nlook<|end|><|assistant|>x<|end|>".to_owned(),
            format!("{second}peel<|end|><|assistant|>peel<|end|>"),
            format!("{second}look up<|end|><|assistant|>peel<|end|>"),
        ];
        assert_eq!((read.as_slice(), too_long), (&expected[..], 0));
        assert!(views_of_one.iter().all(|view| view.is_of(&segments[0])));
        let of = |view: &TeacherView| view.places.len();
        assert_eq!(of(&views_of_one[0]) + of(&views_of_one[1]), segments[0].trained());
        let (found, too_long) = views(&[hints(0, &["look"]), hints(1, &["peel"])], views_of_one[0].ids.len());
        assert_eq!((found[0].len(), too_long), (1, 1));
    }

    #[test]
    fn a_demonstration_is_shown_with_itself_as_a_hint() {
        let mut done = turn(Observation::from_text("a"));
        done.reply = Message::text(Role::Assistant, "x");
        let trajectory = Trajectory {
            prompt: vec![Message::text(Role::User, "up")],
            reset: Observation { tools: vec![tool("look", Some("key"))], ..Observation::default() },
            turns: vec![done],
            cast: None,
        };
        let task = TaskSpec { action_format: ActionFormat::Raw, ..clawrl_testkit::task("look") };
        let chat = chat();
        let check = |showing, expected: &str| {
            let segments = demonstrated(&chat, &task, &trajectory, showing).unwrap();
            let [segment] = segments.as_slice() else { panic!("{segments:?}") };
            assert_eq!(chat.tokenizer().decode(&segment.ids, MarkupTokens::Keep).unwrap(), expected);
            assert_eq!(segment.trained(), 2, "what was done and its end, not the hint");
        };
        check(Showing::Plain, "<|user|>up<|end|><|assistant|>x<|end|>");
        check(Showing::Hinted, "<|user|>up\n\n[hint]\nx<|end|><|assistant|>x<|end|>");
        let other = [Message::text(Role::User, "look")];
        check(Showing::Contradicted(&other), "<|user|>look\n\n[hint]\nx<|end|><|assistant|>x<|end|>");
    }

    #[test]
    fn a_hint_leaves_out_no_other_turns() {
        let long = "a".repeat(20_000);
        let turns: Vec<Turn> = (0..6).map(|_| turn(Observation::from_text(long.as_str()))).collect();
        let prompt = [Message::text(Role::User, "up")];
        let (plain, hinted) = (shown(&prompt, &turns, None), shown(&prompt, &turns, Some(&long)));
        assert!(plain.len() < 1 + 2 * turns.len(), "nothing was left out");
        assert_eq!(plain[1..], hinted[1..]);
        assert_ne!(plain[0], hinted[0]);
    }
}
