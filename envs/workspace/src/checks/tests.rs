//! Every kind of check, passing and failing, on real files and real commands.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clawrl_core::{Boundary, BoxFuture, Check, CheckSpec, Fault, Grade, Retry};
use clawrl_sandbox::{
    CopyOptions, ProcessFacts, SafeDir, SafeReadError, SafeWriteError, TreeBounds, TreeError, copy_tree,
};
use insta::assert_snapshot;
use serde_json::json;

use super::{
    Answer, CheckLimits, CommandEnd, CommandError, CommandOutput, CommandRequest, CommandRunner, Evidence,
    UidMap, evaluate,
};

/// A workspace, and a runner of commands on copies of it: without a sandbox, since these commands are ours.
struct Attempt {
    folder: tempfile::TempDir,
    commands_run: AtomicUsize,
    copy_bounds: TreeBounds,
    limits: CheckLimits,
    answer: Option<&'static str>,
}

impl Attempt {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            commands_run: AtomicUsize::new(0),
            copy_bounds: TreeBounds::default(),
            limits: CheckLimits::default(),
            answer: None,
        }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let attempt = Self::new();
        for (path, content) in files {
            attempt.dir().write_file(path, content.as_bytes(), 0o644, None).unwrap();
        }
        attempt
    }

    fn dir(&self) -> SafeDir {
        SafeDir::open(self.folder.path()).unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn fifo(&self, path: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.path(path), FileType::Fifo, Mode::RUSR, 0).unwrap();
    }

    fn grade(&self, checks: &[CheckSpec]) -> Result<Grade, Fault> {
        let processes = [facts("bash"), facts("sleep 1000")];
        let evidence = Evidence {
            workspace: Ok(&self.dir()),
            processes: &processes,
            commands: self,
            answer: self.answer.map_or(Answer::Missing, Answer::Given),
            uid_map: UidMap { host: rustix::process::geteuid().as_raw(), inside: 1000 },
            limits: self.limits,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(evaluate(checks, &evidence))
    }

    /// `passed` or `failed`, the message, and the flags.
    fn line(&self, check: Check) -> String {
        let grade = match self.grade(&[spec(check)]) {
            Ok(grade) => grade,
            Err(fault) => return fault.to_string(),
        };
        let report = &grade.checks[0];
        assert!(report.message.chars().count() <= 200 && !report.message.chars().any(char::is_control));
        let word = if report.score == 1.0 { "passed" } else { "failed" };
        let flags: String = grade.flags.iter().map(|flag| format!(" [{flag}]")).collect();
        format!("{word}: {}{flags}", report.message)
    }
}

impl CommandRunner for Attempt {
    fn run<'a>(&'a self, request: CommandRequest<'a>) -> BoxFuture<'a, Result<CommandOutput, CommandError>> {
        Box::pin(async move {
            self.commands_run.fetch_add(1, Ordering::Relaxed);
            let copy = tempfile::tempdir().unwrap();
            let options = CopyOptions { bounds: self.copy_bounds, ..CopyOptions::default() };
            let report = copy_tree(&self.dir(), &SafeDir::open(copy.path()).unwrap(), options)?;
            let input = tempfile::NamedTempFile::new().unwrap();
            fs::write(input.path(), request.input).unwrap();
            let child = tokio::process::Command::new("sh")
                .args(["-c", request.command])
                .current_dir(copy.path())
                .stdin(input.into_file())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let output = tokio::time::timeout(request.timeout, child.wait_with_output()).await;
            let (end, mut stdout) = match output {
                Err(_) => (CommandEnd::TimedOut, Vec::new()),
                Ok(output) => {
                    let output = output.unwrap();
                    let signal = || std::os::unix::process::ExitStatusExt::signal(&output.status).unwrap();
                    let end = output
                        .status
                        .code()
                        .map_or_else(|| CommandEnd::Signalled(signal()), CommandEnd::Exited);
                    (end, output.stdout)
                }
            };
            let stdout_truncated = stdout.len() > request.stdout_cap;
            stdout.truncate(request.stdout_cap);
            Ok(CommandOutput { end, stdout, stdout_truncated, left_out: report.skipped })
        })
    }
}

