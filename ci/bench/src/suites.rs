//! A suite of trivial tasks from the start of the program to its end, against Harbor.
//!
//! The tasks are folders in Harbor's format, made here, all alike: the solution writes a file, the test reads it. Each
//! has a Dockerfile of its own, as tasks do, which names the same image.
//!
//! - `container`: `clawrl run` with the oracle, over the folders as `clawrl import harbor` makes a suite of them, in
//!   containers of the machine's engine.
//! - `sandbox`: the same over the same image, unpacked into a folder, in bubblewrap.
//! - `harbor`: `harbor run` with its oracle over the folders themselves.
//!
//! All sides run as many trials at once, find their images built (the round that does not count builds them), and begin
//! with nothing but the folders: importing, which is done once, is not timed. A side counts only if every trial passed.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::caches::peers_folder;
use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::Failure;

/// The rows of the design that this area answers to: trials a second over Harbor's.
const CONTAINER_AT_LEAST: f64 = 3.0;
const SANDBOX_AT_LEAST: f64 = 50.0;

const INSTALL: &str = "PYTHON=python3.12 ci/bench/peers/install.sh";
/// Where the tasks work. The image has bash and the core utilities, and needs nothing else.
const WORKSPACE: &str = "/app";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Tasks of the suite, one trial each.
    #[arg(long, default_value_t = 64)]
    tasks: u32,
    /// Trials at once, on every side.
    #[arg(long, default_value_t = 8)]
    concurrency: u32,
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Image of the tasks, with bash; it is never pulled.
    #[arg(long, default_value = "clawrl-base:latest")]
    image: String,
    /// What to measure. Without Harbor, no ratio.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Side::Container, Side::Sandbox, Side::Harbor])]
    sides: Vec<Side>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    /// Ours, in containers.
    Container,
    /// Ours, in bubblewrap on the unpacked image.
    Sandbox,
    /// Harbor, in containers.
    Harbor,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Sandbox => "sandbox",
            Self::Harbor => "harbor",
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    round: u32,
    tasks: u32,
    concurrency: u32,
    seconds: f64,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let ground = Ground::make(arguments)?;
    let mut rows = Vec::new();
    for round in 0..=arguments.rounds {
        for &side in &arguments.sides {
            let begin = Instant::now();
            let passed = match side {
                Side::Container | Side::Sandbox => ground.ours(side, round)?,
                Side::Harbor => ground.harbor(round)?,
            };
            let seconds = begin.elapsed().as_secs_f64();
            if passed != u64::from(arguments.tasks) {
                let (name, tasks) = (side.name(), arguments.tasks);
                return Err(
                    format!("{name}: {passed} of {tasks} trials passed, so nothing was measured").into()
                );
            }
            if round > 0 {
                let (tasks, concurrency) = (arguments.tasks, arguments.concurrency);
                rows.push(Row { side, round, tasks, concurrency, seconds });
            }
        }
    }
    rows::append(out, "suite", &rows)?;
    Ok(table(arguments, &rows))
}

/// Task folders, and the suites made of them.
struct Ground {
    folder: tempfile::TempDir,
    program: PathBuf,
    harbor: Option<PathBuf>,
    concurrency: String,
}

impl Ground {
    fn make(arguments: &Arguments) -> Result<Self, Failure> {
        let program = std::env::current_exe()?.with_file_name("clawrl");
        if !program.is_file() {
            return Err(format!("{} is not there; ci/bench/run.sh builds it", program.display()).into());
        }
        let folder = tempfile::tempdir()?;
        // Sandboxes of other users look into what is unpacked there.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let harbor = match arguments.sides.contains(&Side::Harbor) {
            true => {
                Some(harbor_program().ok_or_else(|| format!("Harbor is not here; `{INSTALL}` installs it"))?)
            }
            false => None,
        };
        let concurrency = arguments.concurrency.to_string();
        let ground = Self { folder, program, harbor, concurrency };
        for number in 0..arguments.tasks {
            write_task(&ground.tasks().join(format!("write-{number:03}")), number, &arguments.image)?;
        }
        if arguments.sides.contains(&Side::Container) {
            ground.import(Side::Container, &[])?;
        }
        if arguments.sides.contains(&Side::Sandbox) {
            let root = ground.folder.path().join("root");
            unpack(&arguments.image, &root)?;
            ground.import(Side::Sandbox, &["--rootfs".as_ref(), root.as_os_str()])?;
        }
        Ok(ground)
    }

    fn tasks(&self) -> PathBuf {
        self.folder.path().join("tasks")
    }

    fn suite(&self, side: Side) -> PathBuf {
        self.folder.path().join(side.name())
    }

    fn import(&self, side: Side, more: &[&std::ffi::OsStr]) -> Result<(), Failure> {
        let mut command = Command::new(&self.program);
        command.args(["import", "harbor"]).arg(self.tasks()).arg("--output").arg(self.suite(side)).args(more);
        said(&mut command).map(drop)
    }

    /// How many trials of a run of ours passed.
    fn ours(&self, side: Side, round: u32) -> Result<u64, Failure> {
        let mut command = Command::new(&self.program);
        command.arg("run").arg(self.suite(side)).args(["--policy", "oracle", "--json", "--concurrency"]);
        command.arg(&self.concurrency).arg("--name").arg(format!("{}-{round}", side.name()));
        command.arg("--results").arg(self.folder.path().join("results"));
        let summary: Value = serde_json::from_str(&said(&mut command)?)?;
        Ok(summary["summary"]["total"]["passed"].as_u64().unwrap_or(0))
    }

    /// The same of a job of Harbor's.
    fn harbor(&self, round: u32) -> Result<u64, Failure> {
        let (Some(harbor), jobs, name) =
            (&self.harbor, self.folder.path().join("jobs"), format!("job-{round}"))
        else {
            return Ok(0);
        };
        let mut command = Command::new(harbor);
        command.arg("run").arg("--path").arg(self.tasks()).args(["--agent", "oracle", "--n-concurrent"]);
        command.arg(&self.concurrency).arg("--jobs-dir").arg(&jobs).args(["--job-name", &name, "--quiet"]);
        // Otherwise it asks a server for the prices of models first, and waits where there is no network.
        command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
        said(&mut command)?;
        let mut passed = 0;
        for entry in fs::read_dir(jobs.join(&name))? {
            let reward = entry?.path().join("verifier/reward.txt");
            passed += u64::from(fs::read_to_string(reward).is_ok_and(|reward| reward.trim() == "1"));
        }
        Ok(passed)
    }
}

