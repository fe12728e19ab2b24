//! `clawrl env open`: attempts that another program drives over standard input and output.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use clawrl_testkit::{SWE_FIX, SWE_TESTS};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::place::Place;

/// A small repository with a fault, a terminal, and a repository whose setup fails.
const DRIVEN: &str = r#"
format: 1
suite: driven
defaults:
  step_timeout_secs: 60
tasks:
  - id: mend
    instruction: Adding is wrong.
    env:
      swe:
        files: repo
        memory_mib: 128
        disk_mib: 16
        test: python3 -m unittest discover -v -s tests -t .
        parser: unittest
        test_files: tests
        fail_to_pass: ["FAILING"]
        pass_to_pass: ["PASSING"]
    oracle: { commands: ["FIX"] }
  - id: write
    template: { word: [river, stone] }
    instruction: Write {{ word }} into out.txt.
    env: { terminal: { memory_mib: 64, disk_mib: 4, pids: 32 } }
    checks: [ { file_equals: { path: out.txt, expected: "{{ word }}\n" } } ]
    oracle: { commands: ["echo {{ word }} > out.txt"] }
  - id: broken
    instruction: Nobody can begin.
    env: { terminal: { memory_mib: 64, disk_mib: 4, pids: 32, setup: ["false"] } }
    checks: [ { file_equals: { path: out.txt, expected: "" } } ]
    oracle: { commands: ["touch out.txt"] }
"#;

const CALC: &str = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n";
const HIDDEN: &str = "import unittest\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n\n    def test_mul(self):\n        self.assertEqual(calc.mul(2, 3), 6)\n";

fn place() -> Place {
    let place = Place::new();
    let (failing, passing) = SWE_TESTS;
    let text = DRIVEN.replace("FAILING", failing).replace("PASSING", passing).replace("FIX", SWE_FIX);
    place.suite("driven", &text);
    let write = |path: &str, text: &str| {
        let path = place.path().join("tasks/driven").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("repo/calc.py", CALC);
    write("repo/tests/__init__.py", "");
    write("tests/tests/test_calc.py", HIDDEN);
    place
}

/// The driver's side of an attempt.
struct Driver {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    last_id: u64,
}

impl Driver {
    fn of(place: &Place, task: &str) -> Self {
        let mut command = place.command(&["env", "open", "driven", "--task", task]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (requests, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, requests, answers: BufReader::new(answers), last_id: 0 }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.requests, "{line}").unwrap();
    }

    /// Sends a line; returns the answer.
    fn answer(&mut self, line: &str) -> Value {
        self.send(line);
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{line}: {error}: {answer:?}"))
    }

    fn request(&mut self, method: &str, params: &Value) -> String {
        self.last_id += 1;
        json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }).to_string()
    }

    /// Sends a request; returns the answer.
    fn asked(&mut self, method: &str, params: &Value) -> Value {
        let request = self.request(method, params);
        let answer = self.answer(&request);
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(self.last_id)), "{answer}");
        answer
    }

    /// Sends a request; returns its result.
    #[track_caller]
    fn result(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.asked(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn call(&mut self, tool: &str, command: &str) -> Value {
        let arguments = json!({ "command": command });
        self.result("step", &json!({ "seq": 1, "calls": [{ "name": tool, "arguments": arguments }] }))
    }

    /// Sends a line; returns its error.
    #[track_caller]
    fn refused(&mut self, line: &str) -> String {
        let answer = self.answer(line);
        assert_eq!(answer["error"]["data"]["retryable"], json!(false), "{line}: {answer}");
        answer["error"]["data"]["refused"].as_str().unwrap().to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Closes the input; expects this exit code and no further output.
    #[track_caller]
    fn ends(self, code: i32) {
        let Self { mut child, requests, mut answers, .. } = self;
        drop(requests);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut answers, &mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(code), ""));
    }
}

/// Number of processes, including those in sandboxes, with these words in their command line.
fn processes(words: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).replace('\0', " ").trim_end() == words).count()
}

