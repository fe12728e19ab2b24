//! The recorder's interface.
//!
//! I1. Calls return after their commit; only the arrival of a request is committed later, with the next call or after a moment, and every
//! later call sees it. I2. Dropping a future does not undo the call. A request whose caller is gone before it learns its number fails. I3.
//! Calls for a user touch only that user's rows.
//!
//! Errors: [`LedgerError::Unknown`] for entries that do not exist or belong to another user; [`LedgerError::Storage`], after which a retry
//! may work; [`LedgerError::Ended`], when the recorder is gone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_redact::{RuleCounts, RuleRedactor};
use tokio::sync::{broadcast, mpsc, oneshot};

use super::job::{Call, Job};
use super::ledger_event::LedgerEvent;
use super::reader::{Export, Reader};
use super::{Admitted, FeedbackId, NewAnswer, NewFeedback, NewRequest, WriteContext, prepared};
use crate::ledger::{self, UpdateMetrics, UpdateSummary};
use crate::{
    Deleted, Deletion, EntityKind, Finish, LedgerError, NewReward, NewSample, NewUpdate, NewVote, Page,
    Reconciled, RequestId, RollBack, SampleId, SessionId, SessionView, Taken, TurnId, TurnView, UpdateId,
    UserId, UserView, VersionView, Waiting,
};

/// A handle; all clones reach the one thread.
#[derive(Debug, Clone)]
pub struct RecorderHandle {
    /// Bounded by `RecorderSettings::waiting`.
    jobs: mpsc::Sender<Box<dyn Job>>,
    redaction: RuleRedactor,
    reader: Arc<Reader>,
    live: broadcast::Sender<LedgerEvent>,
    commits: Arc<AtomicU64>,
    /// A transaction is open, which readers do not see.
    is_open: Arc<AtomicBool>,
    abandoned_requests: AbandonedRequests,
}

/// Admitted requests whose callers were gone when they got their number. The recorder's thread fails them.
pub(super) type AbandonedRequests = Arc<Mutex<Vec<RequestId>>>;

/// A pending call.
struct Reply<'a, T> {
    done: oneshot::Receiver<Result<T, LedgerError>>,
    abandoned_requests: &'a AbandonedRequests,
    admitted: fn(&T) -> Option<RequestId>,
}

impl<T> Drop for Reply<'_, T> {
    /// From here on, the recorder's thread notices that the caller is gone; a result sent before is handled here (I2).
    fn drop(&mut self) {
        self.done.close();
        if let Ok(Ok(done)) = self.done.try_recv()
            && let Some(request) = (self.admitted)(&done)
        {
            self.abandoned_requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        }
    }
}

/// For calls that admit no request.
fn nothing<T>(_: &T) -> Option<RequestId> {
    None
}

impl RecorderHandle {
    pub(crate) fn new(
        jobs: mpsc::Sender<Box<dyn Job>>,
        redaction: RuleRedactor,
        reader: Arc<Reader>,
        live: broadcast::Sender<LedgerEvent>,
        (commits, is_open): (Arc<AtomicU64>, Arc<AtomicBool>),
        abandoned_requests: AbandonedRequests,
    ) -> Self {
        Self { jobs, redaction, reader, live, commits, is_open, abandoned_requests }
    }

    /// Records the arrival of a request. [`Self::answered`] or [`Self::failed`] must follow. If the machine or the file fails before that,
    /// the request may be lost; its number is not reused.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if the body is not a JSON request.
    pub async fn arrived(&self, request: NewRequest) -> Result<Admitted, LedgerError> {
        let stored = prepared::request(request, &self.redaction)?;
        let work = move |context: &mut WriteContext<'_>| context.arrived(&stored);
        // The answer's commit, which clients wait for, includes this: one disk sync less before the first token.
        let admitted = |admitted: &Admitted| Some(admitted.request);
        let (call, done) = Call::new(work, admitted);
        self.ask(call.that_may_be_lost().that_refuses_first(), done, admitted).await
    }

