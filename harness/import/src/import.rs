//! Runs an import, from its paths to its suite.

use std::path::Path;

use clawrl_config::{ConfigError, Problem};

use crate::bfcl::{self, BfclOptions};
use crate::document::Document;
use crate::draft::{SuiteParts, TaskDraft};
use crate::findings::Findings;
use crate::harbor::{self, Located};
use crate::keys::{KeyRow, key_table, sort_keys};
use crate::miniwob::{self, MiniwobOptions};
use crate::options::{Import, ImportOptions, ImportSandbox, Imported};
use crate::questions::{JsonlOptions, import_rows, questions_suite};
use crate::reasoning_gym::{self, ReasoningGymListing, ReasoningGymOptions};
use crate::rootfs::RootfsTable;
use crate::swe::{self, SweOptions};
use crate::swe_synth::{self, SynthOptions, TestRunner};
use crate::terminal_bench;
use crate::write::{self, Origin, SuiteDraft};

/// A foreign format.
struct Format {
    /// The name in the import record.
    from: &'static str,
    /// The name in messages.
    words: &'static str,
    locate: fn(&Path, &mut Findings) -> Vec<Located>,
    /// Checks a task folder independently of its document.
    look_around: fn(&Path, &mut Findings),
    document: fn(&Path) -> Result<Document, ConfigError>,
    keys: &'static [KeyRow],
    read: fn(&Path, &str, &Document, &mut Import<'_>) -> Option<TaskDraft>,
}

const HARBOR: Format = Format {
    from: "harbor",
    words: "Harbor",
    locate: harbor::locate,
    look_around: harbor::look_around,
    document: harbor::document,
    keys: harbor::KEYS,
    read: harbor::read_document,
};

const TERMINAL_BENCH: Format = Format {
    from: "terminal-bench",
    words: "Terminal-Bench",
    locate: terminal_bench::locate,
    look_around: |_, _| {},
    document: terminal_bench::document,
    keys: terminal_bench::KEYS,
    read: terminal_bench::read_document,
};

/// Imports Harbor task folders.
///
/// # Errors
/// All problems of all tasks; then nothing is written.
pub fn import_harbor(options: &ImportOptions) -> Result<Imported, ConfigError> {
    import(options, &HARBOR)
}

/// Imports tasks of Terminal-Bench 0.x.
///
/// # Errors
/// All problems of all tasks; then nothing is written.
pub fn import_terminal_bench(options: &ImportOptions) -> Result<Imported, ConfigError> {
    import(options, &TERMINAL_BENCH)
}

/// How each key of `task.toml` and `task.yaml` is imported, as Markdown tables.
#[must_use]
pub fn key_tables() -> [String; 2] {
    [key_table(HARBOR.keys), key_table(TERMINAL_BENCH.keys)]
}

/// Imports JSONL files of questions with answers.
///
/// # Errors
/// The problems of the rows, up to a limit; then nothing is written.
pub fn import_jsonl(options: &JsonlOptions) -> Result<Imported, ConfigError> {
    let description = "Questions imported from JSONL files; import.json has the record.";
    import_parts(&options.output, options.force, ("jsonl", description), |findings| {
        let rows = import_rows(options, findings);
        let notes = rows.notes.into_iter().map(|note| (String::new(), note)).collect();
        SuiteParts { records: rows.records, notes, ..questions_suite(&rows.families, options.max_turns) }
    })
}

/// Imports data sets that Reasoning Gym generates.
///
/// # Errors
/// All data sets that cannot be represented or generated; then nothing is written.
pub fn import_reasoning_gym(options: &ReasoningGymOptions) -> Result<Imported, ConfigError> {
    let description = "Made by Reasoning Gym; import.json has the record.";
    import_parts(&options.output, options.force, ("reasoning-gym", description), |findings| {
        let rows = reasoning_gym::import_rows(options, findings);
        SuiteParts { records: rows.records, ..questions_suite(&rows.families, options.max_turns) }
    })
}

/// All data sets of a Python's Reasoning Gym, and whether each can be imported.
///
/// # Errors
/// A Python without the library.
pub fn list_reasoning_gym(python: &Path) -> Result<Vec<ReasoningGymListing>, ConfigError> {
    reasoning_gym::listing(python)
}

/// Imports single-turn rows of BFCL v4.
///
/// # Errors
/// The problems of the rows, up to a limit; then nothing is written.
pub fn import_bfcl(options: &BfclOptions) -> Result<Imported, ConfigError> {
    let description = "Imported from BFCL v4 (Berkeley Function Calling Leaderboard, Apache-2.0); import.json has the record.";
    import_parts(&options.output, options.force, ("bfcl", description), |findings| {
        bfcl::import_rows(options, findings)
    })
}

/// Imports rows of SWE-bench and similar data sets, or a task repository.
///
/// # Errors
/// The problems of the rows, up to a limit; then nothing is written.
pub fn import_swe(options: &SweOptions) -> Result<Imported, ConfigError> {
    let description =
        "Issues of real repositories, imported from rows of SWE-bench's kind; import.json has the record.";
    import_parts(&options.output, options.force, ("swe", description), |findings| SuiteParts {
        head: swe::head(options.max_turns),
        ..swe::import_rows(options, findings)
    })
}

/// Generates software engineering tasks from the source of Python packages. Calls `progress` with progress messages.
///
/// # Errors
/// A package is not available, or its tests do not pass or detect no injected fault; then nothing is written.
pub fn import_swe_synth(
    options: &SynthOptions,
    runner: &dyn TestRunner,
    progress: &mut dyn FnMut(String),
) -> Result<Imported, ConfigError> {
    let description = "Faults in Python packages that their own tests find; import.json has the record.";
    import_parts(&options.output, options.force, ("swe-synth", description), |findings| {
        swe_synth::make(options, runner, progress, findings)
    })
}

/// Imports pages of MiniWoB++ from its Python package.
///
/// # Errors
/// The package is not available, or lacks a named page; then nothing is written.
pub fn import_miniwob(options: &MiniwobOptions) -> Result<Imported, ConfigError> {
    let description = "Pages of MiniWoB++, which grade themselves (MIT licence); import.json has the record.";
    import_parts(&options.output, options.force, ("miniwob", description), |findings| {
        miniwob::make(options, findings).unwrap_or_default()
    })
}

/// Writes the suite that `read` makes, with the format's name and a description.
fn import_parts(
    output: &Path,
    force: bool,
    (from, description): (&'static str, &str),
    read: impl FnOnce(&mut Findings) -> SuiteParts,
) -> Result<Imported, ConfigError> {
    let name = suite_name(output)?;
    let mut findings = Findings::default();
    let parts = read(&mut findings);
    findings.finish()?;
    let suite = SuiteDraft {
        name,
        description: description.to_owned(),
        from,
        head: parts.head,
        tasks: parts.tasks,
        fixtures: parts.fixtures,
        records: parts.records.into_iter().map(Origin::Rows).collect(),
        links: Vec::new(),
    };
    let suite = write::write(&suite, output, force)?;
    let count = parts.count.unwrap_or(parts.ids.len());
    Ok(Imported { suite, tasks: parts.ids, count, notes: parts.notes })
}

fn import(options: &ImportOptions, format: &Format) -> Result<Imported, ConfigError> {
    let name = suite_name(&options.output)?;
    if options.sandbox == ImportSandbox::Container && !options.rootfs.is_empty() {
        let message = "`--rootfs` cannot be combined with containers";
        return Err(
            Problem::new(message, "remove it, or import for sandboxes with `--sandbox bubblewrap`").into()
        );
    }
    let rootfs = RootfsTable::new(&options.rootfs)?;
    let mut import = Import { options, findings: Findings::default(), rootfs };
    let mut located = Vec::new();
    for path in &options.paths {
        located.extend((format.locate)(path, &mut import.findings));
    }
    let located = chosen(located, &options.tasks, &mut import.findings);
    let common: Vec<String> = import.findings.take_notes();
    let mut tasks: Vec<TaskDraft> = Vec::new();
    let mut ids: Vec<(String, Located)> = Vec::new();
    for task in located {
        let id = slug(&task.name);
        if let Some((_, first)) = ids.iter().find(|(known, _)| *known == id) {
            if first.folder == task.folder {
                continue;
            }
            let message = format!("its id would be `{id}`, as that of `{}`", first.folder.display());
            import.findings.refuse_path(
                &task.folder,
                message,
                "rename one of the folders, or import them into two suites",
            );
            continue;
        }
        let draft = read_task(format, &task.folder, &id, &mut import);
        let notes = import.findings.take_notes();
        if let Some(mut draft) = draft {
            draft.record.notes = notes;
            tasks.push(draft);
        }
        ids.push((id, task));
    }
    if tasks.is_empty() && import.findings.count() == 0 {
        return Err(Problem::new("there is no task to import", "name a task folder").into());
    }
    import.findings.finish()?;
    let links = import.rootfs.links();
    let notes = common.into_iter().map(|note| (String::new(), note));
    let of_task = |task: &TaskDraft| {
        let id = task.id.clone();
        task.record.notes.iter().map(move |note| (id.clone(), note.clone())).collect::<Vec<_>>()
    };
    let notes = notes.chain(tasks.iter().flat_map(of_task)).collect();
    let suite = SuiteDraft {
        description: format!("Imported from {}; import.json has the record.", format.words),
        name,
        from: format.from,
        head: Vec::new(),
        tasks: tasks.iter().map(TaskDraft::node).collect(),
        fixtures: tasks.iter().flat_map(|task| task.fixtures.clone()).collect(),
        records: tasks.iter().map(|task| Origin::Folder(task.record.clone())).collect(),
        links,
    };
    let path = write::write(&suite, &options.output, options.force)?;
    let ids: Vec<String> = tasks.into_iter().map(|task| task.id).collect();
    Ok(Imported { suite: path, count: ids.len(), tasks: ids, notes })
}

/// Reads a task folder. `None` if it is refused; problems go to the findings.
fn read_task(format: &Format, folder: &Path, id: &str, import: &mut Import<'_>) -> Option<TaskDraft> {
    let before = import.findings.count();
    (format.look_around)(folder, &mut import.findings);
    let document = match (format.document)(folder) {
        Ok(document) => document,
        Err(error) => {
            import.findings.adopt(&error);
            return None;
        }
    };
    sort_keys(&document, format.keys, &mut import.findings);
    let draft = (format.read)(folder, id, &document, import);
    (import.findings.count() == before).then_some(draft).flatten()
}

/// The name of a suite is that of its folder.
pub(crate) fn suite_name(output: &Path) -> Result<String, Problem> {
    let name = output.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=64).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(name.to_owned());
    }
    let message =
        format!("`{}` cannot name a suite, and a suite has the name of its folder", output.display());
    Err(Problem::new(
        message,
        format!("use lower-case letters, digits and dashes: `--output {}`", slug(name)),
    ))
}

