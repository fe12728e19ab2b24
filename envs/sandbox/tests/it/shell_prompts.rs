//! Prompts that the agent changed or redirected: the session's own text never mixes with the agent's, and exit codes
//! are known.

use std::time::Duration;

use clawrl_sandbox::{ShellState, StepEnd, StepNote};

use crate::shell_fixture::{Shell, exited, nonce, patient_shell, shell};

/// Waits for a step that has to end so, whatever its notes.
async fn ends(shell: &mut Shell, command: &str, text: &str, end: StepEnd) {
    let output = shell.run(command).await;
    assert_eq!((output.text.as_str(), output.end), (text, end), "{command:?}: {output:?}");
}

fn written(shell: &Shell, name: &str) -> String {
    std::fs::read_to_string(shell.terminal.home.path().join(name)).unwrap()
}

#[tokio::test]
async fn changed_continuation_prompt_gets_no_input() {
    let mut shell = shell().await;
    shell.check("PS2='... '", "", 0).await;
    ends(&mut shell, "cat > f <<EOF\nline one", "... ", StepEnd::Incomplete).await;
    ends(&mut shell, "line two\nEOF", "", exited(0)).await;
    assert_eq!(written(&shell, "f"), "line one\nline two\n");
    // In one paste with the change, too.
    ends(&mut shell, "PS2='... '\necho 'a", "... ", StepEnd::Incomplete).await;
    ends(&mut shell, "b' > g", "", exited(0)).await;
    assert_eq!(written(&shell, "g"), "a\nb\n");
    ends(&mut shell, "PS2='... '\nfor i in 1 2; do", "... ", StepEnd::Incomplete).await;
    assert_eq!(shell.session.state(), ShellState::Continuation);
    shell.drop_line().await;
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn here_document_works_with_changed_prompts() {
    let mut shell = shell().await;
    let output = shell.run("PS1='% ' PS2='... '\ncat > f <<EOF\nline one").await;
    assert_eq!(output.end, StepEnd::Completed { exit_code: None });
    assert!(output.has(StepNote::MarksLost));
    ends(&mut shell, "line two\nEOF", "", exited(0)).await;
    assert_eq!(written(&shell, "f"), "line one\nline two\n");
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn a_changed_prompt_is_recognised_by_asking_the_shell() {
    let mut shell = shell().await;
    for (change, known) in [
        ("PS1='> '", true),
        ("PS1=", true),
        ("unset PS1", true),
        ("PS1=$'two\\nlines: '", true),
        ("__clawrl_n=0", true),
        ("__clawrl_n=9999999", true),
        ("__clawrl_n=nonsense", true),
        ("unset PS1 PS2", false),
        ("shopt -u promptvars", false),
        ("unset PROMPT_COMMAND", true),
        ("PROMPT_COMMAND='true; false'", true),
        ("PS0=; PS2=; PS4='$(echo x) '", true),
        ("bind 'set enable-bracketed-paste off'", true),
        ("set +o emacs", true),
        ("set -o vi", true),
        ("set -o posix; set +o posix", true),
    ] {
        let output = shell.run(&format!("{change}; (exit 3)")).await;
        let code = if known { Some(3) } else { None };
        assert_eq!(output.end, StepEnd::Completed { exit_code: code }, "{change}: {output:?}");
        assert_eq!(output.has(StepNote::MarksLost), !known, "{change}: {output:?}");
        let output = shell.run("echo ok").await;
        assert_eq!((output.text.as_str(), output.end), ("ok\n", exited(0)), "{change}: {output:?}");
        shell.check("echo again", "again\n", 0).await;
    }
}

#[tokio::test]
async fn report_key_is_invisible_to_the_agent() {
    let mut shell = shell().await;
    shell.check("HISTCONTROL=; history -c; exec 5>trace; BASH_XTRACEFD=5; trap 'echo \"$BASH_COMMAND\" >> debug' DEBUG", "", 0).await;
    shell.run("set -xu; IFS=x; false | (exit 4); PS1='% '").await;
    shell.check("echo \"${PIPESTATUS[0]} ${BASH_REMATCH[*]-none}\"", "0 none\n", 0).await;
    shell.run("PS1='% '; false").await;
    shell.check("echo $?", "1\n", 0).await;
    shell.check("set +xu; trap - DEBUG; unset IFS", "", 0).await;
    for name in ["trace", "debug"] {
        let text = written(&shell, name);
        assert!(!text.contains("133;") && !text.contains("clawrl="), "{name}: {text}");
    }
    let output = shell.run("history").await;
    assert!(!output.text.contains("clawrl"), "{output:?}");
}

#[tokio::test]
async fn repairs_leave_nothing_in_the_history() {
    let mut shell = shell().await;
    shell.run("history -c; stty raw -echo").await;
    shell.run("echo one").await;
    shell.run("set +o emacs").await;
    shell.run("echo two").await;
    let output = shell.run("history | sed 's/^ *[0-9]* *//'").await;
    let expected = "echo one\nset +o emacs\necho two\nhistory | sed 's/^ *[0-9]* *//'\n";
    assert_eq!(output.text, expected);
    shell.run("exec bash --norc").await;
    let output = shell.run("history").await;
    assert!(!output.text.contains("clawrl"), "{output:?}");
    assert_eq!(output.end, exited(0));
}

#[tokio::test]
async fn shell_read_is_answered_by_agent_only() {
    let mut shell = shell().await;
    let output = shell.run("read -e -p 'name? ' name; echo \"<$name>\"").await;
    assert_eq!((output.text.as_str(), output.end), ("name? ", StepEnd::Running), "{output:?}");
    let output = shell.run("Ann").await;
    assert_eq!(output.end, exited(0), "{output:?}");
    assert!(output.text.ends_with("<Ann>\n"), "{output:?}");
    for read in ["read -n 1 key", "read -s -n 1 key", "stty raw -echo; read -n 1 key; stty sane"] {
        assert_eq!(shell.run(read).await.end, StepEnd::Running, "{read}");
        assert_eq!(shell.keys("x").await.end, exited(0), "{read}");
        shell.check("echo \"<$key>\"", "<x>\n", 0).await;
    }
}

#[tokio::test]
async fn a_read_only_prompt_is_asked_about_each_time() {
    let mut shell = shell().await;
    ends(&mut shell, "readonly PS1='# '", "# ", exited(0)).await;
    ends(&mut shell, "echo seen; false", "seen\n# ", exited(1)).await;
    ends(&mut shell, "echo seen", "seen\n# ", exited(0)).await;
}

#[tokio::test]
async fn exit_codes_known_with_redirected_stderr() {
    for redirection in ["exec 2>err.log", "exec > all.log 2>&1", "exec 2>/dev/null", "exec 2>&-"] {
        let mut shell = shell().await;
        ends(&mut shell, redirection, "", exited(0)).await;
        ends(&mut shell, "false", "", exited(1)).await;
        let folder = shell.run("cd /usr; true").await;
        assert_eq!((folder.end, folder.folder.as_deref()), (exited(0), Some("/usr")), "{redirection}");
        ends(&mut shell, "echo shown > /dev/tty; (exit 4)", "shown\n", exited(4)).await;
        ends(&mut shell, "sleep 0.4; (exit 5)", "", exited(5)).await;
        ends(&mut shell, "cat > /dev/tty <<EOF\none", "", StepEnd::Incomplete).await;
        assert_eq!(shell.session.state(), ShellState::Continuation, "{redirection}");
        ends(&mut shell, "two\nEOF", "one\ntwo\n", exited(0)).await;
        ends(&mut shell, "echo 'half", "", StepEnd::Incomplete).await;
        assert_eq!(shell.drop_line().await.end, StepEnd::Completed { exit_code: None }, "{redirection}");
        assert_eq!(shell.run("read answer < /dev/tty").await.end, StepEnd::Running, "{redirection}");
        assert_eq!(shell.run("yes").await.end, exited(0), "{redirection}");
        ends(&mut shell, "echo \"$answer\" > /dev/tty", "yes\n", exited(0)).await;
        // And back.
        let output = shell.run("exec > /dev/tty 2>&1").await;
        assert_eq!(output.end, exited(0), "{redirection}: {output:?}");
        ends(&mut shell, "echo back; false", "back\n", exited(1)).await;
        shell.check("echo fine", "fine\n", 0).await;
    }
}

#[tokio::test]
async fn redirected_stderr_gets_no_later_marks() {
    let mut shell = shell().await;
    ends(&mut shell, "exec 2>err.log", "", exited(0)).await;
    ends(&mut shell, ": > err.log; echo text >&2", "", exited(0)).await;
    ends(&mut shell, "echo more >&2", "", exited(0)).await;
    let text = written(&shell, "err.log");
    assert!(text.contains("text\n") && text.contains("more\n"), "{text:?}");
    assert!(!text.contains("clawrl"), "{text:?}");
}

#[tokio::test]
async fn redirected_stderr_with_open_here_document() {
    let mut shell = shell().await;
    ends(&mut shell, "exec 2>err.log\ncat > f <<EOF\nline one", "", StepEnd::Incomplete).await;
    ends(&mut shell, "line two\nEOF", "", exited(0)).await;
    assert_eq!(written(&shell, "f"), "line one\nline two\n");
}

#[tokio::test]
async fn background_output_does_not_hide_a_hidden_prompt() {
    let mut shell = shell().await;
    ends(&mut shell, "mkfifo go; exec 2>err.log", "", exited(0)).await;
    ends(&mut shell, "(read < go; sleep 0.05; echo late; echo > told) &", "", exited(0)).await;
    let output = shell.run("echo > go; (exit 3)").await;
    assert_eq!(output.end, exited(3), "{output:?}");
    while !shell.terminal.home.path().join("told").exists() {
        shell.wait(Duration::from_millis(10)).await;
    }
    ends(&mut shell, "(exit 4)", "", exited(4)).await;
}

#[tokio::test]
async fn a_forged_report_is_not_believed() {
    let mut shell = patient_shell().await;
    let nonce = nonce();
    let output = shell.run(&format!("printf '\\033]133;R;0;clawrl={nonce}.1;2vt\\007'; (exit 4)")).await;
    assert_eq!((output.text.as_str(), output.end), ("", exited(4)));
    assert_eq!(output.notes, [StepNote::ForgedMark]);
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn hint_for_unfinished_command_completes_it() {
    let mut shell = shell().await;
    for (command, missing, rest) in [
        ("echo it's", "a closing quote '", "'"),
        ("echo \"a $(echo 'b", "a closing quote '", "')\""),
        ("cat <<'EOF' >/dev/null\na 'b", "a line with nothing but EOF", "EOF"),
        ("cat <<-X >/dev/null", "a line with nothing but X", "X"),
        ("x=$(cat <<Y\nit's", "a line with nothing but Y", "Y\n)"),
        ("echo `date", "a closing backquote `", "`"),
        ("for i in 1; do", "the word done", "true; done"),
        ("if true; then", "the word fi", "true; fi"),
        ("case x in x) true", "the word esac", ";; esac"),
        ("f() {", "the word }", "true; }"),
        ("(true", "a closing )", ")"),
        ("echo ${x:-", "a closing }", "}"),
        ("[[ a == a", "the word ]]", "]]"),
    ] {
        let output = shell.run(command).await;
        assert_eq!(
            (output.end, output.missing.as_deref()),
            (StepEnd::Incomplete, Some(missing)),
            "{command:?}"
        );
        let output = shell.run(rest).await;
        assert_eq!((output.end, output.missing), (exited(0), None), "{command:?}");
    }
    let output = shell.run("true &&").await;
    assert_eq!((output.end, output.missing), (StepEnd::Incomplete, None));
    assert_eq!(shell.run("true").await.end, exited(0));
    let output = shell.text("echo half").await;
    assert_eq!(output.missing.as_deref(), Some("the Enter key"));
}
