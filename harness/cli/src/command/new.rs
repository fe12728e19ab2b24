//! `clawrl new`: write a new suite, or a new task into one.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use clawrl_config::{new_suite, new_task};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print;
use crate::suite_path::{self, TASKS};

/// Writes a new suite, or a new task into one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl new suite my-suite\n  clawrl new task my-suite my-task")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write a suite that runs, with a plain task and a template.
    #[command(after_help = "Example:\n  clawrl new suite my-suite")]
    Suite {
        /// Its name: lower-case letters, digits and dashes.
        name: String,
        /// Folder to make it in [default: tasks, where there is such a folder, else this one].
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Add a task that runs to the end of a suite.
    #[command(after_help = "Example:\n  clawrl new task my-suite my-task")]
    Task {
        /// A suite.yaml, its folder, or the name of a folder under ./tasks.
        suite: PathBuf,
        /// Id of the task: lower-case letters, digits and dashes.
        id: String,
    },
}

/// Does it. Standard output is the path of what was written.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    match &arguments.what {
        What::Suite { name, dir } => {
            let tasks = Path::new(TASKS);
            let usual = if tasks.is_dir() { tasks } else { Path::new(".") };
            let path = new_suite(dir.as_deref().unwrap_or(usual), name)?;
            print(&format!("{}\n", path.display()))?;
            let home = path.parent().unwrap_or(&path).display();
            log.note(format_args!("look at it, then try `clawrl validate {home}`"));
        }
        What::Task { suite, id } => {
            let path = suite_path::find(suite);
            let suite = new_task(&path, id)?;
            print(&format!("{}\n", suite.path().display()))?;
            log.note(format_args!(
                "it ends with the new task `{id}`; `clawrl validate {} --filter {id}` tries it",
                path.display()
            ));
        }
    }
    Ok(Exit::Success)
}
