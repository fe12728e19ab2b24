//! The writer thread: takes commands, writes them in groups, acknowledges, syncs.
//!
//! I1. A command is acknowledged after its bytes were written; many commands share one write.
//! I2. Written bytes are synced once the oldest of them is [`SYNC_INTERVAL`] old, and at the end; each sync
//!     is followed by a `synced` line.
//! I3. A line is applied to the state before it is written; a line that is refused is not written, and only
//!     its own command fails.
//! I4. After a failed write or sync every command fails with the first cause.
//!
//! Cancellation: the thread ends at [`Command::Finish`] or [`Command::Close`], or when all senders are gone.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clawrl_core::{AttemptRecord, LeaseRecord, RunId, SinkError};
use crossbeam::channel::{Receiver, RecvTimeoutError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::frame::FrameEncoder;
use crate::logs::{LogError, LogFile, Logs};
use crate::{
    AttemptSummary, Entry, Finished, FrameRef, JournalState, JudgedTurn, Line, MetricRow, RecordError, RunEnd,
};
use crate::{Violation, files, line};

#[cfg(test)]
mod tests;

/// The promise against loss of power.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum commands of a group, so that its first command does not wait for an endless stream.
const GROUP_COMMANDS: usize = 256;
const GROUP_BYTES: usize = 4 << 20;

/// Command for the thread.
pub(crate) enum Command {
    Leased(LeaseRecord, Ack),
    Resolved(Box<AttemptRecord>, Ack),
    Metrics(Vec<MetricRow>, Ack),
    Judgements(Vec<JudgedTurn>, Ack),
    /// Writes `finished` and ends.
    Finish(RunEnd),
    /// Ends; the run stays open for a resume.
    Close,
}

/// Notifies the waiting side, and frees the slot in the queue.
pub(crate) struct Ack {
    pub(crate) reply: oneshot::Sender<Result<(), SinkError>>,
    pub(crate) _credit: OwnedSemaphorePermit,
}

impl Ack {
    fn send(self, result: Result<(), SinkError>) {
        // The caller may have stopped waiting.
        let _ = self.reply.send(result);
    }
}

/// State of the thread at its end.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The state at the end.
    pub(crate) state: JournalState,
    /// Why it could not end in good order.
    pub(crate) error: Option<RecordError>,
}

/// Files that the thread writes.
pub(crate) struct Target<F> {
    pub(crate) run: RunId,
    pub(crate) dir: PathBuf,
    pub(crate) logs: Logs<F>,
    pub(crate) metrics: Option<File>,
    pub(crate) state: JournalState,
    /// [`SYNC_INTERVAL`]; tests choose others.
    pub(crate) sync_interval: Duration,
}

/// The thread's own data.
pub(crate) struct Committer<F> {
    target: Target<F>,
    encoder: FrameEncoder,
    frames: Vec<u8>,
    lines: Vec<u8>,
    metric_rows: Vec<u8>,
    written: Vec<Ack>,
    measured: Vec<Ack>,
    judgement_rows: Vec<u8>,
    judged: Vec<Ack>,
    /// Opened with the first row.
    judgements: Option<File>,
    unsynced_since: Option<Instant>,
    failed: Option<SinkError>,
}

/// Whether the thread continues after a group.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    End,
}

impl<F: LogFile> Committer<F> {
    pub(crate) fn new(target: Target<F>) -> std::io::Result<Self> {
        Ok(Self {
            target,
            encoder: FrameEncoder::new()?,
            frames: Vec::new(),
            lines: Vec::new(),
            metric_rows: Vec::new(),
            written: Vec::new(),
            measured: Vec::new(),
            judgement_rows: Vec::new(),
            judged: Vec::new(),
            judgements: None,
            unsynced_since: None,
            failed: None,
        })
    }

