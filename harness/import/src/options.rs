//! What an import is asked to do, and what it did.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::draft::Action;
use crate::rootfs::RootfsChoice;

/// Where imported tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportSandbox {
    /// Containers of an engine, which builds or finds their images.
    Container,
    /// Sandboxes on unpacked root file systems; no engine is needed.
    Bubblewrap,
}

/// What to import, and how.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Task folders, folders of them, datasets, registries.
    pub paths: Vec<PathBuf>,
    /// The suite's folder, which is made.
    pub output: PathBuf,
    /// Where the tasks run.
    pub sandbox: ImportSandbox,
    /// Unpacked images, for [`ImportSandbox::Bubblewrap`].
    pub rootfs: Vec<RootfsChoice>,
    /// Names of the tasks to import; all of them if empty.
    pub tasks: Vec<String>,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Turns of an attempt: the foreign formats have no such limit.
    pub max_turns: u32,
    /// Variables that a task may ask for.
    pub environment: BTreeMap<String, String>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Path of the suite's file.
    pub suite: PathBuf,
    /// Ids of its tasks, in order; of a template, one for all that it makes.
    pub tasks: Vec<String>,
    /// Tasks, those of templates counted one by one.
    pub count: usize,
    /// By task id: what was left out, or stands for something else.
    pub notes: Vec<(String, String)>,
}

/// Where an import stands: what it was asked, and what it found so far.
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

    /// Turns of a task, which are enough for its oracle.
    pub(crate) fn max_turns(&self, oracle: &[Action]) -> u32 {
        self.options.max_turns.max(u32::try_from(oracle.len() + 1).unwrap_or(u32::MAX))
    }

    /// The key of a suite.
    pub(crate) fn sandbox(&self) -> &'static str {
        if self.in_containers() { "container" } else { "bubblewrap" }
    }
}
