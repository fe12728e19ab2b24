//! Executes the tutorials and the README: writes their files, runs their commands, compares their output.
//!
//! A page runs in one bash, in an empty folder. A block `sh` is executed. A block `text` behind it holds lines that its output contains in
//! this order; `…` stands for any text within a line. Any other block whose paragraph ends with a file name (``Save this as `x.yaml`:``) is
//! written to that file first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Fails at the first command that fails, and leaves no process behind.
const PRELUDE: &str = "set -eu\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n";

#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    files: Vec<(String, String)>,
    /// Commands, and the lines expected in their output.
    steps: Vec<(String, Vec<String>)>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut above = "";
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(kind) = line.strip_prefix("```") else {
                above = if line.is_empty() { above } else { line };
                continue;
            };
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let file = above.strip_suffix("`:").and_then(|above| above.rsplit_once('`'));
            match (kind, file) {
                ("sh", _) => page.steps.push((block.join("\n"), Vec::new())),
                ("text", _) => {
                    let step = page.steps.last_mut().expect("output stands behind its commands");
                    step.1.extend(block.into_iter().map(str::to_owned));
                }
                (_, Some((_, name))) => page.files.push((name.to_owned(), block.join("\n") + "\n")),
                _ => {}
            }
            above = "";
        }
        page
    }

    /// One script, with the output of each step in a file of its own.
    fn script(&self, outputs: &Path) -> String {
        let steps = self.steps.iter().enumerate();
        let steps = steps.map(|(index, (commands, _))| {
            format!("exec > '{}/{index}' 2>&1\n{commands}\n", outputs.display())
        });
        PRELUDE.to_owned() + &steps.collect::<String>()
    }
}

/// Does `pattern`, in which `…` stands for any text, describe all of `line`?
fn matches(pattern: &str, line: &str) -> bool {
    let parts: Vec<&str> = pattern.split('…').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return pattern == line.trim_end() };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in middle {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.trim_end().ends_with(last)
}

/// Executes the page at `path`, with each pair of `replaced` exchanged in its text.
fn check(path: &str, replaced: &[(&str, &str)]) {
    let mut text = fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    for (from, to) in replaced {
        assert!(text.contains(from), "{path} does not contain {from}");
        text = text.replace(from, to);
    }
    let page = Page::parse(&text);
    let folder = tempfile::tempdir().unwrap();
    let outputs = tempfile::tempdir().unwrap();
    for (name, text) in &page.files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let programs = PathBuf::from(env!("CARGO_BIN_EXE_clawrl")).parent().unwrap().display().to_string();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", &page.script(outputs.path())]).current_dir(folder.path());
    bash.env_clear().env("PATH", format!("{programs}:/usr/bin:/bin")).env("HOME", folder.path());
    let status = bash.stdin(Stdio::null()).status().unwrap();
    for (index, (commands, expected)) in page.steps.iter().enumerate() {
        let output = fs::read_to_string(outputs.path().join(index.to_string())).unwrap_or_default();
        let mut lines = output.lines();
        for pattern in expected {
            let found = lines.any(|line| matches(pattern, line));
            assert!(found, "{path}: no line `{pattern}`, {status}, of\n{commands}\n\n{output}");
        }
        let is_last = index + 1 == page.steps.len() || !outputs.path().join((index + 1).to_string()).exists();
        assert!(status.success() || !is_last, "{path}: {status} of\n{commands}\n\n{output}");
    }
}

#[cfg(feature = "torch")]
fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

#[test]
fn readme_commands_run() {
    check("README.md", &[]);
}

#[test]
fn first_run_tutorial_runs() {
    check("harness/docs/tutorials/first-run.md", &[]);
}

#[test]
fn first_suite_tutorial_runs() {
    check("harness/docs/tutorials/first-suite.md", &[]);
}

/// A tenth of the training; other tests measure learning.
#[cfg(feature = "torch")]
#[test]
fn first_training_tutorial_runs() {
    let smaller = [
        ("demonstrations: 200", "demonstrations: 20"),
        ("steps: 150", "steps: 10"),
        ("updates: 12", "updates: 1"),
        ("batch_groups: 8", "batch_groups: 1"),
        ("group_size: 8", "group_size: 4"),
        ("max_tasks: 100", "max_tasks: 8"),
    ];
    check("harness/docs/tutorials/first-training.md", &smaller);
}

#[test]
fn own_environment_tutorial_runs() {
    check("harness/docs/tutorials/own-environment-python.md", &[]);
}

#[cfg(feature = "torch")]
#[test]
fn chat_tutorial_runs() {
    check("harness/docs/tutorials/chat-that-learns.md", &[("30017", &free_port())]);
}

#[test]
fn gate_tutorial_runs() {
    check("harness/docs/tutorials/ci-gate.md", &[]);
}

#[test]
fn agent_tutorial_runs() {
    check("harness/docs/tutorials/bring-your-own-agent.md", &[]);
}

#[test]
fn every_tutorial_has_a_test() {
    let source = include_str!("tutorials.rs");
    for page in fs::read_dir(Path::new(ROOT).join("harness/docs/tutorials")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || source.contains(&format!("tutorials/{name}")), "{name} has no test");
    }
}

#[test]
fn pages_are_parsed() {
    let text = "Save this as `a/b.yaml`:\n\n```yaml\nx: 1\n```\n\nNot `this`, but:\n\n```yaml\ny\n```\n\n```sh\ncat a\nls\n```\n\n```text\na…\n```\n";
    let page = Page {
        files: vec![("a/b.yaml".to_owned(), "x: 1\n".to_owned())],
        steps: vec![("cat a\nls".to_owned(), vec!["a…".to_owned()])],
    };
    assert_eq!(Page::parse(text), page);
}

#[test]
fn patterns_match_whole_lines() {
    for (pattern, line, expected) in [
        ("run", "run", true),
        ("run", "runs", false),
        ("run …", "run of 9", true),
        ("…9", "run of 9", true),
        ("run…9 of…", "run: 9 of 9", true),
        ("run…8…", "run: 9 of 9", false),
    ] {
        assert_eq!(matches(pattern, line), expected, "{pattern} {line}");
    }
}
