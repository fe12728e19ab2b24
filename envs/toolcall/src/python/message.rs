//! Messages to and from the driver: JSON, one document per line.

use serde::{Deserialize, Serialize};

/// A request to the driver.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Request<'a> {
    Begin { begin: EpisodeConfig<'a> },
    Run { id: u64, code: &'a str },
    Interrupt { interrupt: u64 },
}

/// Values held fixed during the episode.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct EpisodeConfig<'a> {
    /// Seed of `random`.
    pub(super) seed: u64,
    /// `PYTHONHASHSEED` of programs that the code starts.
    pub(super) hash_seed: Option<&'a str>,
}

impl Request<'_> {
    /// With a final newline.
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
    /// `repr` of the last expression, unless it is None.
    pub(super) result: Option<OutputText>,
    pub(super) error: Option<OutputText>,
}

/// A text produced by code.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum OutputText {
    Whole(String),
    /// The beginning, the number of characters left out, and the end.
    Shortened(String, u64, String),
}

impl OutputText {
    /// Appends it, and records where something was cut off.
    pub(super) fn append_to(&self, text: &mut String, cuts: &mut Vec<usize>) {
        match self {
            Self::Whole(all) => text.push_str(all.trim_end_matches('\n')),
            Self::Shortened(head, left_out, tail) => {
                text.push_str(head);
                cuts.push(text.len());
                text.push_str(&format!("\n[... {left_out} characters left out ...]\n"));
                cuts.push(text.len());
                text.push_str(tail.trim_end_matches('\n'));
            }
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_output_records_its_cuts() {
        let check = |said: &str, expected: &str, at: &[usize]| {
            let (mut text, mut cuts) = ("> ".to_owned(), Vec::new());
            serde_json::from_str::<OutputText>(said).unwrap().append_to(&mut text, &mut cuts);
            assert_eq!((text.as_str(), cuts.as_slice()), (expected, at));
        };
        check(r#""a\n""#, "> a\n", &[]);
        check(r#"["ab",7,"yz\n"]"#, "> ab\n[... 7 characters left out ...]\nyz\n", &[4, 37]);
    }

    #[test]
    fn requests_are_lines() {
        let check = |request: Request<'_>, expected: &str| {
            assert_eq!(String::from_utf8(request.line()).unwrap(), format!("{expected}\n"));
        };
        check(Request::Run { id: 3, code: "a\nb" }, r#"{"id":3,"code":"a\nb"}"#);
        check(Request::Interrupt { interrupt: 3 }, r#"{"interrupt":3}"#);
        let begin = EpisodeConfig { seed: u64::MAX, hash_seed: Some("7") };
        check(Request::Begin { begin }, r#"{"begin":{"seed":18446744073709551615,"hash_seed":"7"}}"#);
    }
}
