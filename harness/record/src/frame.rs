//! Encodes the record of one attempt as a zstd frame.
//!
//! The content is `{"format":1,"record":{...}}`, where the record is an [`AttemptRecord`] as JSON, with the
//! terminal session's asciicast as a string in it. Casts are stored here instead of in separate files,
//! because thousands of small files cost more than their bytes; [`crate::Run::cast`] extracts one.
//!
//! I1. Decoding returns exactly what was encoded, floats bit by bit.
//! I2. A number that JSON cannot represent (NaN, infinities) is refused before anything is written.

use clawrl_core::{AttemptRecord, FORMAT_VERSION, Outcome};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{FrameRef, migrate};

/// The fastest of zstd's regular levels: the journal's time budget goes to compression first, and text of
/// terminals shrinks to a quarter even so.
const LEVEL: i32 = 1;

/// Reason for which a record cannot be encoded, or bytes cannot be decoded.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    #[error("{0} is not a finite number")]
    NotFinite(&'static str),
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("zstd: {0}")]
    Zstd(#[from] std::io::Error),
    #[error("its checksum is {written:08x}, expected {actual:08x}")]
    WrongChecksum { written: u32, actual: u32 },
    #[error("{0}")]
    Format(#[from] migrate::MigrateError),
}

#[derive(Serialize)]
struct Borrowed<'a> {
    format: u32,
    record: &'a AttemptRecord,
}

#[derive(Deserialize)]
struct Owned {
    record: AttemptRecord,
}

/// Encodes records one after another, keeping its buffers.
pub(crate) struct FrameEncoder {
    compressor: zstd::bulk::Compressor<'static>,
    json: Vec<u8>,
    compressed: Vec<u8>,
}

impl FrameEncoder {
    pub(crate) fn new() -> std::io::Result<Self> {
        let compressor = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(Self { compressor, json: Vec::new(), compressed: Vec::new() })
    }

    /// Appends the record's frame to `into`, whose first byte is at offset `base` of the file.
    pub(crate) fn append(
        &mut self,
        record: &AttemptRecord,
        base: u64,
        into: &mut Vec<u8>,
    ) -> Result<FrameRef, FrameError> {
        refuse_non_finite(record)?;
        self.json.clear();
        serde_json::to_writer(&mut self.json, &Borrowed { format: FORMAT_VERSION, record })?;
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(self.json.len()));
        self.compressor.compress_to_buffer(&self.json, &mut self.compressed)?;
        let offset = base + into.len() as u64;
        into.extend_from_slice(&self.compressed);
        let crc = crc32fast::hash(&self.compressed);
        // Releases the memory of one huge record for the rest of the run.
        self.json.shrink_to(KEPT_BYTES);
        self.compressed.shrink_to(KEPT_BYTES);
        Ok(FrameRef { offset, len: self.compressed.len() as u64, crc })
    }
}

const KEPT_BYTES: usize = 4 << 20;

/// Checks a frame's bytes against its reference.
pub(crate) fn verify(bytes: &[u8], frame: FrameRef) -> Result<(), FrameError> {
    let actual = crc32fast::hash(bytes);
    if actual == frame.crc { Ok(()) } else { Err(FrameError::WrongChecksum { written: frame.crc, actual }) }
}

/// Decodes a frame, of this format or an older one.
pub(crate) fn decode(bytes: &[u8], frame: FrameRef) -> Result<AttemptRecord, FrameError> {
    verify(bytes, frame)?;
    let json = zstd::stream::decode_all(bytes)?;
    let current = format!("{{\"format\":{FORMAT_VERSION},");
    if json.starts_with(current.as_bytes()) {
        let owned: Owned = serde_json::from_slice(&json)?;
        return Ok(owned.record);
    }
    let migrated = migrate::frame(serde_json::from_slice(&json)?)?;
    let owned: Owned = serde_json::from_value(migrated)?;
    Ok(owned.record)
}

