//! Entries of the journal.
//!
//! A line is a [`Line`]: a time and an [`Entry`]. `line.rs` defines its encoding, with a checksum;
//! `state.rs` defines the valid order of entries.

use std::time::Duration;

use clawrl_core::{
    AttemptId, AttemptRecord, Boundary, CancelReason, Epoch, LeaseRecord, Limit, Outcome, PhaseTimes, SlotId,
    StopReason, Turn, UsageTotal,
};
use serde::{Deserialize, Serialize};

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When it was written, milliseconds since 1970 by the host's clock.
    pub t_ms: u64,
    /// The entry.
    pub entry: Entry,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Entry {
    /// The run began. Always the first line, and only there.
    Opened(Opened),
    /// An attempt got its lease.
    Leased(LeaseRecord),
    /// An attempt resolved; its frame is in `trajectories.zst`.
    Resolved(AttemptSummary),
    /// Every byte before this line, and every frame referenced before it, is on the disk.
    Synced,
    /// Another process went on. Attempts that were under way are lost; their slots are open again.
    Resumed(Resumed),
    /// Closed slots are open again. The attempts that had closed them stay in the record and close nothing more.
    Reopened {
        /// The slots.
        slots: Vec<SlotId>,
        /// Why.
        #[serde(default, skip_serializing_if = "ReopenCause::is_faulted")]
        cause: ReopenCause,
    },
    /// The run ended in good order.
    Finished(Finished),
}

/// Why closed slots are open again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReopenCause {
    /// A fault had closed each of them.
    #[default]
    Faulted,
    /// A learner went back to a checkpoint that had not consumed their groups.
    RolledBack,
}

impl ReopenCause {
    fn is_faulted(&self) -> bool {
        *self == Self::Faulted
    }
}

/// The journal's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Version of the record's schema.
    pub format: u32,
    /// Name and version of the program that opened it.
    pub program: String,
    /// Hex SHA-256 of `plan.json`, byte by byte.
    pub plan_sha256: String,
    /// Number of slots of the plan.
    pub slots: u32,
    /// Hex SHA-256 of `train.json`, byte by byte, in the run of a training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_sha256: Option<String>,
}

/// State found by a resuming process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Every later lease has this epoch or a higher one; every earlier lease had a lower one.
    pub first_epoch: Epoch,
    /// Bytes of a torn tail that were cut before this line was written.
    pub cut_bytes: u64,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// Every slot is closed.
    Completed,
    /// The consumer of the results needed no more; slots may be open. Journals say `sated`, the word of earlier programs, which
    /// can so read newer runs.
    #[serde(rename = "sated", alias = "demand_closed")]
    DemandClosed,
    /// A person asked for the end; slots may be open.
    Interrupted,
    /// A limit on faults ended it.
    TooManyFaults,
    /// Our own code broke a rule.
    HarnessFault,
}

/// The last line of a run that ended in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Why.
    pub end: RunEnd,
    /// Closed slots, for readers that only look at the tail.
    pub closed: u32,
    /// Open slots.
    pub open: u32,
}

/// Position of an attempt's record in `trajectories.zst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FrameRef {
    /// First byte.
    pub offset: u64,
    /// Compressed length in bytes.
    pub len: u64,
    /// CRC-32 (IEEE) of the compressed bytes.
    pub crc: u32,
}

impl FrameRef {
    /// The first byte after it.
    #[must_use]
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// The end of an attempt, without its trajectory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The attempt ran and was graded.
    Finished {
        /// Why it stopped acting.
        stop: StopReason,
        /// Weighted mean of the checks, in [0, 1].
        score: f64,
        /// Whether every check scored 1.
        passed: bool,
        /// Reward for a learner.
        reward: f64,
        /// Marks of the grade: `symlink-refused`, `tampered`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flags: Vec<String>,
    },
    /// Something broke. The text is in the frame.
    Faulted {
        /// Boundary of the fault.
        boundary: Boundary,
        /// Stable name.
        code: String,
        /// The time limit that fired, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
    },
    /// We chose to stop it.
    Cancelled(CancelReason),
}

impl From<&Outcome> for Ending {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Finished { stop, grade, reward } => Self::Finished {
                stop: stop.clone(),
                score: grade.score,
                passed: grade.passed,
                reward: *reward,
                flags: grade.flags.clone(),
            },
            Outcome::Faulted(fault) => {
                Self::Faulted { boundary: fault.boundary, code: fault.code.clone(), limit: fault.limit }
            }
            Outcome::Cancelled(reason) => Self::Cancelled(*reason),
        }
    }
}

