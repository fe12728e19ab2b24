//! Derives a score from a verifier's output and files.

use clawrl_core::{Boundary, Fault, RewardSource, VerifierSpec, printable_line};
use clawrl_sandbox::{ExecOutput, Sandbox};
use serde_json::Value;

use super::pytest;
use super::run::OUTPUT_CAP;
use crate::checks::quote;

/// Where a verifier writes its score.
pub(super) const FOLDER: &str = "/logs/verifier";

/// Largest reward file, which should contain one number.
const FILE_CAP: u64 = 64 << 10;

/// Maximum characters shown of a verifier's last output.
const SAID: usize = 400;

/// A score with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VerifierScore {
    pub(super) score: f64,
    /// Its source, in one line.
    pub(super) message: String,
    pub(super) lines: Vec<(bool, String)>,
}

/// Reads the score of a verifier that has ended. Its sandbox must be halted.
pub(super) async fn read_score(
    verifier: &VerifierSpec,
    sandbox: &dyn Sandbox,
    output: &ExecOutput,
) -> Result<VerifierScore, Fault> {
    let code = output.code.unwrap_or(-1);
    match verifier.reward {
        RewardSource::ExitCode => by_exit_code(code).map_or_else(
            || Err(broken(format!("the verifier ended with code {code}, which is not a score"), output)),
            |score| Ok(VerifierScore { score, message: format!("exit code {code}"), lines: Vec::new() }),
        ),
        RewardSource::Pytest => {
            let Some(found) = pytest::summary(&String::from_utf8_lossy(&output.stdout)) else {
                return Err(no_reward("its output lacks a pytest summary", code, output));
            };
            if output.stdout.len() >= OUTPUT_CAP {
                // The last summary counts, and the part that was cut off may contain it.
                let what =
                    format!("the verifier wrote more than {} MiB, so its end was not read", OUTPUT_CAP >> 20);
                return Err(broken(what, output));
            }
            if found.failed == 0 && code >= 126 {
                let what = format!("all reported tests passed, but the verifier ended with code {code}");
                return Err(broken(what, output));
            }
            let score = if found.failed == 0 { 1.0 } else { 0.0 };
            let message = format!("{} passed, {} failed; exit code {code}", found.passed, found.failed);
            Ok(VerifierScore { score, message, lines: found.lines })
        }
        RewardSource::Files => in_files(verifier.reward_key.as_deref(), sandbox, code, output).await,
    }
}

async fn in_files(
    key: Option<&str>,
    sandbox: &dyn Sandbox,
    code: i32,
    output: &ExecOutput,
) -> Result<VerifierScore, Fault> {
    let json = format!("{FOLDER}/reward.json");
    let (name, path, read, shown) = match (sandbox.read(json.clone(), FILE_CAP).await?, key) {
        (Some(bytes), _) => ("reward.json", json, in_json(&bytes, key), quote(&bytes, 100)),
        (None, Some(key)) => {
            let why = format!("it left no reward.json with the score `{key}` in {FOLDER}");
            return Err(no_reward(&why, code, output));
        }
        (None, None) => {
            let text = format!("{FOLDER}/reward.txt");
            let Some(bytes) = sandbox.read(text.clone(), FILE_CAP).await? else {
                let why = format!("it left neither reward.json nor reward.txt in {FOLDER}");
                return Err(no_reward(&why, code, output));
            };
            ("reward.txt", text, in_text(&bytes), quote(&bytes, 100))
        }
    };
    let score = read.map_err(|why| bad_reward(format!("{path} holds {shown}, {why}")))?;
    if !(0.0..=1.0).contains(&score) {
        return Err(bad_reward(format!("{path} contains {score}, which is not from 0 to 1")));
    }
    Ok(VerifierScore { score, message: format!("{name}: {score}; exit code {code}"), lines: Vec::new() })
}

/// 126 and 127 mean that something could not be run, and higher codes are signals: none of these is a score.
fn by_exit_code(code: i32) -> Option<f64> {
    match code {
        0 => Some(1.0),
        1..=125 => Some(0.0),
        _ => None,
    }
}