    /// Runs until told to end. Blocks: this is the body of the thread.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) -> Ended {
        let mut refused = None;
        loop {
            let first = match self.unsynced_since {
                None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(since) => commands.recv_deadline(since + self.target.sync_interval),
            };
            let next = match first {
                Ok(first) => self.commit(first, commands, &mut refused),
                Err(RecvTimeoutError::Timeout) => Next::GoOn,
                Err(RecvTimeoutError::Disconnected) => Next::End,
            };
            let due = self.unsynced_since.is_some_and(|since| since.elapsed() >= self.target.sync_interval);
            if due || next == Next::End {
                self.sync();
            }
            if next == Next::End {
                let failure = self.failed.map(|failed| RecordError::Writer(failed.message));
                return Ended { state: self.target.state, error: failure.or(refused) };
            }
        }
    }

    /// Writes the first command and those that are queued behind it as one group.
    fn commit(
        &mut self,
        first: Command,
        queue: &Receiver<Command>,
        refused: &mut Option<RecordError>,
    ) -> Next {
        let now_ms = now_ms();
        let mut next = Next::GoOn;
        let mut command = Some(first);
        let mut room = GROUP_COMMANDS;
        while let Some(taken) = command {
            match taken {
                Command::Leased(lease, ack) => {
                    let added = self.add(now_ms, Entry::Leased(lease));
                    self.after_add(added, ack);
                }
                Command::Resolved(record, ack) => {
                    let added = self.add_resolution(now_ms, &record);
                    self.after_add(added, ack);
                }
                Command::Metrics(rows, ack) => self.add_metrics(&rows, ack),
                Command::Judgements(rows, ack) => self.add_judgements(&rows, ack),
                Command::Finish(end) => {
                    let (closed, open) = self.target.state.counts();
                    if let Err(violation) = self.add(now_ms, Entry::Finished(Finished { end, closed, open }))
                    {
                        *refused = Some(RecordError::Refused { run: self.target.run.clone(), violation });
                    }
                    next = Next::End;
                }
                Command::Close => next = Next::End,
            }
            room -= 1;
            // A command taken from the queue is always handled: the queue length is checked before, not after.
            let full = room == 0 || self.frames.len() + self.lines.len() >= GROUP_BYTES;
            command = if full || next == Next::End { None } else { queue.try_recv().ok() };
        }
        self.write();
        next
    }

    fn after_add(&mut self, added: Result<(), Violation>, ack: Ack) {
        match added {
            Ok(()) => self.written.push(ack),
            Err(violation) => {
                let refused = RecordError::Refused { run: self.target.run.clone(), violation };
                ack.send(Err(sink_error(&refused)));
            }
        }
    }

    /// Applies the entry and puts it into the group.
    fn add(&mut self, t_ms: u64, entry: Entry) -> Result<(), Violation> {
        let line = Line { t_ms, entry };
        self.target.state.apply(&line)?;
        if let Err(error) = line::encode(&line, &mut self.lines) {
            // Applied but not encodable: state and disk would part, so nothing more may be written.
            self.fail(format!("a journal line cannot be encoded: {error}. This is a bug in the program"));
        }
        Ok(())
    }

    fn add_resolution(&mut self, t_ms: u64, record: &AttemptRecord) -> Result<(), Violation> {
        let start = self.frames.len();
        let frame = match self.encoder.append(record, self.target.logs.frames_len(), &mut self.frames) {
            Ok(frame) => frame,
            Err(error) => {
                self.fail(format!("the record of attempt {} cannot be stored: {error}", record.attempt));
                FrameRef::default()
            }
        };
        let summary = AttemptSummary::new(record, frame);
        self.add(t_ms, Entry::Resolved(summary)).inspect_err(|_| self.frames.truncate(start))
    }

    fn add_metrics(&mut self, rows: &[MetricRow], ack: Ack) {
        for row in rows {
            // Writing numbers and fixed names into memory does not fail.
            let _ = serde_json::to_writer(&mut self.metric_rows, row);
            self.metric_rows.push(b'\n');
        }
        self.measured.push(ack);
    }

    fn add_judgements(&mut self, rows: &[JudgedTurn], ack: Ack) {
        for row in rows {
            // Writing texts and numbers into memory does not fail.
            let _ = serde_json::to_writer(&mut self.judgement_rows, row);
            self.judgement_rows.push(b'\n');
        }
        self.judged.push(ack);
    }

    /// Writes the group and acknowledges it.
    fn write(&mut self) {
        if self.failed.is_none() && !self.lines.is_empty() {
            match self.target.logs.append(&self.frames, &self.lines) {
                Ok(()) => self.unsynced_since = self.unsynced_since.or_else(|| Some(Instant::now())),
                Err(error) => self.fail_log(error),
            }
        }
        for ack in self.written.drain(..) {
            ack.send(self.failed.clone().map_or(Ok(()), Err));
        }
        self.write_metrics();
        self.write_judgements();
        self.frames.clear();
        self.lines.clear();
        self.frames.shrink_to(GROUP_BYTES);
    }

    fn write_metrics(&mut self) {
        if self.measured.is_empty() {
            return;
        }
        let mut result = self.failed.clone().map_or(Ok(()), Err);
        if let (Ok(()), Some(file)) = (&result, &mut self.target.metrics)
            && let Err(error) = file.write_all(&self.metric_rows)
        {
            let path = self.target.dir.join(crate::files::METRICS);
            result = Err(sink_error(&RecordError::io("write", path, error)));
        }
        self.metric_rows.clear();
        for ack in self.measured.drain(..) {
            ack.send(result.clone());
        }
    }

    fn write_judgements(&mut self) {
        if self.judged.is_empty() {
            return;
        }
        let mut result = self.failed.clone().map_or(Ok(()), Err);
        if result.is_ok()
            && let Err(error) = self.append_judgements()
        {
            result = Err(sink_error(&error));
        }
        self.judgement_rows.clear();
        for ack in self.judged.drain(..) {
            ack.send(result.clone());
        }
    }

    fn append_judgements(&mut self) -> Result<(), RecordError> {
        let path = self.target.dir.join(crate::files::JUDGEMENTS);
        let file = match &mut self.judgements {
            Some(file) => file,
            closed => closed.insert(files::open_lines(&path)?),
        };
        file.write_all(&self.judgement_rows).map_err(|error| RecordError::io("write", path, error))
    }

    fn sync(&mut self) {
        if self.unsynced_since.take().is_none() || self.failed.is_some() {
            return;
        }
        if let Err(error) = self.target.logs.sync() {
            self.fail_log(error);
            return;
        }
        // The mark itself waits for the next sync; losing it loses nothing.
        if self.add(now_ms(), Entry::Synced).is_ok()
            && self.failed.is_none()
            && let Err(error) = self.target.logs.append(&[], &self.lines)
        {
            self.fail_log(error);
        }
        self.lines.clear();
    }

    fn fail_log(&mut self, error: LogError) {
        let path = self.target.dir.join(error.file);
        let error = RecordError::io("write", path, error.source);
        self.fail(error.to_string());
    }

    /// Keeps the first cause.
    fn fail(&mut self, message: String) {
        self.failed.get_or_insert(SinkError { message });
    }
}

pub(crate) fn sink_error(error: &RecordError) -> SinkError {
    SinkError { message: error.to_string() }
}

/// Milliseconds since 1970. A clock set before that counts as 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
