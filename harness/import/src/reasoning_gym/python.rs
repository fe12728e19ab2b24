//! Runs the Python that has the library (R1).

use std::path::Path;

use clawrl_config::Problem;
use clawrl_core::read_python_json;
use serde_json::Value;

use crate::python::{last_errors, run};

const PROGRAM: &str = include_str!("program.py");

/// Runs the program, and returns the objects that it printed, one per line.
///
/// # Errors
/// Python cannot be started, lacks the library, or fails.
pub(super) fn ask(python: &Path, request: &Value) -> Result<Vec<Value>, Problem> {
    let help = "name a Python that has reasoning-gym: `--python .venv/bin/python`";
    let output = run(python, PROGRAM, request, help)?;
    let rows: Option<Vec<Value>> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| read_python_json(line).ok())
        .collect();
    let (shown, rows) = (python.display(), rows.unwrap_or_default());
    if let Some(missing) = rows.first().and_then(|row| row["missing"].as_str()) {
        let message = format!("`{shown}` has no package reasoning-gym: {missing}");
        let help = "install it with `pip install reasoning-gym`, or name another Python with `--python`";
        return Err(Problem::new(message, help));
    }
    if !output.status.success() || rows.is_empty() {
        let message = format!("`{shown}` failed to generate the entries: {}", last_errors(&output));
        return Err(Problem::new(message, help));
    }
    Ok(rows)
}
