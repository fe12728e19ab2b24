//! Requests to a driven attempt, one per line, and their responses: JSON-RPC 2.0, version 1 of the protocol that
//! `harness/docs/environments/custom.md` describes, seen from the environment's side.
//!
//! M1. Every line is a request or a [`Refusal`]. M2. A fault is reported completely: boundary, code, message, retry. A fault has
//! no score. M3. Unknown keys are ignored, so that clients of other servers can use this one.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::{
    BlobRef, BlobStore, Boundary, CheckReport, Fault, Grade, Observation, Part, Retry, StepResult,
    StopReason, ToolCall, ToolSpec, printable_line, read_json, utf8_text,
};
use clawrl_custom::PROTOCOL;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum characters of an invalid line that its error repeats.
const SHOWN: usize = 200;

/// Code of a fault in JSON-RPC's error; codes of refusals are negative.
const FAULT: i64 = 1;

/// Maximum time limit of a request, seconds.
const LONGEST: f64 = 1e6;

/// The operation of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    /// Starts the episode; `seed` replaces the plan's seed.
    Reset {
        seed: Option<u64>,
    },
    /// Runs calls, within a time limit that may be shorter than the task's.
    Step {
        calls: Vec<ToolCall>,
        within: Option<Duration>,
    },
    Grade,
    Close,
}

/// A valid request with its id.
#[derive(Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) id: Value,
    pub(crate) request: Request,
}

/// The reason why a line is refused. The attempt continues as if the line had not been sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Error code of JSON-RPC.
    number: i64,
    /// Stable name of the error.
    kind: &'static str,
    message: String,
}

impl Refusal {
    fn new(number: i64, kind: &'static str, message: impl Into<String>) -> Self {
        Self { number, kind, message: message.into() }
    }

    pub(crate) fn too_large(most: usize) -> Self {
        let message = format!("a line has more than {} MiB", most / 1024 / 1024);
        Self::new(-32600, "message-too-large", message)
    }

    /// A request that this party does not accept.
    pub(crate) fn not_here(message: impl Into<String>) -> Self {
        Self::new(-32000, "not-here", message)
    }

    /// A request out of order.
    pub(crate) fn out_of_order(message: impl Into<String>) -> Self {
        Self::new(-32000, "out-of-order", message)
    }
}

/// The reason of an error response.
#[derive(Debug, PartialEq)]
pub(crate) enum Wrong {
    Refused(Refusal),
    Fault(Fault),
}

