//! The verifier of a task: `tests/` as its files, `test.sh` as its program, and its own environment if it has one.

use std::path::Path;

use super::environment::{Place, refuse_windows};
use super::network::{self, Network};
use crate::dockerfile::{Base, StartRules, StartedPrograms};
use crate::document::Section;
use crate::draft::{
    ApartDraft, ArtifactDraft, Fixture, FixtureSource, ImageDraft, ImageOrigin, TaskRecord, VerifierDraft,
    fixture_of,
};
use crate::findings::Findings;
use crate::image::{check_build, note_what_tests_miss, sandbox_image, visible_tree};
use crate::keep_alive::IN_TESTS;
use crate::options::Import;
use crate::oracle;
use crate::tree::{Tree, TreeFile};
use crate::variables::{set, settle};

/// Folder for the agent's results, by Harbor's convention.
const ARTIFACTS: &str = "/logs/artifacts";

/// Harbor's own compose file sets the container's command.
const STARTS: StartRules = StartRules { what: StartedPrograms::Entrypoint, instead: IN_TESTS };

/// The parts of the task that a verifier depends on.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) place: &'a Place<'a>,
    /// The folder `tests` of the task.
    pub(super) tests: &'a Path,
    pub(super) image: &'a ImageDraft,
    /// The environment has files or setup commands besides its image.
    pub(super) is_made: bool,
    pub(super) network: Network,
    pub(super) vars: &'a [(String, String)],
}

/// A verifier, with its files in the suite.
#[derive(Debug)]
pub(super) struct VerifierParts {
    pub(super) verifier: VerifierDraft,
    pub(super) fixtures: Vec<Fixture>,
    /// Time in seconds for everything besides the verifier itself.
    pub(super) around: f64,
}

pub(super) fn verifier(
    task: &Task<'_>,
    record: &mut TaskRecord,
    import: &mut Import<'_>,
) -> Option<VerifierParts> {
    let document = task.place.document;
    let root = document.section();
    let section = root.section("verifier");
    let own = section.section("environment");
    let separate = is_separate(&section, &own, &mut import.findings);
    let tree = tests(task.tests, import)?;
    let script = tree.file("test.sh")?;
    let run = oracle::running("/tests/test.sh", &std::fs::read(&script.from).unwrap_or_default());
    let id = task.place.id;
    let into = format!("fixtures/{id}/tests");
    let mut fixtures: Vec<Fixture> = Vec::new();
    for file in &tree.files {
        let mut fixture = fixture_of(file, format!("{into}/{}", file.path));
        if file.path.ends_with(".sh") {
            // Harbor makes the script executable before running it.
            fixture.mode |= 0o111;
        }
        fixtures.push(fixture);
    }
    let in_containers = import.in_containers();
    let mut vars = task.vars.to_vec();
    let mut network = task.network;
    let timeout_secs =
        section.number("timeout_sec", &mut import.findings).map_or(600.0, |number| number.value);
    let collect = collect(&section, separate, &mut import.findings);
    let around = collect.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let apart = if separate {
        if own.is_there() {
            refuse_windows(&own, &mut import.findings);
            network = network::baseline(&own, in_containers, &mut import.findings);
            vars = Vec::new();
            add(&mut vars, &own, "env", import, document);
        }
        let image = own_image(task, &own, &tree, record, &mut vars, import);
        let artifacts = artifacts(&root, task, &mut import.findings);
        Some(ApartDraft { image, artifacts, collect })
    } else {
        if root.has("artifacts") {
            import
                .findings
                .note("`artifacts` is left out: a shared verifier works in the agent's environment");
        }
        None
    };
    // In Harbor, too, a separate verifier receives only artifacts.
    if apart.is_none() {
        note_what_tests_miss(&tree, task.image, import);
    }
    add(&mut vars, &section, "env", import, document);
    let network = network::mode(&section, in_containers, &mut import.findings).unwrap_or(network);
    let user = section.word("user", &mut import.findings).map(|user| user.value);
    if user.is_some() && !in_containers {
        let help = "a sandbox has one user; remove the key, or import for containers";
        section.refuse("user", &mut import.findings, "`verifier.user` is not supported in a sandbox", help);
    }
    if timeout_secs <= 0.0 || timeout_secs > 80_000.0 {
        section.refuse(
            "timeout_sec",
            &mut import.findings,
            "`verifier.timeout_sec` is out of range",
            "write 1 to 80000 seconds",
        );
    }
    let verifier = VerifierDraft {
        files: into,
        run,
        vars,
        user,
        timeout_secs,
        network: network.word(in_containers),
        reward: "files",
        apart,
    };
    Some(VerifierParts { verifier, fixtures, around })
}