#[test]
fn a_repository_is_mended_and_graded() {
    let place = place();
    let mut driver = Driver::of(&place, "mend");
    let begun = driver.result("reset", &json!({ "protocol": 1, "session": "x", "task": {}, "seed": 3 }));
    assert_eq!((&begun["protocol"], &begun["instruction"]), (&json!(1), &json!("Adding is wrong.")));
    let names: Vec<&str> =
        begun["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["bash", "view", "edit", "submit"]);
    let failed = driver.call("bash", "cat calc.py | grep -c return; exit_with() { return 3; }; exit_with");
    let expected = json!({ "text": "2\n[exit 3]",
        "facts": { "end": "completed", "exit_code": 3, "folder": "/work" } });
    assert_eq!(failed, json!({ "observation": expected }));
    let late = json!({ "calls": [{ "name": "bash", "arguments": { "command": "sleep 1000" } }], "timeout_secs": 0.3 });
    let late = driver.result("step", &late);
    assert_eq!(late["observation"]["facts"]["end"], json!("timed_out"), "{late}");
    driver.call("bash", SWE_FIX);
    assert_eq!(
        driver.result("step", &json!({ "calls": [{ "name": "submit" }] }))["done"],
        json!("submitted")
    );
    let grade = driver.result("grade", &json!({ "answer": null }));
    assert_eq!((&grade["score"], &grade["passed"]), (&json!(1.0), &json!(true)), "{grade}");
    assert_eq!(grade["checks"][0]["message"], json!("1 of 1 to fix, 1 of 1 to keep; 1 file changed"));
    assert_eq!(grade["flags"], json!([]));
    assert!(grade["patch"].as_str().unwrap().contains("+    return a + b"), "{grade}");
    assert_eq!(driver.result("close", &json!({})), json!({}));
    driver.ends(0);
}

#[test]
fn what_is_not_mended_scores_nothing() {
    let place = place();
    let mut driver = Driver::of(&place, "mend");
    driver.result("reset", &json!({}));
    let grade = driver.result("grade", &json!({}));
    assert_eq!((&grade["score"], &grade["passed"]), (&json!(0.0), &json!(false)), "{grade}");
    // The driver does not close the attempt.
    driver.ends(0);
}

#[test]
fn lines_that_make_no_sense_change_nothing() {
    let place = place();
    let mut driver = Driver::of(&place, "write#1");
    assert_eq!(driver.refused(r#"{"method":"grade"}"#), "out-of-order");
    assert_eq!(driver.result("reset", &json!({}))["instruction"], json!("Write stone into out.txt."));
    for (line, expected) in [
        ("", "not-json"),
        ("reset", "not-json"),
        ("[]", "no-request"),
        (r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, "no-request"),
        (r#"{"method":"render"}"#, "no-method"),
        (r#"{"method":"step","params":{"calls":[]}}"#, "params"),
        (r#"{"method":"reset"}"#, "out-of-order"),
        (&"x".repeat(17 * 1024 * 1024), "message-too-large"),
    ] {
        assert_eq!(driver.refused(line), expected, "{}", &line[..line.len().min(80)]);
    }
    // An invalid call is the agent's error and is reported to the agent.
    let unknown = driver.result("step", &json!({ "calls": [{ "name": "fly", "arguments": {} }] }));
    assert!(unknown["observation"]["text"].as_str().unwrap().contains("there is no tool `fly`"), "{unknown}");
    driver.call("run", "echo stone > out.txt");
    assert_eq!(driver.result("grade", &json!({}))["score"], json!(1.0));
    assert_eq!(driver.refused(r#"{"method":"grade"}"#), "out-of-order");
    driver.result("close", &json!({}));
    driver.ends(0);
}

#[test]
fn a_fault_is_told_and_is_no_score() {
    let place = place();
    let mut driver = Driver::of(&place, "broken");
    let answer = driver.asked("reset", &json!({}));
    let (error, fault) = (&answer["error"], &answer["error"]["data"]["fault"]);
    assert_eq!((&fault["boundary"], &fault["retry"]), (&json!("env"), &json!("never")), "{answer}");
    assert_eq!(fault["code"], json!("setup-failed"), "{answer}");
    assert!(error["message"].as_str().unwrap().contains(fault["message"].as_str().unwrap()), "{answer}");
    assert_eq!(error["data"]["retryable"], json!(false));
    assert_eq!(driver.refused(r#"{"id":2,"method":"grade"}"#), "out-of-order");
    driver.ends(4);
}

/// Ends an attempt during a step with a background process, and checks for leftovers.
fn check_end(word: u32, code: i32, end: impl FnOnce(Driver) -> Child) {
    let place = place();
    let mut driver = Driver::of(&place, "mend");
    driver.result("reset", &json!({}));
    let left = format!("sleep {}.{word}", std::process::id());
    // Waits until the process has executed `sleep`.
    driver.call("bash", &format!("{left} & until grep -q sleep /proc/$!/comm; do :; done"));
    assert_eq!(processes(&left), 1);
    let step = json!({ "calls": [{ "name": "bash", "arguments": { "command": format!("echo; {left}1") } }] });
    let request = driver.request("step", &step);
    driver.send(&request);
    assert_eq!(end(driver).wait().unwrap().code(), Some(code));
    assert_eq!((processes(&left), processes(&format!("{left}1"))), (0, 0));
}

#[test]
fn the_end_of_the_input_leaves_nothing() {
    check_end(1, 0, |driver| {
        let Driver { child, .. } = driver;
        child
    });
    // The driver still reads and gets the reason.
    check_end(2, 0, |driver| {
        let Driver { child, requests, answers, .. } = driver;
        drop(requests);
        assert!(answers.lines().count() <= 1);
        child
    });
}

#[test]
fn a_request_to_terminate_leaves_nothing() {
    check_end(3, 5, |driver| {
        driver.signal(Signal::TERM);
        let Driver { child, requests, answers, .. } = driver;
        assert!(answers.lines().count() <= 1);
        drop(requests);
        child
    });
}

#[test]
fn one_task_is_driven_at_a_time() {
    let place = place();
    let check = |arguments: &[&str], part: &str| {
        let said = place.clawrl(&[&["env", "open"], arguments].concat()).ends(2);
        assert!(said.err.contains(part) && said.out.is_empty(), "{arguments:?}: {said:?}");
    };
    check(&["driven", "--task", "none"], "none");
    check(&["driven", "--task", "write"], "name one of driven/write#0, driven/write#1");
    check(&["driven"], "--task");
    check(&["--task", "mend"], "SUITE");
}

/// The protocol equals that of custom environments: a driven attempt can serve as an environment.
#[test]
fn an_attempt_may_be_the_environment_of_another() {
    let place = place();
    let program = place.program();
    let suite = place.path().join("tasks/driven");
    let text = r#"
format: 1
suite: outer
tasks:
  - id: mend
    instruction: Adding is wrong.
    env: { process: { command: [PROGRAM, env, open, SUITE, --task, mend], sandbox: none } }
    oracle: { actions: [{ call: { name: bash, arguments: { command: "FIX" } } }] }
"#;
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let text =
        text.replace("PROGRAM", &path(&program)).replace("SUITE", &path(&suite)).replace("FIX", SWE_FIX);
    place.suite("outer", &text);
    let said = place.clawrl(&["validate", "outer", "--quiet"]).ends(0);
    assert!(said.out.contains("1 of 1 tasks are valid"), "{}", said.out);
}
