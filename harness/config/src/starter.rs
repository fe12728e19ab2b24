//! Generates suites and tasks as a starting point for users.
//!
//! I1. Existing files are never overwritten. I2. Generated files load. I3. Adding a task to a suite changes only its text at the
//! end of `tasks:`. I4. A new task has the environment of the suite's last task.
//!
//! Errors: [`ConfigError`]; after an error no new files remain.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::check::Named;
use crate::dialect;
use crate::parse::parse;
use crate::problem::{ConfigError, Problem};
use crate::read::SUITE_FILE;
use crate::source::Source;
use crate::suite::{Suite, load_suite};
use crate::value;

/// Path of the editor schema, relative to a folder of suites.
const SCHEMA: &str = "schema/suite.schema.json";

const TERMINAL_TASK: &str = include_str!("starter/terminal-task.yaml");
const TOOLCALL_TASK: &str = include_str!("starter/toolcall-task.yaml");

/// The environment of a new suite, by its key in a suite file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StarterEnv {
    /// A shell.
    #[default]
    Terminal,
    /// Tools of the harness.
    Toolcall,
    /// A browser, and pages that come with the suite.
    Gui,
    /// A program that comes with the suite.
    Process,
    /// A server that comes with the suite.
    Http,
    /// A server of OpenEnv.
    Openenv,
}

impl StarterEnv {
    fn suite(self) -> &'static str {
        match self {
            Self::Terminal => include_str!("starter/terminal.yaml"),
            Self::Toolcall => include_str!("starter/toolcall.yaml"),
            Self::Gui => include_str!("starter/gui.yaml"),
            Self::Process => include_str!("starter/process.yaml"),
            Self::Http => include_str!("starter/http.yaml"),
            Self::Openenv => include_str!("starter/openenv.yaml"),
        }
    }

    /// Files beside the suite: paths and contents.
    fn beside(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Gui => &[
                ("site/index.html", include_str!("starter/index.html")),
                ("site/prices.html", include_str!("starter/prices.html")),
            ],
            Self::Process => &[("env/env.py", include_str!("starter/env.py"))],
            Self::Http => &[("server.py", include_str!("starter/server.py"))],
            Self::Terminal | Self::Toolcall | Self::Openenv => &[],
        }
    }
}

/// A suite with a task that was added to it.
#[derive(Debug)]
pub struct NewTask {
    /// The suite with the new task.
    pub suite: Suite,
    /// The id of the task that the new one is a copy of, where none can be made up.
    pub copied: Option<String>,
}

/// Writes `<folder>/<name>/suite.yaml`, a suite that runs, with comments, and its program or its pages if it has any. Returns
/// the paths of the files, the suite's first.
///
/// # Errors
/// A name that is none, a suite that is there already, or a folder that cannot be written.
pub fn new_suite(folder: &Path, name: &str, env: StarterEnv) -> Result<Vec<PathBuf>, ConfigError> {
    value::id(name).map_err(|bad| Problem::new(bad.message, bad.help))?;
    let home = folder.join(name);
    let path = home.join(SUITE_FILE);
    if home.exists() {
        let message = format!("there is something at `{}` already", home.display());
        return Err(Problem::new(message, "choose another name, or remove what is there").into());
    }
    let schema = folder.join(SCHEMA).is_file();
    let first = if schema { format!("# yaml-language-server: $schema=../{SCHEMA}\n") } else { String::new() };
    let text = first + &env.suite().replace("NAME", name);
    let beside = env.beside().iter().map(|&(path, text)| (home.join(path), text.to_owned()));
    let files: Vec<(PathBuf, String)> = std::iter::once((path.clone(), text)).chain(beside).collect();
    fs::create_dir_all(&home).map_err(|cause| unwritable(&home, &cause))?;
    for (path, text) in &files {
        if let Err(cause) = write_new(path, text) {
            // This function created the folder, which contains nothing else.
            let _ = fs::remove_dir_all(&home);
            return Err(unwritable(path, &cause).into());
        }
    }
    load_suite(&path)?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// Adds a runnable task at the end of a suite's `tasks:`, and loads the result. The requirements of custom environments and the
/// repositories and pages of a suite are unknown here, so a new task of these kinds is a copy of the last one.
///
/// # Errors
/// The suite does not load, the id is invalid or taken, the list of tasks is not in block style, or the file cannot be
/// written.
pub fn new_task(suite: &Path, id: &str) -> Result<NewTask, ConfigError> {
    value::id(id).map_err(|bad| Problem::new(bad.message, bad.help))?;
    let before = load_suite(suite)?;
    if let Some(row) = before.rows.iter().find(|row| row.id.value == id) {
        let problem = Problem::new(format!("the suite has a task `{id}` already"), "choose another id");
        return Err(problem.at(&before.source, row.id.span, "this one").into());
    }
    let source = &before.source;
    let (text, copied) = with_task(source, &before, id)?;
    // Tried on the side, so that the file is only ever replaced by one that loads.
    let tried = Arc::new(Source::new(Path::new(&source.shown), source.path.clone(), text.as_str()));
    let after = crate::check::check(&tried, parse(&tried, &dialect::SUITE)?)?;
    replace(&source.path, &text)?;
    Ok(NewTask { suite: after, copied })
}

/// The text of a suite with a task after its last one, and the id of that if it was copied.
fn with_task(source: &Arc<Source>, suite: &Suite, id: &str) -> Result<(String, Option<String>), Problem> {
    let text = &source.text;
    let last = suite.rows.last();
    let span = last.map(|row| row.id.span).unwrap_or_default();
    let (dash, start) = last_dash(text, span.start).ok_or_else(|| {
        Problem::new(
            "the tasks of this suite are not written one entry a line",
            "write `tasks:` as a list with `- id: my-task` lines, then add the task again",
        )
        .at(source, span, "written inside brackets")
    })?;
    let end = entry_end(text, start, dash);
    let (head, tail) = (text[..end].trim_end(), text[end..].trim_start_matches('\n'));
    let made = |task: &str| -> String {
        let indent = " ".repeat(dash);
        task.replace("NAME", id).lines().map(|line| format!("{indent}{line}\n")).collect()
    };
    let (task, copied) = match last.map(|row| &row.env) {
        Some(
            Named::Process(_)
            | Named::Http(_)
            | Named::Openenv(_)
            | Named::InProcess(_)
            | Named::Swe(_)
            | Named::Gui(_),
        ) => {
            let copy = format!("{}{id}{}\n", &head[start..span.start], &head[span.end()..]);
            (copy, last.map(|row| row.id.value.clone()))
        }
        Some(Named::Toolcall(_)) => (made(TOOLCALL_TASK), None),
        Some(Named::Terminal(_)) | None => (made(TERMINAL_TASK), None),
    };
    let gap = if tail.is_empty() { "" } else { "\n" };
    Ok((format!("{head}\n\n{task}{gap}{tail}"), copied))
}

/// End of the entry that starts in this line, with its dash at this indentation: after its last line that is indented deeper.
/// Comments belong to the entry if they are not further left than the dash.
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
        // The key above the list shows whether this is a block list.
        if start == 0 || words.starts_with("tasks") {
            return None;
        }
        end = start - 1;
    }
}

/// Writes a file that is not there yet, in a folder that may not be there yet.
pub(crate) fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
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
        // After any failure the temporary file is useless.
        let _ = fs::remove_file(&aside);
        failed(cause)
    })
}

pub(crate) fn unwritable(path: &Path, cause: &std::io::Error) -> Problem {
    let message = format!("`{}` cannot be written: {}", path.display(), cause.kind());
    Problem::new(message, "make the folder writable for this user, or choose another one")
}
