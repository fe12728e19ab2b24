//! Computes a turn's reward and hint from all feedback.
//!
//! I1. User feedback takes precedence over judges: the last thumb or score counts, and withdrawn feedback is ignored.
//! I2. A turn without feedback has no reward, which differs from 0. I3. A hint is a user's comment on the turn, else a
//! judge's hint, else the text of a complaint that says more than that it is one.
//!
//! Pure; nothing to cancel.

use clawrl_core::{JudgeResponse, Role, VoteValue};
use clawrl_gateway::FeedbackView;

/// Maximum characters of a hint. Longer ones, usually pasted, are cut.
const HINT_CHARS: usize = 600;

/// Words of complaints without information. As a hint, they would teach nothing and hold learning back.
const BARE: [&str; 42] = [
    "a",
    "again",
    "answer",
    "asked",
    "bad",
    "but",
    "correct",
    "do",
    "does",
    "doesnt",
    "dont",
    "for",
    "good",
    "help",
    "i",
    "incorrect",
    "is",
    "isnt",
    "it",
    "its",
    "like",
    "meant",
    "no",
    "nope",
    "not",
    "please",
    "really",
    "right",
    "said",
    "sorry",
    "still",
    "stop",
    "that",
    "thats",
    "the",
    "this",
    "to",
    "try",
    "wanted",
    "was",
    "what",
    "wrong",
];

/// Result of all feedback on a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Worth {
    /// Reward (-1, 0 or 1) and its source.
    pub reward: Option<(f64, &'static str)>,
    /// The hint: what the answer should have taken into account.
    pub hint: Option<String>,
}

/// Votes of judges, from the ledger or new.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnVotes {
    /// Strict majority of the votes.
    pub(super) verdict: Option<i8>,
    /// The shortest hint.
    pub(super) hint: Option<String>,
}

impl TurnVotes {
    /// From two responses: about the turn and about the hint.
    pub(super) fn of(turn: &JudgeResponse, hint: &JudgeResponse) -> Self {
        let is_given = hint.majority() == Some(VoteValue::Met);
        let hints = hint.votes.iter().filter(|_| is_given).filter_map(|vote| vote.hint.clone());
        Self { verdict: turn.majority().map(VoteValue::sign), hint: hints.min_by_key(String::len) }
    }
}

/// Combines all feedback. `next` is the next message and its role.
pub fn worth(feedback: &[&FeedbackView], judged: &TurnVotes, next: Option<&(Role, String)>) -> Worth {
    let kept = || feedback.iter().filter(|feedback| feedback.deleted_ms.is_none());
    let mut said = kept().filter_map(|feedback| {
        let score = feedback.score.map(|score| if score == 0.0 { 0.0 } else { score.signum() });
        feedback.thumb.map(|thumb| thumb as f64).or(score)
    });
    let by_people = said.next_back().filter(|said| *said != 0.0).map(|said| (said, "feedback"));
    let by_judges = judged.verdict.map(|verdict| (f64::from(verdict), "judges"));
    let reward = by_people.or(by_judges);
    let written = kept().filter_map(|feedback| feedback.text.as_deref()).next_back();
    let complained = reward.is_some_and(|(reward, _)| reward < 0.0);
    let words = next.filter(|(role, _)| complained && *role == Role::User).map(|(_, text)| text.as_str());
    let words = words.filter(|words| says_more(words));
    let hint = written.or(judged.hint.as_deref()).or(words);
    Worth { reward, hint: hint.map(shortened).filter(|hint| !hint.is_empty()) }
}

/// Whether a complaint contains any information besides dissatisfaction.
fn says_more(complaint: &str) -> bool {
    let complaint = complaint.to_lowercase().replace(['\'', '\u{2019}'], "");
    let mut words = complaint.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    words.any(|word| BARE.binary_search(&word).is_err())
}

