//! Tasks on images, graded by verifiers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    ArtifactSpec, CollectSpec, EnvProvider, Fault, Grade, ImageSource, ImageSpec, NetworkPolicy,
    RewardSource, TaskSpec, TerminalSpec, VerifierApart, VerifierSpec,
};
use clawrl_testkit::{
    file_equals, lease_request, ready, small_terminal, step, step_ctx, terminal_task, text_file, unpack_image,
};

use crate::support::with_provider;

fn verifier(run: &str) -> VerifierSpec {
    VerifierSpec {
        files: vec![text_file("test.sh", "echo in a file\n")],
        run: run.to_owned(),
        env: [("WANTED".to_owned(), "yes".to_owned())].into(),
        user: None,
        timeout: Duration::from_secs(20),
        network: NetworkPolicy::None,
        reward: RewardSource::Files,
        reward_key: None,
        apart: None,
    }
}

fn verified(terminal: TerminalSpec, verifier: VerifierSpec) -> Arc<TaskSpec> {
    Arc::new(TaskSpec { verifier: Some(verifier), ..TaskSpec::clone(&terminal_task(terminal, Vec::new())) })
}

/// Runs commands in a fresh terminal and grades.
fn graded(task: Arc<TaskSpec>, commands: &[&str], check: impl FnOnce(Result<Grade, Fault>)) {
    with_provider(|provider| async move {
        let mut env = ready(provider.as_ref(), &task).await;
        for command in commands {
            step(env.as_mut(), command).await;
        }
        check(env.grade(step_ctx(9)).await);
        assert_eq!(env.close().await.leftovers, Vec::<String>::new());
        assert_eq!(provider.usage().live, 0);
    });
}

const TELL: &str = "[ \"$(cat out.txt)\" = $WANTED ] && echo 1 > /logs/verifier/reward.txt || \
                    echo 0 > /logs/verifier/reward.txt";

#[test]
fn score_is_read_from_file() {
    let check = |command: &str, run: &str, score: f64| {
        graded(verified(small_terminal(), verifier(run)), &[command], |grade| {
            let grade = grade.unwrap();
            assert_eq!((grade.score, grade.passed), (score, score >= 1.0), "{command} {run}");
            assert_eq!((grade.checks.len(), grade.checks[0].label.as_str()), (1, "verifier"));
        });
    };
    check("echo yes > out.txt", TELL, 1.0);
    check("true", TELL, 0.0);
    check(
        "true",
        "printf '{\"reward\": 0.5}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt",
        0.5,
    );
    check("true", "echo ' 0.25 ' > /logs/verifier/reward.txt; exit 9", 0.25);
}

#[test]
fn checks_and_a_verifier_are_multiplied() {
    let half = verifier("echo 0.5 > /logs/verifier/reward.txt");
    let checks = terminal_task(small_terminal(), vec![file_equals("a", "a\n"), file_equals("b", "b\n")]);
    let both = Arc::new(TaskSpec { verifier: Some(half), ..TaskSpec::clone(&checks) });
    graded(both, &["echo a > a"], |grade| {
        let grade = grade.unwrap();
        let scores: Vec<f64> = grade.checks.iter().map(|check| check.score).collect();
        assert_eq!((grade.score, grade.passed, scores), (0.25, false, vec![1.0, 0.0, 0.5]));
    });
}

#[test]
fn agent_cannot_obstruct_the_verifier() {
    // Daemons, files elsewhere, and a self-made reward: the verifier's sandbox contains none of them.
    let commands = [
        "(setsid sh -c 'while :; do echo 1 > /tmp/forged; sleep 0.05; done' >/dev/null 2>&1 &)",
        "export WANTED=no; mkdir -p logs tests; echo 1 > logs/reward.txt; echo yes > out.txt",
    ];
    let run = "[ ! -e /tmp/forged ] || exit 1; [ $(ls /proc | grep -c '^[0-9]') -lt 8 ] || exit 2; \
               echo x > /tests/test.sh && exit 3; rm /tests/test.sh && exit 4; \
               [ \"$(sh /tests/test.sh)\" = 'in a file' ] || exit 5; [ $WANTED = yes ] || exit 6; cat out.txt";
    graded(
        verified(small_terminal(), VerifierSpec { reward: RewardSource::ExitCode, ..verifier(run) }),
        &commands,
        |grade| {
            let grade = grade.unwrap();
            assert_eq!((grade.score, grade.checks[0].message.as_str()), (1.0, "exit code 0"));
        },
    );
}

