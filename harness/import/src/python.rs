//! The Python that reads archives and syntax trees. It runs programs of ours, and nothing of a package.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use clawrl_config::Problem;
use serde_json::Value;

use clawrl_core::read_python_json;

/// Reads the archive of a package; see there.
pub(crate) const PACKAGE: &str = include_str!("package.py");

/// Characters of its errors that are told.
const TOLD: usize = 600;

/// Runs a program. What it printed, line by line.
///
/// # Errors
/// A Python that cannot be started, or that fails.
pub(crate) fn ask(python: &Path, program: &str, request: &Value) -> Result<Vec<Value>, Problem> {
    let help = "name a Python from 3.9 on with `--python`";
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
        // One that ends without reading says why itself.
        let _ = stdin.write_all(request.to_string().as_bytes());
    }
    let output = child.wait_with_output().map_err(unstarted)?;
    let rows: Option<Vec<Value>> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| read_python_json(line).ok()).collect();
    match rows {
        Some(rows) if output.status.success() => Ok(rows),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            let from = said.char_indices().rev().nth(TOLD).map_or(0, |(at, _)| at);
            let message = format!("`{}` failed: {}", python.display(), said[from..].replace('\n', "; "));
            Err(Problem::new(message, help))
        }
    }
}
