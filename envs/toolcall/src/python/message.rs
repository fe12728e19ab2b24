//! What is said to the driver and what it answers: JSON, one document a line.

use serde::{Deserialize, Serialize};

/// To the driver.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Request<'a> {
    Begin { begin: Beginning<'a> },
    Run { id: u64, code: &'a str },
    Interrupt { interrupt: u64 },
}

/// What the episode holds fixed.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Beginning<'a> {
    /// Of `random`.
    pub(super) seed: u64,
    /// `PYTHONHASHSEED` of programs that code starts.
    pub(super) hash_seed: Option<&'a str>,
}

impl Request<'_> {
    /// With its line end.
    pub(super) fn line(&self) -> Vec<u8> {
        // Numbers and strings always have a JSON form.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// The first line of the driver.
#[derive(Debug, Deserialize)]
pub(super) struct Ready {
    /// Major, minor, micro.
    #[serde(rename = "ready")]
    pub(super) version: [u32; 3],
}

/// The answer to [`Request::Run`].
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Reply {
    pub(super) id: u64,
    pub(super) ok: bool,
    /// Representation of the last expression, unless it is None.
    pub(super) result: Option<String>,
    /// Traceback.
    pub(super) error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines() {
        let check = |request: Request<'_>, expected: &str| {
            assert_eq!(String::from_utf8(request.line()).unwrap(), format!("{expected}\n"));
        };
        check(Request::Run { id: 3, code: "a\nb" }, r#"{"id":3,"code":"a\nb"}"#);
        check(Request::Interrupt { interrupt: 3 }, r#"{"interrupt":3}"#);
        let begin = Beginning { seed: u64::MAX, hash_seed: Some("7") };
        check(Request::Begin { begin }, r#"{"begin":{"seed":18446744073709551615,"hash_seed":"7"}}"#);
    }
}
