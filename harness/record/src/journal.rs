//! Reading a journal's bytes: where it is whole, where it is torn, where it is damaged.
//!
//! A line that does not decode begins the *tail* if no `synced` line after it decodes: what lies there was written after
//! the last `fdatasync`, and a loss of power may have kept any part of it. Otherwise it is *damage*: the bytes
//! were on the disk once and have changed since.
//!
//! I1. Reading any prefix of a journal gives the state of the lines that the prefix holds completely.
//! I2. A changed bit gives damage, or a tail that begins with the changed line; never another state.
//! I3. A line that decodes and breaks the state machine is damage, wherever it is.
//!
//! Errors: [`JournalError`], with line number and offset. Pure; nothing to cancel.

use clawrl_core::FORMAT_VERSION;
use serde::Serialize;
use thiserror::Error;

use crate::line::{self, LineError};
use crate::{Entry, FrameRef, JournalState, Line, Violation, migrate};

/// A torn tail, as found or cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TailCut {
    /// The file: `journal.jsonl` or `trajectories.zst`.
    pub file: String,
    /// Number of the first line that is torn, from 1.
    pub line: u64,
    /// First byte of the journal that is cut.
    pub offset: u64,
    /// How many bytes of the journal are cut.
    pub bytes: u64,
    /// What is wrong with the first torn line.
    pub reason: String,
}

/// Why a journal cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum JournalError {
    #[error("line {line} (byte {offset}) is damaged: {reason}")]
    Damaged { line: u64, offset: u64, reason: String },
    #[error("it is written in format {found}")]
    Newer { found: u32 },
}

/// A journal as replayed.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` when not even the first line is whole.
    pub(crate) state: Option<JournalState>,
    /// Bytes of whole lines.
    pub(crate) whole_bytes: u64,
    /// What follows them, if anything does.
    pub(crate) tail: Option<TailCut>,
    /// Where the last referenced frame ends.
    pub(crate) frames_end: u64,
    /// The same, of the frames that a `synced` line vouches for.
    pub(crate) synced_frames_end: u64,
    /// Frames that no `synced` line vouches for, with the line that refers to them, in order.
    pub(crate) unsynced: Vec<UnsyncedFrame>,
    /// All lines of the current format, for rewriting an older journal.
    pub(crate) migrated: Option<Vec<Line>>,
}

/// A frame that may be missing after a loss of power.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnsyncedFrame {
    pub(crate) line: u64,
    pub(crate) offset: u64,
    pub(crate) frame: FrameRef,
}

struct Found<'a> {
    number: u64,
    offset: u64,
    bytes: &'a [u8],
    /// Whether a newline ends it.
    whole: bool,
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Found<'_>> {
    let mut offset = 0;
    (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')).map(move |(number, with_end)| {
        let start = offset;
        offset += with_end.len() as u64;
        let (bytes, whole) = match with_end.strip_suffix(b"\n") {
            Some(bytes) => (bytes, true),
            None => (with_end, false),
        };
        Found { number, offset: start, bytes, whole }
    })
}

/// Replays a journal of this format or an older one.
pub(crate) fn replay(bytes: &[u8]) -> Result<Journal, JournalError> {
    let migrate_from = match migrate::journal_format(bytes) {
        Some(found) if found > FORMAT_VERSION => return Err(JournalError::Newer { found }),
        Some(found) if found < FORMAT_VERSION => Some(found),
        Some(_) | None => None,
    };
    let mut journal = Journal {
        state: None,
        whole_bytes: 0,
        tail: None,
        frames_end: 0,
        synced_frames_end: 0,
        unsynced: Vec::new(),
        migrated: migrate_from.map(|_| Vec::new()),
    };
    for found in lines(bytes) {
        let decoded = match (found.whole, migrate_from) {
            (false, _) => Err("it does not end in a newline".to_owned()),
            (true, None) => line::decode(found.bytes).map_err(|error: LineError| error.to_string()),
            (true, Some(format)) => {
                migrate::journal_line(found.bytes, format).map_err(|error| error.to_string())
            }
        };
        match decoded {
            Ok(decoded) => journal.take(&found, decoded)?,
            Err(reason) => {
                let rest = &bytes[found.offset as usize..];
                if proves_damage(rest, migrate_from.is_some()) {
                    return Err(JournalError::Damaged { line: found.number, offset: found.offset, reason });
                }
                journal.tail = Some(TailCut {
                    file: "journal.jsonl".to_owned(),
                    line: found.number,
                    offset: found.offset,
                    bytes: rest.len() as u64,
                    reason,
                });
                break;
            }
        }
    }
    Ok(journal)
}

