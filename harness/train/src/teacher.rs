//! A remote teacher: complete groups are sent to it between the record and the learner.
//!
//! I1. A group waits for its scores at most as long as the plan allows, then is forwarded to the learner without the missing
//! ones. Other groups do not wait for it. I2. Requests are a function of plan and record, and answers are not stored: groups that
//! a kill loses run again and are scored again. I3. The server has the policy's tokens. This is checked before any episode, for
//! every token with a unique text, and with every answer. I4. If a view timed out and the server sent nothing in the meantime,
//! the server is not asked for [`PAUSE`] times as long, as for judges.
//!
//! Waiting attempts belong to demanded groups, so the demand bounds their number. Members of incomplete groups stay from one
//! stretch to the next. Cancellation: the task belongs to its stretch; a second interrupt forwards all waiting attempts at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clawrl_config::{DistillationPlan, RemoteTeacherPlan, Reward, RlPlan};
use clawrl_core::{GroupId, RunPlan, TaskSpec};
use clawrl_judge::PAUSE;
use clawrl_learn::{MemberResult, TeacherView};
use clawrl_remote::{RemoteScorer, ScoreError, Secret, Vocabulary};
use clawrl_scheduler::Interrupt;
use clawrl_torch::Chat;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use super::attempt_sink::{Resolved, ScoredAttempt, TeacherScores};
use super::hints::{Hint, hints};
use super::judging::{ScoredAttempts, given_up, resume};
use super::samples::Reading;
use clawrl_runtime::remote_scorer;
use clawrl_runtime::training::TrainError;

/// Tokens of one request of the check before a training.
const LOOK_TOKENS: usize = 1024;

/// Time limit of such a request. A server that first loads its model needs most of it.
const LOOK_TIME: Duration = Duration::from_secs(120);

/// Sends views to a remote teacher.
pub(super) struct RemoteTeacher {
    scorer: RemoteScorer,
    timeout: Duration,
    places: Semaphore,
    hearing: Mutex<Hearing>,
    distillation: DistillationPlan,
    reward: Reward,
    temperature: f32,
    group_size: usize,
    /// Maximum tokens of a view.
    most_tokens: usize,
    chat: Arc<Chat>,
    /// All valid token ids.
    tokens: Vec<u32>,
    /// Members of incomplete groups.
    unsettled: Mutex<BTreeMap<GroupId, Vec<ScoredAttempt>>>,
}

#[derive(Debug, Default)]
struct Hearing {
    /// Time of the last answer.
    heard: Option<Instant>,
    /// The server is not asked before this time.
    silent_until: Option<Instant>,
    /// Kinds of errors that were reported.
    told: BTreeSet<&'static str>,
}

/// Input of the teacher for one stretch.
pub(super) struct Arriving {
    pub(super) plan: Arc<RunPlan>,
    pub(super) resolved: Resolved,
    /// Capacity of the channel to the learner, in attempts.
    pub(super) capacity: usize,
    pub(super) interrupts: watch::Receiver<Interrupt>,
}

/// The views of a member of a group.
#[derive(Debug, Default)]
struct Readings {
    /// One entry for each segment, or empty.
    views: Vec<Vec<TeacherView>>,
    /// Number of hints that were left out because they are too long.
    too_long: u64,
}

impl RemoteTeacher {
    /// The teacher of a plan, if it is remote. `most_tokens`: context length of the model.
    ///
    /// # Errors
    /// The settings do not give a valid request.
    pub(super) fn new(
        rl: &RlPlan,
        key: Option<Secret>,
        chat: &Arc<Chat>,
        most_tokens: usize,
    ) -> Result<Option<Arc<Self>>, TrainError> {
        let Some((distillation, remote)) =
            rl.distillation.as_ref().and_then(|it| Some((it, it.remote.as_ref()?)))
        else {
            return Ok(None);
        };
        let RemoteTeacherPlan { server, timeout_secs, concurrency } = remote;
        let tokenizer = chat.tokenizer();
        let ids = 0..u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
        let all: Vec<Option<String>> = ids.clone().map(|id| tokenizer.token_text(id)).collect();
        let tokens = ids.zip(&all).filter(|(_, text)| text.is_some()).map(|(id, _)| id).collect();
        let is_own = |text: &String| !text.is_empty() && !text.contains(char::REPLACEMENT_CHARACTER);
        let texts = all.into_iter().map(|text| text.filter(is_own)).collect();
        Ok(Some(Arc::new(Self {
            scorer: remote_scorer(server, key, Arc::new(Vocabulary { texts }), "teacher")?,
            timeout: Duration::from_secs(u64::from(*timeout_secs)),
            places: Semaphore::new(*concurrency as usize),
            hearing: Mutex::default(),
            distillation: distillation.clone(),
            reward: rl.reward,
            temperature: rl.sampling.temperature_milli as f32 / 1000.0,
            group_size: rl.group_size as usize,
            most_tokens,
            chat: Arc::clone(chat),
            tokens,
            unsettled: Mutex::default(),
        })))
    }

