//! The thread that owns ledger and linking.
//!
//! I1. Group commit: what waits is done in one transaction, and each caller is answered when that is committed. What was
//! answered survives loss of power. What may be lost is answered when it is done; its transaction stays open for what comes next,
//! [`OPEN`] at most. I2. Linking never runs ahead of the ledger: where a transaction that it was told of comes
//! to nothing, it is made anew from the ledger before anything else is done, and until that works everything is refused.
//! I3. A file that fails is an error to whoever waits, and nothing more: what comes later is tried again. I4. Dropping
//! [`Recorder`] does what waits and ends the thread; requests without an answer fail at the next opening.

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

use super::handle::Unheard;
use super::job::Job;
use super::live::LedgerEvent;
use super::reader::Reader;
use super::{Clock, Desk, Known, RecorderHandle, RecorderSettings};
use crate::ledger;
use crate::{LedgerError, Lineages, LinkConfig, RequestId, SessionId};

/// Changes that somebody who watches may be behind; who is further behind is told that they have missed some. A screenful
/// of a busy dashboard is a tenth of it.
const LIVE: usize = 1024;
/// How long a transaction stays open for more.
const OPEN: Duration = Duration::from_millis(50);
const ENDED: &str = "the server ended";
const GONE: &str = "the client went away before its request was recorded";

/// Owns the ledger, its thread and its lock. Handles that outlive it get [`LedgerError::Ended`].
#[derive(Debug)]
pub struct Recorder {
    handle: RecorderHandle,
    /// Tells the thread to end.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Opens the ledger, or makes one. Requests that were not answered when the last recorder ended become failed, and
    /// sessions that were open are linked again: some milliseconds for each of their requests.
    ///
    /// # Errors
    /// [`LedgerError::File`], if the file is in use, no ledger, of a newer schema, or cannot be written to;
    /// [`LedgerError::Storage`], if it is broken.
    pub fn open(settings: RecorderSettings) -> Result<Self, LedgerError> {
        let RecorderSettings { path, link, redaction, clock, expiry, waiting, batch } = settings;
        let lock = ledger::create(&path)?;
        let connection = ledger::open_writer(&path)?;
        let reader = Arc::new(Reader::new(ledger::open_reader(&path)?));
        let (live, _) = broadcast::channel(LIVE);
        let next = ledger::next_number(&connection)?;
        let file = identity(&path)?;
        let mut owner = Owner {
            connection,
            lineages: None,
            open: None,
            is_open: Arc::default(),
            next,
            set_aside: next - 1,
            lost: HashSet::new(),
            known: Known::default(),
            link,
            clock,
            live: live.clone(),
            commits: Arc::default(),
            is_erasing: false,
            unheard: Unheard::default(),
            path,
            file,
            _lock: lock,
        };
        owner.transact(|desk| {
            desk.fail_all_waiting(ENDED)?;
            desk.expire()
        })?;
        // Something may have been deleted right before a crash.
        owner.is_erasing = true;
        owner.erase();
        let told = (Arc::clone(&owner.commits), Arc::clone(&owner.is_open));
        let unheard = Arc::clone(&owner.unheard);
        let (jobs, waits) = mpsc::channel(waiting.max(1));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| LedgerError::Storage(error.to_string()))?;
        let run = move || runtime.block_on(run(owner, waits, stopped, expiry, batch.max(1)));
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(run);
        let thread = thread.map_err(|error| LedgerError::Storage(error.to_string()))?;
        let handle = RecorderHandle::new(jobs, RuleRedactor::new(redaction), reader, live, told, unheard);
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// By which others record and read.
    #[must_use]
    pub fn handle(&self) -> RecorderHandle {
        self.handle.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the recorder's thread panicked");
        }
    }
}

/// Until `stopped`, or until nobody can ask any more; then what waits is done.
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

