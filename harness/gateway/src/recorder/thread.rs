//! The thread that owns the ledger and linking.
//!
//! I1. Group commit: all waiting calls share one transaction, and return when it is committed. Committed data survives power loss. Calls
//! that may be lost return when they are done; their transaction stays open for the next ones, at most [`MAX_OPEN`]. I2. Linking is never ahead
//! of the ledger: after a failed transaction, it is restored from the ledger first, and until that succeeds, all calls fail. I3. A failing
//! file is an error for the waiting calls only; later calls try again. I4. Dropping [`Recorder`] finishes the waiting calls and ends the
//! thread; requests without an answer fail at the next opening.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clawrl_redact::RuleRedactor;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, sleep_until};

use super::handle::AbandonedRequests;
use super::job::Job;
use super::ledger_event::LedgerEvent;
use super::reader::Reader;
use super::{Clock, LedgerCache, RecorderHandle, RecorderSettings, WriteContext};
use crate::ledger;
use crate::{LedgerError, LinkConfig, RequestId, SessionId, SessionTracker};

/// Changes that a subscriber may be behind; a slower one is told that it missed some. A screenful of a busy dashboard is a tenth of it.
const EVENT_BUFFER: usize = 1024;
/// How long a transaction stays open for further calls.
const MAX_OPEN: Duration = Duration::from_millis(50);
const ENDED: &str = "the server stopped";
const GONE: &str = "the client disconnected before its request was recorded";

/// Owns the ledger, its thread and its lock. Handles that outlive it get [`LedgerError::Ended`].
#[derive(Debug)]
pub struct Recorder {
    handle: RecorderHandle,
    /// Ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Opens the ledger, or creates one. Requests that had no answer when the last recorder ended become failed, and open sessions are
    /// restored: some milliseconds for each of their requests.
    ///
    /// # Errors
    /// [`LedgerError::File`], if the file is in use, foreign, of a newer schema, or not writable; [`LedgerError::Storage`], if it is
    /// broken.
    pub fn open(settings: RecorderSettings) -> Result<Self, LedgerError> {
        let RecorderSettings { path, link, redaction, clock, expiry, waiting, batch } = settings;
        let lock = ledger::create(&path)?;
        let connection = ledger::open_writer(&path)?;
        let reader = Arc::new(Reader::new(ledger::open_reader(&path)?));
        let (live, _) = broadcast::channel(EVENT_BUFFER);
        let next = ledger::next_number(&connection)?;
        let file = identity(&path)?;
        let mut owner = Owner {
            connection,
            tracker: None,
            open: None,
            is_open: Arc::default(),
            next,
            reserved: next - 1,
            lost: HashSet::new(),
            cache: LedgerCache::default(),
            link,
            clock,
            live: live.clone(),
            commits: Arc::default(),
            is_erasing: false,
            abandoned_requests: AbandonedRequests::default(),
            path,
            file,
            _lock: lock,
        };
        owner.transact(|context| {
            context.fail_all_waiting(ENDED)?;
            context.expire()
        })?;
        // A crash may have followed a deletion.
        owner.is_erasing = true;
        owner.erase();
        let shared = (Arc::clone(&owner.commits), Arc::clone(&owner.is_open));
        let abandoned_requests = Arc::clone(&owner.abandoned_requests);
        let (jobs, waits) = mpsc::channel(waiting.max(1));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| LedgerError::Storage(error.to_string()))?;
        let run = move || runtime.block_on(run(owner, waits, stopped, expiry, batch.max(1)));
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(run);
        let thread = thread.map_err(|error| LedgerError::Storage(error.to_string()))?;
        let handle =
            RecorderHandle::new(jobs, RuleRedactor::new(redaction), reader, live, shared, abandoned_requests);
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// The interface for recording and reading.
    #[must_use]
    pub fn handle(&self) -> RecorderHandle {
        self.handle.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the recorder's thread panicked");
        }
    }
}

