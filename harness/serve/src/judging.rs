//! Judges turns in the background: turns feedback into votes, rewards and samples in the ledger.
//!
//! I1. Answers never wait for judging. I2. A judge is asked about a turn once; its votes are stored. I3. Unjudged turns
//! in the ledger are judged at the start and after missed events. I4. Only main turns get a reward, not side turns or
//! unknown ones. I5. Feedback applies to exactly one answer, not to its retries.
//!
//! Cancellation: dropping the future of [`ChatJudge::run`] drops the pending questions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_config::JudgingPlan;
use clawrl_core::{
    ActionFormat, AttemptId, Boundary, CancelToken, EnvSpec, Fault, Judge, JudgeRequest, JudgeResponse,
    JudgeSubject, RewardMap, SlotId, TaskId, TaskSpec, TerminalSpec, Timeouts, TurnContext, Vote, VoteValue,
    derive_seed,
};
use clawrl_gateway::{
    FeedbackView, LedgerChange, LedgerError, LedgerEvent, NewReward, NewSample, NewVote, RecorderHandle,
    RequestId, TurnId, TurnView, UserId,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::exchange::{Exchange, answer_of};
use super::verdict::{TurnVotes, Worth, worth};

/// Maximum turns of one query.
const LOOK: u32 = 500;
/// Maximum turns judged concurrently; the others wait in the ledger.
const AT_ONCE: usize = 64;
/// Names of votes in the ledger: about the turn, and about a hint.
const VOTE: &str = "turn";
const HINT: &str = "hint";
/// Reason why a vote about a hint does not score the turn.
const ABOUT_A_HINT: &str = "it is about a hint, and no score of the turn";

/// Judges recorded turns.
pub(super) struct ChatJudge {
    judge: Arc<dyn Judge>,
    votes: u32,
    timeout: Duration,
    recorder: RecorderHandle,
}

impl ChatJudge {
    pub(super) fn new(judge: Arc<dyn Judge>, plan: &JudgingPlan, recorder: RecorderHandle) -> Self {
        let timeout = Duration::from_secs(plan.timeout_secs.into());
        Self { judge, votes: plan.votes, timeout, recorder }
    }

    /// Judges until the recorder ends.
    pub(super) async fn run(self) {
        let judge = Arc::new(self);
        let mut events = judge.recorder.events();
        // Dropping this future also drops the pending questions.
        let mut asked = JoinSet::new();
        let mut under_way = BTreeMap::new();
        let mut again = BTreeSet::new();
        let mut older = judge.look(None, &mut again).await;
        loop {
            if again.is_empty() && asked.is_empty() && older.is_some() {
                older = judge.look(older, &mut again).await;
            }
            while asked.len() < AT_ONCE
                && let Some((user, turn)) =
                    again.iter().find(|(_, turn)| !under_way.values().any(|other| other == turn)).cloned()
            {
                again.remove(&(user.clone(), turn));
                let judge = Arc::clone(&judge);
                let task = asked.spawn(async move {
                    if let Err(error) = judge.judge(&user, turn).await {
                        tracing::warn!("turn {turn} is not judged: {error}");
                    }
                });
                under_way.insert(task.id(), turn);
            }
            tokio::select! {
                Some(done) = asked.join_next_with_id() => {
                    let task = done.as_ref().map_or_else(tokio::task::JoinError::id, |(task, ())| *task);
                    let turn = under_way.remove(&task);
                    if let Err(error) = done {
                        tracing::error!("judging of the turn {turn:?} has failed: {error}");
                    }
                }
                event = events.recv() => match event {
                    Ok(event) => again.extend(of_interest(event)),
                    Err(RecvError::Lagged(_)) => older = judge.look(None, &mut again).await,
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    /// Judges waiting turns before `before`. Returns the turn to continue from if there may be more.
    async fn look(&self, before: Option<TurnId>, again: &mut BTreeSet<(UserId, TurnId)>) -> Option<TurnId> {
        match self.recorder.unjudged(before, LOOK).await {
            Ok(turns) => {
                let older = turns.last().filter(|_| turns.len() >= LOOK as usize).map(|(_, turn)| *turn);
                again.extend(turns);
                older
            }
            Err(error) => {
                tracing::warn!("turns that wait to be judged cannot be read: {error}");
                // Retried at the next event.
                before
            }
        }
    }

    /// Judges a turn by all feedback so far.
    async fn judge(&self, user: &UserId, number: TurnId) -> Result<(), LedgerError> {
        let (turn, next_body) = self.recorder.turn_with_next(user, number).await?;
        if turn.line.kind != "main" || turn.line.deleted_ms.is_some() {
            return Ok(());
        }
        let mut worths = answers_with_feedback(&turn);
        if let Some(exchange) = Exchange::of(&turn, next_body.as_deref()) {
            let judged = match recorded(&turn) {
                Some(judged) => judged,
                None if exchange.next.is_some() => self.ask(number, &exchange).await?,
                None => TurnVotes::default(),
            };
            // Feedback that names no answer is about this one.
            let said =
                turn.feedback.iter().filter(|said| about(said).is_none_or(|of| of == exchange.answered));
            let worth = worth(&said.collect::<Vec<_>>(), &judged, exchange.next.as_ref());
            worths.retain(|(of, _)| *of != exchange.answered);
            worths.push((exchange.answered, worth));
        }
        // The turn's reward is that of the answer that the conversation continued from, or of another answer if that
        // one has no feedback.
        let reward = worths.iter().rev().find_map(|(_, worth)| worth.reward);
        let said = reward.or_else(|| turn.reward.is_some().then_some((0.0, "nobody any more")));
        if let Some((value, source)) = said {
            let source = source.to_owned();
            self.recorder.set_reward(NewReward { turn: number, value, source }).await?;
        }
        for (answered, worth) in worths {
            self.sample(&turn, answered, worth).await?;
        }
        Ok(())
    }

    /// Creates a sample of an answer with feedback, or updates the existing sample.
    async fn sample(
        &self,
        turn: &TurnView,
        answered: (RequestId, u32),
        Worth { reward, hint }: Worth,
    ) -> Result<(), LedgerError> {
        if !answer_of(turn, answered).is_some_and(|answer| answer.exact) {
            return Ok(());
        }
        let reward = reward.map_or(0.0, |(value, _)| value);
        // A sample whose feedback was withdrawn stays queued without a reward, since new feedback may follow.
        let own = turn.samples.iter().find(|sample| (sample.request, sample.choice) == answered);
        let is_waiting = own.is_some_and(|sample| sample.state == "waiting");
        if reward == 0.0 && hint.is_none() && !is_waiting {
            return Ok(());
        }
        let (request, choice) = answered;
        self.recorder.add_sample(NewSample { request, choice, reward, hint }).await?;
        Ok(())
    }

    /// Asks the judge and stores its votes.
    async fn ask(&self, turn: TurnId, exchange: &Exchange) -> Result<TurnVotes, LedgerError> {
        let task = Arc::new(task(&exchange.asked));
        let next = exchange.next.as_ref().map(|(role, text)| (*role, text.as_str()));
        let seen = TurnContext { before: &exchange.before, reply: &exchange.reply, next };
        let deadline = Instant::now() + self.timeout;
        let cancel = CancelToken::new();
        let question = |subject, purpose: &str| JudgeRequest {
            attempt: AttemptId { slot: SlotId(0), number: 0 },
            task: &task,
            subject,
            votes: self.votes,
            seed: derive_seed(turn.0.0, purpose, &[]),
            deadline,
            cancel: &cancel,
        };
        let (of_turn, of_hint) = tokio::join!(
            self.judge.ask(question(JudgeSubject::Turn(seen), VOTE)),
            self.judge.ask(question(JudgeSubject::Hint(seen), HINT))
        );
        let votes = kept(turn, VOTE, &of_turn).into_iter().chain(kept(turn, HINT, &of_hint));
        self.recorder.add_votes(turn, votes.collect()).await?;
        Ok(TurnVotes::of(&of_turn, &of_hint))
    }
}

/// The answer that feedback refers to, if it names one.
fn about(said: &FeedbackView) -> Option<(RequestId, u32)> {
    said.answered.zip(said.choice)
}

/// Answers with user feedback and what each is worth, oldest first.
fn answers_with_feedback(turn: &TurnView) -> Vec<((RequestId, u32), Worth)> {
    let mut said: BTreeMap<_, Vec<&FeedbackView>> = BTreeMap::new();
    for feedback in &turn.feedback {
        if let Some(of) = about(feedback) {
            said.entry(of).or_default().push(feedback);
        }
    }
    said.into_iter().map(|(of, said)| (of, worth(&said, &TurnVotes::default(), None))).collect()
}

/// Votes of judges in the ledger.
fn recorded(turn: &TurnView) -> Option<TurnVotes> {
    let response = |judge: &str| {
        let mut response = JudgeResponse::default();
        for vote in turn.votes.iter().filter(|vote| vote.judge == judge) {
            let verdict = match (vote.score, vote.reason.as_deref()) {
                (Some(1), _) => VoteValue::Met,
                (Some(-1), _) => VoteValue::NotMet,
                (Some(_), _) => VoteValue::Undecided,
                (None, Some(ABOUT_A_HINT)) if vote.hint.is_some() => VoteValue::Met,
                (None, Some(ABOUT_A_HINT)) => VoteValue::NotMet,
                (None, why) => {
                    let why = why.unwrap_or_default().to_owned();
                    response.missing.push(Fault::permanent(Boundary::Grader, "judge-silent", why));
                    continue;
                }
            };
            response.votes.push(Vote { verdict, reason: vote.raw.clone(), hint: vote.hint.clone() });
        }
        response
    };
    (!turn.votes.is_empty()).then(|| TurnVotes::of(&response(VOTE), &response(HINT)))
}

/// Votes in the form of the ledger. Missing votes are recorded as well, so that the judge is not asked again.
fn kept(turn: TurnId, judge: &str, response: &JudgeResponse) -> Vec<NewVote> {
    let cast = response.votes.iter().map(|vote| {
        // A vote about a hint does not score the turn.
        let is_score = judge == VOTE;
        let score = is_score.then(|| vote.verdict.sign()).ok_or_else(|| ABOUT_A_HINT.to_owned());
        (score, vote.hint.clone(), vote.reason.clone())
    });
    let missing = response.missing.iter().map(|fault| (Err(fault.message.clone()), None, String::new()));
    let numbered = (0..).zip(cast.chain(missing));
    numbered
        .map(|(ballot, (score, hint, raw))| NewVote {
            turn,
            judge: judge.to_owned(),
            ballot,
            score,
            hint,
            raw,
        })
        .collect()
}

fn of_interest(event: LedgerEvent) -> Option<(UserId, TurnId)> {
    let is = matches!(event.what, LedgerChange::NextState | LedgerChange::Feedback);
    Some((event.user, event.turn?)).filter(|_| is)
}

/// The task for a judge: the user's request.
pub(super) fn task(asked: &str) -> TaskSpec {
    TaskSpec {
        id: TaskId("chat".to_owned()),
        suite: "chat".to_owned(),
        family: "chat".to_owned(),
        instruction: asked.to_owned(),
        env: EnvSpec::Terminal(TerminalSpec::default()),
        checks: Vec::new(),
        verifier: None,
        reward: RewardMap::default(),
        oracle: None,
        mistakes: Vec::new(),
        action_format: ActionFormat::Raw,
        max_turns: 1,
        timeouts: Timeouts::default(),
    }
}
