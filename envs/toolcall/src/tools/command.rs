//! Programs in the sandbox, without a shell.
//!
//! The text of a result is standard output, then standard error below `[stderr]`, then the line `[exit N]`.

use std::collections::BTreeMap;

use clawrl_core::{Fault, fill_command, fill_text};
use clawrl_sandbox::{ExecError, ExecOutput, ExecSpec, NotRun, Sandbox, SandboxCommand};
use serde_json::{Map, Value};

use crate::result::{CallResult, CallTimeout, Outcome};

/// Maximum bytes of each stream that are kept; the rest is read and discarded.
const OUTPUT_BYTES: usize = 512 * 1024;

/// Maximum bytes of program and arguments, as JSON: fits into a request to the launcher with room to spare.
const COMMAND_BYTES: usize = 64 * 1024;

/// A command with the arguments of a call filled in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandCall {
    argv: Vec<String>,
    input: Vec<u8>,
}

/// Fills in the arguments of a call.
///
/// # Errors
/// Why the result is not a command, for the policy.
pub(crate) fn command_call(
    argv: &[String],
    stdin: Option<&str>,
    arguments: &Map<String, Value>,
) -> Result<CommandCall, String> {
    let argv = fill_command(argv, arguments).map_err(|error| error.to_string())?;
    let input = stdin
        .map_or(Ok(String::new()), |text| fill_text(text, arguments))
        .map_err(|error| error.to_string())?;
    if argv.first().is_none_or(String::is_empty) {
        return Err("the arguments leave no program to run".to_owned());
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err("an argument of a program cannot hold the character NUL".to_owned());
    }
    if Value::from(argv.clone()).to_string().len() > COMMAND_BYTES {
        return Err(format!("the arguments are longer than {} KiB", COMMAND_BYTES >> 10));
    }
    Ok(CommandCall { argv, input: input.into_bytes() })
}

/// Runs it until it ends or reaches its limit.
///
/// # Errors
/// A [`Fault`] when the machine failed; a program that cannot be run is a result.
pub(crate) async fn run_command(
    sandbox: &dyn Sandbox,
    call: CommandCall,
    environment: BTreeMap<String, String>,
    allowance: CallTimeout,
) -> Result<CallResult, Fault> {
    let mut argv = call.argv.into_iter();
    let command =
        SandboxCommand { program: argv.next().unwrap_or_default(), arguments: argv.collect(), environment };
    let exec = ExecSpec {
        command,
        input: call.input,
        output_cap: OUTPUT_BYTES,
        deadline: allowance.until,
        user: None,
    };
    match sandbox.exec(exec).await {
        Ok(output) => Ok(call_result(&output, allowance)),
        Err(ExecError::Fault(fault)) => Err(fault),
        // The agent may have caused this: no room for a process, its folder removed, the sandbox ended.
        Err(ExecError::NotRun { obstacle, message }) => {
            sandbox.lost().await.map_or(Ok(()), Err)?;
            Ok(CallResult::failed(match obstacle {
                NotRun::Program => format!("the program cannot be run: {message}"),
                NotRun::Folder | NotRun::Launcher => {
                    format!("the sandbox cannot run programs any more: {message}")
                }
            }))
        }
    }
}

fn call_result(output: &ExecOutput, allowance: CallTimeout) -> CallResult {
    let (mut text, mut cuts) = (String::new(), Vec::new());
    for (title, stream) in [("", &output.stdout), ("[stderr]\n", &output.stderr)] {
        if stream.is_empty() {
            continue;
        }
        text.push_str(title);
        text.push_str(&String::from_utf8_lossy(stream));
        // A killed program may have been about to write the rest.
        if stream.len() >= OUTPUT_BYTES || output.code.is_none() {
            cuts.push(text.len());
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    match output.code {
        Some(code) => {
            text.push_str(&format!("[exit {code}]"));
            CallResult { outcome: Outcome::Done, text, cuts, exit_code: Some(code) }
        }
        None => {
            text.push_str(&format!("[killed {}]", allowance.when()));
            CallResult { outcome: Outcome::TimedOut, text, cuts, exit_code: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_stay_arguments() {
        let check = |argv: &[&str], arguments: Value, expected: Result<&[&str], &str>| {
            let argv: Vec<String> = argv.iter().map(|&text| text.to_owned()).collect();
            let found = command_call(&argv, Some("<{a}>"), arguments.as_object().unwrap());
            let found = found.map(|call| call.argv);
            assert_eq!(
                found,
                expected.map(|argv| argv.iter().map(|&text| text.into()).collect()).map_err(str::to_owned)
            );
        };
        check(&["echo", "{a}"], json!({"a": "; rm -rf $HOME"}), Ok(&["echo", "; rm -rf $HOME"]));
        check(&["{a}"], json!({}), Err("the arguments leave no program to run"));
        check(
            &["echo", "{a}"],
            json!({"a": "\0"}),
            Err("an argument of a program cannot hold the character NUL"),
        );
        check(
            &["echo", "{a}"],
            json!({"a": "x".repeat(70_000)}),
            Err("the arguments are longer than 64 KiB"),
        );
    }

    #[test]
    fn result_has_both_streams_and_exit_code() {
        let check = |code: Option<i32>, stdout: &str, stderr: &str, expected: &str| {
            let output =
                ExecOutput { code, stdout: stdout.into(), stderr: stderr.into(), ..ExecOutput::default() };
            let allowance = CallTimeout { until: Instant::now(), own: Some(Duration::from_millis(1500)) };
            assert_eq!(call_result(&output, allowance).text, expected);
        };
        check(Some(0), "a\n", "", "a\n[exit 0]");
        check(Some(3), "a", "b", "a\n[stderr]\nb\n[exit 3]");
        check(Some(0), "", "", "[exit 0]");
        check(None, "a", "", "a\n[killed after 1.5 s]");
    }
}
