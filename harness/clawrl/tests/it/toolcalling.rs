//! Tool-call suites: built-in tools run without a sandbox, programs in one.

use std::path::Path;

use clawrl_record::Metric;

use crate::place::{Place, Said};

/// Six tasks with built-in tools.
const PRICES: &str = r#"
format: 1
suite: prices
vars: { things: [apple, melon, olive] }
defaults: { action_format: hermes, max_turns: 5 }
tasks:
  - id: price
    template: { thing: { from: things } }
    let: { price: "{{ thing | length * 7 }}" }
    instruction: What does {{ thing }} cost
    env:
      toolcall:
        tools:
          price: { description: The price of a thing., table: { rows: { "{{ thing }}": "{{ price }}" }, missing: unknown } }
          calc: { description: Computes., arithmetic: {} }
    checks:
      - answer_number: { expected: "{{ price }}" }
      - called: { tool: price, arguments: { key: "{{ thing }}" } }
    oracle: { actions: [{ call: { name: price, arguments: { key: "{{ thing }}" } } }, { submit: "{{ price }}" }] }
    mistakes:
      - actions: [{ submit: "{{ price }}" }]
      - actions: [{ call: { name: price, arguments: { key: "no {{ thing }}" } } }, { submit: unknown }]
  - id: note
    template: { thing: { from: things } }
    instruction: Write {{ thing }} into the note list
    env: { toolcall: { tools: { notes: { description: Keeps notes., store: { initial: { old: text } } } } } }
    checks:
      - stored: { tool: notes, key: list, equals: "{{ thing }}" }
      - stored: { tool: notes, key: old, absent: true }
    oracle:
      actions:
        - call: { name: notes, arguments: { action: set, key: list, value: "{{ thing }}" } }
        - call: { name: notes, arguments: { action: delete, key: old } }
    mistakes:
      - actions: [{ call: { name: notes, arguments: { action: set, key: list, value: "{{ thing }}" } } }]
"#;

/// Two tasks whose tools are programs.
const PROGRAMS: &str = r#"
format: 1
suite: programs
defaults:
  action_format: tool_calls
  env: { toolcall: { workspace: { memory_mib: 128, disk_mib: 4, pids: 32 } } }
tasks:
  - id: squares
    instruction: Submit the sum of the squares of 1 to 6.
    env: { toolcall: { tools: { python: { python: {} } } } }
    checks:
      - answer_number: { expected: 91 }
      - called: { tool: python, at_least: 2 }
    oracle:
      actions:
        - call: { name: python, arguments: { code: "total = sum(n * n for n in range(7))" } }
        - call: { name: python, arguments: { code: "print(total)" } }
        - submit: "91"
    mistakes:
      - actions: [{ call: { name: python, arguments: { code: "print(total)" } } }, { submit: "91" }]
  - id: words
    instruction: How many words are in in.txt?
    env:
      toolcall:
        tools:
          count:
            description: Counts the words of a file.
            command: [wc, -w, "{file}"]
            parameters:
              { type: object, properties: { file: { type: string } }, required: [file], additionalProperties: false }
        workspace: { files: { in.txt: "one two three\n" } }
    checks:
      - answer_equals: "3"
      - called: { tool: count, arguments: { file: in.txt } }
    oracle: { actions: [{ call: { name: count, arguments: { file: in.txt } } }, { submit: "3" }] }
    mistakes:
      - actions: [{ call: { name: count, arguments: { file: out.txt } } }, { submit: "3" }]
"#;

/// Runs `clawrl` without isolation: neither bubblewrap nor the spawner can run.
pub(crate) fn bare(place: &Place, arguments: &[&str]) -> Said {
    let spawner = place.program().with_file_name("clawrl-sbx");
    let no = "/dev/null";
    place.worse(&["--bind", no, "/usr/bin/bwrap", "--bind", no, spawner.to_str().unwrap()], arguments)
}

