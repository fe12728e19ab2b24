//! `clawrl new`: creates suites, tasks and train files.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use clawrl_config::{NewTask, StarterEnv, new_suite, new_task, new_train};
use clawrl_runtime::{TASKS, quoted, suite_path};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print;

/// Creates a suite, a task in a suite, or a train file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  clawrl new suite my-suite\n  clawrl new suite my-pages --env gui\n  clawrl new suite my-env --env process\n  \
                  clawrl new task my-suite my-task\n  clawrl new train my-training my-suite"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Creates a working suite with comments. Adds a Python program for `process` and `http`, and web pages for `gui`.
    #[command(
        after_help = "Example:\n  clawrl new suite my-suite\n  clawrl new suite my-pages --env gui\n  clawrl new suite my-env --env process"
    )]
    Suite {
        /// Name of the suite: lower-case letters, digits and dashes.
        name: String,
        /// Environment of its tasks.
        #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Terminal)]
        env: Kind,
        /// Parent folder [default: tasks if it exists, else the current folder].
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Appends a working task to a suite, with the environment of the suite's last task.
    #[command(after_help = "Example:\n  clawrl new task my-suite my-task")]
    Task {
        /// Suite: a suite.yaml, its folder, or the name of a folder under ./tasks.
        suite: PathBuf,
        /// Id of the task: lower-case letters, digits and dashes.
        id: String,
    },
    /// Creates a train file with comments. It trains a small policy from scratch on suites whose tasks have oracles.
    #[command(after_help = "Example:\n  clawrl new train my-training my-suite")]
    Train {
        /// Name of the training: lower-case letters, digits and dashes. The file is NAME.yaml.
        name: String,
        /// Suites: a suite.yaml, its folder, or the name of a folder under ./tasks.
        #[arg(value_name = "SUITE", required = true)]
        suites: Vec<PathBuf>,
        /// Folder of the file.
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
}

/// Environments by their names in suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Shell in a sandbox.
    Terminal,
    /// Tools that the suite declares, and a final answer.
    Toolcall,
    /// Browser with pages from the suite.
    Gui,
    /// Your own program, one process per attempt.
    Process,
    /// Your own HTTP server.
    Http,
    /// OpenEnv server.
    Openenv,
}

impl Kind {
    fn starter(self) -> StarterEnv {
        match self {
            Self::Terminal => StarterEnv::Terminal,
            Self::Toolcall => StarterEnv::Toolcall,
            Self::Gui => StarterEnv::Gui,
            Self::Process => StarterEnv::Process,
            Self::Http => StarterEnv::Http,
            Self::Openenv => StarterEnv::Openenv,
        }
    }
}

/// Runs the command. Prints the paths of the written files, the suite first.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    match &arguments.what {
        What::Suite { name, env, dir } => {
            let tasks = Path::new(TASKS);
            let usual = if tasks.is_dir() { tasks } else { Path::new(".") };
            let folder = dir.as_deref().unwrap_or(usual);
            let paths = new_suite(folder, name, env.starter())?;
            let lines: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
            print(&lines)?;
            let home = folder.join(name);
            let first = match env {
                Kind::Http => format!("start `python3 {}`, ", home.join("server.py 9000").display()),
                Kind::Openenv => "start its server, ".to_owned(),
                Kind::Terminal | Kind::Toolcall | Kind::Gui | Kind::Process => String::new(),
            };
            log.note(format_args!("look at it, {first}then try `clawrl validate {}`", home.display()));
        }
        What::Task { suite, id } => {
            let path = suite_path(suite);
            let NewTask { suite, copied } = new_task(&path, id)?;
            print(&format!("{}\n", suite.path().display()))?;
            let copied = copied.map(|of| format!(", a copy of `{of}` to be changed")).unwrap_or_default();
            log.note(format_args!(
                "it ends with the new task `{id}`{copied}; `clawrl validate {} --filter {id}` tries it",
                path.display()
            ));
        }
        What::Train { name, suites, dir } => {
            let suites: Vec<PathBuf> = suites.iter().map(|named| suite_path(named)).collect();
            let path = new_train(dir, name, &suites)?;
            print(&format!("{}\n", path.display()))?;
            let shown = quoted(&path);
            log.note(format_args!(
                "`clawrl plan {shown}` shows what it takes, then `clawrl train {shown}` trains"
            ));
        }
    }
    Ok(Exit::Success)
}
