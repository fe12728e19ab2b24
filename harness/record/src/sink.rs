//! The asynchronous side of the writer thread.
//!
//! A call takes a credit (waiting for one if all are out), puts its command into the channel, which has room
//! for every credit and so never blocks, and waits for the acknowledgement.
//!
//! Cancellation: a future dropped before it had its credit leaves nothing; one dropped later may or may not
//! have its record written.

use std::sync::Arc;

use clawrl_core::{AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, SinkError};
use crossbeam::channel::Sender;
use tokio::sync::{Semaphore, oneshot};

use crate::committer::{Ack, Command};
use crate::{JudgedTurn, MetricRow, Redactor, RunBlobs};

/// Capacity of the command queue. Four groups: the thread never starves, and the queue is smaller than
/// the attempts themselves, because each waits for its own record.
pub(crate) const CREDITS: usize = 1024;

/// Takes records for one run; clones share it. Works until the run's [`crate::RunWriter`] is finished, closed
/// or dropped, and fails with [`SinkError`] afterwards.
#[derive(Debug, Clone)]
pub struct RunSink {
    commands: Sender<Command>,
    credits: Arc<Semaphore>,
    redactor: Option<Arc<Redactor>>,
    blobs: Arc<RunBlobs>,
}

impl RunSink {
    pub(crate) fn new(commands: Sender<Command>, blobs: Arc<RunBlobs>) -> Self {
        Self { commands, credits: Arc::new(Semaphore::new(CREDITS)), redactor: None, blobs }
    }

    /// A sink that redacts the values of secrets in every record.
    pub(crate) fn redacting(self, redactor: Arc<Redactor>) -> Self {
        Self { redactor: Some(redactor), ..self }
    }

    /// Appends rows to `metrics.jsonl`. Unlike a record, a row may be lost in a crash after this returned.
    ///
    /// # Errors
    /// [`SinkError`] when the file cannot be written.
    pub async fn metrics(&self, rows: Vec<MetricRow>) -> Result<(), SinkError> {
        self.submit(|ack| Command::Metrics(rows, ack)).await
    }

    /// Appends rows to `judgements.jsonl`, which is there from the first of them on. Unlike a record, a row may be lost in a crash after
    /// this returned.
    ///
    /// # Errors
    /// [`SinkError`] when the file cannot be written.
    pub async fn judgements(&self, mut rows: Vec<JudgedTurn>) -> Result<(), SinkError> {
        if let Some(redactor) = &self.redactor {
            rows.iter_mut().for_each(|row| row.redact(redactor));
        }
        self.submit(|ack| Command::Judgements(rows, ack)).await
    }

    async fn submit(&self, command: impl FnOnce(Ack) -> Command) -> Result<(), SinkError> {
        let credit = Arc::clone(&self.credits).acquire_owned().await.map_err(|_| ended())?;
        let (reply, acknowledged) = oneshot::channel();
        self.commands.try_send(command(Ack { reply, _credit: credit })).map_err(|_| ended())?;
        acknowledged.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl EpisodeSink for RunSink {
    fn leased(&self, lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(self.submit(move |ack| Command::Leased(lease, ack)))
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        let mut record = Box::new(record);
        if let Some(redactor) = &self.redactor {
            redactor.redact_record(&mut record);
        }
        Box::pin(self.submit(move |ack| Command::Resolved(record, ack)))
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.blobs) as Arc<dyn BlobStore>
    }
}

fn ended() -> SinkError {
    SinkError { message: "the run's journal is closed; the record was not written".to_owned() }
}