/// What the thread owns.
struct Owner {
    connection: Connection,
    /// Nothing where it has to be made anew from the ledger (I2).
    lineages: Option<Lineages>,
    /// A transaction that is not committed yet.
    open: Option<Open>,
    /// Whether there is one, for others.
    is_open: Arc<AtomicBool>,
    /// The number of the next request.
    next: u64,
    /// Up to here numbers are set aside in the ledger.
    set_aside: u64,
    /// Requests that were admitted, and came to nothing with their transaction. Each until it ends.
    lost: HashSet<RequestId>,
    known: Known,
    link: LinkConfig,
    clock: Arc<dyn Clock>,
    live: broadcast::Sender<LedgerEvent>,
    commits: Arc<AtomicU64>,
    /// What was deleted has yet to leave the file.
    is_erasing: bool,
    unheard: Unheard,
    path: PathBuf,
    /// Of the file that is open: another one under its name is not ours.
    file: (u64, u64),
    /// Goes last, when the file is closed.
    _lock: ledger::Lock,
}

/// What a transaction brings with it once it is committed.
struct Open {
    since: Instant,
    /// The first request that may be in it, and the first one of which nobody was told that it is.
    requests: Range<u64>,
    live: Vec<LedgerEvent>,
    is_linked: bool,
    erases: bool,
    /// In it numbers were set aside, before which nobody may be told one of them.
    is_urgent: bool,
}

impl Owner {
    fn batch(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        let outcomes = self.work(|desk| jobs.iter_mut().map(|job| apply(desk, job.as_mut())).collect());
        let may_wait = |open: &Open| !open.is_urgent && open.since.elapsed() < OPEN;
        let is_due = !jobs.iter().all(|job| job.may_be_lost()) || !self.open.as_ref().is_some_and(may_wait);
        let outcomes = outcomes
            .and_then(|outcomes| if is_due { self.commit().map(|()| outcomes) } else { Ok(outcomes) });
        let outcomes: Vec<Result<(), LedgerError>> = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                tracing::error!("nothing was recorded for {} callers: {error}", jobs.len());
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

    /// Fails requests whose callers are gone: these, and those who were gone when they were told.
    fn abandon(&mut self, mut abandoned: Vec<RequestId>) {
        abandoned.append(&mut self.unheard.lock().unwrap_or_else(PoisonError::into_inner));
        if !abandoned.is_empty() {
            let ended =
                self.transact(|desk| abandoned.iter().try_for_each(|request| desk.failed(*request, GONE)));
            log(ended);
        }
    }

    fn tick(&mut self) {
        self.abandon(Vec::new());
        let expired = self.transact(|desk| desk.expire().map(|_| ()));
        log(expired);
        self.erase();
    }

    /// When the open transaction is to be committed; any time where there is none.
    fn due(&self) -> tokio::time::Instant {
        let since = self.open.as_ref().map_or_else(Instant::now, |open| open.since);
        (since + OPEN).into()
    }

    /// Does `work` in one transaction, with what is open, and commits it.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Desk<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let done = self.work(work)?;
        self.commit()?;
        Ok(done)
    }

