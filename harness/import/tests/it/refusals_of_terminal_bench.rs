//! Messages for Terminal-Bench folders that cannot be imported, one snapshot each.

use clawrl_import::ImportSandbox::{self, Bubblewrap, Container};

use crate::place::{Format, Place};

/// Breaks a copy of the example `script` at `task`, and checks the message.
fn check(name: &str, sandbox: ImportSandbox, damage: impl FnOnce(&Place)) {
    let place = Place::new();
    place.copy("terminal-bench/script", "task");
    damage(&place);
    let text = place.refusal(Format::TerminalBench, "task", sandbox);
    assert!(text.contains("task"), "{name} names no file: {text}");
    insta::with_settings!({ snapshot_path => "refusals", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(format!("terminal-bench-{name}"), text);
    });
}

fn swap(old: &'static str, new: &'static str) -> impl FnOnce(&Place) {
    move |place| place.replace("task/task.yaml", old, new)
}

#[test]
fn missing_parts_are_refused() {
    check("no-task-yaml", Container, |place| place.remove("task/task.yaml"));
    check("no-instruction", Container, swap("instruction: |-\n  Create", "text: |-\n  Create"));
    check("no-run-tests", Container, |place| place.remove("task/run-tests.sh"));
    check("no-dockerfile", Container, |place| place.remove("task/Dockerfile"));
}

#[test]
fn wrong_values_are_refused() {
    check("not-yaml", Container, swap("difficulty: easy", "difficulty: [easy"));
    check("timeout-of-wrong-kind", Container, swap("120.0", "long"));
    check("solution-of-wrong-kind", Container, |place| {
        place.remove("task/solution.sh");
        place.write("task/solution.yaml", "- command: ls\n  block: maybe\n- block: true\n");
    });
    check("solution-without-list", Container, |place| {
        place.remove("task/solution.sh");
        place.write("task/solution.yaml", "command: ls\n");
    });
}

#[test]
fn settings_without_counterpart_are_refused() {
    check("other-parser", Container, swap("parser_name: pytest", "parser_name: swebench"));
    check("same-shell", Container, swap("same_shell: false", "same_shell: true"));
    check("two-services", Container, |place| {
        let text = "services:\n  client:\n    build: .\n  server:\n    image: nginx\n";
        place.write("task/docker-compose.yaml", text);
    });
    check("other-service", Container, |place| {
        place.write("task/docker-compose.yaml", "services:\n  main:\n    build: .\n");
    });
    check("copies-of-solution", Container, |place| {
        place.write("task/Dockerfile", "FROM debian:12\nWORKDIR /app\nCOPY ./solution.sh tests /app/\n");
    });
    check("package", Bubblewrap, |place| {
        place.write("task/Dockerfile", "FROM debian:12\nWORKDIR /app\nRUN pip install numpy\n");
    });
}

/// Terminal-Bench would run them with the container; we do not.
#[test]
fn started_programs_are_refused() {
    let command = "[ \"sh\", \"-c\", \"sleep infinity\" ]";
    check("compose-command", Container, |place| {
        let other = "[ \"sh\", \"-c\", \"/start-server.sh && sleep infinity\" ]";
        place.replace("task/docker-compose.yaml", command, other);
    });
    // Without a command in the task's own compose file, the image's command runs.
    check("command-of-image", Bubblewrap, |place| {
        place.replace("task/docker-compose.yaml", &format!("    command: {command}\n"), "");
        place.write(
            "task/Dockerfile",
            "FROM debian:12\nWORKDIR /app\nCMD [\"python3\", \"-m\", \"http.server\"]\n",
        );
    });
    check("entrypoint", Container, |place| {
        place.write("task/Dockerfile", "FROM debian:12\nWORKDIR /app\nENTRYPOINT [\"/entrypoint.sh\"]\n");
    });
}