/// [`PhaseTimes`] in whole microseconds: a third of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PhaseMicros {
    /// From dispatch to the grant of the lease.
    pub lease: u64,
    /// Reset.
    pub setup: u64,
    /// Sum over turns: waiting for the policy.
    pub policy: u64,
    /// Sum over turns: in the environment.
    pub step: u64,
    /// Grading.
    pub grade: u64,
    /// Closing.
    pub close: u64,
}

impl From<&PhaseTimes> for PhaseMicros {
    fn from(times: &PhaseTimes) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            lease: micros(times.lease),
            setup: micros(times.setup),
            policy: micros(times.policy),
            step: micros(times.step),
            grade: micros(times.grade),
            close: micros(times.close),
        }
    }
}

/// Turns in which nothing was done, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostTurns {
    /// Replies without a valid action.
    pub malformed: u32,
    /// The shell was left waiting for the rest of a command.
    pub unfinished: u32,
}

impl LostTurns {
    /// Lost turns among `turns`.
    fn of(turns: &[Turn]) -> Self {
        let count = |is_lost: fn(&&Turn) -> bool| {
            u32::try_from(turns.iter().filter(is_lost).count()).unwrap_or(u32::MAX)
        };
        Self {
            malformed: count(|turn| turn.flags.malformed),
            unfinished: count(|turn| turn.observation.is_unfinished_command()),
        }
    }

    /// Whether no turns were lost.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds those of another attempt.
    pub(crate) fn add(&mut self, other: Self) {
        self.malformed = self.malformed.saturating_add(other.malformed);
        self.unfinished = self.unfinished.saturating_add(other.unfinished);
    }
}

/// An attempt as the journal knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptSummary {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its fencing epoch.
    pub epoch: Epoch,
    /// Whether it closed its slot and still does; reopening a slot removes this from its attempt.
    pub closes_slot: bool,
    /// The end of the attempt.
    pub ending: Ending,
    /// Number of turns.
    pub turns: u32,
    /// Turns among them that did nothing.
    #[serde(default, skip_serializing_if = "LostTurns::is_none")]
    pub lost_turns: LostTurns,
    /// Time by phase.
    pub times_us: PhaseMicros,
    /// Usage of the replies, from policies that report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageTotal>,
    /// Usage of judges for the grade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<Box<UsageTotal>>,
    /// Position of the full record.
    pub frame: FrameRef,
}

impl AttemptSummary {
    /// Summary of a record whose frame is at `frame`.
    #[must_use]
    pub fn new(record: &AttemptRecord, frame: FrameRef) -> Self {
        Self {
            attempt: record.attempt,
            epoch: record.epoch,
            closes_slot: record.closes_slot,
            ending: Ending::from(&record.outcome),
            turns: u32::try_from(record.trajectory.turns.len()).unwrap_or(u32::MAX),
            lost_turns: LostTurns::of(&record.trajectory.turns),
            times_us: PhaseMicros::from(&record.times),
            usage: UsageTotal::of(record.trajectory.turns.iter().filter_map(|turn| turn.usage.as_ref())),
            judge_usage: record.outcome.grade().and_then(|grade| grade.judge_usage.map(Box::new)),
            frame,
        }
    }

    /// Whether it finished and passed every check.
    #[must_use]
    pub fn passed(&self) -> bool {
        matches!(self.ending, Ending::Finished { passed: true, .. })
    }

    /// Whether it finished and its slot was reopened later.
    #[must_use]
    pub fn superseded(&self) -> bool {
        !self.closes_slot && matches!(self.ending, Ending::Finished { .. })
    }

    /// Whether it faulted.
    #[must_use]
    pub fn faulted(&self) -> bool {
        matches!(self.ending, Ending::Faulted { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_word_for_closed_demand_still_reads() {
        for word in ["\"demand_closed\"", "\"sated\""] {
            assert_eq!(serde_json::from_str::<RunEnd>(word).unwrap(), RunEnd::DemandClosed);
        }
        assert_eq!(serde_json::to_string(&RunEnd::DemandClosed).unwrap(), "\"sated\"");
    }
}
