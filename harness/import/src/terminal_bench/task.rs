//! Imports a task folder of Terminal-Bench 0.x.
//!
//! The folder of the task is also its build folder, with the solution and the tests in it. They are hidden from the
//! build, so that `COPY . .` does not give them to the agent.

use std::fs;
use std::path::Path;

use clawrl_config::ConfigError;

use super::solution::solution;
use crate::compose::{self, ComposeConvention};
use crate::dockerfile::{self, StartRules};
use crate::document::{Document, Section, read_text};
use crate::draft::{
    Durations, Fixture, Limits, TaskDraft, TaskRecord, VerifierDraft, fixture_of, fixtures_of,
};
use crate::findings::Findings;
use crate::image::{Environment, Recipe, make, note_what_tests_miss};
use crate::keep_alive::IN_SETUP;
use crate::options::Import;
use crate::tree::Tree;
use crate::variables::set;

const CUSTOMS: ComposeConvention<'static> = ComposeConvention {
    service: "client",
    variables: &[
        ("T_BENCH_TEST_DIR", "/tests"),
        ("T_BENCH_CONTAINER_LOGS_PATH", "/logs"),
        ("T_BENCH_CONTAINER_AGENT_LOGS_PATH", "/agent-logs"),
    ],
    internal: &[
        "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME",
        "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME",
        "T_BENCH_TASK_DOCKER_NAME_PREFIX",
        "T_BENCH_TASK_LOGS_PATH",
        "T_BENCH_TASK_AGENT_LOGS_PATH",
    ],
};

/// Files that a build must not see.
const HIDDEN: [&str; 6] =
    ["task.yaml", "solution.sh", "solution.yaml", "run-tests.sh", "docker-compose.yaml", "tests"];
/// Time limit of a build, in seconds; the format has none.
const BUILD_SECONDS: u64 = 600;
/// Time for grading, in seconds, in addition to the verifier itself.
const GRADING_SECONDS: f64 = 120.0;

pub(crate) fn document(folder: &Path) -> Result<Document, ConfigError> {
    Document::yaml(&folder.join("task.yaml"))
}

/// Reads the rest of a task; problems go to the findings.
pub(crate) fn read_document(
    folder: &Path,
    id: &str,
    document: &Document,
    import: &mut Import<'_>,
) -> Option<TaskDraft> {
    let root = document.section();
    let instruction = instruction(&root, &mut import.findings);
    refuse_other_grading(&root, &mut import.findings);
    let agent = seconds(&root, "max_agent_timeout_sec", 360.0, &mut import.findings);
    let test = seconds(&root, "max_test_timeout_sec", 60.0, &mut import.findings);
    let oracle = solution(folder, &mut import.findings);
    let (tests, tree) = tests(folder, id, &mut import.findings);
    let Environment { image, files, setup, vars, fixtures, rootfs } = made(folder, id, import)?;
    note_what_tests_miss(&tree, &image, import);
    let network = if import.in_containers() { "public" } else { "none" };
    if !import.in_containers() {
        import.findings.note("a sandbox has no network; Terminal-Bench's default is public");
    }
    let limits = Limits::default();
    import.findings.note(format!(
        "Terminal-Bench does not limit memory and processor: {} MiB and one core",
        limits.memory_mib
    ));
    let mut verifier_vars = vars.clone();
    set(&mut verifier_vars, [("TEST_DIR".to_owned(), "/tests".to_owned())]);
    let built = if import.in_containers() { BUILD_SECONDS as f64 } else { 0.0 };
    let setup_seconds = if setup.is_empty() { 60.0 } else { 60.0 + BUILD_SECONDS as f64 };
    Some(TaskDraft {
        id: id.to_owned(),
        instruction: instruction?,
        max_turns: import.max_turns(&oracle),
        durations: Durations {
            lease: 120.0 + built,
            setup: setup_seconds,
            agent,
            grade: GRADING_SECONDS + test,
        },
        sandbox: import.sandbox(),
        network,
        image,
        files,
        setup,
        vars,
        limits,
        verifier: VerifierDraft {
            files: format!("fixtures/{id}/tests"),
            run: "bash /tests/run-tests.sh".to_owned(),
            vars: verifier_vars,
            user: None,
            timeout_secs: test,
            network,
            reward: "pytest",
            apart: None,
        },
        oracle,
        fixtures: fixtures.into_iter().chain(tests).collect(),
        record: TaskRecord { rootfs, ..TaskRecord::of(folder, id) },
    })
}

fn instruction(root: &Section<'_>, findings: &mut Findings) -> Option<String> {
    match root.text("instruction", findings) {
        Some(text) if !text.value.trim().is_empty() => Some(text.value),
        Some(_) => {
            root.refuse("instruction", findings, "the instruction is empty", "describe the agent's task");
            None
        }
        None if !root.has("instruction") => {
            root.refuse(
                "instruction",
                findings,
                "the task has no instruction",
                "add `instruction: |` with the agent's task",
            );
            None
        }
        None => None,
    }
}