/// A number, or one in a map: under `key`, otherwise under `reward`, otherwise the only one. The error ends a sentence
/// about the file.
fn in_json(bytes: &[u8], key: Option<&str>) -> Result<f64, String> {
    let no_number = || "which is neither a number nor a map with a number".to_owned();
    let map = match (serde_json::from_slice(bytes), key) {
        (Ok(Value::Object(map)), _) => map,
        (Ok(value), None) => return number(&value).ok_or_else(no_number),
        (_, Some(key)) => return Err(format!("which is not a map with a number `{key}`")),
        (Err(_), None) => return Err(no_number()),
    };
    if let Some(key) = key {
        return map.get(key).and_then(number).ok_or_else(|| format!("which lacks a number `{key}`"));
    }
    if let Some(reward) = map.get("reward") {
        return number(reward).ok_or_else(|| "whose `reward` is not a number".to_owned());
    }
    let numbers: Vec<(&String, f64)> =
        map.iter().filter_map(|(key, value)| Some((key, number(value)?))).collect();
    match numbers.as_slice() {
        [(_, only)] => Ok(*only),
        [] => Err(no_number()),
        [(first, _), ..] => Err(format!(
            "which has several numbers and no `reward`: name the score in the suite, `verifier: {{ \
             reward_key: {first} }}`"
        )),
    }
}

/// Python's booleans count as numbers in rewards, as they do for Harbor.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        _ => None,
    }
}

fn in_text(bytes: &[u8]) -> Result<f64, String> {
    let number = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| "which is not a number".to_owned())
}

fn bad_reward(message: String) -> Fault {
    Fault::permanent(Boundary::Env, "bad-reward", format!("the verifier's {message}"))
}

fn no_reward(why: &str, code: i32, output: &ExecOutput) -> Fault {
    let message = format!("the verifier reported no score: {why}; exit code {code}, {}", said_last(output));
    Fault::permanent(Boundary::Env, "no-reward", message)
}

fn broken(what: String, output: &ExecOutput) -> Fault {
    Fault::permanent(Boundary::Env, "verifier-broken", format!("{what}; {}", said_last(output)))
}

/// The end of a verifier's output and errors.
pub(super) fn said_last(output: &ExecOutput) -> String {
    let end = |stream: &[u8]| {
        let text = String::from_utf8_lossy(stream);
        let text = text.trim_end();
        let skipped = text.chars().count().saturating_sub(SAID);
        let tail: String = text.chars().skip(skipped).collect();
        printable_line(&tail, SAID * 2)
    };
    match (end(&output.stdout), end(&output.stderr)) {
        (output, error) if output.is_empty() && error.is_empty() => "it printed nothing".to_owned(),
        (output, error) if error.is_empty() => format!("its last output: {output}"),
        (output, error) if output.is_empty() => format!("its last output: {error}"),
        (output, error) => format!("its last output: {output}; on standard error: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_read() {
        let check = |text: &str, key: Option<&str>, expected: Result<f64, &str>| {
            let read = in_json(text.as_bytes(), key);
            assert_eq!(read, expected.map_err(str::to_owned), "{text} {key:?}");
        };
        let none = Err("which is neither a number nor a map with a number");
        check("1", None, Ok(1.0));
        check("{\"reward\": 0.25, \"other\": 3}", None, Ok(0.25));
        check("{\"accuracy\": 0.5}", None, Ok(0.5));
        check("{\"accuracy\": 0.5, \"model\": \"m\", \"tests\": [1]}", None, Ok(0.5));
        check("{\"resolved\": true}", None, Ok(1.0));
        check("{\"model\": \"m\"}", None, none);
        check("{}", None, none);
        check("\"1\"", None, none);
        check("", None, none);
        check("{\"reward\": \"1\", \"accuracy\": 1}", None, Err("whose `reward` is not a number"));
        let several = "which has several numbers and no `reward`: name the score in the suite, `verifier: { \
            reward_key: f1 }`";
        check("{\"f1\": 0.5, \"precision\": 1}", None, Err(several));
        check("{\"f1\": 0.5, \"reward\": 1}", Some("f1"), Ok(0.5));
        check("{\"f1\": 0.5}", Some("reward"), Err("which lacks a number `reward`"));
        check("0.5", Some("f1"), Err("which is not a map with a number `f1`"));
    }

    #[test]
    fn numbers_are_read_from_text() {
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(in_text(text.as_bytes()).ok(), expected, "{text}");
        };
        check(" 0.5\n", Some(0.5));
        check("1", Some(1.0));
        check("yes", None);
        check("", None);
    }

    #[test]
    fn exit_codes_without_a_score() {
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
        check("", "", "it printed nothing");
        check("out\n", "", "its last output: out");
        check("out\n", "a\nb\n", "its last output: out; on standard error: a\\nb");
        check("", "trouble\n", "its last output: trouble");
        let long = "x".repeat(10_000);
        let output = ExecOutput { stdout: long.into_bytes(), ..ExecOutput::default() };
        assert_eq!(said_last(&output).len(), "its last output: ".len() + SAID);
    }
}
