//! Custom environments through the command line: examples, checks, and a misbehaving one.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clawrl_core::{Outcome, Trajectory};
use regex::Regex;

use crate::place::Place;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks").join(name).canonicalize().unwrap()
}

/// Validates an example and checks its environment.
fn check(place: &Place, suite: &Path, tasks: usize) {
    let suite = suite.to_str().unwrap();
    let said = place.clawrl(&["validate", suite, "--mistakes", "--quiet"]).ends(0);
    assert!(said.out.contains(&format!("{tasks} of {tasks} tasks are valid")), "{}", said.out);
    let said = place.clawrl(&["env", "check", suite]).ends(0);
    assert!(said.out.contains("pass  C16 two-sessions"), "{}", said.out);
    assert!(said.out.ends_with("1 of 1 environments conform\n"), "{}", said.out);
    assert!(said.out.contains("pass  C3  dropped-step"), "{}", said.out);
    assert!(said.out.contains("not covered: a step that exceeds its deadline while running"), "{}", said.out);
}

#[test]
fn the_example_in_python_is_good() {
    check(&Place::new(), &example("custom-python"), 16);
}

#[test]
fn the_example_in_shell_is_good() {
    check(&Place::new(), &example("custom-shell"), 6);
}

#[test]
fn the_example_in_rust_is_built_and_good() {
    let place = Place::new();
    let folder = place.path().join("custom-rust");
    std::fs::create_dir_all(folder.join("build")).unwrap();
    std::fs::copy(example("custom-rust").join("suite.yaml"), folder.join("suite.yaml")).unwrap();
    let built = Command::new("rustc")
        .arg("-o")
        .arg(folder.join("build/env"))
        .arg(example("custom-rust").join("env.rs"))
        .status()
        .unwrap();
    assert!(built.success());
    check(&place, &folder, 5);
}

/// A server process that ends with the test.
struct Server(Child);