/// Runs until `stopped`, or until all handles are gone; then it finishes the waiting calls.
async fn run(
    mut owner: Owner,
    mut waits: mpsc::Receiver<Box<dyn Job>>,
    mut stopped: oneshot::Receiver<()>,
    expiry: Duration,
    batch: usize,
) {
    let mut ticks = tokio::time::interval(expiry.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_stopping = false;
    let mut jobs = Vec::new();
    loop {
        tokio::select! {
            count = waits.recv_many(&mut jobs, batch) => {
                if count == 0 {
                    return owner.end();
                }
                owner.batch(std::mem::take(&mut jobs));
            }
            () = sleep_until(owner.due()), if owner.open.is_some() => log(owner.commit()),
            _ = &mut stopped, if !is_stopping => {
                is_stopping = true;
                waits.close();
            }
            _ = ticks.tick() => owner.tick(),
        }
    }
}

/// State of the thread.
struct Owner {
    connection: Connection,
    /// `None` if it must be restored from the ledger (I2).
    tracker: Option<SessionTracker>,
    /// The uncommitted transaction.
    open: Option<OpenTransaction>,
    /// Whether there is one, for readers.
    is_open: Arc<AtomicBool>,
    /// Number of the next request.
    next: u64,
    /// Numbers up to this one are reserved in the ledger.
    reserved: u64,
    /// Admitted requests whose transaction failed, until each ends.
    lost: HashSet<RequestId>,
    cache: LedgerCache,
    link: LinkConfig,
    clock: Arc<dyn Clock>,
    live: broadcast::Sender<LedgerEvent>,
    commits: Arc<AtomicU64>,
    /// Deleted data must still be removed from the file.
    is_erasing: bool,
    abandoned_requests: AbandonedRequests,
    path: PathBuf,
    /// Identity of the open file: another file under its name is not ours.
    file: (u64, u64),
    /// Dropped last, after the file is closed.
    _lock: ledger::Lock,
}

/// An open transaction.
struct OpenTransaction {
    since: Instant,
    /// First request that may be in it, and first request that no caller knows.
    requests: Range<u64>,
    live: Vec<LedgerEvent>,
    is_linked: bool,
    erases: bool,
    /// It reserved numbers, which must be committed before a caller gets one.
    is_urgent: bool,
}

impl Owner {
    fn batch(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        let outcomes = self.work(|context| jobs.iter_mut().map(|job| apply(context, job.as_mut())).collect());
        let may_wait = |open: &OpenTransaction| !open.is_urgent && open.since.elapsed() < MAX_OPEN;
        let is_due = !jobs.iter().all(|job| job.may_be_lost()) || !self.open.as_ref().is_some_and(may_wait);
        let outcomes = outcomes
            .and_then(|outcomes| if is_due { self.commit().map(|()| outcomes) } else { Ok(outcomes) });
        let outcomes: Vec<Result<(), LedgerError>> = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                tracing::error!("failed to record {} calls: {error}", jobs.len());
                jobs.iter().map(|_| Err(error.clone())).collect()
            }
        };
        if let Some(open) = &mut self.open {
            open.requests.end = self.next;
        }
        let settled = jobs.into_iter().zip(outcomes).filter_map(|(job, outcome)| job.settle(outcome));
        let abandoned: Vec<RequestId> = settled.collect();
        self.abandon(abandoned);
    }

    /// Fails requests whose callers are gone: these, and those that were gone when they got their number.
    fn abandon(&mut self, mut abandoned: Vec<RequestId>) {
        abandoned.append(&mut self.abandoned_requests.lock().unwrap_or_else(PoisonError::into_inner));
        if !abandoned.is_empty() {
            let ended = self
                .transact(|context| abandoned.iter().try_for_each(|request| context.failed(*request, GONE)));
            log(ended);
        }
    }

    fn tick(&mut self) {
        self.abandon(Vec::new());
        let expired = self.transact(|context| context.expire().map(|_| ()));
        log(expired);
        self.erase();
    }

    /// When the open transaction must be committed; now if there is none.
    fn due(&self) -> tokio::time::Instant {
        let since = self.open.as_ref().map_or_else(Instant::now, |open| open.since);
        (since + MAX_OPEN).into()
    }

    /// Does `work` in the open transaction or a new one, and commits it.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut WriteContext<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let done = self.work(work)?;
        self.commit()?;
        Ok(done)
    }

    /// Does `work` in the open transaction or a new one. After an error, none is open.
    fn work<T>(
        &mut self,
        work: impl FnOnce(&mut WriteContext<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        // Every transaction has one.
        let Some(tracker) = &mut self.tracker else {
            self.roll_back(&open);
            return Err(LedgerError::Ended);
        };
        let mut context = WriteContext {
            connection: &self.connection,
            tracker,
            next: self.next,
            reserved: self.reserved,
            lost: &mut self.lost,
            cache: &mut self.cache,
            now_ms: self.clock.now_ms(),
            live: Vec::new(),
            is_linked: false,
            erases: false,
        };
        let done = work(&mut context);
        let WriteContext { next, reserved, live, is_linked, erases, .. } = context;
        open.is_linked |= is_linked;
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                self.roll_back(&open);
                return Err(error);
            }
        };
        open.live.extend(live);
        open.erases |= erases;
        open.is_urgent |= reserved != self.reserved;
        (self.next, self.reserved) = (next, reserved);
        self.open = Some(open);
        self.is_open.store(true, Ordering::Release);
        Ok(done)
    }

    fn begin(&mut self) -> Result<OpenTransaction, LedgerError> {
        if identity(&self.path)? != self.file {
            return Err(LedgerError::Storage(format!("{} is another file now", self.path.display())));
        }
        if self.tracker.is_none() {
            self.tracker = Some(self.relink()?);
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(OpenTransaction {
            since: Instant::now(),
            requests: self.next..self.next,
            live: Vec::new(),
            is_linked: false,
            erases: false,
            is_urgent: false,
        })
    }

    /// Commits the open transaction, and notifies subscribers.
    fn commit(&mut self) -> Result<(), LedgerError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let committed = self.connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        if let Err(error) = committed {
            self.roll_back(&open);
            return Err(LedgerError::Storage(error.to_string()));
        }
        self.is_open.store(false, Ordering::Release);
        self.commits.fetch_add(1, Ordering::Relaxed);
        // There may be no subscribers.
        open.live.into_iter().for_each(|event| drop(self.live.send(event)));
        if open.erases {
            self.is_erasing = true;
            self.erase();
        }
        Ok(())
    }

    /// Rolls the transaction back.
    fn roll_back(&mut self, open: &OpenTransaction) {
        // SQLite may have rolled back itself.
        if !self.connection.is_autocommit() {
            log(self.connection.execute_batch("ROLLBACK").map_err(LedgerError::from));
        }
        self.is_open.store(false, Ordering::Release);
        self.cache.forget();
        if open.is_linked {
            self.tracker = None;
        }
        self.lost.extend(open.requests.clone().map(RequestId));
    }

    /// Leaves no gap after the last number.
    fn end(&mut self) {
        self.abandon(Vec::new());
        log(self.commit());
        if self.tracker.is_some() && self.reserved >= self.next {
            let last = self.next - 1;
            log(self.transact(|context| ledger::reserve_numbers(context.connection, last)));
        }
    }

    fn relink(&mut self) -> Result<SessionTracker, LedgerError> {
        let ledger::ReplayResult { tracker, broken } = ledger::replay(&self.connection, self.link)?;
        // Numbers that a caller has seen are not reused.
        self.reserved = ledger::next_number(&self.connection)? - 1;
        self.close_broken(&broken)?;
        Ok(tracker)
    }

    fn close_broken(&self, broken: &BTreeSet<SessionId>) -> Result<(), LedgerError> {
        if broken.is_empty() {
            return Ok(());
        }
        tracing::warn!("closed {} sessions that could not be restored", broken.len());
        let now_ms = self.clock.now_ms();
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        for session in broken {
            ledger::close_session(&transaction, *session, "not linked again", now_ms)?;
        }
        Ok(transaction.commit()?)
    }

    /// Removes deleted data: it is gone from the database pages, and may still be in the write-ahead log.
    fn erase(&mut self) {
        if !self.is_erasing {
            return;
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        match self.connection.query_row(checkpoint, [], |row| row.get::<_, i64>(0)) {
            Ok(0) => self.is_erasing = false,
            Ok(_) => tracing::debug!("a reader is active; deleted data leaves the ledger's log later"),
            Err(error) => tracing::error!("deleted data is still in the ledger's log: {error}"),
        }
    }
}