    /// Records the answer to a request. To be awaited before the client gets the end of its answer.
    ///
    /// # Errors
    /// See above; [`LedgerError::Unknown`], if the request is unknown or has ended.
    pub async fn answered(&self, request: RequestId, answer: NewAnswer) -> Result<(), LedgerError> {
        let stored = prepared::answer(answer, &self.redaction)?;
        let (call, done) =
            Call::new(move |context: &mut WriteContext<'_>| context.answered(request, &stored), nothing);
        self.ask(call.that_refuses_first(), done, nothing).await
    }

    /// Records that a request was refused, failed, or was cut. `why` is redacted, too.
    ///
    /// # Errors
    /// See above; [`LedgerError::Unknown`], if the request is unknown or has ended.
    pub async fn failed(&self, request: RequestId, why: &str) -> Result<(), LedgerError> {
        let why = self.redaction.redact(why, &mut RuleCounts::new()).into_owned();
        self.call(move |context| context.failed(request, &why)).await
    }

    /// Records feedback on an answer.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if a number is out of range.
    pub async fn feedback(&self, user: &UserId, feedback: NewFeedback) -> Result<FeedbackId, LedgerError> {
        let stored = prepared::feedback(&feedback, &self.redaction)?;
        let user = user.clone();
        self.call(move |context| context.feedback(&user, &stored)).await
    }

    /// The user's open session with this client name.
    ///
    /// # Errors
    /// See above; [`LedgerError::Unknown`], if there is none.
    pub async fn session_named(&self, user: &UserId, name: &str) -> Result<SessionId, LedgerError> {
        let (user, name) = (user.clone(), name.to_owned());
        let work = move |context: &mut WriteContext<'_>| {
            context.tracker.named(&user, &name).ok_or(LedgerError::Unknown(EntityKind::Session))
        };
        self.call(work).await
    }

    /// Closes a session, at once or after its last pending answer.
    ///
    /// # Errors
    /// See above; [`LedgerError::Unknown`], if it is not open.
    pub async fn close_session(&self, user: &UserId, session: SessionId) -> Result<(), LedgerError> {
        let user = user.clone();
        self.call(move |context| context.close_session(&user, session)).await
    }

    /// Closes sessions that were idle for too long, as the thread does regularly; returns their number.
    ///
    /// # Errors
    /// See above.
    pub async fn expire(&self) -> Result<usize, LedgerError> {
        self.call(|context| context.expire()).await
    }

    /// Sets whether a user's turns may train the shared adapter.
    ///
    /// # Errors
    /// See above.
    pub async fn set_consent(&self, user: &UserId, shares: bool) -> Result<(), LedgerError> {
        let user = user.clone();
        self.call(move |context| context.set_consent(&user, shares)).await
    }

    /// Deletes a user's data. When it returns, the data is overwritten in the file; if a reader is active, it leaves the file's log soon
    /// after.
    ///
    /// # Errors
    /// See above.
    pub async fn delete(&self, user: &UserId, what: Deletion) -> Result<Deleted, LedgerError> {
        let user = user.clone();
        self.call(move |context| context.delete(&user, what)).await
    }

