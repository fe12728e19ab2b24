//! Runs our own programs in the user's Python, and no code of a package.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use clawrl_config::Problem;
use clawrl_core::read_python_json;
use serde_json::Value;

/// Reads the archive of a package; see the script.
pub(crate) const PACKAGE: &str = include_str!("package.py");

/// Characters of its standard error that a message shows.
const MAX_ERROR_CHARS: usize = 600;

/// Runs a program of the standard library, and returns the JSON values that it printed, one per line.
///
/// # Errors
/// Python cannot be started, or fails.
pub(crate) fn ask(python: &Path, program: &str, request: &Value) -> Result<Vec<Value>, Problem> {
    let help = "name a Python from 3.9 on with `--python`";
    let output = run(python, program, request, help)?;
    let rows: Option<Vec<Value>> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| read_python_json(line).ok()).collect();
    match rows {
        Some(rows) if output.status.success() => Ok(rows),
        _ => {
            let message = format!("`{}` failed: {}", python.display(), last_errors(&output));
            Err(Problem::new(message, help))
        }
    }
}

/// Runs a program to its end. `request` is its standard input.
///
/// # Errors
/// Python cannot be started, with this help.
pub(crate) fn run(python: &Path, program: &str, request: &Value, help: &str) -> Result<Output, Problem> {
    let unstarted = |cause: std::io::Error| {
        Problem::new(format!("`{}` cannot be started: {}", python.display(), cause.kind()), help)
    };
    let mut child = Command::new(python)
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(unstarted)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading explains itself on standard error.
        let _ = stdin.write_all(request.to_string().as_bytes());
    }
    child.wait_with_output().map_err(unstarted)
}

/// The end of the standard error, on one line.
pub(crate) fn last_errors(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    let errors = errors.trim();
    let from = errors.char_indices().rev().nth(MAX_ERROR_CHARS).map_or(0, |(at, _)| at);
    errors[from..].replace('\n', "; ")
}
