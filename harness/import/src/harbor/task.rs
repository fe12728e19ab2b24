//! Imports a task folder of Harbor.

use std::fs;
use std::path::Path;

use clawrl_config::ConfigError;

use super::digest::digest;
use super::environment::{EnvironmentParts, Place, environment};
use super::network::{self, Network};
use super::verifier::{Task, VerifierParts, verifier};
use crate::document::{Document, Section, read_text};
use crate::draft::{Action, Durations, TaskDraft, TaskRecord};
use crate::findings::Findings;
use crate::image::Environment;
use crate::options::Import;
use crate::oracle::{self, SOLUTION, SolutionFile};
use crate::shell_text::with_variables;
use crate::tree::Tree;
use crate::variables::settle;

/// Time limit of an agent, in seconds, if the task sets none.
const AGENT_SECONDS: f64 = 3600.0;
/// Maximum time of an agent, in seconds: an attempt, setup included, lasts at most one day.
const MAX_SECONDS: f64 = 80_000.0;
/// Time for grading, in seconds, in addition to the verifier itself.
const GRADING_SECONDS: f64 = 120.0;
const SCHEMAS: [&str; 5] = ["1.0", "1.1", "1.2", "1.3", "1.4"];

pub(crate) fn document(folder: &Path) -> Result<Document, ConfigError> {
    Document::toml(&folder.join("task.toml"))
}

/// Reads the rest of a task; problems go to the findings.
pub(crate) fn read_document(
    folder: &Path,
    id: &str,
    document: &Document,
    import: &mut Import<'_>,
) -> Option<TaskDraft> {
    let root = document.section();
    check_schema(&root, &mut import.findings);
    let section = root.section("environment");
    let environment_folder = folder.join("environment");
    let place = Place { id, folder: &environment_folder, section: &section, document };
    let instruction = instruction(folder, import);
    let environment = environment(&place, import);
    let oracle = oracle(folder, document, import);
    let EnvironmentParts { made, network, setup_seconds, build_seconds, limits } = environment?;
    let Environment { mut image, files, setup, vars, fixtures, rootfs } = made;
    let mut record = TaskRecord {
        name: root.section("task").text("name", &mut import.findings).map(|name| name.value),
        digest: digest(folder).map(|hex| format!("sha256:{hex}")),
        rootfs,
        ..TaskRecord::of(folder, id)
    };
    let is_made = files.is_some() || !setup.is_empty();
    let tests = folder.join("tests");
    let task = Task { place: &place, tests: &tests, image: &image, is_made, network, vars: &vars };
    let VerifierParts { verifier, fixtures: tests, around } = verifier(&task, &mut record, import)?;
    let agent = root.section("agent");
    let network = agent_network(&agent, network, import);
    if import.in_containers() && verifier.apart.is_none() && verifier.network != network {
        let section = root.section("verifier");
        let asking = if section.has("network_mode") { &section } else { &agent };
        let message = format!(
            "the agent's network is {network} and the verifier's {}, in one container",
            verifier.network
        );
        let help = "use the same `network_mode` for both, or write `environment_mode = \"separate\"` for the verifier";
        asking.refuse("network_mode", &mut import.findings, message, help);
    }
    if let Some(user) = agent.word("user", &mut import.findings) {
        if import.in_containers() {
            image.user = Some(user.value);
        } else {
            let help = "the agent of a sandbox is an ordinary user; remove the key, or import for containers";
            agent.refuse("user", &mut import.findings, "`agent.user` is not supported in a sandbox", help);
        }
    }
    let durations = Durations {
        lease: 120.0 + if import.in_containers() { build_seconds } else { 0.0 },
        setup: 60.0 + setup_seconds,
        agent: agent_seconds(&agent, &mut import.findings),
        grade: GRADING_SECONDS + verifier.timeout_secs + around,
    };
    Some(TaskDraft {
        id: id.to_owned(),
        instruction: instruction?,
        max_turns: import.max_turns(&oracle),
        durations,
        sandbox: import.sandbox(),
        network,
        image,
        files,
        setup,
        vars,
        limits,
        verifier,
        oracle,
        fixtures: fixtures.into_iter().chain(tests).collect(),
        record,
    })
}

/// Notes the files of a task folder that are not imported.
pub(crate) fn look_around(folder: &Path, findings: &mut Findings) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    for name in names {
        let path = folder.join(&name);
        match name.as_str() {
            "task.toml" | "instruction.md" | "environment" | "tests" | "solution" => {}
            "README.md" | ".gitignore" => {}
            "steps" => {
                let help = "split the task into one folder per step: a task here has one instruction and one verifier";
                findings.refuse_path(&path, "tasks with several steps cannot be represented", help);
            }
            "trajectory.json" => {
                let help = "remove it, or describe it in the instruction: an attempt here begins with an empty history";
                findings.refuse_path(&path, "tasks that begin with a trajectory cannot be represented", help);
            }
            _ => findings.note(format!("`{name}` is left out: tasks have no such file")),
        }
    }
    for ignore in [".harborignore", "tests/.harborignore", "solution/.harborignore"] {
        let path = folder.join(ignore);
        if path.exists() {
            findings.refuse_path(
                &path,
                "ignore rules are not supported",
                "remove it, and the files that it excludes",
            );
        }
    }
}