    /// Checks that the server answers, supports scoring, and has the policy's tokens (I3).
    ///
    /// # Errors
    /// The reason why the server cannot teach, with the first token that differs.
    pub(super) async fn look(&self) -> Result<(), TrainError> {
        for ids in self.tokens.chunks(LOOK_TOKENS.min(self.most_tokens.saturating_sub(1).max(1))) {
            let looked = self.scorer.score(ids, 0, Instant::now() + LOOK_TIME).await;
            looked.map_err(|error| unfit(&error, self.scorer.settings().base_url.as_str()))?;
        }
        Ok(())
    }

    /// Sends groups to the teacher concurrently as they complete.
    pub(super) fn teach_all(self: &Arc<Self>, arriving: Arriving, runtime: &Handle) -> ScoredAttempts {
        let (learner, attempts) = mpsc::channel(arriving.capacity);
        let task = runtime.spawn(Arc::clone(self).run(arriving, learner));
        ScoredAttempts { attempts, task }
    }

    async fn run(self: Arc<Self>, arriving: Arriving, learner: mpsc::Sender<ScoredAttempt>) {
        let Arriving { plan, mut resolved, interrupts, .. } = arriving;
        // Dropping the set ends its tasks.
        let mut groups = JoinSet::new();
        loop {
            tokio::select! {
                came = resolved.recv() => {
                    let Some(judged) = came else { break };
                    let slot = &plan.slots[judged.record.attempt.slot.0 as usize];
                    if let Some(members) = self.settled(slot.group, judged) {
                        let task = Arc::clone(plan.task_of(slot));
                        groups.spawn(Arc::clone(&self).teach(task, members, learner.clone(), interrupts.clone()));
                    }
                }
                Some(ended) = groups.join_next() => resume(ended),
            }
        }
        while let Some(ended) = groups.join_next().await {
            resume(ended);
        }
    }

    /// The members of a group, in order, once it is complete.
    fn settled(&self, group: GroupId, judged: ScoredAttempt) -> Option<Vec<ScoredAttempt>> {
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        let members = unsettled.entry(group).or_default();
        members.push(judged);
        if members.len() < self.group_size {
            return None;
        }
        let mut members = unsettled.remove(&group)?;
        members.sort_by_key(|member| member.record.attempt);
        Some(members)
    }

    async fn teach(
        self: Arc<Self>,
        task: Arc<TaskSpec>,
        members: Vec<ScoredAttempt>,
        learner: mpsc::Sender<ScoredAttempt>,
        mut interrupts: watch::Receiver<Interrupt>,
    ) {
        let reading = Arc::clone(&self);
        let read = spawn_blocking(move || {
            let readings = reading.readings(&task, &members);
            (members, readings)
        });
        let (members, readings) = match read.await {
            Ok(read) => read,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Err(_) => return,
        };
        let deadline = Instant::now() + self.timeout;
        let asked = join_all(readings.iter().enumerate().map(|(at, readings)| {
            let seed = members[at].record.attempt.slot.0;
            self.ask_all(&readings.views, u64::from(seed), deadline)
        }));
        let said = tokio::select! {
            biased;
            // The learner has ended.
            () = learner.closed() => return,
            () = given_up(&mut interrupts) => Vec::new(),
            said = asked => said,
        };
        let mut said = said.into_iter();
        for (member, readings) in members.into_iter().zip(readings) {
            let taught = taught(readings, said.next().unwrap_or_default());
            // The receiver is gone once the learner has ended.
            let _ = learner.send(ScoredAttempt { teacher_scores: Some(taught), ..member }).await;
        }
    }

    /// The views of each member.
    fn readings(&self, task: &TaskSpec, members: &[ScoredAttempt]) -> Vec<Readings> {
        let hints = hints(&self.distillation, &self.chat, self.reward, task, members);
        let reading = Reading {
            chat: &self.chat,
            format: task.action_format,
            reward: self.reward,
            map: task.reward,
            temperature: self.temperature,
        };
        let of = |(member, hint): (&ScoredAttempt, Hint)| {
            // The learner reports attempts that cannot be read.
            let Ok(MemberResult::Finished { segments, .. }) = reading.member(&member.record) else {
                return Readings::default();
            };
            match reading.views_with(&member.record.trajectory, &segments, &hint, self.most_tokens) {
                Ok((views, too_long)) => Readings { views, too_long },
                Err(why) => {
                    tracing::warn!("attempt {} is not read to the teacher: {why}", member.record.attempt);
                    Readings::default()
                }
            }
        };
        members.iter().zip(hints).map(of).collect()
    }

