//! Runs the steps of the GitHub Action with a program whose exit code the test chooses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Takes `ci --out DIR`, writes the files of gates if its exit code allows it, and prints its arguments.
const PROGRAM: &str = r#"#!/bin/sh
printf '%s\n' "$@" > arguments
case $CODE in 0|10|11) mkdir -p "$3"; for file in report.html summary.md junit.xml assessments.json; do echo "$file" > "$3/$file"; done
echo "::notice title=gate::it said" > "$3/annotations.txt";; esac
exit "$CODE"
"#;

struct Job {
    folder: TempDir,
}

impl Job {
    fn new() -> Self {
        let job = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(job.path("program"), PROGRAM).unwrap();
        fs::set_permissions(job.path("program"), fs::Permissions::from_mode(0o755)).unwrap();
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn step(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        let steps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/action");
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(steps.join(script));
        command.current_dir(self.folder.path()).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("GITHUB_OUTPUT", self.path("output")).env("GITHUB_STEP_SUMMARY", self.path("step"));
        command.envs(variables.iter().copied()).output().unwrap()
    }

    fn judge(&self, code: &str, more: &[(&str, &str)]) -> Output {
        let program = self.path("program");
        let usual = [
            ("CLAWRL_PROGRAM", program.to_str().unwrap()),
            ("CLAWRL_GATES", "\na gate.yaml\n  \n$(touch x).yaml\n"),
            ("CLAWRL_OUT", "out"),
            ("CODE", code),
        ];
        self.step("judge.sh", &[&usual, more].concat())
    }
}

#[test]
fn verdicts_become_outputs_and_then_the_end_of_the_job() {
    let check = |code: &str, verdict: &str, report: &str, ends: [i32; 2]| {
        let job = Job::new();
        let said = job.judge(code, &[]);
        assert!(said.status.success(), "{said:?}");
        let output = job.text("output");
        for line in [format!("verdict={verdict}"), format!("exit-code={code}"), format!("report={report}")] {
            assert!(output.lines().any(|other| other == line), "no {line} in {output}");
        }
        let log = String::from_utf8(said.stdout).unwrap();
        let expected = if report.is_empty() { "::error title=ClawRL::" } else { "::notice title=gate::" };
        assert!(log.contains(expected), "{log}");
        assert_eq!(job.text("step").contains("summary.md"), !report.is_empty());
        for (inconclusive, end) in ["fail", "warn"].into_iter().zip(ends) {
            let variables = [("CLAWRL_EXIT_CODE", code), ("CLAWRL_INCONCLUSIVE", inconclusive)];
            assert_eq!(job.step("verdict.sh", &variables).status.code(), Some(end), "{code} {inconclusive}");
        }
    };
    check("0", "pass", "out/report.html", [0, 0]);
    check("10", "fail", "out/report.html", [10, 10]);
    check("11", "inconclusive", "out/report.html", [11, 0]);
    check("2", "error", "", [2, 2]);
}

#[test]
fn inputs_are_arguments_and_never_scripts() {
    let job = Job::new();
    let more = [("CLAWRL_POLICY", "openai:x; touch y"), ("CLAWRL_ARGUMENTS", "--quiet\n\n")];
    assert!(job.judge("0", &more).status.success());
    let expected = [
        "ci",
        "--out",
        "out",
        "--quiet",
        "--policy",
        "openai:x; touch y",
        "--",
        "a gate.yaml",
        "$(touch x).yaml",
    ];
    assert_eq!(job.text("arguments").lines().collect::<Vec<_>>(), expected);
    assert!(!job.path("x").exists() && !job.path("y").exists());
    // Files of an earlier step are not used as results of this one.
    assert!(job.judge("2", &[]).status.success());
    assert!(job.text("output").ends_with("report=\nsummary=\njunit=\njson=\n"), "{}", job.text("output"));
}

#[test]
fn inputs_that_are_none_end_the_step() {
    let check = |variables: &[(&str, &str)]| {
        let job = Job::new();
        assert_eq!(job.judge("0", variables).status.code(), Some(2), "{variables:?}");
        assert_eq!(job.text("output"), "");
    };
    check(&[("CLAWRL_GATES", " \n")]);
    check(&[("CLAWRL_OUT", "out\nverdict=pass")]);
    let job = Job::new();
    let found =
        |binary: &str| job.step("program.sh", &[("CLAWRL_BINARY", binary), ("CODE", "0")]).status.code();
    for binary in ["no-such-program", ".", "a\nb"] {
        assert_eq!(found(binary), Some(2), "{binary:?}");
    }
    assert_eq!(found("./program"), Some(0));
    assert_eq!(
        job.text("output"),
        format!("program={}\n", fs::canonicalize(job.path("program")).unwrap().display())
    );
}

#[test]
fn a_summary_that_is_full_stays_as_it_is() {
    let job = Job::new();
    let full = "x".repeat((1 << 20) - 4);
    fs::write(job.path("step"), &full).unwrap();
    assert!(job.judge("0", &[]).status.success());
    assert_eq!(job.text("step"), full);
}
