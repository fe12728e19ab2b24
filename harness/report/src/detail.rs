//! One attempt for the page's viewer: messages, observations and checks, turn by turn.
//!
//! I1. Nothing is interpreted: texts stay as recorded, and the viewer shows them as text.
//! I2. The uncut output of a turn is included up to [`MAX_FULL_TEXT`] bytes; beyond that, only its length.
//!
//! Units: `_us` microseconds.

use std::time::Duration;

use clawrl_core::{AttemptRecord, BlobRef, Observation, Outcome, Part, Role, ToolCall, Turn, Usage};
use clawrl_record::blob_path;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::kind::{cancel_text, stop_text};

/// Bytes of the uncut output of one turn that the page has room for.
const MAX_FULL_TEXT: usize = 32 << 10;

/// An attempt.
#[derive(Debug, Serialize)]
pub(crate) struct Detail<'a> {
    attempt: String,
    epoch: u64,
    closes_slot: bool,
    prompt: Vec<MessageDetail>,
    /// The first observation, if it is not part of the prompt: for attempts that ended before the first request.
    reset: String,
    /// Pictures of the first observation, and the reason for a missing one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pictures: Vec<PictureDetail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_picture: Option<&'a str>,
    turns: Vec<TurnDetail<'a>>,
    end: End<'a>,
    phases_us: [(&'static str, u64); 6],
}

#[derive(Debug, Serialize)]
struct MessageDetail {
    role: Role,
    text: String,
}

#[derive(Debug, Serialize)]
struct TurnDetail<'a> {
    /// The reply; empty if it is the text of the only call.
    reply: String,
    calls: Vec<CallDetail<'a>>,
    saw: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pictures: Vec<PictureDetail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    full: Option<Full<'a>>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    facts: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<&'static str>,
    policy_us: u64,
    step_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
}

#[derive(Debug, Serialize)]
struct PictureDetail {
    /// Name of the picture; its thumbnail has the same.
    sha256: String,
    /// File of the picture, relative to the run's folder.
    file: String,
}

#[derive(Debug, Serialize)]
struct CallDetail<'a> {
    name: &'a str,
    text: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Full<'a> {
    Text(&'a str),
    Bytes(usize),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum End<'a> {
    Finished {
        stop: String,
        score: f64,
        reward: f64,
        flags: &'a [String],
        checks: Vec<CheckDetail<'a>>,
    },
    Faulted {
        boundary: String,
        code: &'a str,
        message: &'a str,
        limit: Option<&'static str>,
        retry_is_sound: bool,
    },
    Cancelled {
        reason: &'static str,
    },
}

#[derive(Debug, Serialize)]
struct CheckDetail<'a> {
    label: &'a str,
    score: f64,
    weight: f64,
    message: &'a str,
}

impl<'a> Detail<'a> {
    pub(crate) fn of(record: &'a AttemptRecord) -> Self {
        let (times, trajectory) = (&record.times, &record.trajectory);
        Self {
            attempt: record.attempt.to_string(),
            epoch: record.epoch.0,
            closes_slot: record.closes_slot,
            prompt: trajectory
                .prompt
                .iter()
                .map(|message| MessageDetail { role: message.role, text: shown(&message.parts) })
                .collect(),
            reset: if trajectory.prompt.is_empty() { shown(&trajectory.reset.parts) } else { String::new() },
            pictures: pictures(&trajectory.reset),
            no_picture: trajectory.reset.facts.get("no_picture").and_then(Value::as_str),
            turns: trajectory.turns.iter().map(turn).collect(),
            end: end(&record.outcome),
            phases_us: [
                ("lease", micros(times.lease)),
                ("setup", micros(times.setup)),
                ("policy", micros(times.policy)),
                ("step", micros(times.step)),
                ("grade", micros(times.grade)),
                ("close", micros(times.close)),
            ],
        }
    }
}

fn turn(turn: &Turn) -> TurnDetail<'_> {
    let reply = shown(&turn.reply.parts);
    let calls: Vec<CallDetail<'_>> =
        turn.calls.iter().map(|call| CallDetail { name: &call.name, text: call_text(call) }).collect();
    let is_repeated = matches!(calls.as_slice(), [only] if only.text == reply.trim_end_matches(['\n', '\r']));
    let marks = [(turn.flags.malformed, "malformed"), (turn.flags.reply_truncated, "reply truncated")];
    TurnDetail {
        reply: if is_repeated { String::new() } else { reply },
        calls,
        saw: shown(&turn.observation.parts),
        pictures: pictures(&turn.observation),
        full: full(&turn.observation),
        facts: &turn.observation.facts,
        marks: marks.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word).collect(),
        policy_us: micros(turn.policy_time),
        step_us: micros(turn.step_time),
        sampled_tokens: turn.tokens.as_ref().map(|tokens| tokens.ids.len()),
        usage: turn.usage.as_ref(),
    }
}

fn full(observation: &Observation) -> Option<Full<'_>> {
    let text = observation.full_text.as_deref()?;
    Some(if text.len() <= MAX_FULL_TEXT { Full::Text(text) } else { Full::Bytes(text.len()) })
}

/// Arguments of a call: the only one if it is a text, else all of them as JSON.
#[must_use]
pub fn call_text(call: &ToolCall) -> String {
    match call.arguments.as_object() {
        Some(map) if map.is_empty() => String::new(),
        Some(map) if map.len() == 1 => match map.values().next() {
            Some(Value::String(only)) => only.clone(),
            _ => call.arguments.to_string(),
        },
        _ => call.arguments.to_string(),
    }
}

fn pictures(observation: &Observation) -> Vec<PictureDetail> {
    let detail = |blob: BlobRef| Some(PictureDetail { file: blob_path(&blob)?, sha256: blob.sha256 });
    observation.all_pictures().filter_map(detail).collect()
}

/// Text parts, and the files of others.
#[must_use]
pub fn shown(parts: &[Part]) -> String {
    let texts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => text.clone(),
            Part::Image { media_type, sha256 } => {
                let blob = BlobRef { media_type: media_type.clone(), sha256: sha256.clone() };
                blob_path(&blob)
                    .map_or_else(|| format!("[{media_type}]"), |file| format!("[{media_type}: {file}]"))
            }
        })
        .collect();
    texts.join("\n")
}

fn end(outcome: &Outcome) -> End<'_> {
    match outcome {
        Outcome::Finished { stop, grade, reward } => End::Finished {
            stop: stop_text(stop),
            score: grade.score,
            reward: *reward,
            flags: &grade.flags,
            checks: grade
                .checks
                .iter()
                .map(|check| CheckDetail {
                    label: &check.label,
                    score: check.score,
                    weight: check.weight,
                    message: &check.message,
                })
                .collect(),
        },
        Outcome::Faulted(fault) => End::Faulted {
            boundary: fault.boundary.to_string(),
            code: &fault.code,
            message: &fault.message,
            limit: fault.limit.map(clawrl_core::Limit::key),
            retry_is_sound: fault.retry == clawrl_core::Retry::Sound,
        },
        Outcome::Cancelled(reason) => End::Cancelled { reason: cancel_text(*reason) },
    }
}

/// Whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
