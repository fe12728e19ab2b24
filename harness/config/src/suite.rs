//! Checked suites.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use minijinja::Value;
use serde::Serialize;

use crate::check::{Instances, Row, check};
use crate::dialect;
use crate::draw::combinations;
use crate::file::{SuiteFile, Text};
use crate::fixture::Fixtures;
use crate::parse::parse;
use crate::problem::{ConfigError, Problem};
use crate::read::read_suite;
use crate::source::Source;

/// A checked suite. Templates are not rendered yet: their values depend on the plan's seed.
#[derive(Debug)]
pub struct Suite {
    pub(crate) source: Arc<Source>,
    pub(crate) name: Text,
    pub(crate) description: Option<String>,
    pub(crate) sha256: String,
    pub(crate) fixtures: Arc<Mutex<Fixtures>>,
    pub(crate) rows: Vec<Row>,
    /// Entries of its `vars`.
    pub(crate) lists: BTreeMap<String, Vec<Value>>,
    pub(crate) warnings: Vec<Problem>,
}

/// One entry of a suite's `tasks:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Family {
    /// Id of the entry.
    pub id: String,
    /// Number of tasks that the entry generates.
    pub instances: usize,
    /// Template variables, chosen and then derived, in order; empty without a template.
    pub variables: Vec<String>,
    /// Combinations of the chosen variables; an upper bound if some must be distinct.
    pub combinations: u64,
    /// Members of a group in training.
    pub group_size: u32,
    /// Whether the entry has an oracle.
    pub has_oracle: bool,
    /// Wrong action sequences for the imperfect demonstrator.
    pub mistakes: usize,
}

impl Suite {
    /// Name of the suite.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Description for people.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Absolute path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Hex SHA-256 over the file and everything that it uses: of what `sha256sum` prints for them in order of
    /// path, from inside the suite's folder.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Warnings about allowed but risky settings: no sandbox, the host's network, repeated instances.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The entries of `tasks:`, in order.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        let family = |row: &Row| Family {
            id: row.id.value.clone(),
            instances: row.instances.count(),
            variables: row
                .variables
                .iter()
                .map(|variable| variable.name.clone())
                .chain(row.lets.iter().map(|(name, _)| name.value.clone()))
                .collect(),
            combinations: match row.instances {
                Instances::Plain => 1,
                Instances::All(count) => count as u64,
                Instances::Drawn(_) => combinations(&row.variables),
            },
            group_size: row.settings.group_size,
            has_oracle: row.oracle.is_some(),
            mistakes: row.mistakes.len(),
        };
        self.rows.iter().map(family).collect()
    }
}

/// Reads and checks a suite: a suite file, or a folder with a `suite.yaml`.
///
/// # Errors
/// A file that cannot be read or has the wrong shape is one problem; otherwise every problem that there is.
pub fn load_suite(path: &Path) -> Result<Suite, ConfigError> {
    let source = read_suite(path)?;
    let file: SuiteFile = parse(&source, &dialect::SUITE)?;
    check(&source, file)
}

/// Reads and checks several suites, whose names must differ.
///
/// # Errors
/// The problems of all of them.
pub fn load_suites(paths: &[PathBuf]) -> Result<Vec<Suite>, ConfigError> {
    let mut suites: Vec<Suite> = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match load_suite(path) {
            Ok(suite) => suites.push(suite),
            Err(error) => problems.extend_from_slice(error.problems()),
        }
    }
    problems.extend(duplicate_names(&suites));
    match ConfigError::from_problems(problems) {
        Some(error) => Err(error),
        None => Ok(suites),
    }
}

/// A problem for every suite whose name was taken by one before.
pub(crate) fn duplicate_names<'a>(suites: impl IntoIterator<Item = &'a Suite>) -> Vec<Problem> {
    let mut seen: Vec<&Suite> = Vec::new();
    let mut problems = Vec::new();
    for suite in suites {
        if let Some(first) = seen.iter().find(|other| other.name() == suite.name()) {
            let (message, help) = if first.path() == suite.path() {
                (format!("the suite `{}` is given twice", suite.name()), "name it once".to_owned())
            } else {
                (
                    format!("two suites have the name `{}`", suite.name()),
                    format!("rename one of them, such as `suite: {}-2`", suite.name()),
                )
            };
            let label = format!("also in {}", first.source.shown);
            problems.push(Problem::new(message, help).at(&suite.source, suite.name.span, label));
        } else {
            seen.push(suite);
        }
    }
    problems
}
