//! The messages of the protocol, version 1: JSON-RPC 2.0, one request at a time.
//!
//! M1. Input is bounded before it is parsed, and nested no deeper than serde_json allows (128).
//! M2. Every accepted number is finite.
//! M3. Missing values and wrong types are never guessed, but unknown keys are ignored, so that a later version can have
//! more.

use clawrl_core::{ToolCall, printable_line, read_json, utf8_text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::peer_error::PeerError;

/// The protocol version.
pub const PROTOCOL: u32 = 1;

/// Maximum characters of a wrong message that are repeated.
const SHOWN: usize = 200;

/// Maximum characters that are repeated of an environment's own texts.
pub(crate) const SAID: usize = 1_000;

/// Maximum characters that are repeated of a name.
pub(crate) const NAME: usize = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Reset,
    Step,
    Grade,
    Close,
}

impl Method {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Step => "step",
            Self::Grade => "grade",
            Self::Close => "close",
        }
    }
}

/// A request, as text without a final newline.
pub(crate) fn request(id: u64, method: Method, params: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'static str,
        id: u64,
        method: &'static str,
        params: &'a P,
    }
    // Strings, numbers and JSON values: serialisation cannot fail.
    serde_json::to_string(&Request { jsonrpc: "2.0", id, method: method.name(), params }).unwrap_or_default()
}

/// Parameters of `reset`.
#[derive(Debug, Serialize)]
pub(crate) struct ResetParams<'a> {
    pub(crate) protocol: u32,
    pub(crate) session: &'a str,
    pub(crate) task: TaskParams<'a>,
    /// Below 2^53, which every JSON reader preserves.
    pub(crate) seed: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskParams<'a> {
    pub(crate) id: &'a str,
    pub(crate) instruction: &'a str,
    pub(crate) config: &'a Value,
}

/// Parameters of `step`.
#[derive(Debug, Serialize)]
pub(crate) struct StepParams<'a> {
    pub(crate) session: &'a str,
    pub(crate) seq: u32,
    pub(crate) calls: Vec<CallParams<'a>>,
}

/// A call. It has an id even if the policy gave none.
#[derive(Debug, Serialize)]
pub(crate) struct CallParams<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a Value,
}

impl<'a> From<&'a ToolCall> for CallParams<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self { id: &call.id, name: &call.name, arguments: &call.arguments }
    }
}

/// Parameters of `grade`.
#[derive(Debug, Serialize)]
pub(crate) struct GradeParams<'a> {
    pub(crate) session: &'a str,
    pub(crate) answer: Option<&'a str>,
}

/// Parameters of `close`.
#[derive(Debug, Serialize)]
pub(crate) struct CloseParams<'a> {
    pub(crate) session: &'a str,
}

/// Result of `reset`.
#[derive(Debug, Deserialize)]
pub(crate) struct ResetAnswer {
    pub(crate) observation: TextAnswer,
    #[serde(default)]
    pub(crate) tools: Vec<ToolAnswer>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct TextAnswer {
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) full_text: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ToolAnswer {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) parameters: Option<Value>,
    #[serde(default)]
    pub(crate) text_argument: Option<String>,
}

/// Result of `step`.
#[derive(Debug, Deserialize)]
pub(crate) struct StepAnswer {
    pub(crate) observation: TextAnswer,
    #[serde(default)]
    pub(crate) done: Option<DoneAnswer>,
    #[serde(default)]
    pub(crate) reward: Option<f64>,
    /// Present if they changed.
    #[serde(default)]
    pub(crate) tools: Vec<ToolAnswer>,
}

/// Whether the episode is over, and why.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum DoneAnswer {
    Plain(bool),
    Reason(String),
}

/// Result of `grade`.
#[derive(Debug, Deserialize)]
pub(crate) struct GradeAnswer {
    pub(crate) score: f64,
    #[serde(default)]
    pub(crate) checks: Vec<CheckAnswer>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CheckAnswer {
    pub(crate) name: String,
    pub(crate) score: f64,
    #[serde(default)]
    pub(crate) message: String,
}

/// A message whose result is not parsed yet.
#[derive(Debug, Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<ErrorObject>,
}

#[derive(Debug, Deserialize)]
struct ErrorObject {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Value,
}

/// The request that a message answers, and the answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) id: AnswerId,
    pub(crate) result: Result<Value, PeerError>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnswerId {
    Number(u64),
    /// For an error of a server that could not read the request's id.
    Null,
    /// Any other value, as written, for messages.
    Other(String),
}

/// Parses JSON, with U+FFFD in place of unpaired surrogates.
///
/// # Errors
/// Why it is invalid.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = utf8_text(bytes).map_err(|error| error.to_string())?;
    read_json(&text).map_err(|error| error.to_string())
}

