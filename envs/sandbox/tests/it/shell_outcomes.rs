//! Every way a step of a shell session can end.

use std::time::Duration;

use clawrl_sandbox::{ShellError, ShellState, StepEnd, StepNote};

use crate::shell_fixture::{config, exited, patient_shell, shell, shell_with};

#[tokio::test]
async fn commands_complete_and_state_persists() {
    let mut shell = shell().await;
    shell.check("echo hello", "hello\n", 0).await;
    shell.check("cd /usr && X=1", "", 0).await;
    let output = shell.run("echo $X; false").await;
    assert_eq!(
        (output.text.as_str(), output.end, output.folder.as_deref()),
        ("1\n", exited(1), Some("/usr"))
    );
    shell.check("(exit 7)", "", 7).await;
    shell.check("echo $?", "7\n", 0).await;
    shell.check("", "", 0).await;
    shell.check("printf abc", "abc", 0).await;
    shell.check("if then", "bash: syntax error near unexpected token `then'\n", 2).await;
}

#[tokio::test]
async fn multiple_lines_are_one_step() {
    let mut shell = shell().await;
    shell.check("echo a\necho b\nfalse", "a\nb\n", 1).await;
    shell.check("cat <<'EOF'\n\tone `x` $y !z\n\ntwo\nEOF", "\tone `x` $y !z\n\ntwo\n", 0).await;
    shell.check("for i in 1 2\ndo echo $i\ndone\n", "1\n2\n", 0).await;
    shell.check("echo after", "after\n", 0).await;
}

#[tokio::test]
async fn folders_with_strange_names_are_reported() {
    let mut shell = shell().await;
    let output = shell.run("mkdir $'a;\\a\\n\\001 \\'b' && cd a*").await;
    let folder = output.folder.unwrap();
    assert!(folder.ends_with("/a;\x07\n\x01 'b"), "{folder:?}");
}

#[tokio::test]
async fn exit_ends_the_session() {
    let mut shell = shell().await;
    let output = shell.run("echo bye; exit 3").await;
    assert_eq!((output.text.as_str(), output.end), ("bye\nexit\n", StepEnd::ShellExited));
    assert_eq!(shell.session.state(), ShellState::Gone);
    assert!(matches!(shell.try_run("echo").await, Err(ShellError::Gone)));
}

#[tokio::test]
async fn exit_is_seen_although_a_job_keeps_the_terminal() {
    let mut shell = shell().await;
    let output = shell.run("(trap '' HUP; exec sleep 5) & exit").await;
    assert_eq!(output.end, StepEnd::ShellExited, "{output:?}");
}

#[tokio::test]
async fn end_of_file_ends_the_session() {
    let mut shell = shell().await;
    assert_eq!(shell.keys("C-d").await.end, StepEnd::ShellExited);
}

#[tokio::test]
async fn traps_and_tracing_see_nothing_of_the_marks() {
    let mut shell = shell().await;
    shell.check("set -u; trap 'echo debug' DEBUG", "", 0).await;
    shell.check("true", "debug\n", 0).await;
    shell.check("trap - DEBUG; false | true; set -x", "debug\n", 0).await;
    shell.check("echo ${PIPESTATUS[0]}", "+ echo 0\n0\n", 0).await;
    shell.check("set +x; trap 'echo int' INT; trap 'echo err' ERR", "+ set +x\n", 0).await;
    shell.check("false", "err\n", 1).await;
}

