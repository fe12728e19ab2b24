//! New suites and new tasks, written for people to change.
//!
//! I1. Nothing that exists is overwritten. I2. What is written loads. I3. The text of a suite to which a task is
//! added stays as it is, but for the new lines at the end of `tasks:`.
//!
//! Errors: [`ConfigError`]; then nothing was left behind.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dialect;
use crate::parse::parse;
use crate::problem::{ConfigError, Problem};
use crate::read::SUITE_FILE;
use crate::source::Source;
use crate::suite::{Suite, load_suite};
use crate::value;

/// Where the schema for editors is, seen from a folder of suites.
const SCHEMA: &str = "schema/suite.schema.json";

const SUITE: &str = include_str!("starter/suite.yaml");
const TASK: &str = include_str!("starter/task.yaml");

/// Writes `<folder>/<name>/suite.yaml`, a suite that runs: a plain task and a template, with comments. Returns
/// the path of the file.
///
/// # Errors
/// A name that is none, a suite that is there already, or a folder that cannot be written.
pub fn new_suite(folder: &Path, name: &str) -> Result<PathBuf, ConfigError> {
    value::id(name).map_err(|bad| Problem::new(bad.message, bad.help))?;
    let home = folder.join(name);
    let path = home.join(SUITE_FILE);
    if home.exists() {
        let message = format!("there is something at `{}` already", home.display());
        return Err(Problem::new(message, "choose another name, or remove what is there").into());
    }
    let schema = folder.join(SCHEMA).is_file();
    let first = if schema { format!("# yaml-language-server: $schema=../{SCHEMA}\n") } else { String::new() };
    let text = first + &SUITE.replace("NAME", name);
    fs::create_dir_all(&home).map_err(|cause| unwritable(&home, &cause))?;
    if let Err(cause) = write_new(&path, &text) {
        // It was created above and holds nothing else.
        let _ = fs::remove_dir_all(&home);
        return Err(unwritable(&path, &cause).into());
    }
    load_suite(&path)?;
    Ok(path)
}

/// Adds a task that runs to the end of a suite's `tasks:`, and loads the result.
///
/// # Errors
/// A suite that does not load, an id that is none or is taken, a list of tasks that is not written one entry a
/// line, or a file that cannot be written.
pub fn new_task(suite: &Path, id: &str) -> Result<Suite, ConfigError> {
    value::id(id).map_err(|bad| Problem::new(bad.message, bad.help))?;
    let before = load_suite(suite)?;
    if let Some(row) = before.rows.iter().find(|row| row.id.value == id) {
        let problem = Problem::new(format!("the suite has a task `{id}` already"), "choose another id");
        return Err(problem.at(&before.source, row.id.span, "this one").into());
    }
    let source = &before.source;
    let text = with_task(source, &before, id)?;
    // Tried on the side, so that the file is only ever replaced by one that loads.
    let tried = Arc::new(Source::new(Path::new(&source.shown), source.path.clone(), text.as_str()));
    let after = crate::check::check(&tried, parse(&tried, &dialect::SUITE)?)?;
    replace(&source.path, &text)?;
    Ok(after)
}

/// The text of a suite with a task after its last one.
fn with_task(source: &Arc<Source>, suite: &Suite, id: &str) -> Result<String, Problem> {
    let text = &source.text;
    let last = suite.rows.last().map_or(0, |row| row.id.span.start);
    let (dash, start) = last_dash(text, last).ok_or_else(|| {
        let span = suite.rows.last().map(|row| row.id.span).unwrap_or_default();
        Problem::new(
            "the tasks of this suite are not written one entry a line",
            "write `tasks:` as a list with `- id: my-task` lines, then add the task again",
        )
        .at(source, span, "written inside brackets")
    })?;
    let end = entry_end(text, start, dash);
    let (head, tail) = (text[..end].trim_end(), text[end..].trim_start_matches('\n'));
    let indent = " ".repeat(dash);
    let task: String = TASK
        .replace("NAME", id)
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") })
        .collect();
    let gap = if tail.is_empty() { "" } else { "\n" };
    Ok(format!("{head}\n\n{task}{gap}{tail}"))
}

/// Where an entry ends that starts in this line, with its dash indented so far: after its last line that is
/// indented deeper. Comments belong to it when they stand no further left than the dash.
fn entry_end(text: &str, start: usize, dash: usize) -> usize {
    let mut end = start;
    let mut at = start;
    for line in text[start..].split_inclusive('\n') {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        let is_inside =
            if words.starts_with('#') { indent >= dash.max(1) } else { indent > dash || at == start };
        at += line.len();
        if is_inside && !words.is_empty() {
            end = at;
        } else if !words.is_empty() && !words.starts_with('#') {
            break;
        }
    }
    end
}

/// Indentation of the dash that starts the entry around a place, and the start of its line.
fn last_dash(text: &str, place: usize) -> Option<(usize, usize)> {
    let mut end = text[..place].len();
    loop {
        let start = text[..end].rfind('\n').map_or(0, |at| at + 1);
        let line = &text[start..];
        let words = line.trim_start_matches(' ');
        if words.starts_with("- ") {
            return Some((line.len() - words.len(), start));
        }
        // Above the list stands its key, which says whether it is a block list at all.
        if start == 0 || words.starts_with("tasks") {
            return None;
        }
        end = start - 1;
    }
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Replaces a file in one step, keeping its mode.
fn replace(path: &Path, text: &str) -> Result<(), Problem> {
    let failed = |cause: std::io::Error| unwritable(path, &cause);
    let mode = fs::metadata(path).map_err(failed)?.permissions();
    let aside = path.with_extension(format!("yaml.{}", std::process::id()));
    let written = write_new(&aside, text)
        .and_then(|()| fs::set_permissions(&aside, mode))
        .and_then(|()| fs::rename(&aside, path));
    written.map_err(|cause| {
        // Whatever failed, the file on the side is of no use.
        let _ = fs::remove_file(&aside);
        failed(cause)
    })
}

fn unwritable(path: &Path, cause: &std::io::Error) -> Problem {
    let message = format!("`{}` cannot be written: {}", path.display(), cause.kind());
    Problem::new(message, "make the folder writable for this user, or choose another one")
}