#[test]
fn tools_of_the_harness_need_no_sandbox_and_nothing_speaks_of_one() {
    let place = Place::new();
    place.suite("prices", PRICES);
    let said = bare(&place, &["run", "prices", "--name", "one", "--group-size", "2"]).ends(0);
    assert!(said.out.contains("\nenvironments "), "{}", said.out);
    assert!(!format!("{}{}", said.out, said.err).contains("sandbox"), "{said:?}");
    let run = place.run("one");
    assert_eq!(run.summary().total.passed, 12);
    assert!(!run.lock_file().unwrap().host.contains_key("bubblewrap"));
    let metrics = run.metrics().unwrap();
    assert!(!metrics.is_empty() && metrics.iter().all(|row| row.name != Metric::SandboxesLiveCount));

    let shown = place.clawrl(&["show", "one", "--attempt", "s0.0"]).ends(0).out;
    for part in
        ["What does ", "turn 1   price ", "saw      [price] 35", "turn 2   submit 35", "check    1.00 "]
    {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
    let noop = bare(&place, &["run", "prices", "--policy", "noop", "--json", "--quiet"]).ends(0).json();
    assert_eq!(noop["summary"]["total"]["passed"], 0);
}

#[test]
fn a_suite_of_the_harness_s_own_tools_is_validated_without_a_sandbox() {
    let place = Place::new();
    place.suite("prices", PRICES);
    let said = bare(&place, &["validate", "prices", "--mistakes", "--quiet"]).ends(0);
    insta::assert_snapshot!(said.out, @"
    family        mistakes  pass
    prices/note          3     0
    prices/price         6     0
    0 of 9 mistakes pass (0.0 %)
    6 of 6 tasks are valid
    ");
    let broken = PRICES.replace("action: delete, key: old", "action: delete, key: new");
    place.suite("prices", &broken);
    let said = bare(&place, &["validate", "prices", "--quiet", "--limit", "2"]).ends(3);
    assert!(said.out.contains("invalid  prices/note#"), "{}", said.out);
}

#[test]
fn tools_that_are_programs_run_in_sandboxes() {
    let place = Place::new();
    place.suite("programs", PROGRAMS);
    let said = place.clawrl(&["validate", "programs", "--mistakes", "--quiet"]).ends(0);
    assert!(said.out.contains("0 of 2 mistakes pass") && said.out.contains("2 of 2 tasks"), "{}", said.out);
    let said = place.clawrl(&["run", "programs", "--name", "two"]).ends(0);
    assert!(said.out.contains("\nsandboxes   ") && !said.out.contains("environments"), "{}", said.out);
    let run = place.run("two");
    assert!(run.lock_file().unwrap().host.contains_key("bubblewrap"));
    let turns = run.trajectories().unwrap().flat_map(|record| record.unwrap().trajectory.turns);
    let seen: Vec<String> = turns.map(|turn| turn.observation.joined_text()).collect();
    assert!(seen.contains(&"[python] 91".to_owned()), "{seen:?}");
    assert!(bare(&place, &["run", "programs"]).ends(6).err.contains("bubblewrap"));
}

#[test]
fn terminals_and_tools_run_side_by_side() {
    let place = Place::new();
    place.suite("prices", PRICES);
    place.suite("programs", PROGRAMS);
    let said = place.clawrl(&["run", "small", "prices", "programs", "--json", "--quiet"]).ends(0).json();
    let total = &said["summary"]["total"];
    assert_eq!((&total["slots"], &total["passed"]), (&20.into(), &20.into()));
    assert_eq!(said["leftovers"], serde_json::json!([]));
}

#[test]
fn openness_of_a_workspace_is_told_as_that_of_a_terminal() {
    let place = Place::new();
    let open = PROGRAMS.replace("memory_mib: 128", "sandbox: none, network: host, memory_mib: 128");
    place.suite("programs", &open);
    let said = place.clawrl(&["run", "programs", "--quiet"]).ends(0);
    assert!(said.err.contains("warning: tasks with `sandbox: none`: 2."), "{}", said.err);
    assert!(said.err.contains("warning: tasks with `network: host`: 2."), "{}", said.err);
}

/// No-ops fail and oracles pass; wrong solutions pass only where the suite says so.
#[test]
fn toolcall_basics_is_valid() {
    let place = Place::new();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/toolcall-basics");
    let suite = suite.canonicalize().unwrap();
    let said = bare(&place, &["validate", suite.to_str().unwrap(), "--mistakes", "--quiet"]).ends(0);
    assert!(said.out.contains("304 of 304 tasks are valid"), "{}", said.out);
    let passing = |family: &str| {
        let row = said.out.lines().find(|line| line.starts_with(&format!("toolcall-basics/{family} ")));
        let row: Vec<&str> = row.unwrap_or_else(|| panic!("no {family}")).split_whitespace().collect();
        (row[1].to_owned(), row[2].to_owned())
    };
    let of = |played: u32, passed: u32| (played.to_string(), passed.to_string());
    for family in ["owner", "price-of-several", "copy-note"] {
        assert_eq!(passing(family), of(64, 0), "{family}");
    }
    for family in ["order-in-stock", "note-owner"] {
        assert_eq!(passing(family), of(80, 0), "{family}");
    }
    for family in ["price", "owner-home", "two-stops", "send-to-owner", "sum-of-prices", "price-of-noted"] {
        assert_eq!(passing(family), of(80, 16), "{family}");
    }
}
