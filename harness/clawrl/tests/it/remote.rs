//! Models behind servers, with real sandboxes.

use std::fs;

use clawrl_core::{ActionFormat, UsageSource};

use crate::model_server::{Manner, ModelServer};
use crate::place::{Place, Said};

const KEY: &str = "sk-very-secret-0001";

/// `clawrl` with the key in its environment.
fn clawrl(place: &Place, arguments: &[&str]) -> Said {
    let said = Said::of(&place.command(arguments).env("TEAM_KEY", KEY).output().unwrap());
    assert!(!said.out.contains(KEY) && !said.err.contains(KEY), "{said:?}");
    said
}

/// A policy file at the place.
fn policy_file(place: &Place, server: &ModelServer, more: &str) {
    let text = format!("format: 1\nmodel: able\nbase_url: {}\nkey_env: TEAM_KEY\n{more}", server.base_url());
    fs::write(place.path().join("policy.yaml"), text).unwrap();
}

const REMOTE: [&str; 8] =
    ["run", "small", "--filter", "write*", "--policy", "remote:policy.yaml", "--name", "r"];

#[test]
fn a_model_does_the_tasks_and_the_record_says_what_it_took() {
    let place = Place::new();
    let server = ModelServer::start(Manner { key: KEY.to_owned(), ..Manner::default() });
    policy_file(&place, &server, "prices: { input: 1, output: 10 }\n");
    let said = clawrl(&place, &REMOTE).ends(0);
    assert!(said.err.contains(&format!("policy openai:able at {}", server.base_url())), "{}", said.err);
    let expected = "tokens 800 in (0 cached), 64 out; cost 0.0014 USD\n";
    assert!(said.out.contains(expected), "{}", said.out);
    let run = place.run("r");
    assert_eq!((run.summary().total.passed, run.summary().total.slots), (4, 4));
    for record in run.trajectories().unwrap() {
        let record = record.unwrap();
        assert!(!format!("{record:?}").contains(KEY));
        let usage = record.trajectory.turns[0].usage.as_ref().unwrap();
        assert_eq!((usage.source, usage.cost_nano_usd), (UsageSource::Reported, Some(180_000)));
    }
    for entry in fs::read_dir(run.dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let found = fs::read(&path).unwrap().windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

/// Each attempt costs 0.00036 US dollars.
#[test]
fn a_cost_limit_starts_no_further_attempt_and_a_higher_one_goes_on() {
    let place = Place::new();
    let server = ModelServer::start(Manner { key: KEY.to_owned(), ..Manner::default() });
    policy_file(&place, &server, "prices: { input: 1, output: 10 }\n");
    let limited = ["--concurrency", "1", "--max-cost-usd", "0.0005"];
    let said = clawrl(&place, &[&REMOTE[..], &limited[..]].concat()).ends(5);
    let expected =
        "cost limit  0.0007 of 0.0005 USD spent: reached, so that no further attempt was started\n";
    assert!(
        said.out.contains(expected) && said.out.contains("go on with  clawrl run --resume r"),
        "{}",
        said.out
    );
    let counts = || {
        let total = place.run("r").summary().total;
        (total.finished, total.open)
    };
    assert_eq!(counts(), (2, 2));
    // Earlier costs count, so that the same limit starts nothing.
    let asked = server.replies();
    let again =
        clawrl(&place, &["run", "--resume", "r", "--max-cost-usd", "0.0005", "--json"]).ends(5).json();
    assert_eq!((&again["cost_limit"]["ended_the_run"], &again["exit_code"]), (&true.into(), &5.into()));
    assert_eq!((counts(), server.replies()), ((2, 2), asked));
    let said = clawrl(&place, &["run", "--resume", "r", "--max-cost-usd", "1"]).ends(0);
    assert!(said.out.contains("cost limit  0.0014 of 1 USD spent\n"), "{}", said.out);
    assert_eq!(counts(), (4, 0));
}

#[test]
fn a_cost_limit_that_nothing_counts_against_is_refused() {
    let place = Place::new();
    let server = ModelServer::start(Manner::default());
    policy_file(&place, &server, "");
    let said = clawrl(&place, &[&REMOTE[..], &["--max-cost-usd", "1"][..]].concat()).ends(2);
    assert!(
        said.err.contains("the run has a limit in US dollars, and its policy has no prices")
            && said.err.contains("write `prices:` into the policy file"),
        "{}",
        said.err
    );
    let said = place.clawrl(&["run", "small", "--max-cost-usd", "0"]).ends(2);
    assert!(said.err.contains("has to be US dollars above 0"), "{}", said.err);
    assert_eq!(server.replies(), 0);
}

#[test]
fn arguments_are_enough_for_a_server_without_a_key() {
    let place = Place::new();
    let server = ModelServer::start(Manner::default());
    let url = server.base_url();
    let policy = ["--policy", "openai:able", "--base-url", &url, "--key-env", "none"];
    let said =
        place.clawrl(&[&["run", "small", "--filter", "write*", "--json"], &policy[..]].concat()).ends(0);
    assert_eq!(said.json()["summary"]["total"]["passed"], 4);
    assert_eq!(said.json()["summary"]["total"]["usage"]["replies"], 8);
}

#[test]
fn replies_are_read_as_tool_calls_unless_told_otherwise() {
    let place = Place::new();
    let server = ModelServer::start(Manner { key: KEY.to_owned(), ..Manner::default() });
    let check = |name: &str, file: &str, more: &[&str], format: ActionFormat, reply: &str| {
        policy_file(&place, &server, file);
        let arguments = [&REMOTE[..REMOTE.len() - 1], &[name, "--limit", "1"], more].concat();
        clawrl(&place, &arguments).ends(0);
        let run = place.run(name);
        assert_eq!(run.plan().tasks[0].action_format, format, "{name}");
        let record = run.trajectories().unwrap().next().unwrap().unwrap();
        assert_eq!(record.trajectory.turns[1].reply.joined_text(), reply, "{name}");
        assert_eq!(run.summary().total.passed, 1, "{name}");
    };
    let fenced = "That's what I'd run:\n```bash\nsubmit\n```\nIt won't hurt.";
    // The suite says `raw`, which is also the default.
    check("usual", "", &[], ActionFormat::ToolCalls, "");
    check("in-text", "tools: text\n", &[], ActionFormat::Fenced, fenced);
    check("told", "tools: text\naction_format: raw\n", &[], ActionFormat::Raw, "submit");
    check("argument", "", &["--action-format", "fenced"], ActionFormat::Fenced, fenced);
    check("both", "action_format: fenced\n", &["--action-format", "tool_calls"], ActionFormat::ToolCalls, "");
    let said = place.clawrl(&["run", "small", "--action-format", "json"]).ends(2);
    assert!(said.err.contains("[possible values: raw, fenced, tool_calls, hermes]"), "{}", said.err);
}

/// The server dies in the middle of a reply and restarts on the same port: interrupted attempts are retried in fresh
/// sandboxes and not scored.
#[test]
fn a_server_that_dies_and_comes_back_costs_attempts_and_no_score() {
    let place = Place::new();
    let server = ModelServer::start(Manner { dies_after: Some(5), ..Manner::default() });
    policy_file(&place, &server, "tries: 1\n");
    let more = ["--group-size", "2", "--concurrency", "4", "--max-retries", "12"];
    let mut command = place.command(&[&REMOTE[..], &more[..]].concat());
    command.env("TEAM_KEY", KEY).env("CLAWRL_LOG", "clawrl_remote=debug");
    let mut live = place.start_command(command);
    server.wait_for_death();
    // At least one attempt found the port closed.
    live.hears("server-unreachable");
    let back = ModelServer::start_at(server.address(), Manner::default());
    live.ended().ends(0);
    let run = place.run("r");
    let total = run.summary().total.clone();
    assert_eq!((total.slots, total.finished, total.passed, total.faulted), (8, 8, 8, 0));
    assert!(total.faulted_attempts >= 2 && total.retries == total.faulted_attempts, "{total:?}");
    let summary = run.summary();
    let codes: Vec<&str> = summary.faults.iter().map(|fault| fault.code.as_str()).collect();
    assert!(codes.contains(&"stream-cut") && codes.contains(&"server-unreachable"), "{codes:?}");
    assert!(back.replies() >= 11, "{}", back.replies());
}

/// A task that the no-op passes.
const DONE: &str = r#"
format: 1
suite: done
defaults:
  attempt_timeout_secs: 4
  env: { terminal: { memory_mib: 64, disk_mib: 4, pids: 32, idle_millis: 300 } }
tasks:
  - id: nothing
    instruction: Leave it.
    checks: [ { file_absent: { path: x } } ]
    oracle: { commands: ["true"] }
"#;

/// A proxy keeps the connection of a hanging model alive: the attempt's time limit would grade an untouched workspace.
#[test]
fn keep_alives_are_no_reply_and_never_a_score() {
    let place = Place::new();
    place.suite("done", DONE);
    let check = |beginning: &'static str, code: &str| {
        let server = ModelServer::start(Manner { hangs_after: Some(beginning), ..Manner::default() });
        let url = server.base_url();
        let run = ["run", "done", "--policy", "openai:able", "--base-url", &url, "--key-env", "none"];
        let said = place.clawrl(&[&run[..], &["--name", code, "--max-retries", "0"]].concat()).ends(4);
        let summary = place.run(code).summary();
        assert_eq!((summary.total.finished, summary.total.faulted), (0, 1), "{said:?}");
        assert_eq!(summary.faults[0].code.as_str(), code);
    };
    check("", "server-silent");
    check("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"su\"}}]}\n\n", "stream-stalled");
}

#[test]
fn what_is_wrong_with_a_server_is_told_before_anything_starts() {
    let place = Place::new();
    let server = ModelServer::start(Manner { key: KEY.to_owned(), ..Manner::default() });
    let check = |url: &str, model: &str, variables: &[(&str, &str)], code: i32, parts: &[&str]| {
        let policy = format!("openai:{model}");
        let mut command = place.command(&["run", "small", "--policy", &policy, "--base-url", url]);
        let said = Said::of(&command.envs(variables.iter().copied()).output().unwrap()).ends(code);
        assert_eq!(said.out, "");
        for part in parts {
            assert!(said.err.contains(part), "`{part}` in {}", said.err);
        }
        assert!(!said.err.contains(KEY) && !said.err.contains("sk-wrong"), "{}", said.err);
    };
    let url = server.base_url();
    let right = [("OPENAI_API_KEY", KEY)];
    check(&url, "unable", &right, 2, &["no model `unable`", "model-unknown", "it has: able"]);
    check(
        &url,
        "able",
        &[("OPENAI_API_KEY", "sk-wrong-0123")],
        2,
        &["key-refused", "[key]", "check the key"],
    );
    check(&url, "able", &[], 2, &["key-refused", "no key was sent"]);
    check(&url.replace("/v1", "/v2"), "able", &right, 2, &["url-wrong", "/v2/chat/completions", "`/v1`"]);
    check(&url.replace("http:", "https:"), "able", &right, 2, &["tls-refused"]);
    let gone = ModelServer::start(Manner::default()).base_url();
    check(&gone, "able", &[], 6, &["server-unreachable", "check that the server runs"]);
    assert!(!place.results().exists(), "what is refused leaves nothing");
}

#[test]
fn what_is_wrong_with_arguments_is_told() {
    let place = Place::new();
    let check = |arguments: &[&str], part: &str| {
        let said = place.clawrl(&[&["run", "small"], arguments].concat()).ends(2);
        assert!(said.err.contains(part), "{}", said.err);
    };
    check(&["--policy", "openai"], "takes the name of a model");
    check(&["--policy", "openai:m", "--base-url", "localhost:8000"], "http://localhost:8000/v1");
    check(&["--policy", "openai:m", "--base-url", "http://a:b@host/v1"], "leave them out");
    check(&["--policy", "openai:m", "--key-env", "sk-0"], "and never its value");
    check(
        &["--policy", "openai:m", "--key-env", "NO_SUCH_KEY"],
        "NO_SUCH_KEY, which holds the key, is not set",
    );
    check(&["--base-url", "http://localhost/v1"], "--policy openai:MODEL");
    check(&["--policy", "remote:none.yaml"], "there is no policy file");
    fs::write(place.path().join("policy.yaml"), "format: 1\nmodell: m\n").unwrap();
    check(&["--policy", "remote:policy.yaml"], "did you mean `model`?");
    check(&["--policy", "remote:policy.yaml", "--base-url", "http://h/v1"], "into the policy file");
}
