//! Generates train files as a starting point for users.
//!
//! I1. Existing files are never overwritten. I2. The generated file loads, and its suites have demonstrations.
//!
//! Errors: [`ConfigError`]; after an error no new files remain.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::document::{Node, yaml_text};
use crate::problem::{ConfigError, Problem};
use crate::starter::{unwritable, write_new};
use crate::suite::{Suite, load_suites};
use crate::train::{TrainTasks, load_train};
use crate::value;

const FILE: &str = include_str!("starter/train.yaml");

/// Path of the editor schema, relative to the folder of a project.
const SCHEMA: &str = "tasks/schema/train.schema.json";

/// Percentage of demonstrations that use the oracle if every task also has mistakes.
const ORACLE_PERCENT: &str = "35";

/// Writes `<folder>/<name>.yaml`, a training on these suites, with comments, and returns its path.
///
/// # Errors
/// The name is invalid, the file exists, a suite does not load or has a task without an oracle, or there is a
/// folder that cannot be written.
pub fn new_train(folder: &Path, name: &str, suites: &[PathBuf]) -> Result<PathBuf, ConfigError> {
    value::id(name).map_err(|bad| Problem::new(bad.message, bad.help))?;
    let path = folder.join(format!("{name}.yaml"));
    if path.exists() {
        let message = format!("there is something at `{}` already", path.display());
        return Err(Problem::new(message, "choose another name, or remove what is there").into());
    }
    let loaded = load_suites(suites)?;
    let percent = oracle_percent(&loaded)?;
    fs::create_dir_all(folder).map_err(|cause| unwritable(folder, &cause))?;
    let home = fs::canonicalize(folder).map_err(|cause| unwritable(folder, &cause))?;
    let list: String = loaded.iter().map(|suite| entry(&home, suite)).collect();
    let schema = folder.join(SCHEMA).is_file();
    let first = if schema { format!("# yaml-language-server: $schema={SCHEMA}\n") } else { String::new() };
    let text = FILE.replace("NAME", name).replace("PERCENT", percent).replace("SUITES\n", &list);
    write_new(&path, &(first + &text)).map_err(|cause| unwritable(&path, &cause))?;
    // I2.
    let tried = load_train(&path).and_then(|plan| TrainTasks::load(&plan));
    if let Err(error) = tried {
        // This function created the file.
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    Ok(path)
}

/// Percentage of demonstrations that use the oracle: 100, unless every task has mistakes.
fn oracle_percent(suites: &[Suite]) -> Result<&'static str, Problem> {
    let mut has_mistakes = true;
    for suite in suites {
        for family in suite.families() {
            if !family.has_oracle {
                let message = format!("task `{}` of suite `{}` has no oracle", family.id, suite.name());
                let help = "a training begins with demonstrations: write the task's `oracle:`, which says how it is solved";
                return Err(Problem::new(message, help));
            }
            has_mistakes &= family.mistakes > 0;
        }
    }
    Ok(if has_mistakes { ORACLE_PERCENT } else { "100" })
}

/// The line of a suite, with its path relative to the folder of the file.
fn entry(home: &Path, suite: &Suite) -> String {
    let folder = suite.path().parent().unwrap_or(suite.path());
    let shown = seen_from(home, folder).display().to_string();
    let line = yaml_text(&Node::map(vec![("path", shown.as_str().into())]));
    format!("  - {line}")
}

/// An absolute path, seen from an absolute folder.
fn seen_from(home: &Path, path: &Path) -> PathBuf {
    let shared = home.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = home.components().skip(shared).map(|_| Component::ParentDir);
    let seen: PathBuf = up.chain(path.components().skip(shared)).collect();
    if seen.as_os_str().is_empty() { PathBuf::from(".") } else { seen }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::starter::{StarterEnv, new_suite};

    fn ground() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        new_suite(&folder.path().join("tasks"), "signs", StarterEnv::Terminal).unwrap();
        folder
    }

    #[test]
    fn a_path_is_seen_from_a_folder() {
        let check = |home: &str, path: &str, expected: &str| {
            assert_eq!(seen_from(Path::new(home), Path::new(path)), Path::new(expected));
        };
        check("/a/b", "/a/b/c", "c");
        check("/a/b", "/a/c/d", "../c/d");
        check("/a/b", "/a/b", ".");
    }

    #[test]
    fn a_new_train_file_loads_and_names_its_suites_from_where_it_is() {
        let folder = ground();
        let suites = [folder.path().join("tasks/signs")];
        let path = new_train(&folder.path().join("trainings"), "mine", &suites).unwrap();
        assert!(path.ends_with("trainings/mine.yaml"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("train: mine\n") && text.contains("  - path: \"../tasks/signs\"\n"), "{text}");
        let plan = load_train(&path).unwrap();
        assert_eq!(plan.suites.len(), 1);
        let again = new_train(&folder.path().join("trainings"), "mine", &suites).unwrap_err();
        assert!(again.problems()[0].message().contains("already"));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_task_without_an_oracle_is_refused_and_leaves_nothing() {
        let folder = ground();
        let suite = folder.path().join("tasks/signs/suite.yaml");
        let text = "format: 1\nsuite: signs\ntasks:\n  - id: one\n    instruction: Do it.\n    env: { terminal: {} }\n    checks: [ { file_absent: { path: a } } ]\n";
        fs::write(&suite, text).unwrap();
        let error = new_train(folder.path(), "mine", &[suite]).unwrap_err();
        assert!(
            error.problems()[0].message().contains("task `one` of suite `signs` has no oracle"),
            "{error:?}"
        );
        assert!(!folder.path().join("mine.yaml").exists());
    }
}
