//! Misbehaving agents: each gets its own error and leaves nothing behind.

use std::io::Read;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use super::house::House;

/// Runs one attempt and expects a fault with `code` and `words`.
fn faults(house: &House, code: &str, words: &str) {
    let said = house.run(&["--limit", "1", "--name", "r", "--max-retries", "0"]).ends(4);
    assert!(said.out.contains(&format!("policy/{code}")), "{}", said.out);
    assert!(said.out.contains("0 left behind"), "{}", said.out);
    let run = house.place.run("r");
    let record = run.trajectories().unwrap().next().unwrap().unwrap();
    let clawrl_core::Outcome::Faulted(fault) = record.outcome else { panic!("{:?}", record.outcome) };
    assert!(fault.message.contains(words), "{}", fault.message);
}

#[test]
fn one_that_crashes_is_a_fault_with_its_last_words() {
    let words = "`python3` ended with exit code 1; the end of what it wrote:\nI cannot go on";
    faults(&House::new("crash", ""), "agent-failed", words);
}

#[test]
fn one_that_is_not_there_is_a_fault_that_names_it() {
    let house = House::new("good", "");
    house.write("agent/agent.yaml", "format: 1\ncommand: [./missing]\n");
    faults(&house, "agent-not-run", "`./missing` cannot be run in");
}

#[test]
fn one_that_hangs_runs_into_the_limit_of_the_task_or_its_own() {
    let house = House::new("hang", "limits: { time_secs: 0.5 }\n");
    house.run(&["--limit", "1", "--name", "own", "--quiet"]).ends(0);
    let total = house.place.run("own").summary().total.clone();
    assert_eq!((total.finished, total.passed, total.faulted), (1, 0, 0));
    house.agent_file("remote:policy.yaml", "hang", "");
    let text = crate::place::SMALL.replace("defaults:", "defaults:\n  policy_timeout_secs: 1");
    house.place.suite("small", &text);
    faults(&house, "limit", "policy_timeout_secs");
}

/// For every end of the run, with processes started by the program.
#[test]
fn one_that_hangs_ends_with_its_run() {
    let twice = [(Signal::INT, "finishing what runs"), (Signal::INT, "cancelling")];
    for (name, signals) in [("twice", &twice[..]), ("killed", &[(Signal::KILL, "")])] {
        let house = House::new("hang", "");
        let alive = house.place.path().join("alive");
        mknodat(CWD, &alive, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let run = ["run", "small", "--limit", "1", "--policy", "agent:agent/agent.yaml", "--name", name];
        let mut command = house.place.command(&run);
        command.env("LOOT", house.place.path());
        let mut live = house.place.start_command(command);
        live.hears("policy agent");
        // The FIFO opens together with the program and ends when no process holds it.
        let mut alive = std::fs::File::open(alive).unwrap();
        for (signal, said) in signals {
            live.signal(*signal);
            assert!(said.is_empty() || live.hears_before_its_end(said), "{}", live.heard());
        }
        let said = live.ended();
        assert_eq!(said.code, (name == "twice").then_some(5), "{said:?}");
        assert_eq!(alive.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn one_that_floods_its_output_is_heard_all_the_same() {
    for manner in ["flood", "line"] {
        let house = House::new(manner, "");
        house.run(&["--limit", "1", "--name", "r", "--quiet"]).ends(0);
        let run = house.place.run("r");
        assert_eq!(run.summary().total.passed, 1, "{manner}");
        let record = run.trajectories().unwrap().next().unwrap().unwrap();
        assert!(record.trajectory.turns[0].reply.joined_text().len() <= 4_096);
    }
}

#[test]
fn a_key_is_good_for_its_own_attempt_while_that_lasts() {
    let house = House::new("thief", "");
    let loot = house.place.path().to_str().unwrap().to_owned();
    house.run_with(&[("LOOT", &loot)], &["--concurrency", "1", "--name", "r", "--quiet"]).ends(0);
    assert_eq!(house.place.run("r").summary().total.passed, 4);
}

#[test]
fn the_grade_is_the_runs_and_answers_are_counted() {
    faults(&House::new("grade", ""), "agent-failed", "grade: the run grades what is left");
    let house = House::new("good", "limits: { model_calls: 1 }\n");
    faults(&house, "agent-failed", "HTTP Error 403");
    assert_eq!(house.server.as_ref().unwrap().replies(), 1);
}

#[test]
fn files_that_name_no_agent_are_refused() {
    let house = House::new("good", "");
    let check = |text: &str, expected: &str| {
        house.write("agent/agent.yaml", text);
        let said = house.run(&["--quiet"]).ends(2);
        assert!(said.err.contains(expected), "{}", said.err);
    };
    check("format: 1\n", "the key `command` is missing");
    check("format: 1\ncommand: [x]\nmodel: oracle\n", "`oracle` plays tasks, and answers no program");
    check("format: 1\ncommand: [x]\nmodel: nobody\n", "there is no policy `nobody`");
    check("format: 1\ncommand: [x]\nmodel: cassette:missing\n", "cannot read");
    check(
        "format: 1\ncommand: [x]\nsecrets: [NOT_SET_HERE]\n",
        "NOT_SET_HERE, which the agent program is given, is not set",
    );
    assert!(!house.place.results().join("runs").exists());
    let tape = ["--record-cassette", "x.cassette"];
    house.write("agent/agent.yaml", "format: 1\ncommand: [x]\n");
    let said = house.run(&tape).ends(2);
    assert!(said.err.contains("has a model of its own"), "{}", said.err);
}