fn shortened(hint: &str) -> String {
    hint.trim().chars().take(HINT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use clawrl_core::Vote;
    use serde_json::Value;

    use super::*;

    fn feedback(thumb: Option<i64>, score: Option<f64>, text: Option<&str>) -> FeedbackView {
        FeedbackView {
            feedback: 1,
            answered: None,
            choice: None,
            source: "api".to_owned(),
            thumb,
            text: text.map(str::to_owned),
            score,
            reaction: Value::Null,
            at_ms: 0,
            deleted_ms: None,
        }
    }

    fn judged(verdict: i8, hint: Option<&str>) -> TurnVotes {
        TurnVotes { verdict: Some(verdict), hint: hint.map(str::to_owned) }
    }

    fn check(
        feedback: &[FeedbackView],
        judged: &TurnVotes,
        next: Option<(Role, &str)>,
        reward: Option<(f64, &'static str)>,
        hint: Option<&str>,
    ) {
        let next = next.map(|(role, text)| (role, text.to_owned()));
        let found = worth(&feedback.iter().collect::<Vec<_>>(), judged, next.as_ref());
        assert_eq!((found.reward, found.hint.as_deref()), (reward, hint));
    }

    #[test]
    fn i1_people_come_before_judges_and_the_last_word_counts() {
        let nobody = TurnVotes::default();
        check(&[], &nobody, None, None, None);
        check(&[feedback(Some(1), None, None)], &judged(-1, None), None, Some((1.0, "feedback")), None);
        let changed = [feedback(Some(1), None, None), feedback(Some(-1), None, None)];
        check(&changed, &nobody, None, Some((-1.0, "feedback")), None);
        let taken_back = [feedback(Some(-1), None, None), feedback(Some(0), None, None)];
        check(&taken_back, &judged(1, None), None, Some((1.0, "judges")), None);
        check(&taken_back, &nobody, None, None, None);
        check(&[feedback(None, Some(7.5), None)], &nobody, None, Some((1.0, "feedback")), None);
        let deleted = FeedbackView { deleted_ms: Some(1), ..feedback(Some(-1), None, Some("shorter")) };
        check(&[deleted], &nobody, None, None, None);
    }

    #[test]
    fn i2_i3_hints_and_neutral_turns() {
        check(&[], &judged(0, None), Some((Role::User, "and now?")), Some((0.0, "judges")), None);
        let complaint = Some((Role::User, "no, shorter please"));
        check(&[], &judged(-1, None), complaint, Some((-1.0, "judges")), Some("no, shorter please"));
        for bare in [
            "No, not like that.",
            "No!",
            "That\u{2019}s not what I asked for.",
            "wrong, try again please",
            "Please don't",
        ] {
            let bare = Some((Role::User, bare));
            check(&[], &judged(-1, None), bare, Some((-1.0, "judges")), None);
            check(&[], &judged(-1, Some("be short")), bare, Some((-1.0, "judges")), Some("be short"));
        }
        for telling in ["No, shorter.", "Wrong word.", "I asked for Python", "nein, kürzer", "No, 12."] {
            check(&[], &judged(-1, None), Some((Role::User, telling)), Some((-1.0, "judges")), Some(telling));
        }
        check(&[], &judged(-1, Some("be short")), complaint, Some((-1.0, "judges")), Some("be short"));
        check(&[], &judged(-1, None), Some((Role::Tool, "error")), Some((-1.0, "judges")), None);
        let text = [feedback(None, None, Some("  in Welsh "))];
        check(&text, &judged(-1, Some("be short")), complaint, Some((-1.0, "judges")), Some("in Welsh"));
        check(&text, &TurnVotes::default(), None, None, Some("in Welsh"));
    }

    #[test]
    fn ballots_are_read_by_their_majority() {
        let response = |votes: &[(VoteValue, Option<&str>)]| JudgeResponse {
            votes: votes
                .iter()
                .map(|(verdict, hint)| Vote {
                    verdict: *verdict,
                    reason: String::new(),
                    hint: hint.map(str::to_owned),
                })
                .collect(),
            ..JudgeResponse::default()
        };
        let turn = response(&[(VoteValue::Met, None), (VoteValue::NotMet, None), (VoteValue::NotMet, None)]);
        let hint = response(&[
            (VoteValue::Met, Some("longer")),
            (VoteValue::Met, Some("short")),
            (VoteValue::NotMet, None),
        ]);
        assert_eq!(TurnVotes::of(&turn, &hint), judged(-1, Some("short")));
        let silent = response(&[(VoteValue::NotMet, None)]);
        assert_eq!(TurnVotes::of(&JudgeResponse::default(), &silent), TurnVotes::default());
    }
}
