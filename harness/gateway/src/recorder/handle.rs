//! What others record and read by.
//!
//! I1. What is answered is committed, but for the arrival of a request: that is committed with what comes next, or after a moment, and
//! everybody who asks sees it. I2. A future that is dropped takes nothing back: what was asked may be done. A request
//! that was admitted to nobody fails. I3. What is asked for a user touches that user's rows alone.
//!
//! Errors: [`LedgerError::Unknown`] for what is not there or somebody else's; [`LedgerError::Storage`], after which the same
//! call may work again; [`LedgerError::Ended`], when the recorder is gone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_redact::{RuleCounts, RuleRedactor};
use tokio::sync::{broadcast, mpsc, oneshot};

use super::job::{Call, Job};
use super::live::LedgerEvent;
use super::reader::{Export, Reader};
use super::{Admitted, Desk, FeedbackId, NewAnswer, NewFeedback, NewRequest, prepared};
use crate::ledger::{self, Figures, Lesson};
use crate::{
    Deleted, Deletion, Finish, LedgerError, NewReward, NewSample, NewUpdate, NewVote, Page, Reconciled,
    RequestId, RollBack, SampleId, SessionId, SessionView, Taken, Thing, TurnId, TurnView, UpdateId, UserId,
    UserView, VersionView, Waiting,
};

/// As many as there have to be; all of them reach the one thread.
#[derive(Debug, Clone)]
pub struct RecorderHandle {
    /// Bounded by `RecorderSettings::waiting`.
    jobs: mpsc::Sender<Box<dyn Job>>,
    redaction: RuleRedactor,
    reader: Arc<Reader>,
    live: broadcast::Sender<LedgerEvent>,
    commits: Arc<AtomicU64>,
    /// Something was done that is not committed, so that readers do not see it.
    is_open: Arc<AtomicBool>,
    unheard: Unheard,
}

/// Requests that were admitted to callers who were gone in the moment in which they were told. The recorder's thread ends them.
pub(super) type Unheard = Arc<Mutex<Vec<RequestId>>>;

/// What a caller waits for.
struct Reply<'a, T> {
    done: oneshot::Receiver<Result<T, LedgerError>>,
    unheard: &'a Unheard,
    admitted: fn(&T) -> Option<RequestId>,
}

impl<T> Drop for Reply<'_, T> {
    /// From here on the recorder's thread finds that the caller is gone; what it has said before is nobody's (I2).
    fn drop(&mut self) {
        self.done.close();
        if let Ok(Ok(done)) = self.done.try_recv()
            && let Some(request) = (self.admitted)(&done)
        {
            self.unheard.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        }
    }
}