#[test]
fn verifier_without_score_is_fault() {
    let check = |reward: RewardSource, run: &str, code: &str, words: &[&str]| {
        let mut verifier = VerifierSpec { reward, ..verifier(run) };
        verifier.timeout = Duration::from_secs(2);
        graded(verified(small_terminal(), verifier), &[], |grade| {
            let fault = grade.unwrap_err();
            assert_eq!(fault.code, code, "{run}: {fault}");
            for word in words {
                assert!(fault.message.contains(word), "{run}: {fault}");
            }
        });
    };
    use RewardSource::{ExitCode, Files, Pytest};
    check(
        Files,
        "echo said; echo trouble >&2; exit 3",
        "no-reward",
        &["reward.txt", "exit code 3", "last output: said", "standard error: trouble"],
    );
    check(Files, "echo 1.5 > /logs/verifier/reward.txt", "bad-reward", &["1.5", "not from 0 to 1"]);
    check(Files, "echo NaN > /logs/verifier/reward.txt", "bad-reward", &["NaN"]);
    check(Files, "echo '{}' > /logs/verifier/reward.json", "bad-reward", &["reward.json", "{}"]);
    check(Files, "ln -s /etc/passwd /logs/verifier/reward.txt", "unreadable", &["symbolic link"]);
    check(ExitCode, "/tests/nothing", "verifier-broken", &["127"]);
    check(Pytest, "echo no tests; false", "no-reward", &["lacks a pytest summary", "no tests"]);
    check(Files, "echo begun; sleep 1000", "verifier-timeout", &["within 2.0 s", "timeout_secs", "begun"]);
}

#[test]
fn pytest_summary_gives_score() {
    let run = "printf '%s\\n' '==== short test summary info ====' 'PASSED t.py::a' \"FAILED t.py::b - $(cat out.txt)\" \
               '==== 1 failed, 1 passed in 0.01s ===='; exit 1";
    let failed = VerifierSpec { reward: RewardSource::Pytest, ..verifier(run) };
    graded(verified(small_terminal(), failed), &["echo why > out.txt"], |grade| {
        let grade = grade.unwrap();
        let lines: Vec<_> = grade.checks.iter().map(|check| (check.message.as_str(), check.weight)).collect();
        let expected = [
            ("1 passed, 1 failed; exit code 1", 1.0),
            ("FAILED t.py::b - why", 0.0),
            ("PASSED t.py::a", 0.0),
        ];
        assert_eq!((grade.score, lines), (0.0, expected.to_vec()));
    });
    let passed = VerifierSpec {
        reward: RewardSource::Pytest,
        ..verifier("echo '== 2 passed, 1 skipped in 0.01s =='")
    };
    graded(verified(small_terminal(), passed), &[], |grade| assert!(grade.unwrap().passed));
}

/// A terminal on an unpacked image, which goes with the folder.
fn on_image() -> (tempfile::TempDir, TerminalSpec) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = folder.path().join("image");
    fs::create_dir(&root).unwrap();
    unpack_image(&root, &["grep"]).unwrap();
    fs::create_dir_all(root.join("app/src")).unwrap();
    fs::write(root.join("app/src/given"), "given\n").unwrap();
    let image = ImageSpec { source: ImageSource::Rootfs(root), workdir: Some("/app".to_owned()), user: None };
    (folder, TerminalSpec { image: Some(image), ..small_terminal() })
}

#[test]
fn an_agent_works_in_an_image_and_is_verified_there() {
    let (_folder, spec) = on_image();
    let run = "pwd; [ ! -e src/given ] && [ \"$(cat found)\" = given ] && [ -f /tests/test.sh ] && \
               echo 1 > /logs/verifier/reward.txt";
    let task = verified(spec, verifier(run));
    with_provider(|provider| async move {
        let mut env = ready(provider.as_ref(), &task).await;
        assert_eq!(
            step(env.as_mut(), "pwd; cat src/given; cat /etc/os-release").await,
            "/app\ngiven\nNAME=unpacked\n[exit 0]"
        );
        // A file of the image that the agent removed does not come back.
        assert_eq!(step(env.as_mut(), "mv src/given found").await, "[exit 0]");
        assert_eq!(env.grade(step_ctx(9)).await.unwrap().score, 1.0);
        env.close().await;
    });
}

