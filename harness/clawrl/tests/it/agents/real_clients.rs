//! The agent on OpenAI's SDK that comes with ClawRL, where `ci/setup.sh mcp` has installed the SDK.

use super::house::House;
use crate::served::client_python;

/// Four questions that one tool can answer.
const PRICES: &str = r#"
format: 1
suite: small
defaults: { action_format: hermes, max_turns: 5 }
vars: { things: [apple, melon, olive, plum] }
tasks:
  - id: write
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
"#;

#[test]
fn an_agent_on_openai_s_sdk_solves_tasks_and_is_tested_with_no_model() {
    let mut house = House::new("good", "");
    house.place.suite("small", PRICES);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../bridges/openai-sdk/agent.py");
    let agent_file = |model: &str| {
        format!("format: 1\ncommand: [{}, {script}]\nmodel: {model}\n", client_python().display())
    };
    house.write("agent/agent.yaml", &agent_file("remote:policy.yaml"));
    house.run(&["--name", "first", "--record-cassette", "agent/live.cassette"]).ends(0);
    let run = house.place.run("first");
    let turns = run.trajectories().unwrap().next().unwrap().unwrap().trajectory.turns;
    assert_eq!(run.summary().total.passed, 4, "{turns:?}");
    assert!(turns[0].reply.joined_text().starts_with("price {"), "{:?}", turns[0].reply);
    house.server = None;
    house.write("agent/agent.yaml", &agent_file("cassette:live.cassette"));
    let said = house.run(&["--name", "again"]).ends(0);
    assert!(said.out.contains("8 of 8 recorded replies were played, 0 unused"), "{}", said.out);
    // The same tool with another description.
    house.place.suite("small", &PRICES.replace("The price of a thing.", "What a thing costs."));
    let said = house.run(&["--name", "tool"]).ends(4);
    assert!(said.out.contains("the description of the tool `price` was"), "{}", said.out);
}