/// Whether what follows a broken line shows that the line was once on the disk.
fn proves_damage(rest: &[u8], older_format: bool) -> bool {
    let mut later = lines(rest).skip(1).filter(|found| found.whole);
    if older_format {
        // Format 0 has neither checksums nor `synced`: only its very last line may be torn.
        return later.next().is_some();
    }
    later.any(|found| matches!(line::decode(found.bytes), Ok(Line { entry: Entry::Synced, .. })))
}

impl Journal {
    fn take(&mut self, found: &Found<'_>, line: Line) -> Result<(), JournalError> {
        let violated = |violation: Violation| JournalError::Damaged {
            line: found.number,
            offset: found.offset,
            reason: violation.to_string(),
        };
        match &mut self.state {
            None => self.state = Some(JournalState::open(&line).map_err(violated)?),
            Some(state) => state.apply(&line).map_err(violated)?,
        }
        match &line.entry {
            Entry::Resolved(summary) => {
                let frame = summary.frame;
                self.frames_end = self.frames_end.max(frame.end());
                self.unsynced.push(UnsyncedFrame { line: found.number, offset: found.offset, frame });
            }
            Entry::Synced => {
                self.unsynced.clear();
                self.synced_frames_end = self.frames_end;
            }
            _ => {}
        }
        self.whole_bytes = found.offset + found.bytes.len() as u64 + 1;
        if let Some(migrated) = &mut self.migrated {
            migrated.push(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, Boundary, CancelReason, Epoch, LeaseRecord, SlotId, StopReason};
    use proptest::prelude::*;

    use super::*;
    use crate::{AttemptSummary, Ending, Finished, Opened, PhaseMicros, Resumed, RunEnd, SlotStatus};

    const SLOTS: u32 = 4;

    fn opened() -> Line {
        let plan_sha256 = "0".repeat(64);
        let opened = Opened { format: FORMAT_VERSION, program: "test 1".into(), plan_sha256, slots: SLOTS };
        Line { t_ms: 1000, entry: Entry::Opened(opened) }
    }

    fn resolved(lease: LeaseRecord, closes_slot: bool, ending: Ending, offset: u64) -> Entry {
        Entry::Resolved(AttemptSummary {
            attempt: lease.attempt,
            epoch: lease.epoch,
            closes_slot,
            ending,
            turns: 3,
            times_us: PhaseMicros { step: 77, ..PhaseMicros::default() },
            frame: FrameRef { offset, len: 10, crc: 1 },
        })
    }

    fn finished_ending(score: f64) -> Ending {
        let stop = StopReason::Ended("shell-exited".into());
        Ending::Finished {
            stop,
            score,
            passed: score >= 1.0,
            reward: 2.0 * score - 1.0,
            flags: vec!["tampered".into()],
        }
    }

    /// Turns random numbers into a journal that keeps the rules, by asking the state what may come next.
    fn history(choices: &[(u8, u32, f64)]) -> (Vec<Line>, JournalState) {
        let first = opened();
        let mut state = JournalState::open(&first).unwrap();
        let mut lines = vec![first];
        for (index, &(kind, slot, score)) in (0u64..).zip(choices) {
            let id = SlotId(slot % SLOTS);
            let slot = &state.slots()[id.0 as usize];
            let entry = match (kind % 8, slot.status, state.finished()) {
                (7, _, _) => {
                    Entry::Resumed(Resumed { first_epoch: state.next_epoch(), cut_bytes: u64::from(kind) })
                }
                (6, _, _) | (_, _, Some(_)) => Entry::Synced,
                (5, _, None) if state.slots().iter().all(|s| !matches!(s.status, SlotStatus::Leased(_))) => {
                    let (closed, open) = state.counts();
                    Entry::Finished(Finished { end: RunEnd::Interrupted, closed, open })
                }
                (_, SlotStatus::Open, None) => {
                    let attempt = AttemptId { slot: id, number: slot.next_number };
                    Entry::Leased(LeaseRecord { attempt, epoch: state.next_epoch() })
                }
                (choice, SlotStatus::Leased(lease), None) => {
                    let fault =
                        Ending::Faulted { boundary: Boundary::Env, code: "shell-lost".into(), limit: None };
                    match choice {
                        0 => resolved(lease, false, fault, index * 10),
                        1 => resolved(lease, true, fault, index * 10),
                        2 => resolved(lease, false, Ending::Cancelled(CancelReason::Interrupted), index * 10),
                        _ => resolved(lease, true, finished_ending(score), index * 10),
                    }
                }
                (_, SlotStatus::Closed { .. }, None) => Entry::Reopened { slots: state.faulted_slots() },
            };
            let line = Line { t_ms: 1000 + index, entry };
            state.apply(&line).unwrap();
            lines.push(line);
        }
        (lines, state)
    }

    fn encoded(lines: &[Line]) -> Vec<u8> {
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| line::encode(line, &mut bytes).unwrap());
        bytes
    }

    fn state_of(lines: &[Line]) -> Option<JournalState> {
        let (first, rest) = lines.split_first()?;
        let mut state = JournalState::open(first).unwrap();
        rest.iter().for_each(|line| state.apply(line).unwrap());
        Some(state)
    }

    fn choices() -> impl Strategy<Value = Vec<(u8, u32, f64)>> {
        proptest::collection::vec((any::<u8>(), 0..SLOTS, 0.0..=1.0f64), 0..40)
    }

    proptest! {
        #[test]
        fn replay_equals_live_state(choices in choices()) {
            let (lines, live) = history(&choices);
            let journal = replay(&encoded(&lines)).unwrap();
            prop_assert_eq!(journal.state, Some(live));
            prop_assert!(journal.tail.is_none());
        }

        #[test]
        fn i1_a_prefix_holds_its_whole_lines(choices in choices(), cut in any::<prop::sample::Index>()) {
            let (lines, _) = history(&choices);
            let bytes = encoded(&lines);
            let cut = cut.index(bytes.len() + 1);
            let journal = replay(&bytes[..cut]).unwrap();
            let whole = bytes[..cut].iter().filter(|&&byte| byte == b'\n').count();
            prop_assert_eq!(&journal.state, &state_of(&lines[..whole]));
            let rest = cut as u64 - journal.whole_bytes;
            prop_assert_eq!(journal.tail.map_or(0, |tail| tail.bytes), rest);
        }

        #[test]
        fn i2_a_flipped_bit_is_seen(choices in choices(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let (lines, _) = history(&choices);
            let mut bytes = encoded(&lines);
            let at = at.index(bytes.len());
            let changed_line = bytes[..at].iter().filter(|&&byte| byte == b'\n').count();
            bytes[at] ^= 1 << bit;
            let synced_later = lines[changed_line + 1..].iter().any(|line| line.entry == Entry::Synced);
            match replay(&bytes) {
                Err(JournalError::Damaged { line, .. }) => prop_assert_eq!(line, changed_line as u64 + 1),
                Err(other) => prop_assert!(false, "{other}"),
                Ok(journal) => {
                    let tail = journal.tail.expect("a changed line must not pass");
                    prop_assert_eq!(tail.line, changed_line as u64 + 1);
                    prop_assert_eq!(&journal.state, &state_of(&lines[..changed_line]));
                    // The flipped newline may have swallowed the one `synced` line that vouched for it.
                    prop_assert!(!synced_later || lines[changed_line + 1].entry == Entry::Synced);
                }
            }
        }
    }

    fn damage(bytes: &[u8]) -> String {
        match replay(bytes) {
            Err(JournalError::Damaged { line, reason, .. }) => format!("line {line}: {reason}"),
            other => panic!("{other:?}"),
        }
    }

    fn check(entries: Vec<Entry>, expected: &str) {
        let lines: Vec<Line> = entries.into_iter().map(|entry| Line { t_ms: 0, entry }).collect();
        assert_eq!(damage(&encoded(&lines)), expected);
    }

    fn lease(slot: u32, number: u32, epoch: u64) -> LeaseRecord {
        LeaseRecord { attempt: AttemptId { slot: SlotId(slot), number }, epoch: Epoch(epoch) }
    }

    #[test]
    fn i3_broken_rules_are_named_with_their_line() {
        let open = || opened().entry;
        let leased = |slot, number, epoch| Entry::Leased(lease(slot, number, epoch));
        let won = |slot, number, epoch| resolved(lease(slot, number, epoch), true, finished_ending(1.0), 0);
        let cancelled = Ending::Cancelled(CancelReason::RunEnded);
        check(vec![leased(0, 0, 1)], "line 1: the first line of a journal must be `opened`");
        check(vec![open(), open()], "line 2: the run is opened twice");
        check(vec![open(), won(0, 0, 1)], "line 2: s0.0 resolved without a lease");
        check(
            vec![open(), leased(0, 0, 1), won(0, 0, 1), won(0, 0, 1)],
            "line 4: s0.0 resolved, but its slot was closed by s0.0",
        );
        check(
            vec![open(), leased(0, 0, 1), leased(0, 1, 2)],
            "line 3: s0.1 got a lease while s0.0 is under way",
        );
        check(vec![open(), leased(0, 0, 5), won(0, 0, 4)], "line 3: s0.0 carries epoch 4; its slot is at 5");
        check(
            vec![open(), leased(0, 0, 5), won(0, 0, 6)],
            "line 3: s0.0 carries epoch 6, but its lease has 5",
        );
        check(
            vec![open(), leased(0, 1, 5)],
            "line 2: s0.1 got a lease; the next attempt of its slot is number 0",
        );
        check(
            vec![open(), leased(0, 0, 5), resolved(lease(0, 0, 5), true, cancelled, 0)],
            "line 3: s0.0 was cancelled and closes its slot",
        );
        check(
            vec![open(), leased(0, 0, 5), resolved(lease(0, 0, 5), false, finished_ending(0.0), 0)],
            "line 3: s0.0 finished and does not close its slot",
        );
        check(vec![open(), leased(9, 0, 5)], "line 2: there is no slot s9; the plan has 4");
        check(
            vec![open(), leased(0, 0, 5), won(0, 0, 5), leased(0, 1, 6)],
            "line 4: s0.1 got a lease, but its slot is closed",
        );
        let resumed = |epoch| Entry::Resumed(Resumed { first_epoch: Epoch(epoch), cut_bytes: 0 });
        check(
            vec![open(), leased(0, 0, 5), resumed(5)],
            "line 3: resumed at epoch 5, but 5 was granted before",
        );
        check(vec![open(), resumed(7), leased(0, 0, 6)], "line 3: s0.0 carries epoch 6; its slot is at 7");
        check(
            vec![open(), leased(0, 0, 5), won(0, 0, 5), Entry::Reopened { slots: vec![SlotId(0)] }],
            "line 4: s0 reopened, but no fault closed it",
        );
        let finished = |closed, open| Entry::Finished(Finished { end: RunEnd::Completed, closed, open });
        check(
            vec![open(), leased(0, 0, 5), finished(0, 4)],
            "line 3: the run finished while s0.0 was under way",
        );
        check(
            vec![open(), finished(4, 0)],
            "line 2: `finished` counts 4 closed and 0 open slots; the journal has 0 and 4",
        );
        check(
            vec![open(), finished(0, 4), leased(0, 0, 1)],
            "line 3: the run is finished; only `resumed` may follow",
        );
    }

    #[test]
    fn what_a_sync_vouches_for_is_never_cut() {
        let entries =
            [opened().entry, Entry::Leased(lease(0, 0, 1)), Entry::Leased(lease(1, 0, 2)), Entry::Synced];
        let lines: Vec<Line> = entries.into_iter().map(|entry| Line { t_ms: 0, entry }).collect();
        let mut bytes = encoded(&lines);
        let second = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        bytes[second + 30] ^= 1;
        let error = damage(&bytes);
        assert!(error.starts_with("line 2: its checksum is "), "{error}");

        let unvouched = encoded(&lines[..3]).len();
        let journal = replay(&bytes[..unvouched]).unwrap();
        assert_eq!(journal.state, state_of(&lines[..1]));
        assert_eq!(journal.tail.unwrap().bytes, (unvouched - second) as u64);
    }

    #[test]
    fn a_newer_journal_is_refused_by_name() {
        let mut line = opened();
        if let Entry::Opened(opened) = &mut line.entry {
            opened.format = 9;
        }
        assert_eq!(replay(&encoded(&[line])).unwrap_err(), JournalError::Newer { found: 9 });
    }
}
