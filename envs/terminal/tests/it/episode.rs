//! Whole episodes: files, steps, endings, grades.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Check, EnvProvider, Grade, SandboxLimits, StopReason, TaskSpec, TerminalSpec, ToolCall};
use clawrl_sandbox::CgroupHost;
use clawrl_sandbox::spawner::Spawner;
use clawrl_testkit::{
    again_as_normal_user, call, file_equals, ready, small_terminal, step, step_ctx, terminal_task, text_file,
};
use serde_json::json;

use crate::support::with_provider;

/// Runs commands in a fresh terminal and grades.
fn graded(task: Arc<TaskSpec>, commands: &'static [&'static str], check: impl FnOnce(Grade)) {
    with_provider(|provider| async move {
        let mut env = ready(provider.as_ref(), &task).await;
        for command in commands {
            step(env.as_mut(), command).await;
        }
        check(env.grade(step_ctx(9)).await.unwrap());
        assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    });
}

fn messages(grade: &Grade) -> Vec<&str> {
    grade.checks.iter().map(|check| check.message.as_str()).collect()
}

#[test]
fn state_persists_and_endings_are_reported() {
    with_provider(|provider| async move {
        let mut env =
            ready(provider.as_ref(), &terminal_task(small_terminal(), vec![file_equals("f", "")])).await;
        let env = env.as_mut();
        assert_eq!(step(env, "cd /tmp; X=5").await, "[exit 0]");
        assert_eq!(step(env, "echo $X; pwd; false").await, "5\n/tmp\n[exit 1]");
        assert_eq!(step(env, "cat").await, "[still running]");
        assert_eq!(
            step(env, "hello").await,
            "hello\nhello\n[a program was running: the command was typed into it]\n[still running]"
        );
        let keys = [ToolCall::new("keys", json!({"keys": "C-d"}))];
        let result = env.step(&keys, step_ctx(5)).await.unwrap();
        assert_eq!(result.observation.joined_text(), "[exit 0]");
        assert_eq!(result.observation.facts["folder"], "/tmp");
        let unknown = [ToolCall::new("keys", json!({"keys": "Hyper-x"}))];
        let result = env.step(&unknown, step_ctx(6)).await.unwrap();
        assert!(result.observation.joined_text().starts_with("[error:"), "{result:?}");
        let calls = [call("exit 4"), call("echo not run")];
        let result = env.step(&calls, step_ctx(7)).await.unwrap();
        assert_eq!(result.end, Some(StopReason::Ended("shell-exited".to_owned())));
        assert!(!result.observation.joined_text().contains("not run"));
        let grade = env.grade(step_ctx(8)).await.unwrap();
        assert!(!grade.passed);
    });
}

/// Files in the writable places use the sandbox's memory. Full places can take all of it, and then the shell is killed; without a limit
/// of memory for a whole sandbox it lives on.
#[test]
fn shell_killed_by_full_memory_says_why() {
    with_provider(|provider| async move {
        let mut spec = small_terminal();
        spec.limits = SandboxLimits { memory_mib: 48, disk_mib: 32, ..spec.limits };
        let mut env = ready(provider.as_ref(), &terminal_task(spec, vec![file_equals("f", "")])).await;
        let fill = "for place in . /tmp /dev/shm ~; do cat /dev/zero > $place/full; done; echo filled; sleep 0.1; echo $(seq 9)";
        let calls = [call(fill), call("true")];
        let mut ctx = step_ctx(1);
        ctx.deadline = std::time::Instant::now() + Duration::from_secs(60);
        let result = env.step(&calls, ctx).await.unwrap();
        let told = result.observation.joined_text();
        if CgroupHost::detect().limits_memory() {
            assert_eq!(result.end, Some(StopReason::Ended("shell-exited".to_owned())), "{told}");
            assert!(
                told.contains("[the sandbox ran out of memory, which files in the workspace, /tmp,"),
                "{told}"
            );
            // A kill in the middle of a mark may leave half of it.
            let notes = result.observation.facts["notes"].as_array().unwrap();
            assert_eq!(notes.last(), Some(&json!("out_of_memory")), "{notes:?}");
        } else {
            assert!(told.contains("No space left") && result.end.is_none(), "{told}");
        }
        assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    });
}

