//! `clawrl ls`, `show` and `clean`.

use crate::place::Place;

#[test]
fn runs_are_listed_shown_and_deleted() {
    let place = Place::new();
    assert_eq!(place.settled(&place.clawrl(&["ls"]).ends(0).out), "no runs in [folder]/results\n");
    place.clawrl(&["run", "small", "--name", "a", "--quiet", "--policy", "noop"]).ends(0);
    place.clawrl(&["run", "small", "--name", "b", "--quiet", "--limit", "3"]).ends(0);
    let listed = place.clawrl(&["ls", "--json"]).ends(0).json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "a"]);
    let text = place.clawrl(&["ls"]).ends(0).out;
    let columns: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(
        [&columns[..1], &columns[3..]].concat(),
        ["a", "finished", "noop", "small", "12/12", "0", "0"]
    );

    let failed = place.clawrl(&["show", "a", "--failed", "--json"]).ends(0).json();
    assert_eq!(failed.as_array().unwrap().len(), 12);
    let of_slot = place.clawrl(&["show", "b", "--slot", "s1"]).ends(0).out;
    assert!(of_slot.contains("s1.0") && of_slot.contains("passed"), "{of_slot}");
    assert!(place.clawrl(&["show", "b"]).ends(0).out.contains("run b, policy oracle, completed"));

    let cast = place.path().join("b.cast");
    let shown = place.clawrl(&["show", "b", "--attempt", "s0.0", "--cast", cast.to_str().unwrap()]).ends(0);
    insta::assert_snapshot!(shown.out);
    assert!(std::fs::read_to_string(cast).unwrap().starts_with("{\"version\":2"));
    let record = place.clawrl(&["show", "b", "--attempt", "s0.0", "--json"]).ends(0).json();
    assert_eq!(record["outcome"]["finished"]["grade"]["passed"], true);

    let said = place.clawrl(&["clean", "a"]).ends(2);
    assert!(said.err.contains("1 run would be deleted, and nobody is there to ask"), "{}", said.err);
    assert_eq!(place.clawrl(&["clean", "--older-than", "1h", "--yes"]).ends(0).out, "0 runs deleted\n");
    assert_eq!(place.clawrl(&["clean", "a", "--yes"]).ends(0).out, "1 run deleted\n");
    let cleaned = place.clawrl(&["clean", "--all", "--yes", "--json"]).ends(0).json();
    assert_eq!(cleaned["runs"], serde_json::json!(["b"]));
    assert!(place.clawrl(&["clean", "--orphans"]).ends(0).out.contains("processes ended"));
    assert!(place.clawrl(&["clean"]).ends(2).err.contains("nothing was said"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let mut child = place.command(&["help", "run"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
