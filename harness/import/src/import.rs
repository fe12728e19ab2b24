//! An import from its paths to its suite.

use std::path::Path;

use clawrl_config::{ConfigError, Problem};

use crate::bfcl::{self, BfclOptions};
use crate::document::Document;
use crate::draft::TaskDraft;
use crate::findings::Findings;
use crate::harbor::{self, Located};
use crate::keys::{KeyRow, key_table, sort_keys};
use crate::miniwob::{self, MiniwobOptions};
use crate::options::{Import, ImportOptions, ImportSandbox, Imported};
use crate::questions::{JsonlOptions, QuestionsSuite, import_rows, questions_suite};
use crate::reasoning_gym::{self, ReasoningGymListing, ReasoningGymOptions};
use crate::rootfs::RootfsTable;
use crate::swe::{self, SweOptions};
use crate::swe_synth::{self, SynthOptions, TestRunner};
use crate::terminal_bench;
use crate::write::{self, Origin, SuiteDraft};

/// A foreign format.
struct Format {
    /// In the record of the import.
    from: &'static str,
    /// For people.
    words: &'static str,
    locate: fn(&Path, &mut Findings) -> Vec<Located>,
    /// What of a task folder is wrong whatever its document says.
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
/// Every problem of every task. Then nothing was written.
pub fn import_harbor(options: &ImportOptions) -> Result<Imported, ConfigError> {
    import(options, &HARBOR)
}

/// Imports tasks of Terminal-Bench 0.x.
///
/// # Errors
/// Every problem of every task. Then nothing was written.
pub fn import_terminal_bench(options: &ImportOptions) -> Result<Imported, ConfigError> {
    import(options, &TERMINAL_BENCH)
}

/// What becomes of each key of `task.toml` and of `task.yaml`, as Markdown tables.
#[must_use]
pub fn key_tables() -> [String; 2] {
    [key_table(HARBOR.keys), key_table(TERMINAL_BENCH.keys)]
}

/// Imports JSONL files of questions with an answer.
///
/// # Errors
/// Every problem of every row, up to a number of them. Then nothing was written.
pub fn import_jsonl(options: &JsonlOptions) -> Result<Imported, ConfigError> {
    let name = suite_name(&options.output)?;
    let mut findings = Findings::default();
    let rows = import_rows(options, &mut findings);
    findings.finish()?;
    let QuestionsSuite { head, tasks, fixtures, ids, count } =
        questions_suite(&rows.families, options.max_turns);
    let suite = SuiteDraft {
        name,
        description: "Questions imported from JSONL files; import.json has the record.".to_owned(),
        from: "jsonl",
        head,
        tasks,
        fixtures,
        records: rows.records.into_iter().map(Origin::Rows).collect(),
        links: Vec::new(),
    };
    let path = write::write(&suite, &options.output, options.force)?;
    let notes = rows.notes.into_iter().map(|note| (String::new(), note)).collect();
    Ok(Imported { suite: path, tasks: ids, count, notes })
}

/// Imports data sets that Reasoning Gym makes.
///
/// # Errors
/// Sets that cannot be represented or made, all of them. Then nothing was written.
pub fn import_reasoning_gym(options: &ReasoningGymOptions) -> Result<Imported, ConfigError> {
    let name = suite_name(&options.output)?;
    let mut findings = Findings::default();
    let rows = reasoning_gym::import_rows(options, &mut findings);
    findings.finish()?;
    let QuestionsSuite { head, tasks, fixtures, ids, count } =
        questions_suite(&rows.families, options.max_turns);
    let suite = SuiteDraft {
        name,
        description: "Made by Reasoning Gym; import.json has the record.".to_owned(),
        from: "reasoning-gym",
        head,
        tasks,
        fixtures,
        records: rows.records.into_iter().map(Origin::Rows).collect(),
        links: Vec::new(),
    };
    let path = write::write(&suite, &options.output, options.force)?;
    Ok(Imported { suite: path, tasks: ids, count, notes: Vec::new() })
}

/// Every set that a Python's Reasoning Gym has, and whether it can be imported.
///
/// # Errors
/// A Python without the library.
pub fn list_reasoning_gym(python: &Path) -> Result<Vec<ReasoningGymListing>, ConfigError> {
    reasoning_gym::listing(python)
}

/// Imports single-turn rows of BFCL v4.
///
/// # Errors
/// Every problem of every row, up to a number of them. Then nothing was written.
pub fn import_bfcl(options: &BfclOptions) -> Result<Imported, ConfigError> {
    let name = suite_name(&options.output)?;
    let mut findings = Findings::default();
    let rows = bfcl::import_rows(options, &mut findings);
    findings.finish()?;
    let suite = SuiteDraft {
        name,
        description: "Imported from BFCL v4 (Berkeley Function Calling Leaderboard, Apache-2.0); import.json has the record."
            .to_owned(),
        from: "bfcl",
        head: Vec::new(),
        tasks: rows.tasks,
        fixtures: Vec::new(),
        records: rows.records.into_iter().map(Origin::Rows).collect(),
        links: Vec::new(),
    };
    let path = write::write(&suite, &options.output, options.force)?;
    let notes = rows.notes.into_iter().map(|note| (String::new(), note)).collect();
    Ok(Imported { suite: path, count: rows.ids.len(), tasks: rows.ids, notes })
}

/// Imports rows of SWE-bench and of data sets like it, or a task repository.
///
/// # Errors
/// Every problem of every row, up to a number of them. Then nothing was written.
pub fn import_swe(options: &SweOptions) -> Result<Imported, ConfigError> {
    let name = suite_name(&options.output)?;
    let mut findings = Findings::default();
    let rows = swe::import_rows(options, &mut findings);
    findings.finish()?;
    let suite = SuiteDraft {
        name,
        description:
            "Issues of real repositories, imported from rows of SWE-bench's kind; import.json has the record."
                .to_owned(),
        from: "swe",
        head: swe::head(options.max_turns),
        tasks: rows.tasks,
        fixtures: rows.fixtures,
        records: rows.records.into_iter().map(Origin::Rows).collect(),
        links: Vec::new(),
    };
    let path = write::write(&suite, &options.output, options.force)?;
    let notes = rows.notes.into_iter().map(|note| (String::new(), note)).collect();
    Ok(Imported { suite: path, count: rows.ids.len(), tasks: rows.ids, notes })
}

/// Makes software engineering tasks from the source of Python packages; `tell` hears how far it is.
///
/// # Errors
/// A package that cannot be had, or whose tests do not pass or find no fault. Then nothing was written.
pub fn import_swe_synth(
    options: &SynthOptions,
    runner: &dyn TestRunner,
    tell: &mut dyn FnMut(String),
) -> Result<Imported, ConfigError> {
    let name = suite_name(&options.output)?;
    let mut findings = Findings::default();
    let made = swe_synth::make(options, runner, tell, &mut findings);
    findings.finish()?;
    let suite = SuiteDraft {
        name,
        description: "Faults in Python packages that their own tests find; import.json has the record."
            .to_owned(),
        from: "swe-synth",
        head: made.head,
        tasks: made.tasks,
        fixtures: made.fixtures,
        records: made.records.into_iter().map(Origin::Rows).collect(),
        links: Vec::new(),
    };
    let path = write::write(&suite, &options.output, options.force)?;
    Ok(Imported { suite: path, count: made.ids.len(), tasks: made.ids, notes: Vec::new() })
}

/// Imports pages of MiniWoB++ from its Python package.
///
/// # Errors
/// A package that cannot be had, or has no such pages. Then nothing was written.
pub fn import_miniwob(options: &MiniwobOptions) -> Result<Imported, ConfigError> {
    let name = suite_name(&options.output)?;
    let mut findings = Findings::default();
    let made = miniwob::make(options, &mut findings);
    findings.finish()?;
    let made = made.unwrap_or_default();
    let suite = SuiteDraft {
        name,
        description: "Pages of MiniWoB++, which grade themselves (MIT licence); import.json has the record."
            .to_owned(),
        from: "miniwob",
        head: made.head,
        tasks: made.tasks,
        fixtures: made.fixtures,
        records: vec![Origin::Rows(made.record)],
        links: Vec::new(),
    };
    let path = write::write(&suite, &options.output, options.force)?;
    let count = made.ids.len() * options.episodes;
    Ok(Imported { suite: path, tasks: made.ids, count, notes: made.notes })
}

fn import(options: &ImportOptions, format: &Format) -> Result<Imported, ConfigError> {
    let name = suite_name(&options.output)?;
    if options.sandbox == ImportSandbox::Container && !options.rootfs.is_empty() {
        let message = "`--rootfs` is given, and containers have images of their own";
        return Err(Problem::new(
            message,
            "leave it out, or import for sandboxes with `--sandbox bubblewrap`",
        )
        .into());
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
            let message =
                format!("its id would be `{id}`, which is that of `{}` too", first.folder.display());
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

/// Reads one. Nothing if it is refused; why is in the findings.
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

/// A suite is called like its folder.
pub(crate) fn suite_name(output: &Path) -> Result<String, Problem> {
    let name = output.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=64).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(name.to_owned());
    }
    let message = format!("`{}` is no folder for a suite, which is called like it", output.display());
    Err(Problem::new(
        message,
        format!("use lower-case letters, digits and dashes: `--output {}`", slug(name)),
    ))
}

/// Those that were asked for by name; all of them if none was.
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

/// A name as an id: lower-case letters, digits and single dashes; of `org/name`, the name.
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