#[test]
fn timed_out_command_is_killed_shell_survives() {
    with_provider(|provider| async move {
        let mut env =
            ready(provider.as_ref(), &terminal_task(small_terminal(), vec![file_equals("f", "")])).await;
        let mut ctx = step_ctx(1);
        ctx.deadline = std::time::Instant::now() + Duration::from_millis(400);
        let calls = [call("echo begun; while :; do :; done")];
        let result = env.step(&calls, ctx).await.unwrap();
        assert!(result.observation.joined_text().ends_with("[timed out and killed]"), "{result:?}");
        assert_eq!(step(env.as_mut(), "echo alive").await, "alive\n[exit 0]");
    });
}

#[test]
fn files_are_graded_after_the_end_of_everything() {
    let mut spec = small_terminal();
    spec.files = vec![text_file("d/in.txt", "a\nb\n")];
    let checks = vec![file_equals("out.txt", "2\n"), Check::FileAbsent { path: "d/in.txt".to_owned() }];
    // The daemon would undo the work if grading did not stop it first.
    let commands: &[&str] =
        &["wc -l < d/in.txt > out.txt", "rm d/in.txt", "(setsid sh -c 'sleep 0.3; rm out.txt' &)"];
    graded(terminal_task(spec, checks), commands, |grade| assert!(grade.passed, "{grade:?}"));
}

#[test]
fn processes_are_probed_while_they_live() {
    let check = |running| Check::Process { regex: "^sleep 4711$".to_owned(), running };
    graded(terminal_task(small_terminal(), vec![check(true)]), &["sleep 4711 &"], |grade| {
        assert!(grade.passed, "{grade:?}")
    });
    graded(terminal_task(small_terminal(), vec![check(true)]), &["true"], |grade| {
        assert!(!grade.passed, "{grade:?}")
    });
    graded(terminal_task(small_terminal(), vec![check(false)]), &["sleep 4711 & kill %1; wait"], |grade| {
        assert!(grade.passed, "{grade:?}")
    });
}

#[test]
fn commands_are_checked_on_a_copy() {
    let command = |run: &str, stdout: Option<&str>| Check::Command {
        run: run.to_owned(),
        exit_code: 0,
        stdout_equals: stdout.map(str::to_owned),
        stdout_contains: None,
        timeout: Duration::from_secs(10),
    };
    let checks = vec![
        command("sh ./answer.sh; rm -r ./*", Some("42\n")),
        // Each command sees the workspace as the agent left it.
        command("sh ./answer.sh", Some("42\n")),
        command("cat /tmp/hidden 2>/dev/null || echo none", Some("none\n")),
        command("id -u; ps -e | grep -c sleep", Some("1000\n1\n")),
        file_equals("answer.sh", "echo 42\n"),
    ];
    let commands: &[&str] = &["echo 'echo 42' > answer.sh; echo x > /tmp/hidden"];
    graded(terminal_task(small_terminal(), checks), commands, |grade| {
        assert!(grade.passed, "{:?}", messages(&grade))
    });
    let slow = Check::Command {
        run: "sleep 100".to_owned(),
        exit_code: 0,
        stdout_equals: None,
        stdout_contains: None,
        timeout: Duration::from_millis(200),
    };
    graded(terminal_task(small_terminal(), vec![slow]), &["true"], |grade| {
        assert!(!grade.passed, "{:?}", messages(&grade))
    });
}