impl From<Refusal> for Wrong {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

#[derive(Deserialize)]
struct Envelope {
    method: String,
    #[serde(default)]
    params: Map<String, Value>,
}

#[derive(Deserialize)]
struct ResetParams {
    #[serde(default)]
    protocol: Option<u64>,
    #[serde(default)]
    seed: Option<u64>,
}

#[derive(Deserialize)]
struct StepParams {
    calls: Vec<CallParams>,
    #[serde(default)]
    timeout_secs: Option<f64>,
}

#[derive(Deserialize)]
struct CallParams {
    #[serde(default)]
    id: String,
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// Parses a line.
///
/// # Errors
/// A [`Refusal`], with the id of the request if it could be read.
pub(crate) fn read(line: &[u8]) -> Result<Asked, (Value, Refusal)> {
    let not_json = |why: String| {
        (Value::Null, Refusal::new(-32700, "not-json", format!("{} is not JSON: {why}", shown(line))))
    };
    let text = utf8_text(line).map_err(|error| not_json(error.to_string()))?;
    let value: Value = read_json(&text).map_err(|error| not_json(error.to_string()))?;
    let id = match value.get("id") {
        Some(id @ (Value::Number(_) | Value::String(_))) => id.clone(),
        _ => Value::Null,
    };
    let asked = Envelope::deserialize(value)
        .map_err(|error| {
            let message = format!("{} is no request: {error}", shown(line));
            Refusal::new(-32600, "no-request", message)
        })
        .and_then(request);
    match asked {
        Ok(request) => Ok(Asked { id, request }),
        Err(refusal) => Err((id, refusal)),
    }
}

fn request(envelope: Envelope) -> Result<Request, Refusal> {
    let Envelope { method, params } = envelope;
    match method.as_str() {
        "reset" => {
            let ResetParams { protocol, seed } = shaped(params, "reset")?;
            match protocol {
                None => Ok(Request::Reset { seed }),
                Some(version) if version == u64::from(PROTOCOL) => Ok(Request::Reset { seed }),
                Some(version) => {
                    let message =
                        format!("version {version} of the protocol is asked for, and {PROTOCOL} is spoken");
                    Err(Refusal::new(-32602, "protocol-version", message))
                }
            }
        }
        "step" => {
            let StepParams { calls, timeout_secs } = shaped(params, "step")?;
            if calls.is_empty() {
                return Err(Refusal::new(-32602, "params", "`calls` of `step` is empty"));
            }
            let within = match timeout_secs {
                None => None,
                Some(secs) if secs > 0.0 && secs <= LONGEST => Some(Duration::from_secs_f64(secs)),
                Some(_) => {
                    let message = format!("`timeout_secs` of `step` is a number above 0, up to {LONGEST}");
                    return Err(Refusal::new(-32602, "params", message));
                }
            };
            let call =
                |CallParams { id, name, arguments }| ToolCall { id, name, arguments: arguments.into() };
            Ok(Request::Step { calls: calls.into_iter().map(call).collect(), within })
        }
        "grade" => Ok(Request::Grade),
        "close" => Ok(Request::Close),
        other => {
            let message = format!(
                "there is no method `{}`; there are reset, step, grade and close",
                printable_line(other, SHOWN)
            );
            Err(Refusal::new(-32601, "no-method", message))
        }
    }
}

fn shaped<T: DeserializeOwned>(params: Map<String, Value>, method: &str) -> Result<T, Refusal> {
    T::deserialize(Value::from(params)).map_err(|error| {
        let message = format!(
            "`params` of `{method}` are not what the protocol asks for: {}",
            printable_line(&error.to_string(), SHOWN)
        );
        Refusal::new(-32602, "params", message)
    })
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    match text.trim() {
        "" => "an empty line".to_owned(),
        text => format!("`{}`", printable_line(text, SHOWN)),
    }
}

/// The answer to a request.
pub(crate) fn answer(id: Value, result: Result<Value, Wrong>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(wrong) => json!({ "jsonrpc": "2.0", "id": id, "error": error(&wrong) }),
    }
}

fn error(wrong: &Wrong) -> Value {
    match wrong {
        Wrong::Refused(Refusal { number, kind, message }) => {
            json!({ "code": number, "message": message, "data": { "refused": kind, "retryable": false } })
        }
        Wrong::Fault(fault) => {
            let retryable = fault.retry == Retry::Sound;
            json!({ "code": FAULT, "message": fault.to_string(), "data": { "fault": fault, "retryable": retryable } })
        }
    }
}

/// Result of `reset`.
pub(crate) fn begun(instruction: &str, observation: &Observation, images: Vec<Value>) -> Value {
    json!({
        "protocol": PROTOCOL,
        "instruction": instruction,
        "observation": seen(observation, images),
        "tools": tools(&observation.tools),
    })
}

/// Result of `step`.
pub(crate) fn stepped(result: &StepResult, images: Vec<Value>) -> Value {
    let mut object = Map::new();
    object.insert("observation".to_owned(), seen(&result.observation, images));
    if let Some(end) = &result.end {
        object.insert("done".to_owned(), done(end).into());
    }
    if let Some(reward) = result.process_reward {
        object.insert("reward".to_owned(), reward.into());
    }
    if !result.observation.tools.is_empty() {
        object.insert("tools".to_owned(), tools(&result.observation.tools));
    }
    object.into()
}

/// Result of `grade`.
pub(super) fn graded(grade: &Grade) -> Value {
    #[derive(Serialize)]
    struct Graded<'a> {
        score: f64,
        passed: bool,
        checks: Vec<Value>,
        flags: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        patch: Option<&'a str>,
    }
    let check = |report: &CheckReport| {
        let CheckReport { label, score, weight, message } = report;
        json!({ "name": label, "score": score, "weight": weight, "message": message })
    };
    let graded = Graded {
        score: grade.score,
        passed: grade.passed,
        checks: grade.checks.iter().map(check).collect(),
        flags: &grade.flags,
        patch: grade.patch.as_deref(),
    };
    json!(graded)
}

