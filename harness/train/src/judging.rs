//! Judges turns between the record and the learner.
//!
//! I1. An attempt waits for its judgements at most as long as the plan allows, then is forwarded to the learner without the
//! missing ones. Other attempts do not wait for it. I2. Judgements are stored before the learner uses them. I3. Turns of an
//! attempt whose environment gave process rewards are not judged for rewards. I4. Questions and their seeds are a function of
//! plan and record.
//!
//! Attempts that wait here belong to demanded, incomplete groups. The demand bounds their number, so no queue is needed.
//! Cancellation: the task belongs to its stretch; a second interrupt forwards all waiting attempts at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_config::{JudgingPlan, RlPlan};
use clawrl_core::{
    AttemptRecord, CancelToken, Judge, JudgeRequest, JudgeSubject, Message, Outcome, Role, RunPlan, TaskSpec,
    Turn, TurnContext, derive_seed,
};
use clawrl_record::{JudgedTurn, Judgement, RunSink};
use clawrl_scheduler::{Interrupt, context};
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::attempt_sink::{Resolved, ScoredAttempt};
use clawrl_runtime::training::TrainError;
use clawrl_runtime::turn_judge;

/// The judge of turns, and the questions it is asked.
pub(super) struct TurnJudge {
    judge: Arc<dyn Judge>,
    votes: u32,
    timeout: Duration,
    /// Seed of the training.
    seed: u64,
    rewards: bool,
    hints: bool,
}

/// Attempts on their way through the judge.
pub(super) struct ScoredAttempts {
    /// Attempts with their judgements.
    pub(super) attempts: Resolved,
    /// Ends when all attempts have been forwarded.
    pub(super) task: JoinHandle<()>,
}

/// Input of the judge for one stretch.
pub(super) struct Incoming {
    pub(super) plan: Arc<RunPlan>,
    pub(super) resolved: Resolved,
    /// Capacity of the channel to the learner, in attempts.
    pub(super) capacity: usize,
    pub(super) sink: RunSink,
    pub(super) interrupts: watch::Receiver<Interrupt>,
}

impl TurnJudge {
    /// The judge of a plan: its rules and, if the plan names one, a voting model.
    ///
    /// # Errors
    /// A pattern does not compile; a checked plan has none of these.
    pub(super) fn new(
        rl: &RlPlan,
        plan: &JudgingPlan,
        model: Option<Arc<dyn Judge>>,
        seed: u64,
    ) -> Result<Self, TrainError> {
        Ok(Self {
            judge: turn_judge(plan, model)?,
            votes: plan.votes,
            timeout: Duration::from_secs(plan.timeout_secs.into()),
            seed,
            rewards: rl.judges_turns(),
            hints: rl.judges_hint(),
        })
    }

    /// Judges attempts concurrently as they arrive.
    pub(super) fn judge_all(self: &Arc<Self>, incoming: Incoming, runtime: &Handle) -> ScoredAttempts {
        let (learner, attempts) = mpsc::channel(incoming.capacity);
        let task = runtime.spawn(Arc::clone(self).run(incoming, learner));
        ScoredAttempts { attempts, task }
    }

    async fn run(self: Arc<Self>, incoming: Incoming, learner: mpsc::Sender<ScoredAttempt>) {
        let Incoming { plan, mut resolved, sink, interrupts, .. } = incoming;
        // Dropping the set ends its tasks.
        let mut attempts = JoinSet::new();
        loop {
            tokio::select! {
                came = resolved.recv() => {
                    let Some(ScoredAttempt { record, .. }) = came else { break };
                    let one = OneAttempt {
                        judge: Arc::clone(&self),
                        task: Arc::clone(plan.task_of(&plan.slots[record.attempt.slot.0 as usize])),
                        sink: sink.clone(),
                        interrupts: interrupts.clone(),
                    };
                    attempts.spawn(one.judge(record, learner.clone()));
                }
                Some(ended) = attempts.join_next() => resume(ended),
            }
        }
        while let Some(ended) = attempts.join_next().await {
            resume(ended);
        }
    }

    /// The judgements of an attempt's turns, in order.
    async fn turns(&self, task: &Arc<TaskSpec>, record: &AttemptRecord) -> Vec<JudgedTurn> {
        let turns = &record.trajectory.turns;
        let rewards = self.rewards && turns.iter().all(|turn| turn.process_reward.is_none());
        if !matches!(record.outcome, Outcome::Finished { .. }) || !(rewards || self.hints) {
            return Vec::new();
        }
        let deadline = Instant::now() + self.timeout;
        let of_turn = |number: usize| async move {
            let trajectory = &record.trajectory;
            let before = before(&trajectory.prompt, &turns[..number]);
            let reply = said(&turns[number].reply);
            let next = next(turns, number);
            let seen = TurnContext {
                before: &before,
                reply: &reply,
                next: next.as_ref().map(|(role, text)| (*role, text.as_str())),
            };
            let ask = |subject, purpose, wanted| {
                let seed = derive_seed(self.seed, purpose, &[number as u64]);
                self.ask(task, record, subject, seed, deadline, wanted)
            };
            let (process, hint) = tokio::join!(
                ask(JudgeSubject::Turn(seen), "turn", rewards),
                ask(JudgeSubject::Hint(seen), "hint", self.hints)
            );
            let turn = u32::try_from(number).unwrap_or(u32::MAX);
            JudgedTurn { attempt: record.attempt, turn, process, hint }
        };
        join_all((0..turns.len()).map(of_turn)).await
    }

