//! Programs of tasks, with the arguments of calls.

use clawrl_core::{ToolDecl, ToolKind};
use serde_json::{Value, json};

use crate::support::{call, command, sandboxed, shown, tool, with_env, within};

fn tools() -> Vec<ToolDecl> {
    let stdin = ToolKind::Command { argv: vec!["wc".into(), "-c".into()], stdin: Some("{text}".into()) };
    vec![
        command("echo", &["printf", "%s|", "{a}", "{b}", "<{a}>"]),
        tool("count", stdin),
        command("shell", &["sh", "-c", "{script}"]),
        command("missing", &["no-such-program"]),
        command("any", &["{program}"]),
        within(1_000, command("sleep", &["sh", "-c", "echo begun; sleep 1000"])),
    ]
}

/// A tool, its arguments, and the expected observation.
type Case = (&'static str, fn() -> Value, &'static str);

fn check(calls: &'static [Case]) {
    with_env(sandboxed(tools()), async |env| {
        for (name, arguments, expected) in calls {
            assert_eq!(&shown(env, &[call(name, arguments())]).await, expected, "{name}");
        }
    });
}

#[test]
fn arguments_reach_programs_as_they_are() {
    check(&[
        (
            "echo",
            || json!({"a": "$HOME; `x`", "b": [1, "y"]}),
            "[echo]\n$HOME; `x`|[1,\"y\"]|<$HOME; `x`>|\n[exit 0]",
        ),
        ("echo", || json!({"a": "x"}), "[echo]\nx|<x>|\n[exit 0]"),
        ("count", || json!({"text": "12345"}), "[count]\n5\n[exit 0]"),
        ("count", || json!({}), "[count]\n0\n[exit 0]"),
        ("any", || json!({}), "[any] error: the arguments leave no program to run"),
        (
            "echo",
            || json!({"a": "\0"}),
            "[echo] error: an argument of a program cannot hold the character NUL",
        ),
    ]);
}

#[test]
fn streams_and_endings_are_reported() {
    check(&[
        (
            "shell",
            || json!({"script": "echo out; echo err >&2; exit 3"}),
            "[shell]\nout\n[stderr]\nerr\n[exit 3]",
        ),
        ("shell", || json!({"script": "pwd; echo $PYTHONHASHSEED"}), "[shell]\n/work\n7\n[exit 0]"),
        ("sleep", || json!({}), "[sleep]\nbegun\n[killed after 1 s]"),
        ("shell", || json!({"script": "printf '\\377'"}), "[shell]\n\u{fffd}\n[exit 0]"),
    ]);
}

#[test]
fn missing_program_is_reported() {
    with_env(sandboxed(tools()), async |env| {
        let told = shown(env, &[call("missing", json!({}))]).await;
        assert!(told.starts_with("[missing] error: the program cannot be run: "), "{told}");
    });
}