    /// Records a judge's vote; returns whether it is new.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if the score is out of range.
    pub async fn add_vote(&self, vote: NewVote) -> Result<bool, LedgerError> {
        let work = move |context: &mut WriteContext<'_>| {
            let is_new = ledger::add_vote(context.connection, &vote, context.now_ms)?;
            context.judged(vote.turn)?;
            Ok(is_new)
        };
        self.call(work).await
    }

    /// Records all votes on a turn at once: an incomplete set would count as complete.
    ///
    /// # Errors
    /// As of [`Self::add_vote`]; then none is recorded.
    pub async fn add_votes(&self, turn: TurnId, votes: Vec<NewVote>) -> Result<(), LedgerError> {
        let work = move |context: &mut WriteContext<'_>| {
            for vote in &votes {
                ledger::add_vote(context.connection, vote, context.now_ms)?;
            }
            context.judged(turn)
        };
        self.call(work).await
    }

    /// Sets the reward of a turn; the latest counts.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if it is not finite.
    pub async fn set_reward(&self, reward: NewReward) -> Result<(), LedgerError> {
        let work = move |context: &mut WriteContext<'_>| {
            ledger::set_reward(context.connection, &reward, context.now_ms)?;
            context.judged(reward.turn)
        };
        self.call(work).await
    }

    /// Makes a training sample of an answer, or returns the existing one.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if the answer cannot be trained on.
    pub async fn add_sample(&self, sample: NewSample) -> Result<SampleId, LedgerError> {
        let work = move |context: &mut WriteContext<'_>| {
            let (id, turn) = ledger::add_sample(context.connection, &sample, context.now_ms)?;
            context.judged(turn)?;
            Ok(id)
        };
        self.call(work).await
    }

    /// Drops a waiting sample; returns whether it was waiting.
    ///
    /// # Errors
    /// See above.
    pub async fn drop_sample(&self, sample: SampleId, why: &str) -> Result<bool, LedgerError> {
        let why = why.to_owned();
        self.call(move |context| ledger::drop_sample(context.connection, sample, &why, context.now_ms)).await
    }

    /// Starts an update with waiting samples, or returns the one with the same key.
    ///
    /// # Errors
    /// See above.
    pub async fn take(&self, update: NewUpdate) -> Result<Taken, LedgerError> {
        self.call(move |context| ledger::take(context.connection, &update, context.now_ms)).await
    }

    /// Drops samples from a running update, each with a reason.
    ///
    /// # Errors
    /// See above.
    pub async fn leave_out(
        &self,
        update: UpdateId,
        samples: Vec<(SampleId, String)>,
    ) -> Result<(), LedgerError> {
        let work = move |context: &mut WriteContext<'_>| {
            ledger::leave_out(context.connection, update, &samples, context.now_ms)
        };
        self.call(work).await
    }

    /// Ends an update.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if it ended otherwise, or another update made the version.
    pub async fn finish(&self, update: UpdateId, finish: Finish) -> Result<(), LedgerError> {
        let work = move |context: &mut WriteContext<'_>| {
            ledger::finish(context.connection, update, &finish, context.now_ms)?;
            context.learned(&ledger::users_of(context.connection, update)?);
            Ok(())
        };
        self.call(work).await
    }

    /// Records a rollback to an older version, and discards what is not its ancestor.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if the number belongs to another version.
    pub async fn roll_back(&self, back: RollBack) -> Result<(), LedgerError> {
        let work = move |context: &mut WriteContext<'_>| {
            ledger::roll_back(context.connection, &back, context.now_ms)?;
            context.learned(&ledger::learners(context.connection, &back.adapter)?);
            Ok(())
        };
        self.call(work).await
    }

    /// Makes the ledger agree with the checkpoint from which training resumes: `samples` are all that `version` of `adapter` was trained
    /// on.
    ///
    /// # Errors
    /// See above.
    pub async fn reconcile(
        &self,
        adapter: &str,
        version: u64,
        checkpoint: Option<String>,
        samples: Vec<SampleId>,
    ) -> Result<Reconciled, LedgerError> {
        let adapter = adapter.to_owned();
        let work = move |context: &mut WriteContext<'_>| {
            let made = (adapter.as_str(), version, checkpoint.as_deref());
            ledger::reconcile(context.connection, made, &samples, context.now_ms)
        };
        self.call(work).await
    }

    /// Sessions of a user, or of all users, newest first.
    ///
    /// # Errors
    /// See above.
    pub async fn sessions(&self, user: Option<&UserId>, page: Page) -> Result<Vec<SessionView>, LedgerError> {
        let user = user.cloned();
        self.read(move |connection| ledger::sessions(connection, user.as_ref(), page)).await
    }

    /// A session with its turns.
    ///
    /// # Errors
    /// See above.
    pub async fn session(&self, user: &UserId, session: SessionId) -> Result<SessionView, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::session(connection, &user, session)).await
    }

    /// Everything that is recorded of a turn.
    ///
    /// # Errors
    /// See above.
    pub async fn turn(&self, user: &UserId, turn: TurnId) -> Result<TurnView, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::turn(connection, &user, turn)).await
    }

    /// A session without its list of turns, and outlines of at most `page.1` turns before `page.0`, newest first: without bodies, tokens
    /// and whole texts.
    pub(crate) async fn outline(
        &self,
        user: &UserId,
        session: SessionId,
        page: (Option<TurnId>, u32),
    ) -> Result<(SessionView, Vec<TurnView>), LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::outline(connection, &user, session, page)).await
    }

    /// A turn, and the body of the request with its next state, from one snapshot.
    ///
    /// # Errors
    /// See above.
    pub async fn turn_with_next(
        &self,
        user: &UserId,
        turn: TurnId,
    ) -> Result<(TurnView, Option<String>), LedgerError> {
        let user = user.clone();
        let question = move |connection: &rusqlite::Connection| {
            let view = ledger::turn(connection, &user, turn)?;
            let next = view.next_state.as_ref().map(|next| ledger::body(connection, &user, next.request));
            Ok((view, next.transpose()?.flatten()))
        };
        self.read(question).await
    }

    /// Updates with the user's turns, before `before`, newest first.
    pub(crate) async fn update_summaries(
        &self,
        user: &UserId,
        before: Option<UpdateId>,
        limit: u32,
    ) -> Result<Vec<UpdateSummary>, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::update_summaries(connection, &user, before, limit)).await
    }

    /// Metrics of the newest ended updates with the user's turns, oldest first.
    pub(crate) async fn update_metrics(
        &self,
        user: &UserId,
        limit: u32,
    ) -> Result<Vec<UpdateMetrics>, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::update_metrics(connection, &user, limit)).await
    }

    /// Users with waiting samples.
    ///
    /// # Errors
    /// See above.
    pub async fn waiting(&self) -> Result<Vec<Waiting>, LedgerError> {
        self.read(ledger::waiting).await
    }

    /// Main turns that wait for a judge, newest first, before `before` if given; at most `limit`.
    ///
    /// # Errors
    /// See above.
    pub async fn unjudged(
        &self,
        before: Option<TurnId>,
        limit: u32,
    ) -> Result<Vec<(UserId, TurnId)>, LedgerError> {
        self.read(move |connection| ledger::unjudged(connection, before, limit)).await
    }

    /// Users whose turns may train the shared adapter.
    ///
    /// # Errors
    /// See above.
    pub async fn sharing(&self) -> Result<Vec<UserId>, LedgerError> {
        self.read(ledger::sharing).await
    }

    /// Versions of an adapter that were in use, newest first; at most `limit`.
    ///
    /// # Errors
    /// See above.
    pub async fn versions(&self, adapter: &str, limit: u32) -> Result<Vec<VersionView>, LedgerError> {
        let adapter = adapter.to_owned();
        self.read(move |connection| ledger::versions(connection, &adapter, limit)).await
    }

    /// A user's settings.
    ///
    /// # Errors
    /// See above.
    pub async fn user(&self, user: &UserId) -> Result<UserView, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::user(connection, &user)).await
    }

    /// Everything that is recorded of a user, line by line.
    #[must_use]
    pub fn export(&self, user: &UserId) -> Export {
        Export::new(self.clone(), user.clone())
    }

    /// Changes from now on. A slow receiver misses some, and is told so.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<LedgerEvent> {
        self.live.subscribe()
    }

    /// Committed transactions since the ledger was opened: fewer than calls, because concurrent calls share one.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriteContext<'_>) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (call, done) = Call::new(work, nothing);
        self.ask(call, done, nothing).await
    }

    async fn ask<T>(
        &self,
        job: impl Job + 'static,
        done: oneshot::Receiver<Result<T, LedgerError>>,
        admitted: fn(&T) -> Option<RequestId>,
    ) -> Result<T, LedgerError> {
        self.jobs.send(Box::new(job)).await.map_err(|_| LedgerError::Ended)?;
        let mut reply = Reply { done, abandoned_requests: &self.abandoned_requests, admitted };
        (&mut reply.done).await.map_err(|_| LedgerError::Ended)?
    }

    /// Reads everything that was done so far.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&rusqlite::Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        if self.is_open.load(Ordering::Acquire) {
            self.call(|_| Ok(())).await?;
        }
        self.reader.ask(question).await
    }
}