/// Result of `close`.
pub(crate) fn closed(leftovers: &[String]) -> Value {
    if leftovers.is_empty() { json!({}) } else { json!({ "leftovers": leftovers }) }
}

/// The images of an observation, in order. They are sent inline, because the client has no record to look them up in.
///
/// # Errors
/// A harness [`Fault`] if an image is not stored.
pub(crate) async fn images(observation: &Observation, blobs: &dyn BlobStore) -> Result<Vec<Value>, Fault> {
    let mut images = Vec::new();
    for part in &observation.parts {
        let Part::Image { media_type, sha256 } = part else { continue };
        let blob = BlobRef { media_type: media_type.clone(), sha256: sha256.clone() };
        let bytes = blobs.read(&blob).await.map_err(|error| {
            Fault::permanent(Boundary::Harness, "image-missing", format!("an image cannot be read: {error}"))
        })?;
        images.push(json!({ "media_type": media_type, "base64": STANDARD.encode(&bytes) }));
    }
    Ok(images)
}

fn seen(observation: &Observation, images: Vec<Value>) -> Value {
    let mut object = Map::new();
    object.insert("text".to_owned(), observation.joined_text().into());
    if !images.is_empty() {
        object.insert("images".to_owned(), images.into());
    }
    if let Some(full_text) = &observation.full_text {
        object.insert("full_text".to_owned(), full_text.as_str().into());
    }
    if !observation.facts.is_empty() {
        object.insert("facts".to_owned(), observation.facts.clone().into());
    }
    object.into()
}

fn tools(tools: &[ToolSpec]) -> Value {
    json!(tools)
}

