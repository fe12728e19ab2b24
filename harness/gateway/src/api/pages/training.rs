//! What became of a turn in training, in words; and if nothing, why.
//!
//! I1. A turn of which no sample is trained, taken or waiting has at least one reason.

use crate::TurnView;

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was trained, and is in these updates' versions; in words.
    Trained(Vec<String>),
    /// A sample of it waits, or is in an update under way; in words.
    OnItsWay(Vec<String>),
    /// It is not trained: why.
    Not(Vec<String>),
}

impl Fate {
    pub(super) fn of(turn: &TurnView) -> Self {
        if turn.line.deleted_ms.is_some() {
            let mut reasons = vec!["it was deleted".to_owned()];
            reasons.extend(versions(turn).map(|version| format!("before that it was trained: {version}")));
            return Self::Not(reasons);
        }
        let of_state = |state: &'static str| turn.samples.iter().filter(move |sample| sample.state == state);
        if of_state("trained").next().is_some() {
            let versions: Vec<String> = versions(turn).collect();
            return Self::Trained(if versions.is_empty() {
                vec!["in a version".to_owned()]
            } else {
                versions
            });
        }
        let taken =
            of_state("taken").map(|sample| format!("sample {} is in an update under way", sample.sample.0));
        let waits =
            of_state("waiting").map(|sample| format!("sample {} waits for an update", sample.sample.0));
        let on_its_way: Vec<String> = taken.chain(waits).collect();
        if on_its_way.is_empty() { Self::Not(reasons(turn)) } else { Self::OnItsWay(on_its_way) }
    }

    /// In a word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Trained(_) => "trained",
            Self::OnItsWay(_) => "waits",
            Self::Not(_) => "not trained",
        }
    }

    pub(super) fn words(&self) -> &[String] {
        let (Self::Trained(words) | Self::OnItsWay(words) | Self::Not(words)) = self;
        words
    }
}

fn versions(turn: &TurnView) -> impl Iterator<Item = String> {
    let trained = turn.updates.iter().filter(|update| update.outcome == "trained");
    trained.map(|update| {
        let adapter = &update.adapter;
        match update.version_after {
            Some(version) => format!("version {version} of {adapter}, by update {}", update.update.0),
            None => format!("{adapter}, by update {}", update.update.0),
        }
    })
}

fn reasons(turn: &TurnView) -> Vec<String> {
    let mut reasons = Vec::new();
    let mark = turn.line.mark.as_deref().unwrap_or("no reason is recorded");
    match turn.line.kind.as_str() {
        "main" => {}
        "side" => reasons.push(format!("it is a side turn: {mark}")),
        _ => reasons.push(format!("it is not known to be a main turn: {mark}")),
    }
    for sample in &turn.samples {
        match (sample.state.as_str(), &sample.reason) {
            ("dropped", Some(why)) => reasons.push(format!("sample {} was dropped: {why}", sample.sample.0)),
            ("rejected", _) => {
                reasons.push(format!(
                    "the update with sample {} was rejected: its gates did not pass",
                    sample.sample.0
                ));
            }
            (state, _) => reasons.push(format!("sample {} is {state}", sample.sample.0)),
        }
    }
    match turn.line.state.as_str() {
        "waiting" => reasons.push("it waits for its answer".to_owned()),
        "unanswered" => {
            let failed = turn.requests.iter().rev().find_map(|request| request.reason.as_deref());
            reasons.push(format!("it has no answer: {}", failed.unwrap_or("what came was empty")));
        }
        _ => unfit(turn, &mut reasons),
    }
    if turn.line.state == "answered" && turn.samples.is_empty() {
        unjudged(turn, &mut reasons);
    }
    reasons
}

/// Answers that cannot be trained, whatever they are worth.
fn unfit(turn: &TurnView, reasons: &mut Vec<String>) {
    let answers = || turn.requests.iter().flat_map(|request| &request.answers);
    // One that can be trained is enough.
    if turn.line.kind == "main" && answers().any(|answer| answer.exact) {
        return;
    }
    for why in answers().filter_map(|answer| answer.inexact.as_deref()) {
        // Said above, of the turn.
        let is_kind = why.starts_with("a side turn: ") || why.starts_with("not known to be a main turn: ");
        let why = format!("the answer cannot be trained: {why}");
        if !is_kind && !reasons.contains(&why) {
            reasons.push(why);
        }
    }
}