fn facts(command_line: &str) -> ProcessFacts {
    ProcessFacts { host_pid: 1, host_parent: 1, start_ticks: 1, command_line: command_line.to_owned() }
}

fn spec(check: Check) -> CheckSpec {
    CheckSpec { label: "the check".to_owned(), weight: 1.0, check }
}

fn equals(path: &str, expected: &str) -> Check {
    Check::FileEquals { path: path.into(), expected: expected.into() }
}

fn matches(regex: &str) -> Check {
    Check::FileMatches { path: "n.txt".into(), regex: regex.into() }
}

fn runs(command: &str) -> Check {
    Check::Command {
        run: command.into(),
        exit_code: 0,
        stdout_equals: None,
        stdout_contains: None,
        timeout: Duration::from_secs(20),
    }
}

fn prints(command: &str, equals: Option<&str>, contains: Option<&str>) -> Check {
    Check::Command {
        run: command.into(),
        exit_code: 0,
        stdout_equals: equals.map(Into::into),
        stdout_contains: contains.map(Into::into),
        timeout: Duration::from_secs(20),
    }
}

#[test]
fn file_equals() {
    let attempt = Attempt::with(&[("a.txt", "one\ntwo\n"), ("b/c", ""), ("esc", "\u{1b}[2J\n")]);
    assert_snapshot!(attempt.line(equals("a.txt", "one\ntwo\n")), @"passed: 8 bytes, as expected");
    assert_snapshot!(attempt.line(equals("a.txt", "one\n2\n")), @r#"failed: line 2: expected "2", found "two""#);
    assert_snapshot!(attempt.line(equals("a.txt", "one\ntwo")), @"failed: expected no final newline, found one");
    assert_snapshot!(attempt.line(equals("b/c", "x")), @r#"failed: expected "x", found nothing"#);
    assert_snapshot!(attempt.line(equals("esc", "x\n")), @r#"failed: line 1: expected "x", found "\u{1b}[2J""#);
    assert_snapshot!(attempt.line(equals("none", "x")), @r#"failed: "none" does not exist"#);
    assert_snapshot!(attempt.line(equals("b", "x")), @r#"failed: "b" is a folder, not a regular file [not-regular]"#);
}

#[test]
fn file_contains() {
    let attempt = Attempt::with(&[("a.txt", "one\ntwo\n"), ("empty", "")]);
    let contains =
        |path: &str, text: &str| attempt.line(Check::FileContains { path: path.into(), text: text.into() });
    assert_snapshot!(contains("a.txt", "e\ntw"), @r#"passed: contains "e\ntw""#);
    assert_snapshot!(contains("a.txt", "three"), @r#"failed: expected "three" in it, found 8 bytes that begin "one\ntwo\n""#);
    assert_snapshot!(contains("empty", "three"), @r#"failed: expected "three" in it, found an empty file"#);
}

#[test]
fn file_matches() {
    let attempt = Attempt::with(&[("n.txt", "42\n")]);
    assert_snapshot!(attempt.line(matches(r"^\d+$")), @r#"passed: "42" matches "^\\d+$""#);
    assert_snapshot!(attempt.line(matches(r"\A\d+\n\z")), @r#"passed: "42\n" matches "\\A\\d+\\n\\z""#);
    assert_snapshot!(attempt.line(matches("^4$")), @r#"failed: expected a match of "^4$", found 3 bytes that begin "42\n""#);
    let two_lines = Attempt::with(&[("n.txt", "x\n42\n")]);
    assert_snapshot!(two_lines.line(matches(r"^\d+$")), @r#"failed: expected a match of "^\\d+$", found 5 bytes that begin "x\n42\n""#);
    assert_snapshot!(two_lines.line(matches(r"(?m)^\d+$")), @r#"passed: "42" matches "(?m)^\\d+$""#);
    let fault = attempt.grade(&[spec(matches("("))]).unwrap_err();
    assert_eq!(
        (fault.boundary, fault.code.as_str(), fault.retry),
        (Boundary::Grader, "check-invalid", Retry::Never)
    );
}

#[test]
fn file_absent() {
    let attempt = Attempt::with(&[("a", "12"), ("b/c", "")]);
    symlink("nowhere", attempt.path("dangling")).unwrap();
    symlink("/etc", attempt.path("out")).unwrap();
    let absent = |path: &str| attempt.line(Check::FileAbsent { path: path.into() });
    assert_snapshot!(absent("none"), @"passed: nothing is there");
    assert_snapshot!(absent("a/below"), @"passed: nothing is there");
    assert_snapshot!(absent("a"), @"failed: expected nothing, found a regular file of 2 bytes");
    assert_snapshot!(absent("b"), @"failed: expected nothing, found a folder");
    assert_snapshot!(absent("dangling"), @"failed: expected nothing, found a symbolic link");
    assert_snapshot!(absent("out/none"), @r#"failed: "out" is a symbolic link, which is not followed [symlink-refused]"#);
}

#[test]
fn file_mode() {
    let attempt = Attempt::with(&[("a", "")]);
    fs::set_permissions(attempt.path("a"), PermissionsExt::from_mode(0o2755)).unwrap();
    symlink("a", attempt.path("link")).unwrap();
    let mode = |path: &str, mode| attempt.line(Check::FileMode { path: path.into(), mode });
    assert_snapshot!(mode("a", 0o2755), @"passed: mode 2755");
    assert_snapshot!(mode("a", 0o755), @"failed: expected mode 0755, found 2755");
    assert_snapshot!(mode("none", 0o755), @r#"failed: "none" does not exist"#);
    assert_snapshot!(mode("link", 0o777), @r#"failed: "link" is a symbolic link, which is not followed [symlink-refused]"#);
}

#[test]
fn file_owner() {
    let attempt = Attempt::with(&[("a", "")]);
    let owner = |uid| attempt.line(Check::FileOwner { path: "a".into(), uid });
    assert_snapshot!(owner(1000), @"passed: owner 1000");
    assert_snapshot!(owner(0), @"failed: expected owner 0, found 1000");
    let host = fs::metadata(attempt.path("a")).unwrap().uid();
    let map = UidMap { host, inside: 1000 };
    assert_eq!((map.inside(host), map.inside(host + 1)), (Some(1000), None));
    if std::os::unix::fs::chown(attempt.path("a"), Some(54_321), None).is_ok() {
        assert_snapshot!(owner(1000), @"failed: expected owner 1000, found an owner unknown inside the sandbox (host uid 54321)");
    } else {
        println!("note: not root, so a file of an unknown owner is not tested here");
    }
}

#[test]
fn tree_hash() {
    let attempt = Attempt::with(&[("d/a", "1\n")]);
    let hash =
        |path: &str, sha256: &str| attempt.line(Check::TreeHash { path: path.into(), sha256: sha256.into() });
    let right = attempt.dir().tree_hash("d", TreeBounds::default()).unwrap();
    assert_eq!(hash("d", &right.to_uppercase()), format!("passed: hash {right}"));
    assert_eq!(hash("d", &"0".repeat(64)), format!("failed: expected hash 000000000000…, found {right}"));
    assert_snapshot!(hash("d/a", &right), @r#"failed: "d/a" is a regular file, not a folder [not-regular]"#);
    fs::File::create(attempt.path("d/huge")).unwrap().set_len(1 << 40).unwrap();
    assert_snapshot!(hash("d", &right), @r#"failed: the tree has more than 1073741824 bytes (exceeded at "huge") [too-large]"#);
}

#[test]
fn process() {
    let attempt = Attempt::new();
    let process = |regex: &str, running| attempt.line(Check::Process { regex: regex.into(), running });
    assert_snapshot!(process(r"^sleep \d+$", true), @r#"passed: "sleep 1000" matches "^sleep \\d+$""#);
    assert_snapshot!(process("vi", true), @r#"failed: expected a process that matches "vi", found none among 2"#);
    assert_snapshot!(process("vi", false), @r#"passed: no process matches "vi""#);
    assert_snapshot!(process("sleep", false), @r#"failed: expected no process that matches "sleep", found "sleep 1000""#);
}

#[test]
fn json_value() {
    let attempt = Attempt::with(&[("a.json", r#"{"a": [3, "x"]}"#), ("bad.json", "{\"a\": ")]);
    let value = |path: &str, pointer: &str, equals| {
        attempt.line(Check::JsonValue { path: path.into(), pointer: pointer.into(), equals })
    };
    assert_snapshot!(value("a.json", "/a/0", json!(3.0)), @r#"passed: at "/a/0": 3.0, as expected"#);
    assert_snapshot!(value("a.json", "", json!({"a": [3, "x"]})), @r#"passed: {"a":[3,"x"]}, as expected"#);
    assert_snapshot!(value("a.json", "/a/1", json!(3)), @r#"failed: at "/a/1": expected 3, found "x""#);
    assert_snapshot!(value("a.json", "/b", json!(null)), @r#"failed: at "/b": expected null, found no such value"#);
    assert_snapshot!(value("bad.json", "/a", json!(1)), @"failed: no valid JSON: EOF while parsing a value at line 1 column 6");
    assert_snapshot!(value("a.json", "a", json!(1)), @r#"grader fault `check-invalid`: this check cannot be evaluated: the JSON pointer "a" must be empty or begin with `/`"#);
}

#[test]
fn command() {
    let attempt = Attempt::with(&[("a.txt", "one\ntwo\n")]);
    assert_snapshot!(attempt.line(runs("test -f a.txt")), @"passed: exit code 0, output as expected");
    assert_snapshot!(attempt.line(runs("echo why; exit 3")), @r#"failed: expected exit code 0, found 3; stdout "why\n""#);
    assert_snapshot!(attempt.line(runs("kill -9 $$")), @"failed: expected exit code 0, killed by signal 9");
    assert_snapshot!(attempt.line(prints("cat a.txt", Some("one\ntwo\n"), Some("two"))), @"passed: exit code 0, output as expected");
    assert_snapshot!(attempt.line(prints("cat a.txt", Some("one\n2\n"), None)), @r#"failed: stdout: line 2: expected "2", found "two""#);
    assert_snapshot!(attempt.line(prints("cat a.txt", None, Some("three"))), @r#"failed: expected "three" in stdout, found "one\ntwo\n""#);
    let slow = Check::Command {
        run: "exec sleep 1000".into(),
        exit_code: 0,
        stdout_equals: None,
        stdout_contains: None,
        timeout: Duration::from_millis(50),
    };
    assert_snapshot!(attempt.line(slow), @"failed: timed out after 0.1 s");
}

#[test]
fn answer_command() {
    let mut attempt = Attempt::with(&[("a.txt", "42")]);
    let run = |attempt: &Attempt, run: &str| {
        let timeout = Duration::from_secs(20);
        attempt.line(Check::AnswerCommand { run: run.into(), exit_code: 3, timeout })
    };
    assert_snapshot!(run(&attempt, "exit 3"), @"failed: no answer was submitted");
    assert_eq!(attempt.commands_run.load(Ordering::Relaxed), 0);
    attempt.answer = Some("42");
    assert_snapshot!(run(&attempt, "test $(cat) = $(cat a.txt) && exit 3"), @"passed: exit code 3, output as expected");
    assert_snapshot!(run(&attempt, "cat; exit 4"), @r#"failed: expected exit code 3, found 4; stdout "42""#);
    attempt.answer = Some("");
    assert_snapshot!(run(&attempt, "wc -c; exit 4"), @r#"failed: expected exit code 3, found 4; stdout "0\n""#);
}

#[test]
fn foreign_checks_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, gone) = (SafeDir::open(folder.path()).unwrap(), SafeReadError::Missing { path: "/app".into() });
    let timeout = Duration::from_secs(20);
    let foreign = [
        Check::Answer(clawrl_core::AnswerCheck::Equals { expected: "x".into() }),
        Check::CalledInOrder { calls: Vec::new() },
        Check::Stored { tool: "notes".into(), key: "a".into(), equals: None },
        Check::AnswerCommand { run: "true".into(), exit_code: 0, timeout },
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for check in foreign {
        for workspace in [Ok(&dir), Err(&gone)] {
            let evidence = Evidence {
                workspace,
                processes: &[],
                commands: &NoSandbox,
                answer: Answer::NotTaken,
                uid_map: UidMap { host: 0, inside: 0 },
                limits: CheckLimits::default(),
            };
            let fault = runtime.block_on(evaluate(&[spec(check.clone())], &evidence)).unwrap_err();
            assert_eq!((fault.code.as_str(), fault.retry), ("check-invalid", Retry::Never), "{fault}");
        }
    }
}

#[test]
fn command_output_limit_covers_expectation() {
    let mut attempt = Attempt::new();
    attempt.limits.stdout_bytes = 4;
    assert_snapshot!(attempt.line(prints("echo 123456789", Some("123456789\n"), None)), @"passed: exit code 0, output as expected");
    assert_snapshot!(attempt.line(prints("echo 123456789", Some("12345\n"), None)), @r#"failed: stdout: line 1: expected "12345", found "1234567""#);
    assert_snapshot!(attempt.line(prints("echo 123456789", None, Some("89"))), @r#"failed: expected "89" in stdout (first 4 bytes), found "1234""#);
}

#[test]
fn commands_work_on_a_copy_of_their_own() {
    let attempt = Attempt::with(&[("a", "kept")]);
    let grade = attempt
        .grade(&[spec(runs("echo x > a; touch new")), spec(runs("test $(cat a) = kept; ! test -e new"))]);
    assert!(grade.unwrap().passed);
    assert_eq!(fs::read(attempt.path("a")).unwrap(), b"kept");
    assert!(!attempt.path("new").exists());
}

#[test]
fn i2_traps_score_nothing_and_are_flagged() {
    let mut attempt = Attempt::with(&[("big", "0123456789"), ("folder/x", "")]);
    attempt.fifo("fifo");
    symlink("/etc/passwd", attempt.path("link")).unwrap();
    symlink("/etc", attempt.path("etc")).unwrap();
    attempt.limits.file_bytes = 9;
    attempt.copy_bounds.entries = 3;
    let contains = |path: &str| Check::FileContains { path: path.into(), text: "root".into() };
    assert_snapshot!(attempt.line(contains("fifo")), @r#"failed: "fifo" is a FIFO, not a regular file [not-regular]"#);
    assert_snapshot!(attempt.line(contains("link")), @r#"failed: "link" is a symbolic link, which is not followed [symlink-refused]"#);
    assert_snapshot!(attempt.line(contains("etc/passwd")), @r#"failed: "etc" is a symbolic link, which is not followed [symlink-refused]"#);
    assert_snapshot!(attempt.line(contains("big")), @r#"failed: "big" has at least 10 bytes; at most 9 are read [too-large]"#);
    assert_snapshot!(attempt.line(equals("big", "0123456789")), @"passed: 10 bytes, as expected");
    assert_snapshot!(attempt.line(contains("../x")), @r#"failed: "../x" leads outside the workspace [escape-refused]"#);
    assert_snapshot!(attempt.line(runs("true")), @r#"failed: the tree has more than 3 entries (exceeded at ".") [too-large]"#);
    attempt.copy_bounds = TreeBounds::default();
    assert_snapshot!(attempt.line(runs("test -e fifo")), @r#"failed: expected exit code 0, found 1; stdout ""; 1 not copied, first "fifo" [copy-incomplete]"#);
    assert_snapshot!(attempt.line(runs("true")), @"passed: exit code 0, output as expected [copy-incomplete]");
}

#[test]
fn missing_program_fails_check_with_reason() {
    let attempt = Attempt::with(&[("plain", "")]);
    assert_snapshot!(attempt.line(runs("./none 2>/dev/null")), @r#"failed: expected exit code 0, found 127 (a shell's word for a program that was not found); stdout """#);
    assert_snapshot!(attempt.line(runs("./plain 2>/dev/null")), @r#"failed: expected exit code 0, found 126 (a shell's word for a program that cannot be run); stdout """#);
    let expected = |exit_code| Check::Command {
        run: "./none 2>/dev/null".into(),
        exit_code,
        stdout_equals: None,
        stdout_contains: None,
        timeout: Duration::from_secs(20),
    };
    assert_snapshot!(attempt.line(expected(127)), @"passed: exit code 127, output as expected");
}

#[test]
fn i2_missing_workspace_fails_file_checks() {
    let grade = |gone: &SafeReadError, checks: &[CheckSpec]| {
        let evidence = Evidence {
            workspace: Err(gone),
            processes: &[],
            // Not called.
            commands: &NoSandbox,
            answer: Answer::NotTaken,
            uid_map: UidMap { host: 0, inside: 0 },
            limits: CheckLimits::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(evaluate(checks, &evidence))
    };
    let checks = [
        spec(equals("a", "")),
        spec(Check::FileAbsent { path: "a".into() }),
        spec(runs("true")),
        spec(Check::Process { regex: "sleep".into(), running: false }),
    ];
    let found = grade(&SafeReadError::Missing { path: "/app".into() }, &checks).unwrap();
    let lines: Vec<_> = found.checks.iter().map(|line| (line.score, line.message.as_str())).collect();
    let message = "the workspace: \"/app\" does not exist";
    assert_eq!(lines[..3], [(0.0, message), (0.0, message), (0.0, message)]);
    assert_eq!((lines[3].0, found.passed, found.flags.len()), (1.0, false, 0));
    let link = SafeReadError::Symlink { path: "/app".into() };
    assert_eq!(grade(&link, &checks).unwrap().flags, ["symlink-refused"]);
    let broken = SafeReadError::Io { path: "/app".into(), source: std::io::Error::other("disk") };
    let fault = grade(&broken, &checks).unwrap_err();
    assert_eq!((fault.boundary, fault.retry), (Boundary::Grader, Retry::Sound));
}

/// A machine on which copies fail.
struct NoCopy(fn() -> TreeError);

impl CommandRunner for NoCopy {
    fn run<'a>(&'a self, _: CommandRequest<'a>) -> BoxFuture<'a, Result<CommandOutput, CommandError>> {
        Box::pin(async { Err((self.0)().into()) })
    }
}

#[test]
fn i2_full_machine_is_fault_full_sandbox_fails() {
    let folder = tempfile::tempdir().unwrap();
    let grade = |error: fn() -> TreeError| {
        let evidence = Evidence {
            workspace: Ok(&SafeDir::open(folder.path()).unwrap()),
            processes: &[],
            commands: &NoCopy(error),
            answer: Answer::NotTaken,
            uid_map: UidMap { host: 0, inside: 0 },
            limits: CheckLimits::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(evaluate(&[spec(runs("true"))], &evidence))
    };
    let full = grade(|| SafeWriteError::Full { path: "f".into() }.into()).unwrap_err();
    assert_eq!((full.code.as_str(), full.retry), ("workspace-copy-failed", Retry::Sound));
    let forbidden = || {
        let source = std::io::ErrorKind::PermissionDenied.into();
        SafeWriteError::Io { path: "f".into(), source }.into()
    };
    assert_eq!(grade(forbidden).unwrap_err().retry, Retry::Never);
    let failed = grade(|| TreeError::NoRoom { path: "f".into() }).unwrap();
    assert_eq!((failed.passed, failed.flags[0].as_str()), (false, "too-large"));
    assert_eq!(failed.checks[0].message, "\"f\" does not fit: the sandbox is full");
}

/// A machine without room for another sandbox.
struct NoSandbox;

impl CommandRunner for NoSandbox {
    fn run<'a>(&'a self, _: CommandRequest<'a>) -> BoxFuture<'a, Result<CommandOutput, CommandError>> {
        Box::pin(async { Err(Fault::transient(Boundary::Provider, "no-uid-left", "all are taken").into()) })
    }
}

#[test]
fn i2_machine_errors_are_grader_faults() {
    let folder = tempfile::tempdir().unwrap();
    let evidence = Evidence {
        workspace: Ok(&SafeDir::open(folder.path()).unwrap()),
        processes: &[],
        commands: &NoSandbox,
        answer: Answer::NotTaken,
        uid_map: UidMap { host: 0, inside: 0 },
        limits: CheckLimits::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fault = runtime.block_on(evaluate(&[spec(runs("true"))], &evidence)).unwrap_err();
    assert_eq!(fault, Fault::transient(Boundary::Grader, "no-uid-left", "all are taken"));
}

#[test]
fn i2_an_input_output_error_is_a_fault_of_the_grader() {
    // Reading a process's memory from its beginning fails with EIO.
    let evidence = Evidence {
        workspace: Ok(&SafeDir::open("/proc/self").unwrap()),
        processes: &[],
        commands: &NoSandbox,
        answer: Answer::NotTaken,
        uid_map: UidMap { host: 0, inside: 0 },
        limits: CheckLimits::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fault = runtime.block_on(evaluate(&[spec(equals("mem", "x"))], &evidence)).unwrap_err();
    assert_snapshot!(fault.to_string(), @r#"grader fault `workspace-unreadable`: "mem": Input/output error (os error 5)"#);
    assert_eq!(fault.retry, Retry::Sound);
}

#[test]
fn i3_i4_reports_in_order_runner_only_if_needed() {
    let attempt = Attempt::with(&[("a", "x")]);
    let checks = [
        CheckSpec { label: "command".into(), weight: 2.0, check: runs("true") },
        CheckSpec { label: "file".into(), weight: 1.0, check: equals("a", "x") },
        CheckSpec { label: "missing".into(), weight: 1.0, check: equals("none", "x") },
    ];
    let grade = attempt.grade(&checks).unwrap();
    let lines: Vec<_> = grade.checks.iter().map(|r| (r.label.as_str(), r.score, r.weight)).collect();
    assert_eq!(lines, [("command", 1.0, 2.0), ("file", 1.0, 1.0), ("missing", 0.0, 1.0)]);
    assert_eq!((grade.score, grade.passed, attempt.commands_run.load(Ordering::Relaxed)), (0.75, false, 1));

    let attempt = Attempt::with(&[("a", "x")]);
    assert!(attempt.grade(&checks[1..2]).unwrap().passed);
    assert_eq!(attempt.commands_run.load(Ordering::Relaxed), 0);
    assert_eq!(attempt.grade(&[]).unwrap(), Grade::from_checks(Vec::new(), Vec::new()));
}

#[test]
fn flags_are_named_once() {
    let attempt = Attempt::new();
    symlink("x", attempt.path("a")).unwrap();
    let grade = attempt.grade(&[spec(equals("a", "")), spec(equals("a", ""))]).unwrap();
    assert_eq!(grade.flags, ["symlink-refused"]);
}