#[test]
fn traps_for_the_grader_score_nothing() {
    let checks = ["link", "fifo", "folder/file"]
        .map(|path| Check::FileContains { path: path.to_owned(), text: "root".to_owned() });
    let commands: &[&str] = &["ln -s /etc/passwd link; mkfifo fifo; ln -s /etc folder"];
    graded(terminal_task(small_terminal(), checks.to_vec()), commands, |grade| {
        assert_eq!(grade.score, 0.0, "{:?}", messages(&grade));
        assert!(grade.flags.contains(&"symlink-refused".to_owned()), "{grade:?}");
    });
}

/// A terminal with a variable of the task's own.
fn with_variable() -> TerminalSpec {
    TerminalSpec { env: [("GREETING".to_owned(), "it's me".to_owned())].into(), ..small_terminal() }
}

#[test]
fn replaced_shell_is_reported_to_the_agent() {
    with_provider(|provider| async move {
        let task = terminal_task(with_variable(), vec![file_equals("f", "kept\n")]);
        let mut env = ready(provider.as_ref(), &task).await;
        let env = env.as_mut();
        assert_eq!(step(env, "cd /tmp; X=1; echo kept > /work/f").await, "[exit 0]");
        let new = "a new shell has begun: folder, variables and functions of the old one are gone";
        assert_eq!(
            step(env, "set -e\nfalse\necho never").await,
            format!("[the shell has ended, exit 1; {new}]")
        );
        assert_eq!(step(env, "pwd; echo \"$GREETING<$X>\"; false").await, "/work\nit's me<>\n[exit 1]");
        let said = step(env, "kill -KILL $$").await;
        assert_eq!(said, format!("Killed\n[the shell has ended, exit 137; {new}]"));
        let mut ctx = step_ctx(5);
        ctx.deadline = std::time::Instant::now() + Duration::from_millis(400);
        let result = env.step(&[call("trap '' INT; while :; do :; done")], ctx).await.unwrap();
        let said = result.observation.joined_text();
        assert!(said.ends_with(&format!("[timed out and killed, and the shell with it; {new}]")), "{said}");
        assert_eq!(result.end, None);
        assert_eq!(step(env, "echo \"$GREETING\"; history").await.lines().count(), 3);
        let grade = env.grade(step_ctx(8)).await.unwrap();
        assert!(grade.passed, "{grade:?}");
    });
}

#[test]
fn setup_leaves_files_but_no_shell_state() {
    with_provider(|provider| async move {
        let mut spec = with_variable();
        let commands = [
            "mkdir sub; cd sub",
            "echo \"$GREETING\" > made",
            "export LEFT=1; umask 077; set -f; f() { :; }",
            "sleep 4711 & alias ls=no",
        ];
        spec.setup = commands.map(str::to_owned).to_vec();
        let checks = vec![
            file_equals("sub/made", "it's me\n"),
            Check::Process { regex: "^sleep 4711$".to_owned(), running: true },
        ];
        let mut env = ready(provider.as_ref(), &terminal_task(spec, checks)).await;
        let env = env.as_mut();
        let said =
            step(env, "pwd; umask; echo \"<$LEFT>$GREETING $-\"; jobs; alias; declare -F f; history").await;
        let expected = "/work\n0022\n<>it's me himBs\n    1  pwd; umask; echo \"<$LEFT>$GREETING $-\"; jobs; alias; declare -F f; history\n[exit 0]";
        assert_eq!(said.replace("himBHs", "himBs"), expected);
        let grade = env.grade(step_ctx(8)).await.unwrap();
        assert!(grade.passed, "{grade:?}");
    });
}