/// The selected tasks; all if none is named.
fn chosen(located: Vec<Located>, names: &[String], findings: &mut Findings) -> Vec<Located> {
    if names.is_empty() {
        return located;
    }
    let is_called = |task: &Located, name: &String| {
        let folder = task.folder.file_name().is_some_and(|folder| folder.to_str() == Some(name));
        folder || task.name == *name || slug(&task.name) == *name
    };
    for name in names {
        if !located.iter().any(|task| is_called(task, name)) {
            let known: Vec<&str> = located.iter().take(8).map(|task| task.name.as_str()).collect();
            let help = format!("there is {}", known.join(", "));
            findings.adopt(&Problem::new(format!("there is no task `{name}`"), help).into());
        }
    }
    located.into_iter().filter(|task| names.iter().any(|name| is_called(task, name))).collect()
}

/// A name as an id: lower-case letters, digits and single dashes; for `org/name`, only the name.
pub(crate) fn slug(name: &str) -> String {
    let short = name.rsplit('/').next().unwrap_or(name);
    let mut id = String::new();
    for character in short.to_lowercase().chars() {
        if character.is_ascii_lowercase() || character.is_ascii_digit() {
            id.push(character);
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
    }
    id.truncate(64);
    let id = id.trim_matches('-');
    if id.is_empty() { "task".to_owned() } else { id.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &str) {
        assert_eq!(slug(name), expected, "{name}");
    }

    #[test]
    fn names_become_ids() {
        check("org/Hello_World.2", "hello-world-2");
        check("--a--b--", "a-b");
        check("é", "task");
        check(&"x".repeat(80), &"x".repeat(64));
    }
}
