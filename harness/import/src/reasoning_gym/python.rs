//! The Python that has the library (R1).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use clawrl_config::Problem;
use serde_json::Value;

use clawrl_core::read_python_json;

const PROGRAM: &str = include_str!("program.py");

/// Characters of its errors that are told.
const TOLD: usize = 600;

/// Runs the program. What it printed, line by line.
///
/// # Errors
/// A Python that cannot be started, that lacks the library, or that fails.
pub(super) fn ask(python: &Path, request: &Value) -> Result<Vec<Value>, Problem> {
    let shown = python.display();
    let unstarted = |cause: std::io::Error| {
        let message = format!("`{shown}` cannot be started: {}", cause.kind());
        Problem::new(message, "name a Python that has reasoning-gym: `--python .venv/bin/python`")
    };
    let mut child = Command::new(python)
        .args(["-c", PROGRAM])
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
    let rows: Option<Vec<Value>> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| read_python_json(line).ok())
        .collect();
    let rows = rows.unwrap_or_default();
    if let Some(missing) = rows.first().and_then(|row| row["missing"].as_str()) {
        let message = format!("`{shown}` has no reasoning-gym: {missing}");
        let help =
            "install it there with `pip install reasoning-gym`, or name another Python with `--python`";
        return Err(Problem::new(message, help));
    }
    if !output.status.success() || rows.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let from = said.char_indices().rev().nth(TOLD).map_or(0, |(at, _)| at);
        let message = format!("`{shown}` failed to make the entries: {}", said[from..].replace('\n', "; "));
        return Err(Problem::new(message, "name a Python 3 that has reasoning-gym with `--python`"));
    }
    Ok(rows)
}