/// The protocol's name of a stop reason.
fn done(end: &StopReason) -> &str {
    match end {
        StopReason::Submitted => "submitted",
        StopReason::Ended(reason) => reason,
        StopReason::MaxTurns => "max_turns",
        StopReason::TimeLimit(_) => "time_limit",
        StopReason::MalformedActions => "malformed_actions",
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::MemoryBlobs;
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, expected: Result<Request, (&str, &str)>) {
        match (read(line.as_bytes()), expected) {
            (Ok(asked), Ok(expected)) => assert_eq!(asked.request, expected, "{line}"),
            (Err((_, refusal)), Err((kind, part))) => {
                assert_eq!(refusal.kind, kind, "{line}");
                assert!(refusal.message.contains(part), "{line}: {}", refusal.message);
            }
            (found, expected) => panic!("{line}: {found:?}, not {expected:?}"),
        }
    }

    #[tokio::test]
    async fn images_are_told_whole() {
        let blobs = MemoryBlobs::default();
        let kept = blobs.keep("image/png", b"picture".to_vec()).await.unwrap();
        let mut observation = Observation::from_text("a page");
        observation.parts.push(kept.into());
        let told = images(&observation, &blobs).await.unwrap();
        let expected =
            json!({ "text": "a page", "images": [{ "media_type": "image/png", "base64": "cGljdHVyZQ==" }] });
        assert_eq!(begun("Look.", &observation, told)["observation"], expected);
        observation.parts.push(BlobRef::of("image/png", b"never kept").into());
        assert_eq!(images(&observation, &blobs).await.unwrap_err().code, "image-missing");
    }

    #[test]
    fn requests_are_understood() {
        let reset = r#"{"jsonrpc":"2.0","id":1,"method":"reset","params":{"protocol":1,"session":"x","task":{"id":"t"},"seed":7}}"#;
        check(reset, Ok(Request::Reset { seed: Some(7) }));
        check(r#"{"id":1,"method":"reset"}"#, Ok(Request::Reset { seed: None }));
        let call = ToolCall::new("bash", json!({ "command": "ls" }));
        let step = r#"{"id":2,"method":"step","params":{"session":"x","seq":1,"calls":[{"id":"","name":"bash","arguments":{"command":"ls"}}]}}"#;
        check(step, Ok(Request::Step { calls: vec![call], within: None }));
        let short = r#"{"id":2,"method":"step","params":{"calls":[{"name":"submit"}],"timeout_secs":0.5}}"#;
        let submit = vec![ToolCall::new("submit", json!({}))];
        check(short, Ok(Request::Step { calls: submit, within: Some(Duration::from_millis(500)) }));
        check(r#"{"id":3,"method":"grade","params":{"answer":null}}"#, Ok(Request::Grade));
        // A truncated character.
        let cut = vec![ToolCall::new("say", json!({ "text": "\u{fffd}" }))];
        let step =
            r#"{"id":2,"method":"step","params":{"calls":[{"name":"say","arguments":{"text":"\ud83d"}}]}}"#;
        check(step, Ok(Request::Step { calls: cut, within: None }));
        check(r#"{"id":4,"method":"close","params":{}}"#, Ok(Request::Close));
    }

    #[test]
    fn m1_what_is_no_request_is_refused_in_words() {
        check("", Err(("not-json", "an empty line is not JSON")));
        check("hello", Err(("not-json", "`hello` is not JSON")));
        check("\u{1b}[2J", Err(("not-json", "\\u{1b}[2J")));
        check("[]", Err(("no-request", "`[]` is no request")));
        check("{}", Err(("no-request", "missing field `method`")));
        check(r#"{"method":"step","params":[1]}"#, Err(("no-request", "is no request")));
        check(r#"{"method":"fly"}"#, Err(("no-method", "there is no method `fly`")));
        check(r#"{"method":"reset","params":{"protocol":2}}"#, Err(("protocol-version", "version 2")));
        check(r#"{"method":"step"}"#, Err(("params", "missing field `calls`")));
        check(r#"{"method":"step","params":{"calls":[]}}"#, Err(("params", "is empty")));
        check(r#"{"method":"step","params":{"calls":[{"name":"a","arguments":3}]}}"#, Err(("params", "map")));
        let never = r#"{"method":"step","params":{"calls":[{"name":"a"}],"timeout_secs":0}}"#;
        check(never, Err(("params", "above 0")));
    }

    #[test]
    fn the_id_is_told_as_far_as_it_was_read() {
        let check = |line: &str, expected: Value| {
            assert_eq!(read(line.as_bytes()).map_or_else(|(id, _)| id, |asked| asked.id), expected, "{line}");
        };
        check(r#"{"id":7,"method":"grade"}"#, json!(7));
        check(r#"{"id":"a","method":"fly"}"#, json!("a"));
        check(r#"{"id":8}"#, json!(8));
        check(r#"{"id":[1],"method":"grade"}"#, Value::Null);
        check("{", Value::Null);
    }

    #[test]
    fn m2_faults_are_told_whole() {
        let fault = Fault::transient(Boundary::Env, "sandbox-lost", "it is gone");
        let answer = answer(json!(3), Err(fault.into()));
        let expected = json!({ "jsonrpc": "2.0", "id": 3, "error": {
            "code": 1, "message": "env fault `sandbox-lost`: it is gone", "data": { "retryable": true, "fault": {
                "boundary": "env", "code": "sandbox-lost", "message": "it is gone", "retry": "sound" } } } });
        assert_eq!(answer, expected);
    }

    proptest! {
        #[test]
        fn m1_nothing_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&line);
        }
    }
}
