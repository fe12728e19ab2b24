//! Cost of journaling: `cargo run --release --example journal_bench [SLOTS]`.
//!
//! Attempts of 20 tiny turns, one lease and one resolution each, 1,000 at once on one runtime thread. Prints
//! processor time of the whole process (caller, writer thread, kernel) per attempt; the same attempts against a sink
//! that drops them are run before and taken off.

// It prints its results.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, MemoryBlobs, SinkError};
use clawrl_record::{Run, RunEnd, RunWriter};
use futures_util::{StreamExt, TryStreamExt, stream};
use rustix::time::{ClockId, clock_gettime};

#[allow(dead_code, clippy::unwrap_used)]
#[path = "../tests/it/fixture.rs"]
mod fixture;

const AT_ONCE: usize = 1000;
const TURNS: u32 = 20;

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Forgets everything.
struct NullSink;

impl EpisodeSink for NullSink {
    fn leased(&self, _: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        drop(std::hint::black_box(record));
        Box::pin(std::future::ready(Ok(())))
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(MemoryBlobs::default())
    }
}

fn drive(sink: &dyn EpisodeSink, slots: u32) -> Result<(), SinkError> {
    let attempt = |slot| async move {
        let lease = fixture::lease(slot, 0, u64::from(slot) + 1);
        sink.leased(lease).await?;
        // Let the others lease, too: in a run, an episode lies between lease and resolution.
        tokio::task::yield_now().await;
        sink.resolved(fixture::record(lease, fixture::finished(1.0), true, TURNS)).await
    };
    fixture::block_on(stream::iter(0..slots).map(attempt).buffer_unordered(AT_ONCE).try_collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let slots: u32 = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let before = cpu();
    drive(&NullSink, slots)?;
    let making = cpu() - before;

    let results = tempfile::tempdir_in(".")?;
    let plan = fixture::plan("bench", slots);
    let writer = RunWriter::create(results.path(), &plan, &fixture::lock(&plan))?;
    let (before, start) = (cpu(), Instant::now());
    drive(&writer.sink(), slots)?;
    let (spent, wall) = (cpu() - before, start.elapsed());
    let dir = writer.dir().to_owned();
    writer.finish(RunEnd::Completed)?;
    let per_attempt = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(slots);
    let bytes =
        |name: &str| std::fs::metadata(dir.join(name)).map_or(0, |meta| meta.len() / u64::from(slots));
    let start = Instant::now();
    let read = Run::open_read(&dir)?;
    let replay = start.elapsed();
    let turns: usize =
        read.trajectories()?.map(|record| record.map_or(0, |r| r.trajectory.turns.len())).sum();
    let whole = start.elapsed() - replay;
    println!("attempts               {slots} of {TURNS} turns, {AT_ONCE} at once");
    println!("without a journal      {:.1} us CPU per attempt", per_attempt(making));
    println!("journaling             {:.1} us CPU per attempt", per_attempt(spent.saturating_sub(making)));
    println!("throughput             {:.0} attempts/s", f64::from(slots) / wall.as_secs_f64());
    println!("journal.jsonl          {} bytes per attempt", bytes("journal.jsonl"));
    println!("trajectories.zst       {} bytes per attempt", bytes("trajectories.zst"));
    println!("replaying the journal  {:.1} us per attempt", per_attempt(replay));
    println!("reading {turns} turns  {:.1} us per attempt", per_attempt(whole));
    Ok(())
}
