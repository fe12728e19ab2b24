//! `clawrl new`: write a new suite, a new task into one, or a new train file.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use clawrl_config::{NewTask, StarterEnv, new_suite, new_task, new_train};
use clawrl_runtime::{TASKS, quoted, suite_path};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print;

/// Writes a new suite, a new task into one, or a new train file.
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
    /// Write a suite that runs, with comments; for `process` and `http`, with a program in Python beside it, for `gui` with
    /// pages.
    #[command(
        after_help = "Example:\n  clawrl new suite my-suite\n  clawrl new suite my-pages --env gui\n  clawrl new suite my-env --env process"
    )]
    Suite {
        /// Its name: lower-case letters, digits and dashes.
        name: String,
        /// The environment of its tasks.
        #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Terminal)]
        env: Kind,
        /// Folder to make it in [default: tasks, where there is such a folder, else this one].
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Add a task that runs to the end of a suite, with the environment of its last one.
    #[command(after_help = "Example:\n  clawrl new task my-suite my-task")]
    Task {
        /// A suite.yaml, its folder, or the name of a folder under ./tasks.
        suite: PathBuf,
        /// Id of the task: lower-case letters, digits and dashes.
        id: String,
    },
    /// Write a train file with comments: a small policy from nothing, trained on suites whose tasks have oracles.
    #[command(after_help = "Example:\n  clawrl new train my-training my-suite")]
    Train {
        /// Its name: lower-case letters, digits and dashes. The file is NAME.yaml.
        name: String,
        /// Suites: a suite.yaml, its folder, or the name of a folder under ./tasks.
        #[arg(value_name = "SUITE", required = true)]
        suites: Vec<PathBuf>,
        /// Folder to write it into.
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
}

/// The environments, as suites name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A shell in a sandbox.
    Terminal,
    /// Tools that the suite declares, and an answer.
    Toolcall,
    /// A browser, and pages that the suite brings.
    Gui,
    /// A program of yours, one for each attempt.
    Process,
    /// A server of yours.
    Http,
    /// A server of OpenEnv.
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