#[test]
fn separate_verifier_gets_only_artifacts() {
    let (_folder, spec) = on_image();
    let artifact = |source: &str, destination: Option<&str>| ArtifactSpec {
        source: source.to_owned(),
        destination: destination.map(str::to_owned),
        exclude: vec!["*.o".to_owned()],
    };
    let collect = |run: &str| CollectSpec { run: run.to_owned(), timeout: Duration::from_secs(1) };
    let apart = VerifierApart {
        image: None,
        artifacts: vec![
            artifact("/app/out", None),
            artifact("/tmp/one", Some("/home/agent/sub/one")),
            artifact("/app/none", None),
            artifact("/app/link", None),
        ],
        collect: vec![collect("cp made out/collected"), collect("false"), collect("sleep 100")],
    };
    let run = "cat out/f out/collected ~/sub/one src/given; [ ! -e out/f.o ] && [ ! -e made ] && [ ! -e link ] && \
               [ ! -e /tmp/one ] && echo 1 > /logs/verifier/reward.txt";
    let task = verified(spec, VerifierSpec { apart: Some(apart), ..verifier(run) });
    let commands = [
        "mkdir out; echo f > out/f; echo o > out/f.o; echo made > made; echo one > /tmp/one",
        "rm src/given; ln -s /etc/passwd link",
    ];
    graded(task, &commands, |grade| {
        let grade = grade.unwrap();
        assert_eq!(grade.score, 1.0, "{grade:?}");
        for flag in ["collect-failed", "collect-timeout", "artifact-missing", "symlink-refused"] {
            assert!(grade.flags.iter().any(|found| found == flag), "{flag} {:?}", grade.flags);
        }
    });
}

/// The agent's artifact is transferred, whatever the verifier's image has at that path.
#[test]
fn artifact_replaces_entry_of_other_kind() {
    let (_folder, spec) = on_image();
    let Some(ImageSpec { source: ImageSource::Rootfs(root), .. }) = &spec.image else { panic!() };
    fs::create_dir_all(root.join("app/report/old/er")).unwrap();
    fs::write(root.join("app/report/old/er/f"), "old\n").unwrap();
    fs::write(root.join("app/conf"), "old\n").unwrap();
    let artifact = |source: &str, destination: Option<&str>| ArtifactSpec {
        source: source.to_owned(),
        destination: destination.map(str::to_owned),
        exclude: Vec::new(),
    };
    let apart = VerifierApart {
        image: None,
        artifacts: vec![
            artifact("/app/report", None),
            artifact("/app/conf", None),
            artifact("/app/src", Some("/app/conf/f/below")),
            // The workspace itself stays a folder, whatever is brought.
            artifact("/app/report", Some("/app")),
        ],
        collect: Vec::new(),
    };
    let run = "[ -f report ] && [ \"$(cat report)\" = new ] && [ \"$(cat conf/g)\" = g ] && \
               [ \"$(cat conf/f/below/given)\" = given ] && echo 1 > /logs/verifier/reward.txt";
    let task = verified(spec, VerifierSpec { apart: Some(apart), ..verifier(run) });
    let commands =
        ["rm -r report; echo new > report", "rm conf; mkdir conf; echo f > conf/f; echo g > conf/g"];
    graded(task, &commands, |grade| {
        let grade = grade.unwrap();
        assert_eq!((grade.score, grade.flags), (1.0, vec!["not-regular".to_owned()]));
    });
}

/// The agent decides whether there is a sandbox left to collect in.
#[test]
fn commands_that_cannot_be_run_any_more_are_flagged() {
    let apart = VerifierApart {
        image: None,
        artifacts: Vec::new(),
        collect: vec![CollectSpec { run: "true".to_owned(), timeout: Duration::from_secs(20) }],
    };
    let run = "echo 0 > /logs/verifier/reward.txt";
    let task = verified(small_terminal(), VerifierSpec { apart: Some(apart), ..verifier(run) });
    for command in ["kill -KILL $PPID; exit 0", "chmod 0 ."] {
        graded(Arc::clone(&task), &[command], |grade| {
            let grade = grade.unwrap();
            assert_eq!((grade.score, grade.flags), (0.0, vec!["collect-failed".to_owned()]), "{command}");
        });
    }
}

#[test]
fn an_image_without_bash_is_a_fault_that_names_it() {
    let (_folder, spec) = on_image();
    let Some(ImageSpec { source: ImageSource::Rootfs(root), .. }) = &spec.image else { panic!() };
    fs::remove_file(root.join("usr/bin/bash")).unwrap();
    let task = verified(spec, verifier("true"));
    with_provider(|provider| async move {
        let request = lease_request(&task);
        let fault = provider.lease(request).await.err().unwrap();
        assert_eq!(fault.code, "image-lacks-program");
        assert!(fault.message.contains("lacks the program bash"), "{fault}");
    });
}
