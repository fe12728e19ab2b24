//! The writer thread on a disk that fills up, fails to sync, or loses power at any moment.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use clawrl_core::{
    AttemptId, CancelReason, EpisodeSink, Epoch, Outcome, PhaseTimes, SlotId, SplitMix64, Trajectory,
};
use crossbeam::channel::{Sender, bounded, unbounded};
use futures_util::future::join_all;
use proptest::prelude::*;

use super::*;
use crate::sink::{CREDITS, RunSink};
use crate::{Opened, RunBlobs, files, journal, resume};

const SLOTS: u32 = 2000;
const SHA: &str = "5e";

/// A file's content, and how much of it a loss of power cannot take.
#[derive(Debug, Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    synced: usize,
}

/// Two files on a simulated disk.
#[derive(Debug, Default)]
struct Disk {
    files: [Content; 2],
    /// Bytes that still fit.
    room: Option<usize>,
    syncs_fail: bool,
    /// Power is lost after so many operations.
    power: Option<u32>,
    image: Option<[Content; 2]>,
    synced: Option<Sender<()>>,
}

const JOURNAL: usize = 0;
const FRAMES: usize = 1;

impl Disk {
    fn operated(&mut self) {
        if let Some(left) = &mut self.power {
            *left = left.saturating_sub(1);
            if *left == 0 && self.image.is_none() {
                self.image = Some(self.files.clone());
            }
        }
    }
}

struct FakeFile(Arc<Mutex<Disk>>, usize);

impl LogFile for FakeFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        let fits = disk.room.map_or(bytes.len(), |room| room.min(bytes.len()));
        disk.room = disk.room.map(|room| room - fits);
        disk.files[self.1].bytes.extend_from_slice(&bytes[..fits]);
        disk.operated();
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.files[self.1].bytes.truncate(len as usize);
        disk.operated();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        if disk.syncs_fail {
            return Err(io::Error::other("the disk is on fire"));
        }
        let file = &mut disk.files[self.1];
        file.synced = file.bytes.len();
        disk.operated();
        if let (JOURNAL, Some(synced)) = (self.1, &disk.synced) {
            synced.send(()).unwrap();
        }
        Ok(())
    }
}

struct Writing {
    disk: Arc<Mutex<Disk>>,
    sink: RunSink,
    commands: Sender<Command>,
    thread: JoinHandle<Ended>,
}

fn start(disk: Disk, sync_interval: Duration) -> Writing {
    let opened = Opened {
        format: 1,
        program: "test".to_owned(),
        plan_sha256: SHA.to_owned(),
        slots: SLOTS,
        train_sha256: None,
    };
    let first = Line { t_ms: 0, entry: Entry::Opened(opened) };
    let disk = Arc::new(Mutex::new(disk));
    let mut opening = Vec::new();
    for line in [&first, &Line { t_ms: 0, entry: Entry::Synced }] {
        line::encode(line, &mut opening).unwrap();
    }
    let len = opening.len();
    disk.lock().unwrap().files[JOURNAL] = Content { bytes: opening, synced: len };
    let target = Target {
        run: RunId::new("a").unwrap(),
        dir: PathBuf::from("dir"),
        logs: Logs::new(
            (FakeFile(Arc::clone(&disk), JOURNAL), len as u64),
            (FakeFile(Arc::clone(&disk), FRAMES), 0),
        ),
        metrics: None,
        state: JournalState::open(&first).unwrap(),
        sync_interval,
    };
    let (commands, queue) = bounded(CREDITS + 1);
    let committer = Committer::new(target).unwrap();
    let thread = std::thread::spawn(move || committer.run(&queue));
    let blobs = Arc::new(RunBlobs::open(&PathBuf::from("nowhere")).unwrap());
    Writing { disk, sink: RunSink::new(commands.clone(), blobs), commands, thread }
}

impl Writing {
    fn end(self, command: Command) -> (Ended, Disk) {
        self.commands.send(command).unwrap();
        let ended = self.thread.join().unwrap();
        (ended, std::mem::take(&mut *self.disk.lock().unwrap()))
    }
}

fn lease(slot: u32) -> LeaseRecord {
    let attempt = AttemptId { slot: SlotId(slot), number: 0 };
    LeaseRecord { attempt, epoch: Epoch(u64::from(slot) + 1) }
}