/// Parses an answer.
///
/// # Errors
/// [`PeerError`] for anything else.
pub(crate) fn read(bytes: &[u8], method: Method) -> Result<Answer, PeerError> {
    let name = method.name();
    let envelope: Envelope = json(bytes).map_err(|why| {
        PeerError::protocol(format!("instead of an answer to `{name}` came {} ({why})", shown(bytes)))
    })?;
    let result = match (envelope.result, envelope.error) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(said(&error, name)),
        _ => {
            let message =
                format!("an answer has one of `result` and `error`, but this one is {}", shown(bytes));
            return Err(PeerError::protocol(message));
        }
    };
    let id = match &envelope.id {
        Value::Null if result.is_err() => AnswerId::Null,
        id => id
            .as_u64()
            .map_or_else(|| AnswerId::Other(printable_line(&id.to_string(), NAME)), AnswerId::Number),
    };
    Ok(Answer { id, result })
}

fn said(error: &ErrorObject, method: &str) -> PeerError {
    let message = format!(
        "`{method}` was answered with error {}: {}",
        error.code,
        printable_line(&error.message, SAID)
    );
    match error.data.get("retryable").and_then(Value::as_bool) {
        Some(true) => PeerError::transient("env-error", message),
        _ => PeerError::permanent("env-error", message),
    }
}

/// The result of a method, which must have its shape.
///
/// # Errors
/// [`PeerError`] that names what is missing.
pub(crate) fn shaped<T: DeserializeOwned>(result: Value, method: Method) -> Result<T, PeerError> {
    T::deserialize(result).map_err(|error| {
        PeerError::protocol(format!("the result of `{}` violates the protocol: {error}", method.name()))
    })
}

/// The version is checked first: in another one, nothing else is defined.
///
/// # Errors
/// [`PeerError`] for another version, and for none.
pub(crate) fn same_version(result: &Value) -> Result<(), PeerError> {
    match result.get("protocol").and_then(Value::as_u64) {
        Some(version) if version == u64::from(PROTOCOL) => Ok(()),
        Some(version) => {
            let message = format!(
                "the environment speaks protocol version {version}, but this program speaks version {PROTOCOL}"
            );
            Err(PeerError::permanent("protocol-version", message))
        }
        None => {
            let message = format!("the answer to `reset` does not say `\"protocol\": {PROTOCOL}`");
            Err(PeerError::permanent("protocol-version", message))
        }
    }
}

/// A wrong message, shortened.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.trim() {
        "" => "an empty line".to_owned(),
        text => format!("`{}`", printable_line(text, SHOWN)),
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::Retry;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match read(text.as_bytes(), Method::Step) {
            Ok(Answer { id, result: Ok(result) }) => format!("{id:?} {result}"),
            Ok(Answer { id, result: Err(PeerError::Wrong { code, message, retry }) }) => {
                format!("{id:?} {code} {retry:?} {message}")
            }
            Err(PeerError::Wrong { code, message, .. }) => format!("{code} {message}"),
            other => format!("{other:?}"),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn an_answer_is_a_result_or_an_error() {
        check(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, "Number(3) {}");
        check(r#"{"id":"3","result":1}"#, r#"Other("\"3\"") 1"#);
        check(r#"{"id":3,"result":"\ud83d"}"#, "Number(3) \"\u{fffd}\"");
        let error = r#"{"id":3,"error":{"code":-32602,"message":"no such level"}}"#;
        check(error, "Number(3) env-error Never `step` was answered with error -32602: no such level");
        let busy = r#"{"id":null,"error":{"code":1,"message":"busy","data":{"retryable":true}}}"#;
        check(busy, "Null env-error Sound `step` was answered with error 1: busy");
    }

    #[test]
    fn invalid_answer_is_quoted_in_part() {
        let one_of = "protocol an answer has one of `result` and `error`, but this one is";
        check(r#"{"id":3}"#, &format!("{one_of} `{{\"id\":3}}`"));
        let garbage =
            "protocol instead of an answer to `step` came `hello` (expected value at line 1 column 1)";
        check("hello", garbage);
        let nothing = "protocol instead of an answer to `step` came an empty line (EOF while parsing a value at line 1 column 0)";
        check("", nothing);
        let long = "x".repeat(1_000);
        let shown = format!("instead of an answer to `step` came `{}…`", "x".repeat(SHOWN - 1));
        assert!(matches!(read(long.as_bytes(), Method::Step),
            Err(PeerError::Wrong { message, .. }) if message.starts_with(&shown)));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(format!(r#"{{"id":1,"result":{deep}}}"#).as_bytes(), Method::Step).is_err());
    }

    #[test]
    fn versions_are_compared() {
        assert_eq!(same_version(&json!({ "protocol": 1 })), Ok(()));
        for result in [json!({}), json!({ "protocol": 2 }), json!({ "protocol": "1" }), json!(7)] {
            let wrong = same_version(&result);
            assert!(matches!(
                wrong,
                Err(PeerError::Wrong { code: "protocol-version", retry: Retry::Never, .. })
            ));
        }
    }

    proptest! {
        #[test]
        fn m3_nothing_panics(text in ".{0,200}", id in any::<u64>()) {
            let _ = read(text.as_bytes(), Method::Reset);
            let answer = read(json!({ "id": id, "result": text }).to_string().as_bytes(), Method::Grade);
            prop_assert_eq!(answer.ok().map(|answer| answer.id), Some(AnswerId::Number(id)));
        }
    }
}
