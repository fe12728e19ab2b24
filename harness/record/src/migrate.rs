//! Migrates records of older formats, step by step.
//!
//! Every file contains the number of its format. [`STEPS`] has one step per format, each of which knows
//! only its own format and the next; a reader starts the chain at the file's format. Reading never rewrites
//! files. Resuming rewrites the journal, in one atomic rename; the other files keep their format.
//!
//! I1. A format newer than [`FORMAT_VERSION`] is refused by name, never read in part.
//!
//! Differences of format 0: journal lines had no checksum and no `synced`, were flat (`slot` and `number`
//! side by side, `outcome` a word) and counted time in whole seconds; frames held the bare record; the
//! plan had no `determinism`; the lock file listed limits that could not be set as words without reasons.
//!
//! Pure; nothing to cancel.

use clawrl_core::{Determinism, FORMAT_VERSION, RunPlan};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::{Line, LockFile, line};

/// Why something could not be brought to this format.
#[derive(Debug, Error)]
pub(crate) enum MigrateError {
    #[error("it has format {found}")]
    Newer { found: u32 },
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("a line of format {format} has no `{key}` of the expected type")]
    Missing { format: u32, key: &'static str },
    #[error("`{word}` is not a {what} of format {format}")]
    Unknown { format: u32, what: &'static str, word: String },
}

type Result<T> = std::result::Result<T, MigrateError>;

/// Migration of one document between two formats.
type Change = fn(Value) -> Result<Value>;

/// From one format to the next.
struct Step {
    plan: Change,
    lock: Change,
    line: Change,
    frame: Change,
}

/// `STEPS[n]` leads from format n to n + 1.
const STEPS: [Step; FORMAT_VERSION as usize] = [V0_TO_V1];

const V0_TO_V1: Step = Step { plan: v0_plan, lock: v0_lock, line: v0_line, frame: v0_frame };

#[derive(Deserialize)]
struct FormatOnly {
    #[serde(default)]
    format: u32,
}

/// Reads `plan.json`.
pub(crate) fn plan(bytes: &[u8]) -> Result<RunPlan> {
    document(bytes, |step| step.plan)
}

/// Reads `lock.json`.
pub(crate) fn lock(bytes: &[u8]) -> Result<LockFile> {
    document(bytes, |step| step.lock)
}

/// Brings a frame's content to this format.
pub(crate) fn frame(value: Value) -> Result<Value> {
    // The first format had no format number in its frames.
    let found = value.get("format").and_then(Value::as_u64).unwrap_or(0);
    through(value, known(found)?, |step| step.frame)
}

/// Reads a journal line of an older format.
pub(crate) fn journal_line(bytes: &[u8], format: u32) -> Result<Line> {
    let value = through(serde_json::from_slice(bytes)?, format, |step| step.line)?;
    Ok(serde_json::from_value(value)?)
}

/// The format a journal's first line states; `None` if that line is not whole.
pub(crate) fn journal_format(bytes: &[u8]) -> Option<u32> {
    let first = &bytes[..bytes.iter().position(|&byte| byte == b'\n')?];
    let value: Value = if line::has_checksum(first) {
        let mut object = b"{".to_vec();
        object.extend_from_slice(line::checked_body(first).ok()?);
        serde_json::from_slice(&object).ok()?
    } else {
        serde_json::from_slice(first).ok()?
    };
    let format = value.pointer("/entry/opened/format").or_else(|| value.get("format"))?.as_u64()?;
    Some(u32::try_from(format).unwrap_or(u32::MAX))
}

fn document<T: DeserializeOwned>(bytes: &[u8], pick: fn(&Step) -> Change) -> Result<T> {
    let FormatOnly { format } = serde_json::from_slice(bytes)?;
    if known(u64::from(format))? == FORMAT_VERSION {
        return Ok(serde_json::from_slice(bytes)?);
    }
    let mut value = through(serde_json::from_slice(bytes)?, format, pick)?;
    value["format"] = json!(FORMAT_VERSION);
    Ok(serde_json::from_value(value)?)
}

fn known(found: u64) -> Result<u32> {
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found > FORMAT_VERSION { Err(MigrateError::Newer { found }) } else { Ok(found) }
}

fn through(mut value: Value, from: u32, pick: fn(&Step) -> Change) -> Result<Value> {
    for step in &STEPS[from as usize..] {
        value = pick(step)(value)?;
    }
    Ok(value)
}

fn v0_plan(mut plan: Value) -> Result<Value> {
    // These were the fixed values of the programs that wrote format 0.
    let determinism = serde_json::to_value(Determinism::default())?;
    object(&mut plan, "plan")?.entry("determinism").or_insert(determinism);
    Ok(plan)
}

fn v0_lock(mut lock: Value) -> Result<Value> {
    let lock_map = object(&mut lock, "lock file")?;
    if let Some(Value::Array(limits)) = lock_map.get_mut("limits_not_set") {
        for limit in limits {
            *limit = json!({ "limit": limit.take(), "reason": "not recorded in format 0" });
        }
    }
    Ok(lock)
}

fn v0_frame(record: Value) -> Result<Value> {
    Ok(json!({ "format": 1, "record": record }))
}

fn v0_line(mut flat: Value) -> Result<Value> {
    let flat = object(&mut flat, "line")?;
    let kind: String = take(flat, "kind")?;
    let seconds: u64 = take(flat, "time")?;
    let entry = match kind.as_str() {
        "opened" => {
            json!({ "opened": {
                "format": 1,
                "program": "unknown (format 0)",
                "plan_sha256": take::<Value>(flat, "plan_sha256")?,
                "slots": take::<Value>(flat, "slots")?,
            }})
        }
        "leased" => {
            json!({ "leased": { "attempt": v0_attempt(flat)?, "epoch": take::<u64>(flat, "epoch")? } })
        }
        "resolved" => v0_resolved(flat)?,
        "resumed" => {
            json!({ "resumed": { "first_epoch": take::<u64>(flat, "first_epoch")?, "cut_bytes": 0 } })
        }
        "reopened" => json!({ "reopened": { "slots": take::<Value>(flat, "slots")? } }),
        "finished" => json!({ "finished": {
            "end": take::<Value>(flat, "end")?,
            "closed": take::<u32>(flat, "closed")?,
            "open": take::<u32>(flat, "open")?,
        }}),
        _ => return Err(MigrateError::Unknown { format: 0, what: "kind of line", word: kind }),
    };
    Ok(json!({ "t_ms": seconds.saturating_mul(1000), "entry": entry }))
}

fn v0_attempt(flat: &mut Map<String, Value>) -> Result<Value> {
    Ok(json!({ "slot": take::<u32>(flat, "slot")?, "number": take::<u32>(flat, "number")? }))
}

fn v0_resolved(flat: &mut Map<String, Value>) -> Result<Value> {
    let outcome: String = take(flat, "outcome")?;
    let ending = match outcome.as_str() {
        "finished" => json!({ "finished": {
            "stop": take::<Value>(flat, "stop")?,
            "score": take::<f64>(flat, "score")?,
            "passed": take::<bool>(flat, "passed")?,
            "reward": take::<f64>(flat, "reward")?,
        }}),
        "faulted" => json!({ "faulted": {
            "boundary": take::<Value>(flat, "boundary")?,
            "code": take::<Value>(flat, "code")?,
        }}),
        "cancelled" => json!({ "cancelled": take::<Value>(flat, "reason")? }),
        _ => return Err(MigrateError::Unknown { format: 0, what: "outcome", word: outcome }),
    };
    Ok(json!({ "resolved": {
        "attempt": v0_attempt(flat)?,
        "epoch": take::<u64>(flat, "epoch")?,
        "closes_slot": take::<bool>(flat, "closes_slot")?,
        "ending": ending,
        "turns": take::<u32>(flat, "turns")?,
        "times_us": take::<Value>(flat, "times_us")?,
        "frame": {
            "offset": take::<u64>(flat, "offset")?,
            "len": take::<u64>(flat, "len")?,
            "crc": take::<u32>(flat, "crc")?,
        },
    }}))
}

fn object<'a>(value: &'a mut Value, what: &'static str) -> Result<&'a mut Map<String, Value>> {
    value.as_object_mut().ok_or(MigrateError::Missing { format: 0, key: what })
}

fn take<T: DeserializeOwned + Serialize>(flat: &mut Map<String, Value>, key: &'static str) -> Result<T> {
    let value = flat.remove(key).ok_or(MigrateError::Missing { format: 0, key })?;
    serde_json::from_value(value).map_err(|_| MigrateError::Missing { format: 0, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flat: Value, expected: Value) {
        let line = journal_line(flat.to_string().as_bytes(), 0).unwrap();
        assert_eq!(serde_json::to_value(line).unwrap(), expected);
    }

    #[test]
    fn format_0_lines_become_format_1_lines() {
        check(
            json!({"kind": "leased", "slot": 3, "number": 1, "epoch": 9, "time": 100}),
            json!({"t_ms": 100_000, "entry": {"leased": {"attempt": {"slot": 3, "number": 1}, "epoch": 9}}}),
        );
        check(
            json!({"kind": "opened", "format": 0, "slots": 4, "plan_sha256": "ab", "time": 1}),
            json!({"t_ms": 1000, "entry": {"opened": {
                "format": 1, "program": "unknown (format 0)", "plan_sha256": "ab", "slots": 4}}}),
        );
    }

    #[test]
    fn errors_name_the_bad_key() {
        let check = |flat: Value, expected: &str| {
            let error = journal_line(flat.to_string().as_bytes(), 0).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            json!({"kind": "leased", "slot": 3, "epoch": 9, "time": 100}),
            "a line of format 0 has no `number` of the expected type",
        );
        check(json!({"kind": "danced", "time": 100}), "`danced` is not a kind of line of format 0");
    }

    #[test]
    fn i1_newer_is_refused() {
        let newer = json!({"format": 7, "anything": true}).to_string();
        assert_eq!(plan(newer.as_bytes()).unwrap_err().to_string(), "it has format 7");
        assert_eq!(lock(newer.as_bytes()).unwrap_err().to_string(), "it has format 7");
        assert!(frame(json!({"format": 7, "record": {}})).is_err());
        assert_eq!(journal_format(format!("{newer}\n").as_bytes()), Some(7));
    }
}
