//! A shell that ends unexpectedly is replaced by a new one on the same terminal.

use clawrl_sandbox::{ShellError, ShellState, StepEnd, StepNote};

use crate::shell_fixture::{exited, nonce, patient_shell, shell};

#[tokio::test]
async fn a_shell_that_ends_by_itself_is_replaced() {
    for (command, text, exit_code) in [
        ("set -e\necho a; (exit 3); echo b", "a\n", 3),
        ("set -euo pipefail; false | true", "", 1),
        ("exec echo gone", "gone\n", 0),
        ("kill -KILL $$", "Killed\n", 137),
        ("printf 'ex%s 5' it > script; . ./script", "", 5),
        ("trap 'echo bye' EXIT; set -e; false", "bye\n", 1),
        ("exec < /dev/null", "exit\n", 0),
        ("exec <&-", "exit\n", 0),
    ] {
        let mut shell = shell().await;
        let output = shell.run(&format!("X=1; {command}")).await;
        assert_eq!(
            // A shell without a terminal as its input may have shown its prompt before it ended.
            (output.text.trim_start_matches("# ").trim_start_matches("$ "), output.end),
            (text, StepEnd::ShellReplaced { exit_code }),
            "{command}: {output:?}"
        );
        assert!(output.has(StepNote::NewShell), "{command}");
        assert_eq!(shell.session.state(), ShellState::Prompt);
        let output = shell.run("echo \"<$X>\"; false").await;
        assert_eq!((output.text.as_str(), output.end), ("<>\n", exited(1)), "{command}");
        let home = shell.terminal.home.path().to_str().unwrap();
        assert_eq!(output.folder.as_deref(), Some(home), "{command}");
        assert_eq!(output.notes, [], "{command}");
    }
}

#[tokio::test]
async fn a_shell_may_be_replaced_many_times() {
    let mut shell = shell().await;
    for _ in 0..20 {
        assert_eq!(shell.run("set -e; false").await.end, StepEnd::ShellReplaced { exit_code: 1 });
        shell.check("echo fine", "fine\n", 0).await;
    }
    let output = shell.run("exit").await;
    assert_eq!((output.end, output.notes), (StepEnd::ShellExited, vec![]));
    assert!(matches!(shell.try_run("echo").await, Err(ShellError::Gone)));
}

#[tokio::test]
async fn old_jobs_do_not_disturb_new_shell() {
    let mut shell = shell().await;
    let home = shell.terminal.home.path().to_owned();
    let command = "mkfifo go; (read < go; echo > told) 2>/dev/null & stty raw -echo; kill -KILL $$";
    assert_eq!(shell.run(command).await.end, StepEnd::ShellReplaced { exit_code: 137 });
    shell.check("echo > go; while [ ! -e told ]; do :; done; echo told", "told\n", 0).await;
    assert!(home.join("told").exists());
}

#[tokio::test]
async fn killed_idle_shell_is_replaced_before_command() {
    let mut shell = shell().await;
    shell.run("(while [ ! -e now ]; do :; done; kill -KILL $$) 2>/dev/null &").await;
    std::fs::write(shell.terminal.home.path().join("now"), "").unwrap();
    let output = shell.wait(std::time::Duration::from_secs(50)).await;
    assert_eq!(output.end, StepEnd::ShellReplaced { exit_code: 137 }, "{output:?}");
    let output = shell.run("stty -a | grep -o -- ' -\\?icanon\\| -\\?echo '").await;
    assert_eq!((output.text.as_str(), output.notes), (" icanon\n echo \n", vec![]));
}

#[tokio::test]
async fn interrupted_exec_program_is_replaced() {
    let mut shell = patient_shell().await;
    assert_eq!(shell.run("exec cat").await.end, StepEnd::Running);
    assert_eq!(shell.keys("C-c").await.end, StepEnd::ShellReplaced { exit_code: 130 });
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn a_forged_replacement_is_not_believed() {
    let mut shell = shell().await;
    let mark = format!(r"\033]133;P;0;clawrl={}.1\007", nonce());
    let output = shell.run(&format!("sh -c \"printf '{mark}'; exit 6\"")).await;
    assert_eq!((output.text.as_str(), output.end), ("", exited(6)));
    assert_eq!(output.notes, [StepNote::ForgedMark]);
    let output = shell.run(&format!("printf '{mark}'; set -e; (exit 7)")).await;
    assert_eq!(output.end, StepEnd::ShellReplaced { exit_code: 7 });
    assert!(output.has(StepNote::ForgedMark), "{output:?}");
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn renewed_shell_is_fresh() {
    let mut shell = shell().await;
    shell.run("cd /usr; export X=1; set -u; trap 'echo left' EXIT; alias ls=no").await;
    let output = shell.renew().await;
    assert_eq!((output.text.as_str(), output.end), ("", StepEnd::ShellReplaced { exit_code: 137 }));
    shell
        .check(
            "echo \"<$X>\"; trap; alias; jobs; history",
            "<>\n    1  echo \"<$X>\"; trap; alias; jobs; history\n",
            0,
        )
        .await;
}