/// The tests, including the script.
fn tests(folder: &Path, import: &mut Import<'_>) -> Option<Tree> {
    if !folder.is_dir() {
        let help = "add `tests/test.sh`: it runs after the agent and writes a number from 0 to 1 into /logs/verifier/reward.txt";
        import.findings.refuse_path(folder, "the task has no tests", help);
        return None;
    }
    let tree = Tree::read(folder, &mut import.findings);
    if tree.file("test.sh").is_some() {
        return Some(tree);
    }
    let (message, help) = if tree.file("test.bat").is_some() {
        ("has a `test.bat` and no `test.sh`", "run this task by Harbor on a Windows host, or add a `test.sh`")
    } else {
        (
            "has no `test.sh`",
            "add it: it runs after the agent and writes a number from 0 to 1 into /logs/verifier/reward.txt",
        )
    };
    import.findings.refuse_path(folder, message, help);
    None
}

fn is_separate(section: &Section<'_>, own: &Section<'_>, findings: &mut Findings) -> bool {
    let Some(mode) = section.text("environment_mode", findings) else { return own.is_there() };
    match mode.value.as_str() {
        "separate" => true,
        "shared" if own.is_there() => {
            let help = "remove `[verifier.environment]`, or write `separate`";
            section.refuse(
                "environment_mode",
                findings,
                "a shared verifier has no environment of its own",
                help,
            );
            false
        }
        "shared" => false,
        other => {
            let message = format!("`{other}` is not an environment mode");
            section.refuse("environment_mode", findings, message, "write `shared` or `separate`");
            false
        }
    }
}

fn add(
    vars: &mut Vec<(String, String)>,
    section: &Section<'_>,
    key: &str,
    import: &mut Import<'_>,
    document: &crate::document::Document,
) {
    let variables = section.variables(key, &mut import.findings);
    set(vars, settle(document, variables, &import.options.environment, &mut import.findings));
}

/// The image of a separate verifier: a named one, one built from `tests/Dockerfile`, or the agent's.
fn own_image(
    task: &Task<'_>,
    own: &Section<'_>,
    tree: &Tree,
    record: &mut TaskRecord,
    vars: &mut Vec<(String, String)>,
    import: &mut Import<'_>,
) -> Option<ImageDraft> {
    let workdir = own.text("workdir", &mut import.findings).map(|workdir| workdir.value);
    let prebuilt = own.text("docker_image", &mut import.findings);
    let seconds = own.number("build_timeout_sec", &mut import.findings).map_or(600.0, |number| number.value);
    let id = task.place.id;
    if tree.file("docker-compose.yaml").is_some() {
        let help = "use a Dockerfile instead";
        import.findings.refuse_path(
            &task.tests.join("docker-compose.yaml"),
            "compose files of verifiers cannot be represented",
            help,
        );
    }
    match prebuilt {
        Some(name) if import.in_containers() => {
            Some(ImageDraft { source: ImageOrigin::Name(name.value), workdir, user: None })
        }
        Some(name) => match import.rootfs.find(&name.value) {
            Ok(path) => {
                record.rootfs.insert(name.value, path.clone());
                let workdir = workdir.or_else(|| task.image.workdir.clone());
                Some(ImageDraft { source: ImageOrigin::Rootfs(path), workdir, user: None })
            }
            Err((message, help)) => {
                own.refuse("docker_image", &mut import.findings, message, help);
                None
            }
        },
        None if tree.file("Dockerfile").is_some() && import.in_containers() => {
            check_build(&task.tests.join("Dockerfile"), STARTS, &mut import.findings);
            let timeout_secs = seconds.ceil().max(1.0) as u64;
            let folder = format!("fixtures/{id}/tests");
            let source = ImageOrigin::Build { folder, dockerfile: "Dockerfile".to_owned(), timeout_secs };
            Some(ImageDraft { source, workdir, user: None })
        }
        None if tree.file("Dockerfile").is_some() => {
            let shown = task.tests.join("Dockerfile");
            let visible = visible_tree(task.tests, "Dockerfile", import)?;
            let base = Base { tree: &visible, workdir: Some("/tests"), starts: STARTS };
            let (sandbox, path) = sandbox_image(&shown, &base, import)?;
            let moved = sandbox.files.iter().any(|(path, content, _)| {
                let same = |file: &TreeFile| match (content, &file.link) {
                    (FixtureSource::File(from), None) => *from == file.from,
                    (FixtureSource::Link(to), Some(link)) => *to == link.target,
                    _ => false,
                };
                !tree.files.iter().any(|file| file.path == *path && same(file))
            });
            if moved || !sandbox.setup.is_empty() {
                let help = "in a sandbox, `tests/` is copied to /tests and nothing prepares the tests; or import for containers";
                import.findings.refuse_path(&shown, "does more than `COPY . /tests`", help);
            }
            record.rootfs.insert(sandbox.image, path.clone());
            for (name, value) in sandbox.vars {
                if !vars.iter().any(|(known, _)| *known == name) {
                    vars.push((name, value));
                }
            }
            let workdir = workdir.or_else(|| task.image.workdir.clone());
            Some(ImageDraft { source: ImageOrigin::Rootfs(path), workdir, user: None })
        }
        None => {
            if task.is_made && !import.in_containers() {
                let help =
                    "give the verifier an image of its own with `tests/Dockerfile`, or import for containers";
                let message = "the separate verifier uses a copy of the environment, which in a sandbox lacks the environment's files and RUNs";
                import.findings.refuse_path(task.place.folder, message, help);
            }
            None
        }
    }
}