/// Does one job of a transaction. The outer error ends the transaction; the inner one concerns the job alone.
fn apply(context: &mut WriteContext<'_>, job: &mut dyn Job) -> Result<Result<(), LedgerError>, LedgerError> {
    // A savepoint costs as much as some jobs, and is skipped for jobs that need no undo.
    let is_undone = !job.refuses_first();
    let run = |context: &WriteContext<'_>, sql| -> Result<(), LedgerError> {
        if is_undone {
            context.connection.prepare_cached(sql)?.execute([])?;
        }
        Ok(())
    };
    run(context, "SAVEPOINT job")?;
    let was_linked = std::mem::replace(&mut context.is_linked, false);
    let (shared, erases) = (context.live.len(), context.erases);
    let done = job.apply(context);
    // Only this job counts here; linking cannot be undone.
    let is_linked = std::mem::replace(&mut context.is_linked, was_linked);
    context.is_linked |= is_linked;
    let outcome = match done {
        Ok(()) => Ok(Ok(())),
        Err(error @ LedgerError::Storage(_)) => Err(error),
        // Linking knows of it, so that it cannot be undone alone.
        Err(error) if is_linked => Err(LedgerError::Storage(error.to_string())),
        Err(error) => {
            run(context, "ROLLBACK TO job")?;
            Ok(Err(error))
        }
    };
    run(context, "RELEASE job")?;
    if matches!(outcome, Ok(Err(_))) {
        context.live.truncate(shared);
        context.erases = erases;
    }
    outcome
}

/// Identity of the file under that name.
fn identity(path: &Path) -> Result<(u64, u64), LedgerError> {
    let metadata = std::fs::metadata(path);
    let metadata = metadata.map_err(|error| LedgerError::Storage(format!("{}: {error}", path.display())))?;
    Ok((metadata.dev(), metadata.ino()))
}

fn log(outcome: Result<(), LedgerError>) {
    if let Err(error) = outcome {
        tracing::error!("{error}");
    }
}
