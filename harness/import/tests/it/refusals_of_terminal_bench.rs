//! What authors of Terminal-Bench folders read that cannot be imported. One snapshot for each.

use clawrl_import::ImportSandbox::{self, Bubblewrap, Container};

use crate::place::{Format, Place};

/// Breaks the example `script`, laid as `task`, and looks at what is said.
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
fn missing_parts() {
    check("no-task-yaml", Container, |place| place.remove("task/task.yaml"));
    check("no-instruction", Container, swap("instruction: |-\n  Create", "text: |-\n  Create"));
    check("no-run-tests", Container, |place| place.remove("task/run-tests.sh"));
    check("no-dockerfile", Container, |place| place.remove("task/Dockerfile"));
}

#[test]
fn wrong_values() {
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
fn what_has_no_counterpart() {
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

/// Terminal-Bench would run them with the container, and nothing here does.
#[test]
fn what_a_container_would_start() {
    let command = "[ \"sh\", \"-c\", \"sleep infinity\" ]";
    check("compose-command", Container, |place| {
        let other = "[ \"sh\", \"-c\", \"/start-server.sh && sleep infinity\" ]";
        place.replace("task/docker-compose.yaml", command, other);
    });
    // Without a command in the task's own compose file, that of the image counts.
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