/// For what nobody has to end.
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
        unheard: Unheard,
    ) -> Self {
        Self { jobs, redaction, reader, live, commits, is_open, unheard }
    }

    /// A request has arrived. [`Self::answered`] or [`Self::failed`] has to follow. Where the machine or the file fails before that,
    /// nobody may know of the request any more; its number is never used again.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if the body is not the JSON text of a request.
    pub async fn arrived(&self, request: NewRequest) -> Result<Admitted, LedgerError> {
        let kept = prepared::request(request, &self.redaction)?;
        let work = move |desk: &mut Desk<'_>| desk.arrived(&kept);
        // Nobody is answered before the answer's own commit, which has this in it: one wait for the disk less before the first token.
        let admitted = |admitted: &Admitted| Some(admitted.request);
        let (call, done) = Call::new(work, admitted);
        self.ask(call.that_may_be_lost().that_refuses_first(), done, admitted).await
    }

    /// A request was answered. To be called before the client can know, and to be waited for.
    ///
    /// # Errors
    /// See above; [`LedgerError::Unknown`], if no such request waits.
    pub async fn answered(&self, request: RequestId, answer: NewAnswer) -> Result<(), LedgerError> {
        let kept = prepared::answer(answer, &self.redaction)?;
        let (call, done) = Call::new(move |desk: &mut Desk<'_>| desk.answered(request, &kept), nothing);
        self.ask(call.that_refuses_first(), done, nothing).await
    }

    /// A request was refused, has failed, or was cut. `why` is redacted, too.
    ///
    /// # Errors
    /// See above; [`LedgerError::Unknown`], if no such request waits.
    pub async fn failed(&self, request: RequestId, why: &str) -> Result<(), LedgerError> {
        let why = self.redaction.redact(why, &mut RuleCounts::new()).into_owned();
        self.call(move |desk| desk.failed(request, &why)).await
    }

    /// Somebody says what they think of an answer.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if a number is none that it may be.
    pub async fn feedback(&self, user: &UserId, feedback: NewFeedback) -> Result<FeedbackId, LedgerError> {
        let kept = prepared::feedback(&feedback, &self.redaction)?;
        let user = user.clone();
        self.call(move |desk| desk.feedback(&user, &kept)).await
    }

    /// The open session that a client of the user calls so.
    ///
    /// # Errors
    /// See above; [`LedgerError::Unknown`], if there is none.
    pub async fn session_named(&self, user: &UserId, name: &str) -> Result<SessionId, LedgerError> {
        let (user, name) = (user.clone(), name.to_owned());
        let work = move |desk: &mut Desk<'_>| {
            desk.lineages.named(&user, &name).ok_or(LedgerError::Unknown(Thing::Session))
        };
        self.call(work).await
    }

    /// Ends a session, at once or with the last answer that is waited for.
    ///
    /// # Errors
    /// See above; [`LedgerError::Unknown`], if it is not open.
    pub async fn close_session(&self, user: &UserId, session: SessionId) -> Result<(), LedgerError> {
        let user = user.clone();
        self.call(move |desk| desk.close_session(&user, session)).await
    }

    /// Ends sessions in which nothing has happened for too long, as the thread does by itself from time to time; how many.
    ///
    /// # Errors
    /// See above.
    pub async fn expire(&self) -> Result<usize, LedgerError> {
        self.call(|desk| desk.expire()).await
    }

    /// Whether a user's turns may train what all share.
    ///
    /// # Errors
    /// See above.
    pub async fn set_consent(&self, user: &UserId, shares: bool) -> Result<(), LedgerError> {
        let user = user.clone();
        self.call(move |desk| desk.set_consent(&user, shares)).await
    }

    /// Deletes what a user said and was answered. When it returns, it is out of the file; where somebody reads at that
    /// moment, it leaves the file's log as soon as they have done.
    ///
    /// # Errors
    /// See above.
    pub async fn delete(&self, user: &UserId, what: Deletion) -> Result<Deleted, LedgerError> {
        let user = user.clone();
        self.call(move |desk| desk.delete(&user, what)).await
    }

    /// Records a judge's vote; whether it is new.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if its score is none.
    pub async fn add_vote(&self, vote: NewVote) -> Result<bool, LedgerError> {
        let work = move |desk: &mut Desk<'_>| {
            let is_new = ledger::add_vote(desk.connection, &vote, desk.now_ms)?;
            desk.judged(vote.turn)?;
            Ok(is_new)
        };
        self.call(work).await
    }

    /// Records all that is said of a turn at once: votes of which some are missing would count as all there are.
    ///
    /// # Errors
    /// As of [`Self::add_vote`]; then none is recorded.
    pub async fn add_votes(&self, turn: TurnId, votes: Vec<NewVote>) -> Result<(), LedgerError> {
        let work = move |desk: &mut Desk<'_>| {
            for vote in &votes {
                ledger::add_vote(desk.connection, vote, desk.now_ms)?;
            }
            desk.judged(turn)
        };
        self.call(work).await
    }

    /// Sets what a turn is worth; the last time counts.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if it is no number.
    pub async fn set_reward(&self, reward: NewReward) -> Result<(), LedgerError> {
        let work = move |desk: &mut Desk<'_>| {
            ledger::set_reward(desk.connection, &reward, desk.now_ms)?;
            desk.judged(reward.turn)
        };
        self.call(work).await
    }

    /// Makes a sample of an answer, or says which one there is.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if the answer cannot be trained.
    pub async fn add_sample(&self, sample: NewSample) -> Result<SampleId, LedgerError> {
        let work = move |desk: &mut Desk<'_>| {
            let (id, turn) = ledger::add_sample(desk.connection, &sample, desk.now_ms)?;
            desk.judged(turn)?;
            Ok(id)
        };
        self.call(work).await
    }

    /// Leaves a sample that waits out of training; whether it waited.
    ///
    /// # Errors
    /// See above.
    pub async fn drop_sample(&self, sample: SampleId, why: &str) -> Result<bool, LedgerError> {
        let why = why.to_owned();
        self.call(move |desk| ledger::drop_sample(desk.connection, sample, &why, desk.now_ms)).await
    }

    /// Begins an update with samples that wait; the one that has begun, if there is one of that key.
    ///
    /// # Errors
    /// See above.
    pub async fn take(&self, update: NewUpdate) -> Result<Taken, LedgerError> {
        self.call(move |desk| ledger::take(desk.connection, &update, desk.now_ms)).await
    }

    /// Leaves samples that an update has taken out of training, each for its reason.
    ///
    /// # Errors
    /// See above.
    pub async fn leave_out(
        &self,
        update: UpdateId,
        samples: Vec<(SampleId, String)>,
    ) -> Result<(), LedgerError> {
        let work =
            move |desk: &mut Desk<'_>| ledger::leave_out(desk.connection, update, &samples, desk.now_ms);
        self.call(work).await
    }

    /// Ends an update.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if it has ended otherwise, or its version is another one's.
    pub async fn finish(&self, update: UpdateId, finish: Finish) -> Result<(), LedgerError> {
        let work = move |desk: &mut Desk<'_>| {
            ledger::finish(desk.connection, update, &finish, desk.now_ms)?;
            desk.learned(&ledger::users_of(desk.connection, update)?);
            Ok(())
        };
        self.call(work).await
    }

    /// Records that an older version of an adapter is gone back to, and what is given up by it.
    ///
    /// # Errors
    /// See above; [`LedgerError::Refused`], if its number is another version's.
    pub async fn roll_back(&self, back: RollBack) -> Result<(), LedgerError> {
        let work = move |desk: &mut Desk<'_>| {
            ledger::roll_back(desk.connection, &back, desk.now_ms)?;
            desk.learned(&ledger::learners(desk.connection, &back.adapter)?);
            Ok(())
        };
        self.call(work).await
    }

    /// Makes the ledger say what a checkpoint's manifest says, when training goes on from it: `samples` are all that weights
    /// of `version` of `adapter` were trained on, whose checkpoint is at the path.
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
        let work = move |desk: &mut Desk<'_>| {
            let made = (adapter.as_str(), version, checkpoint.as_deref());
            ledger::reconcile(desk.connection, made, &samples, desk.now_ms)
        };
        self.call(work).await
    }

    /// Sessions of a user, or of all, newest first.
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

    /// All that is known of a turn.
    ///
    /// # Errors
    /// See above.
    pub async fn turn(&self, user: &UserId, turn: TurnId) -> Result<TurnView, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::turn(connection, &user, turn)).await
    }

    /// A session without its list of turns, and outlines of those before `page.0`, newest first, `page.1` at most: without
    /// bodies, tokens and whole texts.
    pub(crate) async fn outline(
        &self,
        user: &UserId,
        session: SessionId,
        page: (Option<TurnId>, u32),
    ) -> Result<(SessionView, Vec<TurnView>), LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::outline(connection, &user, session, page)).await
    }

    /// A turn, and the body of the request that its next state is in, of one moment.
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

    /// Updates that have, or had, turns of the user, before `before`, newest first.
    pub(crate) async fn lessons(
        &self,
        user: &UserId,
        before: Option<UpdateId>,
        limit: u32,
    ) -> Result<Vec<Lesson>, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::lessons(connection, &user, before, limit)).await
    }

    /// Figures of updates that have, or had, turns of the user and have ended: the newest, oldest first.
    pub(crate) async fn figures(&self, user: &UserId, limit: u32) -> Result<Vec<Figures>, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::figures(connection, &user, limit)).await
    }

    /// Users with samples that wait.
    ///
    /// # Errors
    /// See above.
    pub async fn waiting(&self) -> Result<Vec<Waiting>, LedgerError> {
        self.read(ledger::waiting).await
    }

    /// Main turns that wait to be judged, newest first, of those before `before` where it is given: `limit` at most.
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

    /// Users whose turns may train what all share.
    ///
    /// # Errors
    /// See above.
    pub async fn sharing(&self) -> Result<Vec<UserId>, LedgerError> {
        self.read(ledger::sharing).await
    }

    /// Versions of an adapter that were in use, newest first: `limit` at most.
    ///
    /// # Errors
    /// See above.
    pub async fn versions(&self, adapter: &str, limit: u32) -> Result<Vec<VersionView>, LedgerError> {
        let adapter = adapter.to_owned();
        self.read(move |connection| ledger::versions(connection, &adapter, limit)).await
    }

    /// What is known of a user.
    ///
    /// # Errors
    /// See above.
    pub async fn user(&self, user: &UserId) -> Result<UserView, LedgerError> {
        let user = user.clone();
        self.read(move |connection| ledger::user(connection, &user)).await
    }

    /// All that is known of a user's turns, line by line.
    #[must_use]
    pub fn export(&self, user: &UserId) -> Export {
        Export::new(self.clone(), user.clone())
    }

    /// What changes from now on. Who does not keep up misses some, and is told so.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<LedgerEvent> {
        self.live.subscribe()
    }

    /// Transactions that were committed since the ledger was opened: fewer than calls, where many come at once.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk<'_>) -> Result<T, LedgerError> + Send + 'static,
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
        let mut reply = Reply { done, unheard: &self.unheard, admitted };
        (&mut reply.done).await.map_err(|_| LedgerError::Ended)?
    }

    /// Reads what was done up to now.
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
