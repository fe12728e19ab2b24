//! Correct agents.

use super::house::House;

#[test]
fn an_agent_is_scored_by_the_environment_and_its_model_is_accounted_for() {
    for (name, door) in [("lines", ""), ("web", "door: http\n")] {
        let house = House::new("good", door);
        let said = house.run(&["--name", name, "--group-size", "2"]).ends(0);
        assert!(
            said.err.contains("policy agent `python3 agent.py good`, model openai:able at"),
            "{}",
            said.err
        );
        let run = house.place.run(name);
        let total = run.summary().total.clone();
        assert_eq!((total.slots, total.passed, total.faulted), (8, 8, 0), "{name}: {}", said.out);
        // Two model replies per attempt: the command, then `done`.
        let usage = total.usage.unwrap();
        assert_eq!((usage.replies, usage.input_tokens, usage.output_tokens), (16, 1_600, 128));
        assert_eq!(house.server.as_ref().unwrap().replies(), 16);
        for record in run.trajectories().unwrap() {
            let turns = record.unwrap().trajectory.turns;
            assert_eq!(turns.len(), 2);
            // Output since the last action belongs to the next action.
            assert!(turns[0].reply.joined_text().starts_with("running echo "), "{:?}", turns[0].reply);
            assert_eq!((turns[0].calls.len(), turns[1].calls[0].name.as_str()), (1, "submit"));
            assert_eq!(turns[0].usage.as_ref().unwrap().cost_nano_usd, Some(180_000));
        }
    }
}

#[test]
fn an_agent_may_close_or_just_end_or_do_nothing() {
    let house = House::new("close", "");
    house.run(&["--limit", "1", "--name", "close", "--quiet"]).ends(0);
    assert_eq!(house.place.run("close").summary().total.passed, 1);
    house.agent_file("remote:policy.yaml", "idle", "");
    house.run(&["--limit", "1", "--name", "idle", "--quiet"]).ends(0);
    let run = house.place.run("idle");
    let total = run.summary().total.clone();
    assert_eq!((total.finished, total.passed), (1, 0));
    let record = run.trajectories().unwrap().next().unwrap().unwrap();
    assert_eq!(record.trajectory.turns[0].reply.joined_text(), "there is nothing to do\n");
}