fn record(slot: u32) -> AttemptRecord {
    let LeaseRecord { attempt, epoch } = lease(slot);
    let cast = Some(format!("{slot}").repeat(slot as usize % 50));
    AttemptRecord {
        attempt,
        epoch,
        closes_slot: false,
        outcome: Outcome::Cancelled(CancelReason::Interrupted),
        times: PhaseTimes::default(),
        trajectory: Trajectory { cast, ..Trajectory::default() },
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Leases and resolves these slots at once; returns the slots whose resolution was acknowledged.
fn fill(sink: &RunSink, slots: std::ops::Range<u32>) -> Vec<u32> {
    let attempt = async |slot| {
        sink.leased(lease(slot)).await.ok()?;
        sink.resolved(record(slot)).await.ok().map(|()| slot)
    };
    block_on(join_all(slots.map(attempt))).into_iter().flatten().collect()
}

fn resolved_in(state: &JournalState) -> Vec<u32> {
    state.attempts().map(|attempt| attempt.attempt.slot.0).collect()
}

#[test]
fn i1_more_commands_than_group_or_queue() {
    let writing = start(Disk::default(), SYNC_INTERVAL);
    assert_eq!(fill(&writing.sink, 0..SLOTS).len(), SLOTS as usize);
    let (ended, disk) = writing.end(Command::Close);
    assert!(ended.error.is_none());
    let replayed = journal::replay(&disk.files[JOURNAL].bytes).unwrap();
    assert_eq!(replayed.state.unwrap().attempts().count(), SLOTS as usize);
    assert_eq!(disk.files[FRAMES].bytes.len() as u64, replayed.frames_end);
}

#[test]
fn i2_single_record_is_synced_alone() {
    let (synced, heard) = unbounded();
    let writing = start(Disk { synced: Some(synced), ..Disk::default() }, SYNC_INTERVAL);
    assert_eq!(fill(&writing.sink, 0..1), [0]);
    heard.recv_timeout(Duration::from_secs(20)).expect("the thread syncs on its own");
    let (ended, _) = writing.end(Command::Close);
    assert!(ended.error.is_none());
}

#[test]
fn i4_a_failed_sync_ends_it_all() {
    let writing = start(Disk { syncs_fail: true, ..Disk::default() }, Duration::ZERO);
    assert!(fill(&writing.sink, 0..1).len() <= 1);
    let error = block_on(writing.sink.leased(lease(1))).unwrap_err();
    assert_eq!(error.message, "failed to write dir/trajectories.zst: the disk is on fire");
    let (ended, _) = writing.end(Command::Finish(RunEnd::Completed));
    assert_eq!(ended.error.unwrap().to_string(), error.message);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// I1 of `logs.rs`: acknowledged records exist completely, others completely or not at all.
    #[test]
    fn full_disk_keeps_acknowledged_records(room in 0usize..30_000, at_once in 1u32..60) {
        let writing = start(Disk { room: Some(room), ..Disk::default() }, SYNC_INTERVAL);
        let mut acknowledged: Vec<u32> = Vec::new();
        for group in 0..SLOTS / at_once {
            let slots = group * at_once..(group + 1) * at_once;
            let taken = fill(&writing.sink, slots.clone());
            acknowledged.extend(&taken);
            if taken.len() < slots.len() {
                break;
            }
        }
        let error = block_on(writing.sink.leased(lease(SLOTS - 1))).unwrap_err();
        prop_assert!(error.message.starts_with("no space left to write dir/"), "{}", error);
        let (ended, disk) = writing.end(Command::Close);
        prop_assert!(ended.error.is_some());
        let replayed = journal::replay(&disk.files[JOURNAL].bytes).unwrap();
        prop_assert!(replayed.tail.is_none());
        prop_assert_eq!(resolved_in(&replayed.state.unwrap()), acknowledged);
        prop_assert_eq!(disk.files[FRAMES].bytes.len() as u64, replayed.frames_end);
    }

    /// A loss of power keeps all synced bytes and any part of the rest; the resumed journal is a prefix of the
    /// written one that contains everything synced.
    #[test]
    fn loss_of_power_loses_unsynced_records_only(
        power in 1u32..80,
        at_once in 1u32..40,
        each_group in any::<bool>(),
        seed: u64,
    ) {
        let interval = if each_group { Duration::ZERO } else { Duration::from_secs(3600) };
        let writing = start(Disk { power: Some(power), ..Disk::default() }, interval);
        for group in 0..10 {
            fill(&writing.sink, group * at_once..(group + 1) * at_once);
        }
        let (_, disk) = writing.end(Command::Close);
        let whole = disk.files;
        let image = disk.image.unwrap_or_else(|| whole.clone());

        let mut chance = SplitMix64::new(seed);
        let dir = tempfile::tempdir().unwrap();
        for (content, name) in image.iter().zip([files::JOURNAL, files::TRAJECTORIES]) {
            std::fs::write(dir.path().join(name), after_power_loss(content, &mut chance)).unwrap();
        }
        let repaired = resume::repair(dir.path(), &RunId::new("a").unwrap(), SHA).unwrap();

        let state = repaired.state.unwrap();
        let kept = repaired.journal.1 as usize;
        prop_assert!(kept >= image[JOURNAL].synced.min(synced_lines(&image)));
        let expected = journal::replay(&image[JOURNAL].bytes[..kept]).unwrap();
        prop_assert!(expected.tail.is_none());
        prop_assert_eq!(Some(&state), expected.state.as_ref());
        let mut frames = repaired.frames.0;
        for attempt in state.attempts() {
            let bytes = resume::read_frame(&mut frames, attempt.frame).unwrap();
            prop_assert_eq!(crate::frame::decode(&bytes, attempt.frame).unwrap(), record(attempt.attempt.slot.0));
        }
        prop_assert_eq!(frames.metadata().unwrap().len(), expected.frames_end);
    }
}

/// Length of the synced journal lines. Frames are synced first, so that these lines refer to synced frames.
fn synced_lines(image: &[Content; 2]) -> usize {
    let synced = journal::replay(&image[JOURNAL].bytes[..image[JOURNAL].synced]).unwrap();
    assert!(synced.frames_end <= image[FRAMES].synced as u64, "a synced line refers to an unsynced frame");
    synced.whole_bytes as usize
}

/// The synced bytes, then some of the others, some of those lost to zeros.
fn after_power_loss(content: &Content, chance: &mut SplitMix64) -> Vec<u8> {
    let unsynced = content.bytes.len() - content.synced;
    let kept = content.synced + chance.below(unsynced as u64 + 1) as usize;
    let mut bytes = content.bytes[..kept].to_vec();
    for page in bytes[content.synced..].chunks_mut(64) {
        if chance.below(4) == 0 {
            page.fill(0);
        }
    }
    bytes
}