#[test]
fn unfinished_command_has_hint_and_can_be_dropped() {
    with_provider(|provider| async move {
        let mut env =
            ready(provider.as_ref(), &terminal_task(small_terminal(), vec![file_equals("f", "")])).await;
        let env = env.as_mut();
        let waits = "[the shell waits for the rest of an unfinished command: ";
        let said = step(env, "Let's look at it").await;
        assert_eq!(said, format!("{waits}a closing quote ' finishes it, C-c abandons it]"));
        // A policy that only has the command tool can write the key's name.
        assert!(step(env, "C-c").await.ends_with("[exit 130]"));
        assert_eq!(
            step(env, "cat > f <<EOF\nit's").await,
            format!("{waits}a line with nothing but EOF finishes it, C-c abandons it]")
        );
        assert_eq!(step(env, "EOF").await, "[exit 0]");
        assert_eq!(step(env, "true &&").await, format!("{waits}C-c abandons it]"));
        let keys = [ToolCall::new("keys", json!({"keys": "C-c"}))];
        let result = env.step(&keys, step_ctx(5)).await.unwrap();
        assert!(result.observation.joined_text().ends_with("[exit 130]"), "{result:?}");
        assert_eq!(step(env, "cat").await, "[still running]");
        assert!(step(env, "^C").await.ends_with("[exit 130]"));
        assert_eq!(step(env, "echo C-c").await, "C-c\n[exit 0]");
    });
}

#[test]
fn file_unreadable_to_owner_is_not_a_result() {
    let test = || {
        let command = Check::Command {
            run: "grep -q 42 out".to_owned(),
            exit_code: 0,
            stdout_equals: None,
            stdout_contains: None,
            timeout: Duration::from_secs(10),
        };
        for (close, score) in [
            ("true", 1.0),
            ("chmod 0400 out", 1.0),
            ("chmod 0 out", 0.0),
            ("chmod 0200 out", 0.0),
            ("chmod 0 .", 0.0),
            ("chmod 0600 .", 0.0),
        ] {
            let task = terminal_task(small_terminal(), vec![file_equals("out", "42\n"), command.clone()]);
            with_provider(|provider| async move {
                let mut env = ready(provider.as_ref(), &task).await;
                step(env.as_mut(), &format!("echo 42 > out; {close}")).await;
                let grade = env.grade(step_ctx(9)).await.unwrap();
                assert_eq!(grade.score, score, "{close}: {:?}", messages(&grade));
                assert_eq!(env.close().await.leftovers, Vec::<String>::new());
            });
        }
    };
    test();
    let name = "episode::file_unreadable_to_owner_is_not_a_result";
    again_as_normal_user(name, &[&Spawner::find().unwrap()]);
}

#[test]
fn failed_setup_is_explained_fault() {
    with_provider(|provider| async move {
        let mut spec = small_terminal();
        spec.setup = vec!["echo no such thing >&2; exit_with() { return 3; }; exit_with".to_owned()];
        let task = terminal_task(spec, vec![file_equals("f", "")]);
        let request = clawrl_core::LeaseRequest {
            task,
            attempt: clawrl_core::AttemptId { slot: clawrl_core::SlotId(0), number: 0 },
            epoch: clawrl_core::Epoch(1),
            seed: 7,
            deadline: std::time::Instant::now() + Duration::from_secs(30),
            cancel: clawrl_core::CancelToken::new(),
            blobs: std::sync::Arc::new(clawrl_core::MemoryBlobs::default()),
        };
        let mut env = provider.lease(request).await.unwrap();
        let fault = env.reset(step_ctx(0)).await.unwrap_err();
        assert_eq!((fault.code.as_str(), fault.retry), ("setup-failed", clawrl_core::Retry::Never));
        assert!(fault.message.contains("no such thing"), "{fault}");
        env.close().await;
    });
}

#[test]
fn warm_terminals_are_used_and_recorded() {
    with_provider(|provider| async move {
        provider.warm_up(3).await.unwrap();
        assert_eq!((provider.usage().live, provider.usage().warm), (3, 3));
        let mut env =
            ready(provider.as_ref(), &terminal_task(small_terminal(), vec![file_equals("f", "")])).await;
        assert_eq!((provider.usage().live, provider.usage().warm), (3, 2));
        step(env.as_mut(), "echo on the record").await;
        let cast = env.close().await.cast.unwrap();
        assert!(cast.starts_with("{\"version\": 2") || cast.starts_with("{\"version\":2"), "{cast}");
        assert!(cast.contains("on the record"), "{cast}");
    });
}
