//! Errors of a user-provided environment, as typed faults.
//!
//! | code | boundary | retried | cause |
//! | --- | --- | --- | --- |
//! | `program-missing` | provider | no | the program does not exist |
//! | `program-ended` | of the operation | yes | it ended before it answered |
//! | `pipe-closed` | of the operation | yes | it closed its standard input or output |
//! | `protocol` | of the operation | yes | its output is not an answer, or not to this request |
//! | `answer-unasked` | of the operation | yes | it answered a request that was never made |
//! | `answer-twice` | of the operation | yes | it answered a request again |
//! | `message-too-large` | of the operation | no | a message is larger than `message_kib` |
//! | `protocol-version` | of the operation | no | it speaks another version |
//! | `env-error` | of the operation | as it reports | it answered with an error |
//! | `server-unreachable`, `connection-lost` | of the operation | yes | the network, or the server's end |
//! | `http-status` | of the operation | 5xx, 408, 429 | the server refuses |
//! | `limit` | of the operation | yes | no answer in time; names the limit |
//!
//! The boundary of an operation is `env`, and `grader` while grading.

use std::time::Duration;

use clawrl_core::{Boundary, Fault, Limit, Retry, printable};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PeerError {
    /// Its time is up. The request may still be answered.
    Late,
    Cancelled,
    Wrong {
        code: &'static str,
        message: String,
        retry: Retry,
    },
    Missing(String),
    Fault(Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) boundary: Boundary,
    pub(crate) limit: Limit,
    pub(crate) length: Duration,
}

impl PeerError {
    /// An error that a fresh environment may avoid.
    pub(crate) fn transient(code: &'static str, message: impl Into<String>) -> Self {
        Self::Wrong { code, message: message.into(), retry: Retry::Sound }
    }

    /// An error that would recur.
    pub(crate) fn permanent(code: &'static str, message: impl Into<String>) -> Self {
        Self::Wrong { code, message: message.into(), retry: Retry::Never }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::transient("protocol", message)
    }

    /// Converts it to a fault of an operation, with the program's standard error. Foreign text is cleaned of control
    /// characters.
    pub(crate) fn fault(self, operation: Operation, errors: Option<String>) -> Fault {
        let mut fault = match self {
            Self::Late => Fault::limit(operation.boundary, operation.limit, operation.length),
            Self::Cancelled => Fault::transient(Boundary::Env, "cancelled", "the attempt was cancelled"),
            Self::Wrong { code, message, retry } => {
                Fault { retry, ..Fault::transient(operation.boundary, code, message) }
            }
            Self::Missing(message) => Fault::permanent(Boundary::Provider, "program-missing", message),
            Self::Fault(fault) => fault,
        };
        // Libraries repeat their input in messages.
        fault.message = printable(&fault.message).into_owned();
        if let Some(errors) = errors.filter(|errors| !errors.trim().is_empty()) {
            fault.message =
                format!("{}; its standard error ends with:\n{}", fault.message, errors.trim_end());
        }
        fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(trouble: PeerError, errors: Option<&str>, expected: &str, retry: Retry) {
        let length = Duration::from_secs(3);
        let operation = Operation { boundary: Boundary::Grader, limit: Limit::Grade, length };
        let fault = trouble.fault(operation, errors.map(str::to_owned));
        assert_eq!((fault.to_string().as_str(), fault.retry), (expected, retry));
    }

    #[test]
    fn faults_are_typed_and_have_the_last_words() {
        let late =
            "grader fault `limit`: no result within 3.0 s; raise `grade_timeout_secs` if it needs longer";
        check(PeerError::Late, Some(" \n"), late, Retry::Sound);
        let told = "grader fault `protocol`: no; its standard error ends with:\nTraceback\n  boom";
        check(PeerError::protocol("no"), Some("Traceback\n  boom\n"), told, Retry::Sound);
        let hostile = "grader fault `protocol`: no \\u{1b}[2J\\r\\0\\u{202e}\nline";
        check(PeerError::protocol("no \u{1b}[2J\r\0\u{202e}\nline"), None, hostile, Retry::Sound);
        let missing = "provider fault `program-missing`: no `x`";
        check(PeerError::Missing("no `x`".to_owned()), None, missing, Retry::Never);
        check(
            PeerError::permanent("protocol-version", "2"),
            None,
            "grader fault `protocol-version`: 2",
            Retry::Never,
        );
    }
}
