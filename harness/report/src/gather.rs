//! Reads every trajectory of a run once, on all cores, and extracts the data of the report.
//!
//! Attempts are taken in the order of [`Kind`], and then of the file, so that a byte budget drops
//! passed attempts before faulted ones. They are processed in chunks; the page
//! decompresses one chunk at a time.
//!
//! I1. The result is a function of the record and the options: the number and speed of threads do not
//! matter. I2. The first error in the order of chunks is reported; nothing is skipped.
//!
//! Errors: [`ReportError::Record`] names the damaged frame; [`ReportError::Write`] for exported files.
//! Threads end with the call.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use clawrl_core::AttemptRecord;
use clawrl_record::{AttemptSummary, Ending, Run};

use crate::atif;
use crate::block::{Blocks, Extras, compressed};
use crate::detail::{Detail, micros};
use crate::error::ReportError;
use crate::kind::Kind;
use crate::thumbnails::Thumbnails;

/// Compressed bytes of the record in a chunk: a fraction of a second's work, and decompressed in a blink.
const CHUNK_BYTES: u64 = 128 << 10;
/// Attempts in a chunk, where they are tiny.
const CHUNK_ATTEMPTS: usize = 256;
/// Threads beyond this find the disk or the memory in their way.
const MAX_THREADS: usize = 8;

/// Optional outputs besides the statistics.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Most bytes of attempts in the page.
    pub page_bytes: u64,
    /// Path from the page's folder to the run's folder: empty if the page is in it, otherwise with a trailing `/`. Prefix of
    /// the page's links to pictures.
    pub run_folder: String,
    /// Folder for ATIF files, one per attempt.
    pub atif: Option<PathBuf>,
    /// Folder for terminal recordings, one per attempt that has one.
    pub casts: Option<PathBuf>,
}

/// Durations of turns of finished episodes, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct TurnTimes {
    pub(crate) policy_us: Vec<u64>,
    pub(crate) step_us: Vec<u64>,
}

/// Data of all chunks.
#[derive(Debug)]
pub(crate) struct Gathered<'a> {
    /// In the order of chunks.
    pub(crate) attempts: Vec<&'a AttemptSummary>,
    pub(crate) chunks: Vec<Range<usize>>,
    pub(crate) blocks: Blocks,
    pub(crate) turns: TurnTimes,
    /// Tokens that a policy of ours sampled, by slot.
    pub(crate) sampled: BTreeMap<u32, u64>,
    pub(crate) exported_atif: u64,
    pub(crate) exported_casts: u64,
    /// Pictures that are not in the run's folder.
    pub(crate) missing: BTreeSet<String>,
    pub(crate) run_folder: String,
}

/// Data of one chunk.
#[derive(Debug, Default)]
struct Chunk {
    details: Option<String>,
    extras: Extras,
    has_cast: Vec<bool>,
    turns: TurnTimes,
    sampled: Vec<(u32, u64)>,
    exported_atif: u64,
    exported_casts: u64,
    missing: BTreeSet<String>,
}

/// Reads all of it.
pub(crate) fn gather<'a>(run: &'a Run, options: &Options) -> Result<Gathered<'a>, ReportError> {
    for folder in options.atif.iter().chain(&options.casts) {
        fs::create_dir_all(folder).map_err(|source| ReportError::Write { path: folder.clone(), source })?;
    }
    let mut attempts: Vec<&AttemptSummary> = run.attempts().collect();
    attempts.sort_by_key(|summary| (Kind::of(summary), summary.frame.offset));
    let chunks = chunks(&attempts);
    let mut gathered = Gathered {
        blocks: Blocks::new(options.page_bytes),
        turns: TurnTimes::default(),
        sampled: BTreeMap::new(),
        exported_atif: 0,
        exported_casts: 0,
        missing: BTreeSet::new(),
        run_folder: options.run_folder.clone(),
        attempts: Vec::new(),
        chunks: Vec::new(),
    };
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = cores.min(MAX_THREADS).min(chunks.len());
    let next = AtomicUsize::new(0);
    // Two a thread: enough that none waits while the page is put together.
    let (sender, receiver) = sync_channel(2 * threads.max(1));
    let wanted = gathered.blocks.wanted();
    let reader = Reader { run, options, attempts: &attempts, chunks: &chunks, next: &next, wanted: &wanted };
    thread::scope(|scope| {
        for _ in 0..threads {
            let (reader, sender) = (&reader, sender.clone());
            scope.spawn(move || reader.read_all(&sender));
        }
        drop(sender);
        gathered.take_all(receiver)
    })?;
    (gathered.attempts, gathered.chunks) = (attempts, chunks);
    Ok(gathered)
}