    /// Does `work` in the open transaction, or in a new one. After an error there is none.
    fn work<T>(
        &mut self,
        work: impl FnOnce(&mut Desk<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        // Nothing is open without it.
        let Some(lineages) = &mut self.lineages else {
            self.give_up(&open);
            return Err(LedgerError::Ended);
        };
        let mut desk = Desk {
            connection: &self.connection,
            lineages,
            next: self.next,
            set_aside: self.set_aside,
            lost: &mut self.lost,
            known: &mut self.known,
            now_ms: self.clock.now_ms(),
            live: Vec::new(),
            is_linked: false,
            erases: false,
        };
        let done = work(&mut desk);
        let Desk { next, set_aside, live, is_linked, erases, .. } = desk;
        open.is_linked |= is_linked;
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                self.give_up(&open);
                return Err(error);
            }
        };
        open.live.extend(live);
        open.erases |= erases;
        open.is_urgent |= set_aside != self.set_aside;
        (self.next, self.set_aside) = (next, set_aside);
        self.open = Some(open);
        self.is_open.store(true, Ordering::Release);
        Ok(done)
    }

    fn begin(&mut self) -> Result<Open, LedgerError> {
        if identity(&self.path)? != self.file {
            return Err(LedgerError::Storage(format!("{} is another file now", self.path.display())));
        }
        if self.lineages.is_none() {
            self.lineages = Some(self.relink()?);
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Open {
            since: Instant::now(),
            requests: self.next..self.next,
            live: Vec::new(),
            is_linked: false,
            erases: false,
            is_urgent: false,
        })
    }

    /// Commits what is open, and tells of it.
    fn commit(&mut self) -> Result<(), LedgerError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let committed = self.connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        if let Err(error) = committed {
            self.give_up(&open);
            return Err(LedgerError::Storage(error.to_string()));
        }
        self.is_open.store(false, Ordering::Release);
        self.commits.fetch_add(1, Ordering::Relaxed);
        // Nobody may be watching.
        open.live.into_iter().for_each(|event| drop(self.live.send(event)));
        if open.erases {
            self.is_erasing = true;
            self.erase();
        }
        Ok(())
    }

    /// The transaction comes to nothing.
    fn give_up(&mut self, open: &Open) {
        // SQLite may have done so by itself.
        if !self.connection.is_autocommit() {
            log(self.connection.execute_batch("ROLLBACK").map_err(LedgerError::from));
        }
        self.is_open.store(false, Ordering::Release);
        self.known.forget();
        if open.is_linked {
            self.lineages = None;
        }
        self.lost.extend(open.requests.clone().map(RequestId));
    }

    /// Leaves no gap behind the last number.
    fn end(&mut self) {
        self.abandon(Vec::new());
        log(self.commit());
        if self.lineages.is_some() && self.set_aside >= self.next {
            let last = self.next - 1;
            log(self.transact(|desk| ledger::set_numbers_aside(desk.connection, last)));
        }
    }

    fn relink(&mut self) -> Result<Lineages, LedgerError> {
        let ledger::Replayed { lineages, broken } = ledger::replay(&self.connection, self.link)?;
        // Numbers that somebody was told are not given again, whatever became of them.
        self.set_aside = ledger::next_number(&self.connection)? - 1;
        self.close_broken(&broken)?;
        Ok(lineages)
    }

    fn close_broken(&self, broken: &BTreeSet<SessionId>) -> Result<(), LedgerError> {
        if broken.is_empty() {
            return Ok(());
        }
        tracing::warn!("{} sessions could not be linked again, and are over", broken.len());
        let now_ms = self.clock.now_ms();
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        for session in broken {
            ledger::close_session(&transaction, *session, "not linked again", now_ms)?;
        }
        Ok(transaction.commit()?)
    }

    /// Overwrites what was deleted: it is gone from the database's pages, and may still be in the log beside it.
    fn erase(&mut self) {
        if !self.is_erasing {
            return;
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        match self.connection.query_row(checkpoint, [], |row| row.get::<_, i64>(0)) {
            Ok(0) => self.is_erasing = false,
            Ok(_) => tracing::debug!("somebody reads the ledger; what was deleted leaves its log later"),
            Err(error) => tracing::error!("what was deleted is still in the ledger's log: {error}"),
        }
    }
}

/// One job of a transaction. The outer error ends that; the inner one is the job's own.
fn apply(desk: &mut Desk<'_>, job: &mut dyn Job) -> Result<Result<(), LedgerError>, LedgerError> {
    // Costs as much as some of what it undoes, and is left where nothing has to be undone.
    let is_undone = !job.refuses_first();
    let run = |desk: &Desk<'_>, sql| -> Result<(), LedgerError> {
        if is_undone {
            desk.connection.prepare_cached(sql)?.execute([])?;
        }
        Ok(())
    };
    run(desk, "SAVEPOINT job")?;
    let was_linked = std::mem::replace(&mut desk.is_linked, false);
    let (told, erases) = (desk.live.len(), desk.erases);
    let done = job.apply(desk);
    // Of this job alone; whatever goes wrong below, linking was told what it was told.
    let is_linked = std::mem::replace(&mut desk.is_linked, was_linked);
    desk.is_linked |= is_linked;
    let outcome = match done {
        Ok(()) => Ok(Ok(())),
        Err(error @ LedgerError::Storage(_)) => Err(error),
        // It cannot be undone alone: linking was told of it.
        Err(error) if is_linked => Err(LedgerError::Storage(error.to_string())),
        Err(error) => {
            run(desk, "ROLLBACK TO job")?;
            Ok(Err(error))
        }
    };
    run(desk, "RELEASE job")?;
    if matches!(outcome, Ok(Err(_))) {
        desk.live.truncate(told);
        desk.erases = erases;
    }
    outcome
}

/// Which file is under that name.
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