fn refuse_other_grading(root: &Section<'_>, findings: &mut Findings) {
    if let Some(parser) = root.text("parser_name", findings).filter(|parser| parser.value != "pytest") {
        let message = format!("the parser `{}` is not supported", parser.value);
        let help = "only `pytest` is: run pytest with `-rA` in run-tests.sh, which prints a short summary";
        root.refuse("parser_name", findings, message, help);
    }
    if root.flag("run_tests_in_same_shell", findings).is_some_and(|same| same.value) {
        let help = "test files that the agent leaves; all processes of the agent end before grading";
        root.refuse(
            "run_tests_in_same_shell",
            findings,
            "tests in the agent's own shell cannot be represented",
            help,
        );
    }
}

fn seconds(root: &Section<'_>, key: &str, default: f64, findings: &mut Findings) -> f64 {
    let Some(number) = root.number(key, findings) else { return default };
    if number.value <= 0.0 || number.value > 80_000.0 {
        root.refuse(key, findings, format!("`{key}` is out of range"), "write 1 to 80000 seconds");
    }
    number.value
}

/// `run-tests.sh` and the content of `tests`, side by side as in /tests; and the content of `tests` alone.
fn tests(folder: &Path, id: &str, findings: &mut Findings) -> (Vec<Fixture>, Tree) {
    let into = format!("fixtures/{id}/tests");
    let script = folder.join("run-tests.sh");
    let Ok(metadata) = fs::metadata(&script) else {
        let help = "add it: it runs pytest with `-rA` after the agent";
        findings.refuse_path(&script, "the task has no run-tests.sh", help);
        return Default::default();
    };
    if !metadata.is_file() || fs::symlink_metadata(&script).is_ok_and(|metadata| metadata.is_symlink()) {
        findings.refuse_path(&script, "is not a regular file", "put a regular file in its place");
        return Default::default();
    }
    let below = folder.join("tests");
    let mut tree = Tree::default();
    if below.is_dir() {
        tree = Tree::read(&below, findings);
    } else {
        findings.note("no `tests`: run-tests.sh is the only file of the verifier");
    }
    let file = crate::tree::TreeFile {
        path: "run-tests.sh".to_owned(),
        from: script,
        mode: 0o755,
        bytes: metadata.len(),
        link: None,
    };
    let mut fixtures = fixtures_of(&tree, &into);
    fixtures.retain(|fixture| fixture.path != format!("{into}/run-tests.sh"));
    fixtures.push(fixture_of(&file, format!("{into}/run-tests.sh")));
    (fixtures, tree)
}

/// The environment of the Dockerfile, with the settings of the compose file.
fn made(folder: &Path, id: &str, import: &mut Import<'_>) -> Option<Environment> {
    let service = compose::read(folder, &CUSTOMS, import)?;
    let dockerfile = service.dockerfile.clone().unwrap_or_else(|| "Dockerfile".to_owned());
    let shown = folder.join(&dockerfile);
    if !shown.is_file() {
        let help = "add a Dockerfile beside task.yaml";
        import.findings.refuse_path(&shown, "the task has no Dockerfile", help);
        return None;
    }
    refuse_copies_of_hidden(&shown, &mut import.findings);
    // A task's own compose file is complete; the default one sets a command.
    let starts = StartRules { what: service.started(!compose::is_in(folder)), instead: IN_SETUP };
    let recipe = Recipe {
        id,
        folder,
        dockerfile: &dockerfile,
        workdir: service.workdir.as_deref(),
        user: service.user.as_deref(),
        timeout_secs: BUILD_SECONDS,
        hidden: is_hidden,
        starts,
    };
    let mut made = make(&recipe, import)?;
    set(&mut made.vars, service.vars);
    Some(made)
}

fn is_hidden(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or(path);
    HIDDEN.contains(&first)
}

/// A COPY of the solution or the tests would give them to the agent.
fn refuse_copies_of_hidden(shown: &Path, findings: &mut Findings) {
    let source = match read_text(shown) {
        Ok(source) => source,
        Err(problem) => return findings.adopt(&problem.into()),
    };
    let (found, escape) = match dockerfile::instructions(&source) {
        Ok(found) => found,
        Err(problem) => return findings.adopt(&problem.into()),
    };
    for instruction in found.iter().filter(|found| matches!(found.keyword.as_str(), "COPY" | "ADD")) {
        for copied in dockerfile::copied_sources(instruction, escape) {
            let path = copied.trim_matches(['"', '\'']).trim_start_matches("./").trim_start_matches('/');
            if is_hidden(path) {
                let message = format!("{} gives `{path}` to the agent", instruction.keyword);
                let help =
                    "remove it from the line: the harness copies solution and tests when they are needed";
                findings.refuse(&source, instruction.span, "not possible", message, help);
            }
        }
    }
}