fn refuse_non_finite(record: &AttemptRecord) -> Result<(), FrameError> {
    if let Outcome::Finished { grade, reward, .. } = &record.outcome {
        let checks = grade.checks.iter().all(|check| check.score.is_finite() && check.weight.is_finite());
        for (fine, name) in [
            (reward.is_finite(), "the reward"),
            (grade.score.is_finite(), "the score"),
            (checks, "a check's score or weight"),
        ] {
            if !fine {
                return Err(FrameError::NotFinite(name));
            }
        }
    }
    let tokens = record.trajectory.turns.iter().filter_map(|turn| turn.tokens.as_ref());
    if tokens.flat_map(|tokens| &tokens.logprobs).any(|logprob| !logprob.is_finite()) {
        return Err(FrameError::NotFinite("a log-probability"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clawrl_core::{
        AttemptId, CancelReason, Epoch, Grade, Message, PhaseTimes, Role, SampledTokens, SlotId, StopReason,
        Trajectory, Turn,
    };
    use proptest::prelude::*;

    use super::*;

    fn record(outcome: Outcome, logprobs: Vec<f32>) -> AttemptRecord {
        let tokens = SampledTokens { ids: vec![1; logprobs.len()], logprobs, versions: vec![(0, 7)] };
        let turn = Turn {
            reply: Message::text(Role::Assistant, "ls"),
            calls: Vec::new(),
            tokens: Some(tokens),
            usage: None,
            observation: clawrl_core::Observation::from_text("a\nb"),
            process_reward: None,
            flags: clawrl_core::TurnFlags::default(),
            policy_time: std::time::Duration::from_nanos(1_234_567),
            step_time: std::time::Duration::from_micros(89),
        };
        AttemptRecord {
            attempt: AttemptId { slot: SlotId(1), number: 2 },
            epoch: Epoch(9),
            closes_slot: false,
            outcome,
            times: PhaseTimes::default(),
            trajectory: Trajectory { turns: vec![turn], cast: Some("{}\n".into()), ..Trajectory::default() },
        }
    }

    fn finished(score: f64, reward: f64) -> Outcome {
        let grade = Grade {
            score,
            passed: false,
            checks: Vec::new(),
            judge_usage: None,
            patch: None,
            flags: Vec::new(),
        };
        Outcome::Finished { stop: StopReason::Submitted, grade, reward }
    }

    proptest! {
        #[test]
        fn i1_every_bit_comes_back(
            score in any::<f64>().prop_filter("finite", |x| x.is_finite()),
            logprobs in proptest::collection::vec(any::<f32>().prop_filter("finite", |x| x.is_finite()), 0..20),
            base in 0u64..1 << 40,
        ) {
            let record = record(finished(score, -score), logprobs);
            let mut bytes = b"before".to_vec();
            let frame = FrameEncoder::new().unwrap().append(&record, base, &mut bytes).unwrap();
            prop_assert_eq!(frame.offset, base + 6);
            prop_assert_eq!(frame.end(), base + bytes.len() as u64);
            prop_assert_eq!(decode(&bytes[6..], frame).unwrap(), record);
        }
    }

    #[test]
    fn i2_no_number_is_lost_to_null() {
        let check = |record: AttemptRecord, expected: &str| {
            let mut bytes = Vec::new();
            let error = FrameEncoder::new().unwrap().append(&record, 0, &mut bytes).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(bytes.is_empty());
        };
        check(record(finished(0.5, f64::NAN), vec![]), "the reward is not a finite number");
        check(record(finished(f64::INFINITY, 0.0), vec![]), "the score is not a finite number");
        let cancelled = Outcome::Cancelled(CancelReason::Interrupted);
        check(record(cancelled, vec![f32::NEG_INFINITY]), "a log-probability is not a finite number");
    }

    #[test]
    fn a_damaged_frame_is_seen() {
        let mut bytes = Vec::new();
        let record = record(finished(1.0, 1.0), vec![-0.5]);
        let frame = FrameEncoder::new().unwrap().append(&record, 0, &mut bytes).unwrap();
        bytes[3] ^= 1;
        assert!(matches!(decode(&bytes, frame), Err(FrameError::WrongChecksum { .. })));
    }
}
