//! Journals of random histories, cut anywhere, changed anywhere; and each broken rule by its name.

use clawrl_core::{AttemptId, Boundary, CancelReason, Epoch, LeaseRecord, SlotId, StopReason};
use proptest::prelude::*;

use super::*;
use crate::{
    AttemptSummary, Ending, Finished, LostTurns, Opened, PhaseMicros, ReopenCause, Resumed, RunEnd,
    SlotStatus,
};

const SLOTS: u32 = 4;

fn opened() -> Line {
    let plan_sha256 = "0".repeat(64);
    let opened = Opened {
        format: FORMAT_VERSION,
        program: "test 1".into(),
        plan_sha256,
        slots: SLOTS,
        train_sha256: None,
    };
    Line { t_ms: 1000, entry: Entry::Opened(opened) }
}

fn resolved(lease: LeaseRecord, closes_slot: bool, ending: Ending, offset: u64) -> Entry {
    Entry::Resolved(AttemptSummary {
        attempt: lease.attempt,
        epoch: lease.epoch,
        closes_slot,
        ending,
        turns: 3,
        lost_turns: LostTurns { malformed: 1, unfinished: 1 },
        times_us: PhaseMicros { step: 77, ..PhaseMicros::default() },
        usage: None,
        judge_usage: None,
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

/// Turns random numbers into a valid journal, by asking the state for valid next entries.
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
            (0, SlotStatus::Closed { .. }, None) => {
                Entry::Reopened { slots: state.closed_slots(|_| true), cause: ReopenCause::RolledBack }
            }
            (_, SlotStatus::Closed { .. }, None) => {
                Entry::Reopened { slots: state.faulted_slots(), cause: ReopenCause::Faulted }
            }
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
    check(vec![open(), leased(0, 0, 1), leased(0, 1, 2)], "line 3: s0.1 got a lease while s0.0 is under way");
    check(vec![open(), leased(0, 0, 5), won(0, 0, 4)], "line 3: s0.0 carries epoch 4; its slot is at 5");
    check(vec![open(), leased(0, 0, 5), won(0, 0, 6)], "line 3: s0.0 carries epoch 6, but its lease has 5");
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
    check(vec![open(), leased(0, 0, 5), resumed(5)], "line 3: resumed at epoch 5, but 5 was granted before");
    check(vec![open(), resumed(7), leased(0, 0, 6)], "line 3: s0.0 carries epoch 6; its slot is at 7");
    check(
        vec![
            open(),
            leased(0, 0, 5),
            won(0, 0, 5),
            Entry::Reopened { slots: vec![SlotId(0)], cause: ReopenCause::Faulted },
        ],
        "line 4: s0 reopened, but no fault closed it",
    );
    let rolled_back = |slot| Entry::Reopened { slots: vec![SlotId(slot)], cause: ReopenCause::RolledBack };
    check(
        vec![open(), leased(0, 0, 5), won(0, 0, 5), rolled_back(0), rolled_back(0)],
        "line 5: s0 is rolled back, but it is open",
    );
    check(vec![open(), leased(0, 0, 5), rolled_back(0)], "line 3: s0 is rolled back, but it is open");
    let finished = |closed, open| Entry::Finished(Finished { end: RunEnd::Completed, closed, open });
    check(vec![open(), leased(0, 0, 5), finished(0, 4)], "line 3: the run finished while s0.0 was under way");
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
fn synced_bytes_are_never_cut() {
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