fn check_schema(root: &Section<'_>, findings: &mut Findings) {
    let key = if root.has("schema_version") { "schema_version" } else { "version" };
    match root.text(key, findings) {
        Some(version) if SCHEMAS.contains(&version.value.as_str()) => {}
        Some(version) => {
            let message = format!("`{key}` is `{}`; 1.0 to 1.4 are supported", version.value);
            root.refuse(
                key,
                findings,
                message,
                "update clawrl, or convert the task to one of these versions",
            );
        }
        None if !root.has(key) => findings.note("no `schema_version`: read as 1.4"),
        None => {}
    }
}

fn instruction(folder: &Path, import: &mut Import<'_>) -> Option<String> {
    let path = folder.join("instruction.md");
    if !path.exists() {
        let help = "add it: the whole file is the agent's instruction";
        import.findings.refuse_path(&path, "the task has no instruction", help);
        return None;
    }
    match read_text(&path) {
        Ok(source) if source.text().trim().is_empty() => {
            import.findings.refuse_path(&path, "the instruction is empty", "describe the agent's task");
            None
        }
        Ok(source) if source.text().contains('\0') => {
            import.findings.refuse_path(&path, "the instruction holds a NUL character", "save it as text");
            None
        }
        Ok(source) => Some(source.text().to_owned()),
        Err(problem) => {
            import.findings.adopt(&problem.into());
            None
        }
    }
}

fn agent_network(agent: &Section<'_>, baseline: Network, import: &mut Import<'_>) -> &'static str {
    let in_containers = import.in_containers();
    let network = network::mode(agent, in_containers, &mut import.findings).unwrap_or(baseline);
    if network == Network::Unsaid && !in_containers {
        import.findings.note("no `network_mode`: a sandbox has no network; Harbor's default is `public`");
    }
    network.word(in_containers)
}

fn agent_seconds(agent: &Section<'_>, findings: &mut Findings) -> f64 {
    let Some(timeout) = agent.number("timeout_sec", findings) else {
        if !agent.has("timeout_sec") {
            findings.note(format!("no `agent.timeout_sec`: {AGENT_SECONDS} seconds"));
        }
        return AGENT_SECONDS;
    };
    if timeout.value <= 0.0 || timeout.value > MAX_SECONDS {
        let message = "`agent.timeout_sec` is out of range";
        agent.refuse("timeout_sec", findings, message, format!("write 1 to {MAX_SECONDS} seconds"));
    }
    timeout.value
}

/// Commands that write and run the reference solution; none if there is none.
fn oracle(folder: &Path, document: &Document, import: &mut Import<'_>) -> Vec<Action> {
    let solution = folder.join("solution");
    let section = document.section().section("solution");
    let variables = section.variables("env", &mut import.findings);
    if !solution.is_dir() {
        import.findings.note(
            "no `solution`: the task has no oracle, so `clawrl validate` cannot check that it is solvable",
        );
        return Vec::new();
    }
    let tree = Tree::read(&solution, &mut import.findings);
    let Some(script) = tree.file("solve.sh") else {
        let help = if tree.file("solve.bat").is_some() {
            "add a `solve.sh`: environments here are Linux"
        } else {
            "add it, or remove the folder; it solves the task from the agent's working folder"
        };
        import.findings.refuse_path(&solution, "has no `solve.sh`", help);
        return Vec::new();
    };
    let Some(files) = solution_files(&tree, &mut import.findings) else { return Vec::new() };
    let bytes = fs::read(&script.from).unwrap_or_default();
    let variables = settle(document, variables, &import.options.environment, &mut import.findings);
    let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let debian = [("DEBIAN_FRONTEND", "noninteractive")];
    let before = with_variables(debian.into_iter().filter(|_| import.in_containers()).chain(pairs));
    let run = format!("{before}{} < /dev/null", oracle::running(&format!("{SOLUTION}/solve.sh"), &bytes));
    let mut commands = oracle::writing(&files, SOLUTION);
    commands.push(run);
    commands.into_iter().map(Action::Run).collect()
}

/// The files of a solution, with their bytes: they become text of the suite.
pub(crate) fn solution_files(tree: &Tree, findings: &mut Findings) -> Option<Vec<SolutionFile>> {
    const MAX_BYTES: u64 = 1 << 20;
    let mut files = Vec::new();
    for file in &tree.files {
        if !file.is_readable() {
            let help = "replace it by its target: the oracle types files into a terminal";
            findings.refuse_path(&file.from, "is a symbolic link, but not to a file of the solution", help);
            return None;
        }
        if file.bytes > MAX_BYTES {
            let help =
                format!("keep each below {} KiB: the oracle types them into a terminal", MAX_BYTES >> 10);
            findings.refuse_path(
                &file.from,
                format_args!("a file of the solution has {} KiB", file.bytes >> 10),
                help,
            );
            return None;
        }
        match fs::read(&file.from) {
            Ok(bytes) => {
                let executable = file.mode & 0o111 != 0 || file.path.ends_with(".sh");
                files.push(SolutionFile { path: file.path.clone(), bytes, executable });
            }
            Err(cause) => {
                findings.refuse_path(
                    &file.from,
                    format_args!("cannot be read: {}", cause.kind()),
                    "make it readable for this user",
                );
                return None;
            }
        }
    }
    Some(files)
}