    /// The scores of each view; `None` for a view without an answer.
    async fn ask_all(
        &self,
        views: &[Vec<TeacherView>],
        seed: u64,
        deadline: Instant,
    ) -> Vec<Vec<Option<Vec<f32>>>> {
        join_all(views.iter().map(|views| join_all(views.iter().map(|view| self.ask(view, seed, deadline)))))
            .await
    }

    async fn ask(&self, view: &TeacherView, seed: u64, deadline: Instant) -> Option<Vec<f32>> {
        if self.is_silent() {
            return None;
        }
        let asked = Instant::now();
        // The semaphore is never closed, so an error means a timeout.
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else { return None };
        // Another request may have found the server silent in the meantime.
        if self.is_silent() {
            return None;
        }
        let answer = timeout_at(deadline, self.scorer.score(&view.ids, seed, deadline)).await;
        let answer = answer.unwrap_or_else(|_| {
            let message = "the server did not answer in time".to_owned();
            Err(ScoreError { code: "server-silent", message, may_pass: true, heard: false })
        });
        self.hear(answer.as_ref().err(), asked, deadline);
        // The first token has no context, and no view asks about it.
        let logprobs = answer.ok()?;
        view.places.iter().map(|place| logprobs.get(place.view.checked_sub(1)?).copied()).collect()
    }

    fn is_silent(&self) -> bool {
        let hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        hearing.silent_until.is_some_and(|until| Instant::now() < until)
    }

    /// Notes the result of a request with its start time and deadline (I4).
    fn hear(&self, error: Option<&ScoreError>, asked: Instant, deadline: Instant) {
        let mut hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let Some(error) = error else {
            (hearing.heard, hearing.silent_until) = (Some(now), None);
            return;
        };
        if hearing.told.insert(error.code) {
            tracing::warn!(
                "the teacher gives no answer ({}), and is not waited for: {}",
                error.code,
                error.message
            );
        }
        if error.heard {
            hearing.heard = Some(now);
        } else if hearing.heard.is_none_or(|heard| heard < asked) {
            hearing.silent_until = Some(now + deadline.saturating_duration_since(asked) * PAUSE);
        }
    }
}

/// The answered views, and whether any was not answered.
fn taught(readings: Readings, said: Vec<Vec<Option<Vec<f32>>>>) -> TeacherScores {
    let Readings { views, too_long } = readings;
    let (mut said, mut is_unanswered) = (said.into_iter(), false);
    let views = views.into_iter().map(|views| {
        let mut said = said.next().unwrap_or_default().into_iter();
        let answered = views.into_iter().filter_map(|view| match said.next().flatten() {
            Some(said) => Some(TeacherView { said: Some(said), ..view }),
            None => {
                is_unanswered = true;
                None
            }
        });
        answered.collect()
    });
    let views = views.collect();
    TeacherScores { views, too_long, is_unanswered }
}

/// The error of a failed check.
fn unfit(error: &ScoreError, url: &str) -> TrainError {
    let help = match error.code {
        "other-tokenizer" => {
            "a teacher has to have the policy's tokenizer: name a model of the same family, or train another policy"
        }
        "no-echo" | "url-wrong" => {
            "a teacher's server has to have POST completions with `echo` and `logprobs`, as vLLM does, and to take ids as a prompt"
        }
        _ => "look at the server's own log; `clawrl train --resume` goes on",
    };
    let message = format!("the teacher at {url} cannot be asked: {} ({})", error.message, error.code);
    let unfit = if error.may_pass { TrainError::unavailable } else { TrainError::refused };
    unfit(message).with_help(help)
}

#[cfg(test)]
mod tests {
    use clawrl_learn::ViewPlace;

    use super::*;

    #[test]
    fn a_view_without_an_answer_is_left_out_and_known() {
        let view = |at| TeacherView {
            ids: vec![1, 2],
            places: vec![ViewPlace { view: 1, segment: at }],
            said: None,
        };
        let readings = || Readings { views: vec![vec![view(1)], vec![view(1), view(2)]], too_long: 3 };
        let all = taught(readings(), vec![vec![Some(vec![-1.0])], vec![Some(vec![-2.0]), Some(vec![-3.0])]]);
        assert_eq!((all.too_long, all.is_unanswered), (3, false));
        let said = |taught: &TeacherScores| -> Vec<Vec<f32>> {
            let of =
                |views: &Vec<TeacherView>| views.iter().flat_map(|view| view.said.clone().unwrap()).collect();
            taught.views.iter().map(of).collect()
        };
        assert_eq!(said(&all), [vec![-1.0], vec![-2.0, -3.0]]);
        let some = taught(readings(), vec![vec![None], vec![None, Some(vec![-3.0])]]);
        assert_eq!((said(&some), some.is_unanswered), (vec![vec![], vec![-3.0]], true));
        let none = taught(readings(), Vec::new());
        assert_eq!((said(&none), none.is_unanswered), (vec![vec![], vec![]], true));
        assert!(!taught(Readings::default(), Vec::new()).is_unanswered, "nobody was asked");
    }
}
