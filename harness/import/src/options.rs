//! Options of an import, and its result.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::draft::Action;
use crate::rootfs::RootfsChoice;

/// Where imported tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportSandbox {
    /// Containers of an engine, which builds or finds their images.
    Container,
    /// Sandboxes on unpacked root file systems, without an engine.
    Bubblewrap,
}

/// Which tasks to import, and how.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Task folders, folders of task folders, datasets, registries.
    pub paths: Vec<PathBuf>,
    /// Folder of the new suite, which is created.
    pub output: PathBuf,
    /// Where the tasks run.
    pub sandbox: ImportSandbox,
    /// Unpacked images, for [`ImportSandbox::Bubblewrap`].
    pub rootfs: Vec<RootfsChoice>,
    /// Names of the tasks to import; all if empty.
    pub tasks: Vec<String>,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Maximum turns of an attempt: the foreign formats have no such limit.
    pub max_turns: u32,
    /// Variables that tasks may refer to.
    pub environment: BTreeMap<String, String>,
}

/// The written suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Path of the suite's file.
    pub suite: PathBuf,
    /// Ids of its tasks, in order; a template has one id.
    pub tasks: Vec<String>,
    /// Number of tasks; every instance of a template counts.
    pub count: usize,
    /// By task id: what was left out or replaced.
    pub notes: Vec<(String, String)>,
}

/// State of an import: its options, and the findings so far.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    pub(crate) options: &'a ImportOptions,
    pub(crate) findings: crate::findings::Findings,
    pub(crate) rootfs: crate::rootfs::RootfsTable,
}

impl Import<'_> {
    /// Whether tasks run in containers.
    pub(crate) fn in_containers(&self) -> bool {
        self.options.sandbox == ImportSandbox::Container
    }

    /// Turns of a task: at least those that its oracle needs.
    pub(crate) fn max_turns(&self, oracle: &[Action]) -> u32 {
        self.options.max_turns.max(u32::try_from(oracle.len() + 1).unwrap_or(u32::MAX))
    }

    /// The value in a suite.
    pub(crate) fn sandbox(&self) -> &'static str {
        if self.in_containers() { "container" } else { "bubblewrap" }
    }
}
