//! How a turn was used in training, or why not.
//!
//! I1. A turn without a trained, taken or waiting sample has at least one reason.

use serde::Serialize;

use crate::TurnView;

/// The outcome of a turn in training.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TrainingOutcome {
    /// `trained`, `waiting` or `not trained`.
    outcome: &'static str,
    /// Versions that were trained on it, updates that wait for it, or reasons.
    details: Vec<String>,
}

impl TrainingOutcome {
    pub(super) fn of(turn: &TurnView) -> Self {
        let outcome = |outcome, details| Self { outcome, details };
        if turn.line.deleted_ms.is_some() {
            let mut reasons = vec!["deleted".to_owned()];
            reasons.extend(versions(turn).map(|version| format!("trained before that: {version}")));
            return outcome("not trained", reasons);
        }
        let in_state = |state: &'static str| turn.samples.iter().filter(move |sample| sample.state == state);
        if in_state("trained").next().is_some() {
            let versions: Vec<String> = versions(turn).collect();
            let unknown = || vec!["in a version".to_owned()];
            return outcome("trained", if versions.is_empty() { unknown() } else { versions });
        }
        let taken =
            in_state("taken").map(|sample| format!("sample {} is in a running update", sample.sample.0));
        let waiting =
            in_state("waiting").map(|sample| format!("sample {} waits for an update", sample.sample.0));
        let pending: Vec<String> = taken.chain(waiting).collect();
        if pending.is_empty() { outcome("not trained", reasons(turn)) } else { outcome("waiting", pending) }
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
    let mark = turn.line.mark.as_deref().unwrap_or("no reason recorded");
    match turn.line.kind.as_str() {
        "main" => {}
        "side" => reasons.push(format!("side turn: {mark}")),
        _ => reasons.push(format!("not known to be a main turn: {mark}")),
    }
    for sample in &turn.samples {
        match (sample.state.as_str(), &sample.reason) {
            ("dropped", Some(why)) => reasons.push(format!("sample {} was dropped: {why}", sample.sample.0)),
            ("rejected", _) => {
                reasons
                    .push(format!("the update with sample {} failed its acceptance test", sample.sample.0));
            }
            (state, _) => reasons.push(format!("sample {} is {state}", sample.sample.0)),
        }
    }
    match turn.line.state.as_str() {
        "waiting" => reasons.push("the answer is in progress".to_owned()),
        "unanswered" => {
            let failed = turn.requests.iter().rev().find_map(|request| request.reason.as_deref());
            reasons.push(format!("no answer: {}", failed.unwrap_or("it was empty")));
        }
        _ => unfit(turn, &mut reasons),
    }
    if turn.line.state == "answered" && turn.samples.is_empty() {
        unjudged(turn, &mut reasons);
    }
    reasons
}

/// Why the answers cannot be trained on, whatever their reward.
fn unfit(turn: &TurnView, reasons: &mut Vec<String>) {
    let answers = || turn.requests.iter().flat_map(|request| &request.answers);
    // One answer that can be trained on is enough.
    if turn.line.kind == "main" && answers().any(|answer| answer.exact) {
        return;
    }
    for why in answers().filter_map(|answer| answer.inexact.as_deref()) {
        // Given above, for the turn.
        let is_kind = why.starts_with("a side turn: ") || why.starts_with("not known to be a main turn: ");
        let why = format!("the answer cannot be trained on: {why}");
        if !is_kind && !reasons.contains(&why) {
            reasons.push(why);
        }
    }
}

/// What is missing for a judgement or a sample.
fn unjudged(turn: &TurnView, reasons: &mut Vec<String>) {
    let has_feedback = turn.feedback.iter().any(|feedback| feedback.deleted_ms.is_none());
    if turn.next_state.is_none() && !has_feedback {
        reasons.push(if turn.line.ended_without_next_state {
            "the session ended with no next state and no feedback".to_owned()
        } else {
            "no next state and no feedback yet".to_owned()
        });
    }
    if turn.reward.is_some() {
        reasons.push("no sample was made".to_owned());
    } else if turn.votes.is_empty() {
        reasons.push("not judged yet".to_owned());
    } else if turn.votes.iter().all(|vote| vote.score.is_none()) {
        reasons.push("no judge gave a score".to_owned());
    } else {
        reasons.push("votes, but no reward yet".to_owned());
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

    fn check(change: impl FnOnce(&mut TurnView), outcome: &str, details: &[&str]) {
        let mut turn = turn();
        change(&mut turn);
        let found = TrainingOutcome::of(&turn);
        assert_eq!(found.outcome, outcome);
        assert_eq!(found.details, details);
    }

    fn unfit(why: &'static str) -> impl FnOnce(&mut TurnView) {
        |turn| {
            turn.requests[0].answers[0].exact = false;
            turn.requests[0].answers[0].inexact = Some(why.to_owned());
            turn.reward = Some(RewardView { value: 1.0, source: String::new(), at_ms: 0 });
        }
    }

    #[test]
    fn i1_untrained_turns_have_reasons() {
        let not = |change: &dyn Fn(&mut TurnView), words: &[&str]| check(change, "not trained", words);
        not(&|_| {}, &["not judged yet"]);
        not(&|turn| turn.feedback.clear(), &["no next state and no feedback yet", "not judged yet"]);
        not(
            &|turn| {
                turn.feedback[0].deleted_ms = Some(1);
                turn.line.ended_without_next_state = true;
            },
            &["the session ended with no next state and no feedback", "not judged yet"],
        );
        not(&|turn| turn.votes = vec![vote(None)], &["no judge gave a score"]);
        not(&|turn| turn.votes = vec![vote(None), vote(Some(1))], &["votes, but no reward yet"]);
        not(&|turn| turn.line.deleted_ms = Some(1), &["deleted"]);
        not(
            &|turn| {
                turn.line.deleted_ms = Some(1);
                turn.updates = vec![update("trained")];
            },
            &["deleted", "trained before that: version 4 of ada, by update 5"],
        );
        not(&|turn| turn.line.state = "waiting".to_owned(), &["the answer is in progress"]);
        let unanswered = |turn: &mut TurnView| {
            turn.line.state = "unanswered".to_owned();
            turn.requests[0].answers.clear();
        };
        not(&unanswered, &["no answer: it was empty"]);
        not(
            &|turn| {
                unanswered(turn);
                turn.requests[0].reason = Some("the client disconnected".to_owned());
            },
            &["no answer: the client disconnected"],
        );
        not(
            &|turn| turn.samples = vec![sample("dropped", Some("too old"))],
            &["sample 4 was dropped: too old"],
        );
        not(
            &|turn| turn.samples = vec![sample("rejected", None)],
            &["the update with sample 4 failed its acceptance test"],
        );
    }

    #[test]
    fn i1_unfit_answers_have_reasons() {
        for why in [
            "it was not sampled: greedy",
            "its sampling was truncated",
            "the upstream server returns no token ids",
            "the answer was redacted",
            "the request was redacted",
        ] {
            let expected = format!("the answer cannot be trained on: {why}");
            check(unfit(why), "not trained", &[&expected, "no sample was made"]);
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
        check(side, "not trained", &["side turn: a heartbeat", "no sample was made"]);
        let unknown = kind("unknown", "no tools", "not known to be a main turn: no tools");
        let expected = ["not known to be a main turn: no tools", "no sample was made"];
        check(unknown, "not trained", &expected);
    }

    #[test]
    fn trained_turns_name_their_versions() {
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
            "waiting",
            &["sample 4 waits for an update"],
        );
        check(
            |turn| turn.samples = vec![sample("taken", None)],
            "waiting",
            &["sample 4 is in a running update"],
        );
    }
}
