//! The thread that owns ledger and linking.
//!
//! I1. Group commit: what waits is done in one transaction, and each caller is answered when that is committed. What was
//! answered survives loss of power. I2. Linking never runs ahead of the ledger: where a transaction that it was told of comes
//! to nothing, it is made anew from the ledger before anything else is done, and until that works everything is refused.
//! I3. A file that fails is an error to whoever waits, and nothing more: what comes later is tried again. I4. Dropping
//! [`Recorder`] does what waits and ends the thread; requests without an answer fail at the next opening.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use super::job::Job;
use super::live::LedgerEvent;
use super::reader::Reader;
use super::{Clock, Desk, RecorderHandle, RecorderSettings, Redaction};
use crate::ledger;
use crate::{LedgerError, Lineages, LinkConfig, RequestId, SessionId};

/// Changes that somebody who watches may be behind; who is further behind is told that they have missed some. A screenful
/// of a busy dashboard is a tenth of it.
const LIVE: usize = 1024;
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
            next,
            link,
            clock,
            live: live.clone(),
            commits: Arc::default(),
            is_erasing: false,
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
        let commits = Arc::clone(&owner.commits);
        let (jobs, waits) = mpsc::channel(waiting.max(1));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| LedgerError::Storage(error.to_string()))?;
        let run = move || runtime.block_on(run(owner, waits, stopped, expiry, batch.max(1)));
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(run);
        let thread = thread.map_err(|error| LedgerError::Storage(error.to_string()))?;
        let handle = RecorderHandle::new(jobs, Redaction::new(redaction), reader, live, commits);
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
                    return;
                }
                owner.batch(std::mem::take(&mut jobs));
            }
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
    /// The number of the next request.
    next: u64,
    link: LinkConfig,
    clock: Arc<dyn Clock>,
    live: broadcast::Sender<LedgerEvent>,
    commits: Arc<AtomicU64>,
    /// What was deleted has yet to leave the file.
    is_erasing: bool,
    path: PathBuf,
    /// Of the file that is open: another one under its name is not ours.
    file: (u64, u64),
    /// Goes last, when the file is closed.
    _lock: ledger::Lock,
}

impl Owner {
    fn batch(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        let outcomes = self.transact(|desk| jobs.iter_mut().map(|job| apply(desk, job.as_mut())).collect());
        let outcomes: Vec<Result<(), LedgerError>> = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                tracing::error!("nothing was recorded for {} callers: {error}", jobs.len());
                jobs.iter().map(|_| Err(error.clone())).collect()
            }
        };
        let settled = jobs.into_iter().zip(outcomes).filter_map(|(job, outcome)| job.settle(outcome));
        let abandoned: Vec<RequestId> = settled.collect();
        if !abandoned.is_empty() {
            let ended =
                self.transact(|desk| abandoned.iter().try_for_each(|request| desk.failed(*request, GONE)));
            log(ended);
        }
    }

    fn tick(&mut self) {
        let expired = self.transact(|desk| desk.expire().map(|_| ()));
        log(expired);
        self.erase();
    }

    /// Does `work` in one transaction, and tells of it when it is committed.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Desk<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        if identity(&self.path)? != self.file {
            return Err(LedgerError::Storage(format!("{} is another file now", self.path.display())));
        }
        let mut lineages = match self.lineages.take() {
            Some(lineages) => lineages,
            None => self.relink()?,
        };
        let mut desk = Desk {
            connection: &self.connection,
            lineages: &mut lineages,
            next: self.next,
            now_ms: self.clock.now_ms(),
            live: Vec::new(),
            is_linked: false,
            erases: false,
        };
        let committed = in_transaction(&mut desk, work);
        let Desk { next, live, is_linked, erases, .. } = desk;
        if committed.is_ok() || !is_linked {
            self.lineages = Some(lineages);
        }
        if committed.is_ok() {
            self.next = next;
            self.commits.fetch_add(1, Ordering::Relaxed);
            // Nobody may be watching.
            live.into_iter().for_each(|event| drop(self.live.send(event)));
            if erases {
                self.is_erasing = true;
                self.erase();
            }
        }
        committed
    }

    fn relink(&mut self) -> Result<Lineages, LedgerError> {
        let ledger::Replayed { lineages, broken } = ledger::replay(&self.connection, self.link)?;
        self.next = ledger::next_number(&self.connection)?;
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

/// Committed, or as if nothing had been done.
fn in_transaction<T>(
    desk: &mut Desk<'_>,
    work: impl FnOnce(&mut Desk<'_>) -> Result<T, LedgerError>,
) -> Result<T, LedgerError> {
    let failed = |error: rusqlite::Error| LedgerError::Storage(error.to_string());
    let transaction = Transaction::new_unchecked(desk.connection, TransactionBehavior::Immediate);
    let transaction = transaction.map_err(failed)?;
    let done = work(desk)?;
    transaction.commit().map_err(failed)?;
    Ok(done)
}

/// One job of a transaction. The outer error ends that; the inner one is the job's own.
fn apply(desk: &mut Desk<'_>, job: &mut dyn Job) -> Result<Result<(), LedgerError>, LedgerError> {
    let run = |sql| desk.connection.prepare_cached(sql)?.execute([]);
    run("SAVEPOINT job")?;
    let was_linked = std::mem::replace(&mut desk.is_linked, false);
    let (told, erases) = (desk.live.len(), desk.erases);
    let done = job.apply(desk);
    let run = |sql| desk.connection.prepare_cached(sql)?.execute([]);
    let outcome = match done {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.is_storage() => Err(error),
        // It cannot be undone alone: linking was told of it.
        Err(error) if desk.is_linked => Err(LedgerError::Storage(error.to_string())),
        Err(error) => {
            run("ROLLBACK TO job")?;
            Ok(Err(error))
        }
    };
    run("RELEASE job")?;
    if matches!(outcome, Ok(Err(_))) {
        desk.live.truncate(told);
        desk.erases = erases;
    }
    desk.is_linked |= was_linked;
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