fn artifacts(root: &Section<'_>, task: &Task<'_>, findings: &mut Findings) -> Vec<ArtifactDraft> {
    let mut artifacts = Vec::new();
    for section in root.each("artifacts") {
        if let Some(source) = section.own_text() {
            let found = artifact(root, "artifacts", source, Vec::new(), task, findings);
            artifacts.extend(found);
            continue;
        }
        let Some(source) = section.text("source", findings) else {
            if !section.has("source") {
                section.refuse(
                    "source",
                    findings,
                    "an artifact has no source",
                    "name it: `source = \"/app/out\"`",
                );
            }
            continue;
        };
        if let Some(service) = section.text("service", findings).filter(|service| service.value != "main") {
            let message = format!("an artifact of the service `{}`", service.value);
            section.refuse("service", findings, message, "a task here has one container: `main`");
        }
        if section.has("destination") {
            findings.note(format!(
                "the destination of the artifact `{}` is left out: it is a path in Harbor's results",
                source.value
            ));
        }
        let exclude: Vec<String> =
            section.texts("exclude", findings).into_iter().map(|pattern| pattern.value).collect();
        if exclude.iter().any(|pattern| pattern.contains(['[', '\\'])) {
            let help = "use names, `*` and `?`";
            section.refuse("exclude", findings, "patterns with character sets cannot be represented", help);
        }
        artifacts.extend(artifact(&section, "source", &source.value, exclude, task, findings));
    }
    if !artifacts.iter().any(|artifact| artifact.source == ARTIFACTS) {
        artifacts.insert(0, ArtifactDraft { source: ARTIFACTS.to_owned(), exclude: Vec::new() });
    }
    artifacts
}

fn artifact(
    section: &Section<'_>,
    key: &str,
    source: &str,
    exclude: Vec<String>,
    task: &Task<'_>,
    findings: &mut Findings,
) -> Option<ArtifactDraft> {
    if source.split('/').any(|part| part == "..") {
        section.refuse(
            key,
            findings,
            format!("the artifact `{source}` leads out of its folder"),
            "write the path without `..`",
        );
        return None;
    }
    let source = source.trim_end_matches('/');
    let source = match (&task.image.workdir, source.starts_with('/')) {
        (_, true) => source.to_owned(),
        (Some(workdir), false) => format!("{}/{source}", workdir.trim_end_matches('/')),
        (None, false) => {
            let help = "write it from the root: `/app/out`";
            section.refuse(
                key,
                findings,
                format!("the artifact `{source}` is relative to an unknown folder"),
                help,
            );
            return None;
        }
    };
    Some(ArtifactDraft { source, exclude })
}

/// Commands that prepare artifacts, with their time limits.
fn collect(verifier: &Section<'_>, separate: bool, findings: &mut Findings) -> Vec<(String, f64)> {
    let mut commands = Vec::new();
    for section in verifier.each("collect") {
        if !separate {
            let help = "do it at the start of `test.sh`: a shared verifier runs in the same environment";
            section.refuse("command", findings, "`verifier.collect` needs a separate verifier", help);
            continue;
        }
        if let Some(service) = section.text("service", findings).filter(|service| service.value != "main") {
            let message = format!("a command in the service `{}`", service.value);
            section.refuse("service", findings, message, "a task here has one container: `main`");
        }
        let timeout = section.number("timeout_sec", findings).map_or(60.0, |number| number.value);
        match section.text("command", findings) {
            Some(command) => commands.push((command.value, timeout)),
            None if !section.has("command") => {
                section.refuse(
                    "command",
                    findings,
                    "`verifier.collect` has no command",
                    "add `command = \"...\"`",
                );
            }
            None => {}
        }
    }
    commands
}
