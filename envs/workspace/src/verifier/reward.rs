//! From what a verifier left to a score.

use clawrl_core::{Boundary, Fault, RewardSource, printable_line};
use clawrl_sandbox::{ExecOutput, Sandbox};
use serde_json::Value;

use super::pytest;
use super::run::OUTPUT_CAP;
use crate::checks::quote;

/// Where a verifier tells its score.
pub(super) const FOLDER: &str = "/logs/verifier";

/// Largest reward file; a number is all it is for.
const FILE_CAP: u64 = 64 << 10;

/// Characters shown of what a verifier said last.
const SAID: usize = 400;

/// A score with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) score: f64,
    /// Where it comes from, in a line.
    pub(super) message: String,
    /// Results of single tests.
    pub(super) lines: Vec<(bool, String)>,
}

/// Reads the score of a verifier that ended. Its sandbox must be halted.
pub(super) async fn told(
    source: RewardSource,
    sandbox: &dyn Sandbox,
    output: &ExecOutput,
) -> Result<Verdict, Fault> {
    let code = output.code.unwrap_or(-1);
    match source {
        RewardSource::ExitCode => by_exit_code(code).map_or_else(
            || Err(broken(format!("the verifier ended with code {code}, which tells no score"), output)),
            |score| Ok(Verdict { score, message: format!("exit code {code}"), lines: Vec::new() }),
        ),
        RewardSource::Pytest => {
            let Some(found) = pytest::summary(&String::from_utf8_lossy(&output.stdout)) else {
                return Err(no_reward("its output has no summary of pytest", code, output));
            };
            if output.stdout.len() >= OUTPUT_CAP {
                // The last summary counts, and what was cut off may hold it.
                let what =
                    format!("the verifier wrote more than {} MiB, so its end was not read", OUTPUT_CAP >> 20);
                return Err(broken(what, output));
            }
            if found.failed == 0 && code >= 126 {
                let what =
                    format!("all tests passed that the verifier tells of, but it ended with code {code}");
                return Err(broken(what, output));
            }
            let score = if found.failed == 0 { 1.0 } else { 0.0 };
            let message = format!("{} passed, {} failed; exit code {code}", found.passed, found.failed);
            Ok(Verdict { score, message, lines: found.lines })
        }
        RewardSource::Files => {
            for (name, parse) in [("reward.json", in_json as Parse), ("reward.txt", in_text as Parse)] {
                let path = format!("{FOLDER}/{name}");
                let Some(bytes) = sandbox.read(path.clone(), FILE_CAP).await? else { continue };
                let shown = quote(&bytes, 100);
                let score = parse(&bytes).ok_or_else(|| {
                    bad_reward(format!(
                        "{path} holds {shown}, which is no number and no map with a number `reward`"
                    ))
                })?;
                if !(0.0..=1.0).contains(&score) {
                    return Err(bad_reward(format!("{path} says {score}, which is not from 0 to 1")));
                }
                return Ok(Verdict {
                    score,
                    message: format!("{name}: {score}; exit code {code}"),
                    lines: Vec::new(),
                });
            }
            Err(no_reward(&format!("it left neither reward.json nor reward.txt in {FOLDER}"), code, output))
        }
    }
}

type Parse = fn(&[u8]) -> Option<f64>;

/// 126 and 127 say that something could not be run, and above is a signal: none of these is a verdict.
fn by_exit_code(code: i32) -> Option<f64> {
    match code {
        0 => Some(1.0),
        1..=125 => Some(0.0),
        _ => None,
    }
}

fn in_json(bytes: &[u8]) -> Option<f64> {
    match serde_json::from_slice(bytes).ok()? {
        Value::Number(number) => number.as_f64(),
        Value::Object(map) => map.get("reward")?.as_f64(),
        _ => None,
    }
}

fn in_text(bytes: &[u8]) -> Option<f64> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

fn bad_reward(message: String) -> Fault {
    Fault::permanent(Boundary::Env, "bad-reward", format!("the verifier's {message}"))
}

fn no_reward(why: &str, code: i32, output: &ExecOutput) -> Fault {
    let message = format!("the verifier told no score: {why}; exit code {code}, {}", said_last(output));
    Fault::permanent(Boundary::Env, "no-reward", message)
}

fn broken(what: String, output: &ExecOutput) -> Fault {
    Fault::permanent(Boundary::Env, "verifier-broken", format!("{what}; {}", said_last(output)))
}

/// The end of what a verifier said, of output and of error.
pub(super) fn said_last(output: &ExecOutput) -> String {
    let end = |stream: &[u8]| {
        let text = String::from_utf8_lossy(stream);
        let text = text.trim_end();
        let skipped = text.chars().count().saturating_sub(SAID);
        let tail: String = text.chars().skip(skipped).collect();
        printable_line(&tail, SAID * 2)
    };
    match (end(&output.stdout), end(&output.stderr)) {
        (output, error) if output.is_empty() && error.is_empty() => "it said nothing".to_owned(),
        (output, error) if error.is_empty() => format!("it said last: {output}"),
        (output, error) if output.is_empty() => format!("it said last: {error}"),
        (output, error) => format!("it said last: {output}; and on standard error: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_read() {
        let check = |parse: Parse, text: &str, expected: Option<f64>| {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        };
        check(in_json, "1", Some(1.0));
        check(in_json, "{\"reward\": 0.25, \"other\": 3}", Some(0.25));
        check(in_json, "{\"accuracy\": 1}", None);
        check(in_json, "\"1\"", None);
        check(in_json, "", None);
        check(in_text, " 0.5\n", Some(0.5));
        check(in_text, "1", Some(1.0));
        check(in_text, "yes", None);
        check(in_text, "", None);
    }

    #[test]
    fn exit_codes_that_are_no_verdict() {
        let check = |code: i32, expected: Option<f64>| assert_eq!(by_exit_code(code), expected, "{code}");
        check(0, Some(1.0));
        check(1, Some(0.0));
        check(125, Some(0.0));
        check(126, None);
        check(127, None);
        check(137, None);
        check(-1, None);
    }

    #[test]
    fn the_end_of_both_streams_is_shown() {
        let check = |stdout: &str, stderr: &str, expected: &str| {
            let output = ExecOutput { stdout: stdout.into(), stderr: stderr.into(), ..ExecOutput::default() };
            assert_eq!(said_last(&output), expected);
        };
        check("", "", "it said nothing");
        check("out\n", "", "it said last: out");
        check("out\n", "a\nb\n", "it said last: out; and on standard error: a\\nb");
        check("", "trouble\n", "it said last: trouble");
        let long = "x".repeat(10_000);
        let output = ExecOutput { stdout: long.into_bytes(), ..ExecOutput::default() };
        assert_eq!(said_last(&output).len(), "it said last: ".len() + SAID);
    }
}