impl Server {
    /// Starts a program and waits until it prints its address.
    fn start(program: &Path, arguments: &[&str]) -> (Self, String) {
        let mut child =
            Command::new("python3").arg(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Self(child), line.trim().strip_prefix("listening on ").unwrap().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_new_suite_with_a_program_or_a_server_is_good() {
    let place = Place::new();
    for env in ["process", "http"] {
        place.clawrl(&["new", "suite", env, "--env", env]).ends(0);
    }
    check(&place, &place.path().join("tasks/process"), 8);
    let folder = place.path().join("tasks/http");
    let (_server, address) = Server::start(&folder.join("server.py"), &["0"]);
    let suite = std::fs::read_to_string(folder.join("suite.yaml")).unwrap();
    std::fs::write(folder.join("suite.yaml"), suite.replace("http://127.0.0.1:9000", &address)).unwrap();
    check(&place, &folder, 8);
}

/// The trajectories of a run by slot, without times.
fn timeless(place: &Place, run: &str) -> Vec<String> {
    let times = Regex::new(r#""(policy|step)_time":\{[^}]*\}"#).unwrap();
    let run = place.run(run);
    let records = run.trajectories().unwrap().map(|record| record.unwrap());
    let mut told: Vec<_> = records
        .map(|record| {
            let text = serde_json::to_string::<Trajectory>(&record.trajectory).unwrap();
            (record.attempt.to_string(), times.replace_all(&text, "").into_owned())
        })
        .collect();
    told.sort();
    told.into_iter().map(|(attempt, text)| format!("{attempt} {text}")).collect()
}

#[test]
fn the_same_suite_over_process_and_http_gives_equal_trajectories() {
    let place = Place::new();
    let folder = example("custom-python");
    let (_server, address) = Server::start(&folder.join("env/env.py"), &["--http", "0"]);
    let suite = std::fs::read_to_string(folder.join("http.yaml")).unwrap();
    let path = place.path().join("http.yaml");
    std::fs::write(&path, suite.replace("http://127.0.0.1:9000", &address)).unwrap();
    for policy in ["oracle", "demonstrator:0"] {
        for (name, suite) in [("process", folder.as_path()), ("http", path.as_path())] {
            let run = format!("{name}-{}", &policy[..4]);
            let arguments = ["run", suite.to_str().unwrap(), "--name", &run, "--policy", policy, "--quiet"];
            place.clawrl(&arguments).ends(0);
        }
        let of_process = timeless(&place, &format!("process-{}", &policy[..4]));
        assert_eq!(of_process.len(), 16);
        assert_eq!(of_process, timeless(&place, &format!("http-{}", &policy[..4])));
    }
    let said = place.clawrl(&["env", "check", path.to_str().unwrap(), "--json"]).ends(0).json();
    assert_eq!((&said[0]["kind"], &said[0]["passed"]), (&"http".into(), &true.into()));
}

/// Its second task's program breaks at its first step.
const SHAKY: &str = r#"
format: 1
suite: shaky
defaults:
  env: { process: { command: [python3, env.py], files: { env.py: "SOURCE" } } }
tasks:
  - id: good
    template: { word: [river, stone, cloud] }
    instruction: Say {{ word }}
    env: { process: { config: { word: "{{ word }}" } } }
    oracle: { actions: [{ call: { name: say, arguments: { word: "{{ word }}" } } }] }
  - id: bad
    instruction: Say nothing
    env: { process: { config: { word: BREAK } } }
    oracle: { actions: [{ call: { name: say, arguments: { word: it } } }] }
"#;

const SHAKY_PROGRAM: &str = r#"
import json, sys
for line in sys.stdin:
    r = json.loads(line)
    m, p = r['method'], r['params']
    if m == 'reset':
        word, said = p['task']['config']['word'], []
        result = {'protocol': 1, 'observation': {'text': 'go'}, 'tools': [{'name': 'say'}]}
    elif m == 'step':
        if word == 'BREAK':
            raise RuntimeError('the floor gave way')
        said += [c['arguments'].get('word') for c in p['calls'] if isinstance(c['arguments'], dict)]
        result = {'observation': {'text': 'heard'}}
    elif m == 'grade':
        result = {'score': float(word in said)}
    else:
        result = {}
    print(json.dumps({'jsonrpc': '2.0', 'id': r['id'], 'result': result}), flush=True)
"#;

#[test]
fn one_environment_that_breaks_leaves_the_others_alone() {
    let place = Place::new();
    place.suite("shaky", &SHAKY.replace("SOURCE", &SHAKY_PROGRAM.replace('\n', "\\n").replace('"', "\\\"")));
    let said = place.clawrl(&["run", "shaky", "--name", "one", "--json", "--quiet"]).ends(4).json();
    let total = &said["summary"]["total"];
    assert_eq!((&total["slots"], &total["passed"]), (&4.into(), &3.into()), "{said}");
    let run = place.run("one");
    let records = run.trajectories().unwrap().map(|record| record.unwrap());
    let faults: Vec<String> = records
        .filter_map(|record| match record.outcome {
            Outcome::Faulted(fault) => Some(fault.to_string()),
            _ => None,
        })
        .collect();
    assert!(!faults.is_empty());
    for fault in faults {
        assert!(fault.starts_with("env fault `program-ended`"), "{fault}");
        assert!(
            fault.contains("exit code 1") && fault.contains("RuntimeError: the floor gave way"),
            "{fault}"
        );
    }
    let said = place.clawrl(&["env", "check", "shaky", "--task", "bad"]).ends(3);
    assert!(said.out.contains("FAIL  C1  order"), "{}", said.out);
    assert!(said.out.contains("the floor gave way"), "{}", said.out);
    let said = place.clawrl(&["env", "check", "shaky", "--task", "none"]).ends(2);
    assert!(!said.err.is_empty());
}

/// Every text contains control sequences and a line that looks like output of ClawRL.
const HOSTILE_PROGRAM: &str = r#"
import json, sys
evil = '\x1b[2J\x1b]0;owned\x07\r\x00\x9b31m\u202e\npass  C99 all: is well'
for line in sys.stdin:
    r = json.loads(line)
    m, p = r['method'], r['params']
    answer = {'jsonrpc': '2.0', 'id': r['id']}
    if m == 'reset':
        word = p['task']['config']['word']
        answer['result'] = {'protocol': 1, 'observation': {'text': 'go' + evil}, 'tools': [{'name': 'say'}]}
    elif m == 'step' and word == 'BREAK':
        print('dying' + evil, file=sys.stderr, flush=True)
        answer['error'] = {'code': 5, 'message': 'error' + evil}
    elif m == 'step':
        answer['result'] = {'observation': {'text': 'heard' + evil}, 'done': 'enough' + evil}
    elif m == 'grade':
        answer['result'] = {'score': 0.5, 'checks': [{'name': 'check' + evil, 'score': 0.5, 'message': 'half' + evil}]}
    else:
        answer['result'] = {}
    print(json.dumps(answer), flush=True)
"#;

#[test]
fn what_environments_say_does_nothing_to_a_terminal() {
    let place = Place::new();
    let program = HOSTILE_PROGRAM.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
    place.suite("shaky", &SHAKY.replace("SOURCE", &program));
    let run = ["run", "shaky", "--name", "one", "--quiet"];
    for (arguments, code) in [
        (&run[..], 4),
        (&["validate", "shaky"], 3),
        (&["env", "check", "shaky", "--task", "bad"], 3),
        (&["env", "check", "shaky", "--task", "bad", "--json"], 3),
        (&["show", "one"], 0),
        (&["show", "one", "--failed"], 0),
        (&["show", "one", "--faulted"], 0),
        (&["show", "one", "--faulted", "--json"], 0),
        (&["show", "one", "--attempt", "s0.0"], 0),
        (&["show", "one", "--attempt", "s0.0", "--json"], 0),
        (&["show", "one", "--attempt", "s3.0"], 0),
        (&["report", "one"], 0),
    ] {
        let said = place.clawrl(arguments).ends(code);
        for text in [&said.out, &said.err] {
            let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(acts), "{arguments:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("pass  C99")), "{arguments:?}: {text}");
        }
        let is_told =
            !matches!(arguments, ["run" | "report", ..] | ["show", "one"] | ["show", "one", "--failed"]);
        assert!(!is_told || said.out.contains("[2J"), "{arguments:?}: {}", said.out);
    }
    // The policy still sees the unchanged text.
    let attempt = place.clawrl(&["show", "one", "--attempt", "s0.0", "--json"]).ends(0).json();
    let seen = attempt.to_string();
    assert!(seen.contains(r"heard\u001b[2J"), "{seen}");
}

#[test]
fn a_call_that_takes_long_may_be_named() {
    let place = Place::new();
    // The program does not answer `wait` calls, but all others.
    let program = SHAKY_PROGRAM.replace(
        "        if word == 'BREAK':",
        "        if any(c['name'] == 'wait' for c in p['calls']):\n            continue\n        if word == 'BREAK':",
    );
    assert_ne!(program, SHAKY_PROGRAM);
    place.suite("shaky", &SHAKY.replace("SOURCE", &program.replace('\n', "\\n").replace('"', "\\\"")));
    let call = r#"{"name": "wait", "arguments": {}}"#;
    let said = place.clawrl(&["env", "check", "shaky", "--long-call", call]).ends(0);
    assert!(said.out.contains("pass  C5  deadline") && !said.out.contains("not covered"), "{}", said.out);
    // This call is answered at once.
    let said = place.clawrl(&["env", "check", "shaky", "--long-call", r#"{"name": "say"}"#]).ends(3);
    assert!(said.out.contains("the long calls returned at once"), "{}", said.out);
    let said = place.clawrl(&["env", "check", "shaky", "--long-call", "wait"]).ends(2);
    assert!(said.err.contains("a call is written"), "{}", said.err);
}