/// What is missing before it can be judged, or a sample made of it.
fn unjudged(turn: &TurnView, reasons: &mut Vec<String>) {
    let has_feedback = turn.feedback.iter().any(|feedback| feedback.deleted_ms.is_none());
    if turn.next_state.is_none() && !has_feedback {
        reasons.push(if turn.line.ended_without_next_state {
            "its session ended with no next state and no feedback".to_owned()
        } else {
            "it has no next state and no feedback yet".to_owned()
        });
    }
    if turn.reward.is_some() {
        reasons.push("no sample was made of it".to_owned());
    } else if turn.votes.is_empty() {
        reasons.push("it is not judged yet".to_owned());
    } else if turn.votes.iter().all(|vote| vote.score.is_none()) {
        reasons.push("no judge could score it".to_owned());
    } else {
        reasons.push("it has votes, and no reward yet".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        AnswerView, FeedbackView, RequestId, RequestView, RewardView, SampleId, SampleView, SessionId,
        TurnId, TurnLine, UpdateId, UpdateView, UserId, VoteView,
    };

    fn request() -> RequestView {
        let answer = AnswerView {
            choice: 0,
            text: Some("hello".to_owned()),
            reasoning: None,
            calls: Value::Null,
            finish_reason: "stop".to_owned(),
            redacted: Value::Null,
            sampled_ids: vec![1],
            logprobs: vec![-0.5],
            versions: Value::Null,
            adapter: None,
            temperature: None,
            top_p: None,
            top_k: None,
            seed: None,
            exact: true,
            inexact: None,
        };
        RequestView {
            request: RequestId(1),
            endpoint: String::new(),
            received_ms: 0,
            headers: vec![],
            body: None,
            redacted: Value::Null,
            model: None,
            sampling: Value::Null,
            kind: "main".to_owned(),
            mark: None,
            is_retry: false,
            state: "answered".to_owned(),
            reason: None,
            first_token_after_ms: None,
            ended_ms: None,
            prompt_tokens: None,
            completion_tokens: None,
            prompt_ids: vec![],
            answers: vec![answer],
        }
    }

    fn turn() -> TurnView {
        TurnView {
            session: SessionId(RequestId(1)),
            user: UserId("ada".to_owned()),
            line: TurnLine {
                turn: TurnId(RequestId(1)),
                epoch: 0,
                parent: None,
                sibling: None,
                kind: "main".to_owned(),
                mark: None,
                said: None,
                state: "answered".to_owned(),
                ended_without_next_state: false,
                deleted_ms: None,
            },
            evidence: String::new(),
            requests: vec![request()],
            next_state: None,
            feedback: vec![FeedbackView {
                answered: None,
                choice: None,
                feedback: 1,
                source: "api".to_owned(),
                thumb: Some(1),
                text: None,
                score: None,
                reaction: Value::Null,
                at_ms: 0,
                deleted_ms: None,
            }],
            votes: vec![],
            reward: None,
            samples: vec![],
            updates: vec![],
        }
    }

    fn vote(score: Option<i64>) -> VoteView {
        VoteView {
            judge: "j".to_owned(),
            ballot: 0,
            score,
            reason: None,
            hint: None,
            raw: String::new(),
            at_ms: 0,
        }
    }

    fn sample(state: &str, reason: Option<&str>) -> SampleView {
        SampleView {
            sample: SampleId(4),
            request: RequestId(1),
            choice: 0,
            reward: 1.0,
            hint: None,
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
        }
    }

    fn update(outcome: &str) -> UpdateView {
        UpdateView {
            update: UpdateId(5),
            sample: SampleId(4),
            outcome: outcome.to_owned(),
            adapter: "ada".to_owned(),
            objective: String::new(),
            version_before: 3,
            version_after: Some(4),
            state: String::new(),
            reasons: Value::Null,
            metrics: Value::Null,
        }
    }

    fn check(change: impl FnOnce(&mut TurnView), word: &str, words: &[&str]) {
        let mut turn = turn();
        change(&mut turn);
        let fate = Fate::of(&turn);
        assert_eq!(fate.word(), word);
        assert_eq!(fate.words(), words);
    }

    fn unfit(why: &'static str) -> impl FnOnce(&mut TurnView) {
        |turn| {
            turn.requests[0].answers[0].exact = false;
            turn.requests[0].answers[0].inexact = Some(why.to_owned());
            turn.reward = Some(RewardView { value: 1.0, source: String::new(), at_ms: 0 });
        }
    }

    #[test]
    fn i1_every_turn_that_is_not_trained_says_why() {
        let not = |change: &dyn Fn(&mut TurnView), words: &[&str]| check(change, "not trained", words);
        not(&|_| {}, &["it is not judged yet"]);
        not(
            &|turn| turn.feedback.clear(),
            &["it has no next state and no feedback yet", "it is not judged yet"],
        );
        not(
            &|turn| {
                turn.feedback[0].deleted_ms = Some(1);
                turn.line.ended_without_next_state = true;
            },
            &["its session ended with no next state and no feedback", "it is not judged yet"],
        );
        not(&|turn| turn.votes = vec![vote(None)], &["no judge could score it"]);
        not(&|turn| turn.votes = vec![vote(None), vote(Some(1))], &["it has votes, and no reward yet"]);
        not(&|turn| turn.line.deleted_ms = Some(1), &["it was deleted"]);
        not(
            &|turn| {
                turn.line.deleted_ms = Some(1);
                turn.updates = vec![update("trained")];
            },
            &["it was deleted", "before that it was trained: version 4 of ada, by update 5"],
        );
        not(&|turn| turn.line.state = "waiting".to_owned(), &["it waits for its answer"]);
        let unanswered = |turn: &mut TurnView| {
            turn.line.state = "unanswered".to_owned();
            turn.requests[0].answers.clear();
        };
        not(&unanswered, &["it has no answer: what came was empty"]);
        not(
            &|turn| {
                unanswered(turn);
                turn.requests[0].reason = Some("the client went away".to_owned());
            },
            &["it has no answer: the client went away"],
        );
        not(
            &|turn| turn.samples = vec![sample("dropped", Some("too old"))],
            &["sample 4 was dropped: too old"],
        );
        not(
            &|turn| turn.samples = vec![sample("rejected", None)],
            &["the update with sample 4 was rejected: its gates did not pass"],
        );
    }

    #[test]
    fn i1_kinds_and_answers_that_cannot_be_trained_say_why() {
        for why in [
            "it was not sampled: greedy",
            "its sampling was truncated",
            "the server behind the gateway tells no tokens",
            "the answer was redacted",
            "the request was redacted",
        ] {
            let expected = format!("the answer cannot be trained: {why}");
            check(unfit(why), "not trained", &[&expected, "no sample was made of it"]);
        }
        let kind = |kind: &str, mark: &str, inexact: &'static str| {
            let (kind, mark) = (kind.to_owned(), Some(mark.to_owned()));
            let unfit = unfit(inexact);
            move |turn: &mut TurnView| {
                unfit(turn);
                (turn.line.kind, turn.line.mark) = (kind, mark);
            }
        };
        let side = kind("side", "a heartbeat", "a side turn: a heartbeat");
        check(side, "not trained", &["it is a side turn: a heartbeat", "no sample was made of it"]);
        let unknown = kind("unknown", "no tools", "not known to be a main turn: no tools");
        let expected = ["it is not known to be a main turn: no tools", "no sample was made of it"];
        check(unknown, "not trained", &expected);
    }

    #[test]
    fn what_is_trained_says_where() {
        check(
            |turn| {
                turn.samples = vec![sample("trained", None)];
                turn.updates = vec![update("returned"), update("trained")];
            },
            "trained",
            &["version 4 of ada, by update 5"],
        );
        check(
            |turn| turn.samples = vec![sample("waiting", None)],
            "waits",
            &["sample 4 waits for an update"],
        );
        check(
            |turn| turn.samples = vec![sample("taken", None)],
            "waits",
            &["sample 4 is in an update under way"],
        );
    }
}