/// A task in Harbor's format.
fn write_task(folder: &Path, number: u32, image: &str) -> Result<(), Failure> {
    let solution = format!("#!/bin/bash\necho {number} > {WORKSPACE}/out.txt\n");
    let test = format!(
        "#!/bin/bash\nreward=0\n[ \"$(cat {WORKSPACE}/out.txt)\" = {number} ] && reward=1\n\
         echo \"$reward\" > /logs/verifier/reward.txt\n"
    );
    let files = [
        ("instruction.md", format!("Write {number} into {WORKSPACE}/out.txt.\n")),
        (
            "task.toml",
            "version = \"1.0\"\n\n[environment]\nmemory = \"256M\"\nstorage = \"64M\"\n".to_owned(),
        ),
        ("environment/Dockerfile", format!("FROM {image}\nWORKDIR {WORKSPACE}\n")),
        ("solution/solve.sh", solution),
        ("tests/test.sh", test),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, text)?;
    }
    Ok(())
}

/// The files of an image, as `docker export` gives them.
fn unpack(image: &str, root: &Path) -> Result<(), Failure> {
    let id = said(Command::new("docker").args(["create", image, "true"]))?;
    let archive = root.with_extension("tar");
    said(Command::new("docker").arg("export").arg("--output").arg(&archive).arg(id.trim()))?;
    said(Command::new("docker").args(["rm", id.trim()]))?;
    fs::create_dir_all(root)?;
    said(Command::new("tar").arg("-x").arg("-C").arg(root).arg("-f").arg(&archive)).map(drop)
}

fn harbor_program() -> Option<PathBuf> {
    let program = peers_folder("peers")?.join("bin/harbor");
    program.is_file().then_some(program)
}

/// What a program prints, if it ends well.
fn said(command: &mut Command) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = words.lines().rev().take(5).collect();
    let last = last.into_iter().rev().collect::<Vec<_>>().join("; ");
    Err(Box::<dyn Error + Send + Sync>::from(format!(
        "{}: {}: {last}",
        command.get_program().display(),
        output.status
    )))
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let rates = |side: Side| {
        let of_side = rows.iter().filter(|row| row.side == side);
        Sample::new(of_side.map(|row| f64::from(row.tasks) / row.seconds).collect())
    };
    let harbor = arguments.sides.contains(&Side::Harbor).then(|| rates(Side::Harbor).median());
    let mut lines = vec![["side", "trials/s", "over Harbor"].map(str::to_owned).to_vec()];
    for &side in &arguments.sides {
        let ratio =
            harbor.map_or_else(|| "-".to_owned(), |harbor| format!("{:.1}", rates(side).median() / harbor));
        lines.push(vec![side.name().to_owned(), rates(side).summary(), ratio]);
    }
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let mut text = format!(
        "{} tasks, {} at once, median (least-greatest) of {} rounds, {cores} cores\n\n{}",
        arguments.tasks,
        arguments.concurrency,
        arguments.rounds,
        render(&lines),
    );
    let targets = [(Side::Container, CONTAINER_AT_LEAST), (Side::Sandbox, SANDBOX_AT_LEAST)];
    for (side, at_least) in targets.into_iter().filter(|(side, _)| arguments.sides.contains(side)) {
        let Some(harbor) = harbor else { break };
        let ratio = rates(side).median() / harbor;
        let verdict = if ratio >= at_least { "met" } else { "missed" };
        // Writing to a string cannot fail.
        let _ =
            write!(text, "\ntarget, {}: at least {at_least} x Harbor: {verdict} ({ratio:.1} x)", side.name());
    }
    text
}