    async fn ask(
        &self,
        task: &Arc<TaskSpec>,
        record: &AttemptRecord,
        subject: JudgeSubject<'_>,
        seed: u64,
        deadline: Instant,
        wanted: bool,
    ) -> Option<Judgement> {
        if !wanted {
            return None;
        }
        let (attempt, votes, cancel) = (record.attempt, self.votes, CancelToken::new());
        let question = JudgeRequest { attempt, task, subject, votes, seed, deadline, cancel: &cancel };
        Some(Judgement::from(&self.judge.ask(question).await))
    }
}

/// Resumes the panic of an ended task.
pub(super) fn resume(ended: Result<(), tokio::task::JoinError>) {
    // Otherwise the learner would wait for a group that never completes.
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// The judging of one attempt.
struct OneAttempt {
    judge: Arc<TurnJudge>,
    task: Arc<TaskSpec>,
    sink: RunSink,
    interrupts: watch::Receiver<Interrupt>,
}

impl OneAttempt {
    async fn judge(mut self, record: AttemptRecord, learner: mpsc::Sender<ScoredAttempt>) {
        let turns = tokio::select! {
            biased;
            // The learner has ended.
            () = learner.closed() => return,
            () = given_up(&mut self.interrupts) => Vec::new(),
            turns = self.judge.turns(&self.task, &record) => turns,
        };
        if !turns.is_empty()
            && let Err(error) = self.sink.judgements(turns.clone()).await
        {
            // A judgement that cannot be stored does not stop the training, but is not used either.
            tracing::warn!(
                "what was said of attempt {} is not kept, and not learned from: {error}",
                record.attempt
            );
            let _ = learner.send(record.into()).await;
            return;
        }
        // The receiver is gone once the learner has ended.
        let _ = learner.send(ScoredAttempt { record, turns, teacher_scores: None }).await;
    }
}

/// Waits for the second interrupt.
pub(super) async fn given_up(interrupts: &mut watch::Receiver<Interrupt>) {
    if interrupts.wait_for(|interrupt| *interrupt == Interrupt::CancelAll).await.is_err() {
        std::future::pending().await
    }
}

/// The conversation between the instruction and a turn.
fn before(prompt: &[Message], turns: &[Turn]) -> String {
    let messages = context(prompt, turns);
    let (opening, rest) = messages.split_at(prompt.len().min(messages.len()));
    // The instruction is the first part of the opening message; the first observation follows it.
    let seen =
        opening.iter().flat_map(|message| message.parts.iter().skip(1).map(move |part| (message.role, part)));
    let seen = seen.map(|(role, part)| {
        let message = Message { parts: vec![part.clone()], ..Message::text(role, "") };
        spoken(&message)
    });
    seen.chain(rest.iter().map(spoken)).collect::<Vec<_>>().join("\n")
}

fn spoken(message: &Message) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "agent",
        Role::Tool => "tool",
    };
    format!("{role}: {}", said(message))
}

/// Text and calls of a message.
fn said(message: &Message) -> String {
    let calls = message.tool_calls.iter().map(|call| format!("[call] {} {}", call.name, call.arguments));
    let text = Some(message.text_with_images_named()).filter(|text| !text.is_empty());
    text.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

/// The message that the policy was shown after a turn, with its role.
fn next(turns: &[Turn], number: usize) -> Option<(Role, String)> {
    let turn = &turns[number];
    let shown = context(&[], std::slice::from_ref(turn));
    let message = shown.last().filter(|message| message.role != Role::Assistant)?;
    let text = message.text_with_images_named();
    let ends = number + 1 == turns.len() && text.is_empty();
    (!ends).then_some((message.role, text))
}

#[cfg(test)]
mod tests {
    use clawrl_core::{Observation, ToolCall, TurnFlags};
    use serde_json::json;

    use super::*;

    fn turn(reply: Message, seen: &str) -> Turn {
        Turn {
            reply,
            calls: Vec::new(),
            tokens: None,
            usage: None,
            observation: Observation::from_text(seen),
            process_reward: None,
            flags: TurnFlags::default(),
            policy_time: Duration::ZERO,
            step_time: Duration::ZERO,
        }
    }

    #[test]
    fn a_turn_is_seen_with_what_stood_before_it_and_what_followed() {
        let mut opening = Message::text(Role::User, "Tidy up.");
        opening.parts.extend(Message::text(Role::User, "$ ").parts);
        let mut call = Message::text(Role::Assistant, "");
        call.tool_calls = vec![ToolCall::new("rm", json!({ "path": "b" }))];
        let turns = [
            turn(Message::text(Role::Assistant, "ls"), "a b"),
            turn(call, "gone"),
            turn(Message::text(Role::Assistant, "submit"), ""),
        ];
        let check = |number: usize, stood: &str, said_then: &str, followed: Option<(Role, &str)>| {
            assert_eq!(before(std::slice::from_ref(&opening), &turns[..number]), stood);
            assert_eq!(said(&turns[number].reply), said_then);
            assert_eq!(next(&turns, number), followed.map(|(role, text)| (role, text.to_owned())));
        };
        check(0, "user: $ ", "ls", Some((Role::User, "a b")));
        let call = "[call] rm {\"path\":\"b\"}";
        check(1, "user: $ \nagent: ls\nuser: a b", call, Some((Role::Tool, "gone")));
        let all = format!("user: $ \nagent: ls\nuser: a b\nagent: {call}\ntool: gone");
        check(2, &all, "submit", None);
    }
}