fn chunks(attempts: &[&AttemptSummary]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, summary) in attempts.iter().enumerate() {
        bytes += summary.frame.len;
        if bytes >= CHUNK_BYTES || at + 1 - start == CHUNK_ATTEMPTS {
            chunks.push(start..at + 1);
            (start, bytes) = (at + 1, 0);
        }
    }
    if start < attempts.len() {
        chunks.push(start..attempts.len());
    }
    chunks
}

impl Gathered<'_> {
    /// Takes chunks in their order, whichever comes first.
    fn take_all(
        &mut self,
        receiver: Receiver<(usize, Result<Chunk, ReportError>)>,
    ) -> Result<(), ReportError> {
        let mut early = BTreeMap::new();
        let mut next = 0;
        for (at, chunk) in receiver {
            early.insert(at, chunk);
            while let Some(chunk) = early.remove(&next) {
                self.take(chunk?);
                next += 1;
            }
        }
        Ok(())
    }

    fn take(&mut self, chunk: Chunk) {
        self.blocks.push(chunk.details, chunk.extras, chunk.has_cast);
        self.missing.extend(chunk.missing);
        self.turns.policy_us.extend(chunk.turns.policy_us);
        self.turns.step_us.extend(chunk.turns.step_us);
        for (slot, tokens) in chunk.sampled {
            *self.sampled.entry(slot).or_default() += tokens;
        }
        self.exported_atif += chunk.exported_atif;
        self.exported_casts += chunk.exported_casts;
    }
}

/// Shared by the threads that read.
struct Reader<'a> {
    run: &'a Run,
    options: &'a Options,
    attempts: &'a [&'a AttemptSummary],
    chunks: &'a [Range<usize>],
    next: &'a AtomicUsize,
    wanted: &'a crate::block::SpaceLeft,
}

impl Reader<'_> {
    /// Reads chunks until none are left, or an error ended the reading.
    fn read_all(&self, sender: &SyncSender<(usize, Result<Chunk, ReportError>)>) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(range) = self.chunks.get(at) else { return };
            let chunk = self.read(&self.attempts[range.clone()]);
            if sender.send((at, chunk)).is_err() {
                return;
            }
        }
    }

    fn read(&self, summaries: &[&AttemptSummary]) -> Result<Chunk, ReportError> {
        let records: Vec<AttemptRecord> =
            summaries.iter().map(|summary| self.run.trajectory(summary.attempt)).collect::<Result<_, _>>()?;
        let mut chunk = Chunk::default();
        let mut film = Thumbnails::default();
        let wanted = self.wanted.extras();
        for (record, summary) in records.iter().zip(summaries) {
            chunk.add_turns(record, summary);
            film.add(self.run, record, wanted)?;
            self.export(record, &mut chunk)?;
        }
        let casts: Vec<Option<&str>> =
            records.iter().map(|record| record.trajectory.cast.as_deref()).collect();
        chunk.has_cast = casts.iter().map(Option::is_some).collect();
        if wanted && chunk.has_cast.contains(&true) {
            chunk.extras.casts = Some(compressed("terminal recordings", &casts)?);
        }
        if wanted && !film.small.is_empty() {
            chunk.extras.films = Some(compressed("small pictures", &film.small)?);
        }
        chunk.missing = film.missing;
        if self.wanted.details() {
            chunk.details =
                Some(compressed("attempts", &records.iter().map(Detail::of).collect::<Vec<_>>())?);
        }
        Ok(chunk)
    }

    fn export(&self, record: &AttemptRecord, chunk: &mut Chunk) -> Result<(), ReportError> {
        if let Some(folder) = &self.options.atif {
            let text = atif::to_text(self.run, record)?;
            write(&folder.join(format!("{}.json", record.attempt)), &text)?;
            chunk.exported_atif += 1;
        }
        if let (Some(folder), Some(cast)) = (&self.options.casts, &record.trajectory.cast) {
            write(&folder.join(format!("{}.cast", record.attempt)), cast)?;
            chunk.exported_casts += 1;
        }
        Ok(())
    }
}

impl Chunk {
    fn add_turns(&mut self, record: &AttemptRecord, summary: &AttemptSummary) {
        let sampled: usize =
            record.trajectory.turns.iter().flat_map(|turn| &turn.tokens).map(|tokens| tokens.ids.len()).sum();
        if sampled > 0 {
            self.sampled.push((record.attempt.slot.0, sampled as u64));
        }
        if summary.closes_slot && matches!(summary.ending, Ending::Finished { .. }) {
            for turn in &record.trajectory.turns {
                self.turns.policy_us.push(micros(turn.policy_time));
                self.turns.step_us.push(micros(turn.step_time));
            }
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), ReportError> {
    fs::write(path, text).map_err(|source| ReportError::Write { path: path.to_owned(), source })
}