#[tokio::test]
async fn raw_terminal_is_restored() {
    let mut shell = shell().await;
    assert_eq!(shell.run("stty raw -echo").await.end, exited(0));
    let output = shell.run("stty -a | grep -o -- ' -\\?icanon\\| -\\?echo '").await;
    assert_eq!((output.text.as_str(), output.notes), (" icanon\n echo \n", vec![StepNote::ShellRepaired]));
    // Without echo there is nothing to see before a command was typed.
    shell.check("stty -echo", "", 0).await;
    shell.check("echo unseen", "unseen\n", 0).await;
    let output = shell.run("stty -a | grep -o -- ' -\\?echo '").await;
    assert_eq!((output.text.as_str(), output.notes), (" echo \n", vec![StepNote::ShellRepaired]));
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn clear_and_reset_leave_no_trace() {
    let mut shell = shell().await;
    for command in ["clear", "tput reset", "printf '\\033c'"] {
        shell.check(command, "", 0).await;
        shell.check("echo x", "x\n", 0).await;
    }
}

#[tokio::test]
async fn incomplete_commands_go_on() {
    let mut shell = patient_shell().await;
    let output = shell.run("cat <<X").await;
    assert_eq!((output.text.as_str(), output.end), ("", StepEnd::Incomplete));
    assert_eq!(shell.session.state(), ShellState::Continuation);
    assert_eq!(shell.run("line").await.end, StepEnd::Incomplete);
    shell.check("X", "line\n", 0).await;
}

#[tokio::test]
async fn half_a_command_is_dropped() {
    let mut shell = shell().await;
    // As often as it takes for some interrupts to come before the shell waits for a key.
    for turn in 0..20 {
        assert_eq!(shell.run("(exit 3); echo 'a").await.end, StepEnd::Incomplete);
        let output = shell.drop_line().await;
        assert_eq!(
            (output.text.as_str(), output.end),
            ("", StepEnd::Completed { exit_code: None }),
            "{turn}"
        );
        assert_eq!(shell.session.state(), ShellState::Prompt);
        shell.check("echo fine", "fine\n", 0).await;
    }
    shell.text("echo half").await;
    assert_eq!(shell.drop_line().await.end, StepEnd::Completed { exit_code: None });
    assert_eq!(shell.keys("Enter").await.text, "\n");
    assert_eq!(shell.run("cat").await.end, StepEnd::Running);
    assert_eq!(shell.drop_line().await.end, StepEnd::Running);
}

#[tokio::test]
async fn half_typed_line_does_not_spoil_next_command() {
    let mut shell = shell().await;
    let output = shell.text("echo half").await;
    assert_eq!((output.text.as_str(), output.end), ("echo half", StepEnd::Incomplete));
    shell.check("echo whole", "whole\n", 0).await;
    assert_eq!(shell.keys("C-r x").await.end, StepEnd::Incomplete);
    shell.check("echo whole", "whole\n", 0).await;
    shell.text("echo typed").await;
    let output = shell.keys("Enter").await;
    assert_eq!((output.text.as_str(), output.end), ("\ntyped\n", exited(0)));
}

#[tokio::test]
async fn a_program_that_waits_for_input_is_running() {
    let mut shell = shell().await;
    let output = shell.run("read -p 'name? ' name; echo \"<$name>\"").await;
    assert_eq!((output.text.as_str(), output.end), ("name? ", StepEnd::Running));
    assert_eq!(shell.session.state(), ShellState::Running);
    let output = shell.run("Ann").await;
    assert_eq!((output.text.as_str(), output.end), ("Ann\n<Ann>\n", exited(0)));
    assert_eq!(output.notes, [StepNote::TypedIntoProgram]);
}

#[tokio::test]
async fn a_silent_program_that_works_is_waited_for() {
    let mut shell = shell().await;
    // Four times the idle time, without a word.
    shell.check("sleep 0.6; echo done", "done\n", 0).await;
    shell.check("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo $i'", "200000\n", 0).await;
}

#[tokio::test]
async fn bounded_patterns_give_up() {
    let mut shell =
        shell_with(clawrl_sandbox::ShellConfig { patience: Duration::from_millis(400), ..config() }).await;
    let output = shell.run("sleep 30").await;
    assert_eq!(output.end, StepEnd::Running);
    let output = shell.wait(Duration::from_millis(100)).await;
    assert_eq!(output.end, StepEnd::Running);
    assert_eq!(shell.keys("C-c").await.end, exited(130));
}

#[tokio::test]
async fn waiting_sees_the_end() {
    let mut shell =
        shell_with(clawrl_sandbox::ShellConfig { patience: Duration::from_millis(200), ..config() }).await;
    assert_eq!(shell.run("sleep 1; echo woke").await.end, StepEnd::Running);
    let output = shell.wait(Duration::from_secs(50)).await;
    assert_eq!((output.text.as_str(), output.end), ("woke\n", exited(0)));
    let output = shell.wait(Duration::from_millis(20)).await;
    assert_eq!((output.text.as_str(), output.end), ("", StepEnd::Completed { exit_code: None }));
}

#[tokio::test]
async fn a_deadline_ends_the_job_and_keeps_the_shell() {
    let mut shell = shell().await;
    let output = shell.run_for("echo begun; sleep 100", Duration::from_millis(300)).await;
    assert_eq!(output.end, StepEnd::TimedOut { shell_lost: false });
    assert!(output.text.starts_with("begun\n"), "{output:?}");
    shell.check("echo alive", "alive\n", 0).await;
}

#[tokio::test]
async fn a_job_that_ignores_the_interrupt_is_killed() {
    let mut shell = shell().await;
    let stubborn = "sh -c 'trap \"\" INT TERM; while :; do sleep 0.05; done'";
    let output = shell.run_for(&format!("{stubborn}\n{stubborn}"), Duration::from_millis(300)).await;
    assert_eq!(output.end, StepEnd::TimedOut { shell_lost: false }, "{output:?}");
    shell.check("echo alive", "alive\n", 0).await;
}

#[tokio::test]
async fn a_busy_shell_is_interrupted() {
    let mut shell = shell().await;
    let output = shell.run_for("while :; do :; done", Duration::from_millis(300)).await;
    assert_eq!(output.end, StepEnd::TimedOut { shell_lost: false });
    shell.check("echo alive", "alive\n", 0).await;
}

#[tokio::test]
async fn shell_ignoring_interrupt_is_replaced() {
    let mut shell = shell().await;
    let output = shell.run_for("trap '' INT; while :; do :; done", Duration::from_millis(300)).await;
    assert_eq!(output.end, StepEnd::TimedOut { shell_lost: true });
    assert!(output.has(StepNote::NewShell), "{output:?}");
    shell.check("echo alive", "alive\n", 0).await;
}

#[tokio::test]
async fn cancelling_returns_at_once() {
    let mut shell = shell().await;
    let cancel = shell.cancel_token();
    let (output, ()) = tokio::join!(shell.run("echo here; sleep 100"), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(output.end, StepEnd::Cancelled);
}

#[tokio::test]
async fn jobs_are_controlled() {
    let mut shell = shell().await;
    assert_eq!(shell.run("cat").await.end, StepEnd::Running);
    let output = shell.keys("C-z").await;
    assert_eq!(output.end, exited(148), "{output:?}");
    assert!(output.text.contains("Stopped"));
    let output = shell.run("fg").await;
    assert_eq!((output.text.as_str(), output.end), ("cat\n", StepEnd::Running));
    assert_eq!(shell.signal("TSTP").await.end, exited(148));
    assert_eq!(shell.run("fg").await.end, StepEnd::Running);
    assert_eq!(shell.signal("TERM").await.end, exited(143));
    assert_eq!(shell.run("cat").await.end, StepEnd::Running);
    assert_eq!(shell.signal("SIGKILL").await.end, exited(137));
    let output = shell.signal("INT").await;
    assert_eq!(
        (output.end, output.notes),
        (StepEnd::Completed { exit_code: None }, vec![StepNote::NothingRunning])
    );
}

#[tokio::test]
async fn background_jobs_speak_up_in_a_later_step() {
    let mut shell = shell().await;
    let output = shell.run("mkfifo go; (read < go; echo late; echo told > told) &").await;
    assert_eq!(output.end, exited(0));
    let output = shell.run("echo > go; while [ ! -e told ]; do :; done").await;
    assert!(output.text.contains("late\n"), "{output:?}");
    shell.run("(read < go; echo later) &").await;
    std::fs::write(shell.terminal.home.path().join("go"), "\n").unwrap();
    let output = shell.wait(Duration::from_millis(300)).await;
    assert!(output.text.contains("later\n"), "{output:?}");
    let output = shell.run("echo prompt").await;
    assert!(output.text.contains("prompt\n") && output.end == exited(0), "{output:?}");
}

#[tokio::test]
async fn commands_that_cannot_be_typed_are_refused() {
    let mut shell = shell().await;
    assert!(matches!(shell.try_run("echo \x03").await, Err(ShellError::Command(_))));
    shell
        .check(
            "echo 'a\rb\x1b[201~c\td' | od -An -c",
            "   a  \\r   b 033   [   2   0   1   ~   c  \\t   d  \\n\n",
            0,
        )
        .await;
}
