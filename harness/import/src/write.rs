//! Writes drafts into a suite's folder.
//!
//! I1. The folder appears whole, or not at all: it is written beside its place, read back as a suite, and moved. I2.
//! Nothing is overwritten unless the user asks for it, and then only a suite that was imported.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use clawrl_config::{ConfigError, Node, NodeValue, Problem, load_suite, yaml_text};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use serde_json::Value;

use crate::draft::{Fixture, FixtureSource, TaskRecord};

/// The record of an import, beside the suite.
pub(crate) const RECORD: &str = "import.json";
const SUITE: &str = "suite.yaml";

/// A suite that is ready to be written.
#[derive(Debug)]
pub(crate) struct SuiteDraft {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The format's name on the command line.
    pub(crate) from: &'static str,
    /// The head of the suite.
    pub(crate) head: Vec<(&'static str, Node)>,
    pub(crate) tasks: Vec<Node>,
    pub(crate) fixtures: Vec<Fixture>,
    /// The record's entries for the tasks, or for the files that they came from.
    pub(crate) records: Vec<Origin>,
    /// Links to root file systems: paths in the suite's folder, with their targets.
    pub(crate) links: Vec<(String, PathBuf)>,
}

#[derive(Serialize)]
struct Record<'a> {
    format: u32,
    from: &'a str,
    tasks: &'a [Origin],
}

/// The origin of tasks.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Origin {
    /// A folder, which is one task.
    Folder(TaskRecord),
    /// Rows of a file or of a category.
    Rows(Value),
}

/// Writes the suite, and returns the path of its file.
///
/// # Errors
/// `output` exists and must not be replaced, the folder cannot be written, or the suite does not load.
pub(crate) fn write(suite: &SuiteDraft, output: &Path, force: bool) -> Result<PathBuf, ConfigError> {
    refuse_what_is_there(output, force)?;
    let above = match output.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    let unwritable = |cause: io::Error| {
        let message = format!("`{}` cannot be written: {}", output.display(), cause);
        Problem::new(message, "choose another folder with `--output`, or make this one writable")
    };
    fs::create_dir_all(above).map_err(unwritable)?;
    let beside = tempfile::Builder::new().prefix(".import-").tempdir_in(above).map_err(unwritable)?;
    let folder = beside.path().join("suite");
    fill(suite, &folder).map_err(unwritable)?;
    load_suite(&folder.join(SUITE)).map_err(|error| of_made(&error, suite))?;
    put(&folder, output).map_err(unwritable)?;
    Ok(output.join(SUITE))
}

/// A problem of the new suite. Its file no longer exists when the user reads this, so the message quotes the line and
/// not the place.
fn of_made(error: &ConfigError, suite: &SuiteDraft) -> ConfigError {
    const MOST: usize = 100;
    let text = suite_text(suite);
    let quoted = |problem: &Problem| {
        let line = problem.location().and_then(|(_, line, _)| text.lines().nth(line.checked_sub(1)?));
        let line = line.map(|line| format!(", at `{}`", line.trim().chars().take(MOST).collect::<String>()));
        let message = format!(
            "the imported suite would not be valid{}: {}",
            line.unwrap_or_default(),
            problem.message()
        );
        Problem::new(message, format!("{}, in what is imported", problem.help_text()))
    };
    ConfigError::from_problems(error.problems().iter().map(quoted).collect()).unwrap_or_else(|| error.clone())
}

fn refuse_what_is_there(output: &Path, force: bool) -> Result<(), Problem> {
    let Ok(metadata) = fs::symlink_metadata(output) else { return Ok(()) };
    let imported = metadata.is_dir() && output.join(RECORD).is_file() && output.join(SUITE).is_file();
    match (force, imported) {
        (true, true) => Ok(()),
        (false, true) => {
            let message = format!("there is already an imported suite at `{}`", output.display());
            Err(Problem::new(message, "choose another folder with `--output`, or replace it with `--force`"))
        }
        _ => {
            let message = format!("`{}` exists, but is not an imported suite", output.display());
            Err(Problem::new(message, "choose another folder with `--output`, or remove it"))
        }
    }
}

fn fill(suite: &SuiteDraft, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for fixture in &suite.fixtures {
        lay(fixture, folder)?;
    }
    for (path, target) in &suite.links {
        let path = folder.join(path);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        symlink(target, path)?;
    }
    fs::write(folder.join(SUITE), suite_text(suite))?;
    let record = Record { format: 1, from: suite.from, tasks: &suite.records };
    fs::write(folder.join(RECORD), serde_json::to_string_pretty(&record)? + "\n")
}

fn lay(fixture: &Fixture, folder: &Path) -> io::Result<()> {
    let path = folder.join(&fixture.path);
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    match &fixture.content {
        FixtureSource::File(from) => {
            fs::copy(from, &path)?;
        }
        FixtureSource::Bytes(bytes) => fs::write(&path, bytes)?,
        // A link has no mode of its own.
        FixtureSource::Link(target) => return symlink(target, &path),
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(fixture.mode | 0o400))
}

/// The text of the suite's file.
fn suite_text(suite: &SuiteDraft) -> String {
    let mut entries = vec![
        ("format", NodeValue::Integer(1).into()),
        ("suite", suite.name.as_str().into()),
        ("description", suite.description.as_str().into()),
    ];
    entries.extend(suite.head.iter().map(|(key, node)| (*key, node.clone())));
    entries.push(("tasks", NodeValue::List(suite.tasks.clone()).into()));
    yaml_text(&Node::map(entries))
}

/// Moves the folder to its place, or swaps it with the existing one (I1).
fn put(folder: &Path, output: &Path) -> io::Result<()> {
    if output.exists() {
        // The old folder is deleted with the temporary folder.
        Ok(renameat_with(CWD, folder, CWD, output, RenameFlags::EXCHANGE)?)
    } else {
        Ok(renameat_with(CWD, folder, CWD, output, RenameFlags::NOREPLACE)?)
    }
}
