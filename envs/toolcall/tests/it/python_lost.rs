//! Interpreters that code ended, broke or took hostage: the loss is reported, and the next call has a fresh one.

use std::time::{Duration, Instant};

use clawrl_core::ToolKind;

use crate::support::{code, sandboxed, shown, tool, with_env, within};

/// How long the end of a sandbox may take.
const PATIENCE: Duration = Duration::from_secs(20);

const FRESH: &str = "; the next call starts a fresh one, variables are lost]";

/// Runs code that loses the interpreter; the report contains `expected`, and the next call works.
fn check(text: &'static str, expected: &'static str) {
    with_env(sandboxed(vec![within(3_000, tool("python", ToolKind::Python))]), async |env| {
        shown(env, &[code("x = 1")]).await;
        let told = shown(env, &[code(text)]).await;
        assert!(told.contains(expected) && told.ends_with(FRESH), "{text}: {told}");
        let next = shown(env, &[code("'x' in globals()")]).await;
        assert_eq!(next, "[python]\n[the interpreter was restarted; variables are lost]\nFalse");
        assert_eq!(shown(env, &[code("2")]).await, "[python] 2");
    });
}

#[test]
fn interpreter_exiting() {
    check(
        "print('last words', flush=True)\nimport os\nos._exit(3)",
        "last words\n[the interpreter has ended: exit code 3;",
    );
}

#[test]
fn interpreter_killing_itself() {
    check("import os\nos.kill(os.getpid(), 9)", "[the interpreter has ended: killed by signal 9");
}

#[test]
fn interpreter_closing_its_pipes() {
    check("import os\nos.closerange(3, 1024)", "[the interpreter has ended: exit code 1;");
}

#[test]
fn code_imitating_the_driver() {
    let garbage = "import os\nfor n in range(200, 220):\n    try:\n        os.write(n, b'garbage\\n')\n    \
                   except OSError:\n        pass";
    check(garbage, "[the interpreter answered in disorder and was killed;");
}

#[test]
fn interpreter_answering_for_another_call() {
    let forged = "import os\nfor n in range(200, 220):\n    try:\n        os.write(n, b'{\"id\": 1, \"ok\": true}\\n')\n    \
                  except OSError:\n        pass";
    check(forged, "[the interpreter answered in disorder and was killed;");
}

#[test]
fn interpreter_answering_endlessly() {
    let endless = "import os\nwhile True:\n    os.write(201, b'x' * 60000)";
    check(endless, "[the interpreter answered in disorder and was killed;");
}

#[test]
fn interpreter_ignoring_interrupts() {
    let stubborn = "import time\nwhile True:\n    try:\n        time.sleep(0.01)\n    except KeyboardInterrupt:\n        print('no')";
    check(stubborn, "no\n[the interpreter was killed after 3 s;");
}

#[test]
fn interpreter_with_exiting_thread() {
    let later = "import os, threading, time\nthreading.Timer(0, lambda: os._exit(5)).start()\ntime.sleep(10)";
    check(later, "[the interpreter has ended: exit code 5;");
}

#[test]
fn sandbox_ended_by_code_is_not_a_fault() {
    with_env(sandboxed(vec![tool("python", ToolKind::Python)]), async |env| {
        shown(env, &[code("import os\nos.kill(-1, 9)")]).await;
        // The interpreter, which the signal passes over, answers until it ends with its sandbox.
        let until = Instant::now() + PATIENCE;
        let mut told = String::new();
        while !told.starts_with("[python] error: no interpreter could be started: ") {
            assert!(Instant::now() < until, "{told}");
            told = shown(env, &[code("1")]).await;
        }
    });
}
