//! Agents whose model is a cassette.

use super::house::House;

#[test]
fn an_agent_is_tested_with_no_model_and_a_change_of_its_prompt_is_a_miss() {
    let mut house = House::new("good", "");
    house.run(&["--name", "first", "--group-size", "2", "--record-cassette", "agent/live.cassette"]).ends(0);
    house.server = None;
    house.agent_file("cassette:live.cassette", "good", "");
    for concurrency in ["1", "8"] {
        let more = ["--group-size", "2", "--concurrency", concurrency];
        let said = house.run(&more).ends(0);
        assert!(said.out.contains("16 of 16 recorded replies were played, 0 unused"), "{}", said.out);
    }
    // The agent sends its own prompt. The attempt faults however the agent handles the error.
    for manner in ["good", "swallow"] {
        house.agent_file("cassette:live.cassette", manner, "");
        let said = house.run_with(&[("VERB", "Put")], &["--name", manner]).ends(4);
        assert!(said.out.contains("policy/cassette-miss"), "{}", said.out);
        assert!(said.out.contains("message 1, of the user, was `Write"), "{}", said.out);
        let total = house.place.run(manner).summary().total.clone();
        assert_eq!((total.finished, total.faulted), (0, 4));
    }
    let said = house.place.clawrl(&["cassette", "record", "first", "-o", "x"]).ends(2);
    assert!(said.err.contains("does not hold what its programs asked"), "{}", said.err);
}

#[test]
fn secrets_of_an_agent_are_in_no_record() {
    let house = House::new("good", "secrets: [TOKEN_OF_MINE]\n");
    let secret = "tok-live-0123456789";
    let script = "import os, sys\nsys.exit('it is ' + os.environ['TOKEN_OF_MINE'])\n";
    house.write("agent/agent.py", script);
    house.run_with(&[("TOKEN_OF_MINE", secret)], &["--limit", "1", "--name", "r", "--quiet"]).ends(4);
    let run = house.place.run("r");
    let record = run.trajectories().unwrap().next().unwrap().unwrap();
    let text = serde_json::to_string(&record).unwrap();
    assert!(text.contains("it is [redacted TOKEN_OF_MINE]") && !text.contains(secret), "{text}");
}
