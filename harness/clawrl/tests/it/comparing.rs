//! `clawrl compare`.

use std::fs;

use serde_json::Value;

use crate::place::{Place, SMALL};

fn with_runs() -> Place {
    let place = Place::new();
    for (name, policy) in [("good", "oracle"), ("bad", "noop")] {
        place.clawrl(&["run", "small", "--name", name, "--policy", policy, "--quiet"]).ends(0);
    }
    place
}

#[test]
fn two_runs_are_told_side_by_side() {
    let place = with_runs();
    let said = place.clawrl(&["compare", "good", "bad"]).ends(0);
    assert_eq!(said.err, "");
    for part in [
        "baseline   good, policy oracle, ",
        "candidate  bad, policy noop, ",
        "100.0 %      0.0 %  -100.0 points",
        "flipped    12 worse, 0 better",
        "they first differ in the action of turn 1",
        "> submit",
        "9 more flipped: --flips N shows them",
    ] {
        assert!(said.out.contains(part), "no {part:?} in\n{}", said.out);
    }
    assert!(said.out.lines().all(|line| line.chars().count() <= 110), "{}", said.out);
    assert_eq!(
        place.clawrl(&["compare", "good", "bad"]).ends(0).out,
        said.out,
        "the same records, the same text"
    );
    let none = place.clawrl(&["compare", "good", "bad", "--flips", "0"]).ends(0).out;
    assert!(none.contains("12 more flipped") && !none.contains("they first differ"), "{none}");
}

#[test]
fn json_and_a_page_are_had_on_demand() {
    let place = with_runs();
    let json: Value = place.clawrl(&["compare", "bad", "good", "--json", "--html", "c.html"]).ends(0).json();
    assert_eq!((&json["format"], &json["page"]), (&1.into(), &"c.html".into()));
    let flips = json["flips"].as_array().unwrap();
    assert_eq!(flips.len(), 12);
    assert!(flips.iter().all(|flip| flip["turned"] == "better"), "{flips:?}");
    assert_eq!(flips[0]["difference"]["place"]["action"]["turn"], 1);
    let rate = &json["suites"][0]["metrics"][0];
    assert_eq!((&rate["metric"], &rate["turned"]), (&"pass_rate".into(), &"better".into()));
    let page = fs::read_to_string(place.path().join("c.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n") && !page.contains("<script"));
    assert!(!page.contains("To keep the page small"));
    place.clawrl(&["compare", "bad", "good", "--html", "c.html", "--page-mib", "0"]).ends(0);
    let small = fs::read_to_string(place.path().join("c.html")).unwrap();
    assert_eq!(small.matches("To keep the page small").count(), 12);
}

#[test]
fn what_cannot_be_compared_is_named() {
    let place = with_runs();
    let check = |arguments: &[&str], code, expected: &str| {
        let said = place.clawrl(&[&["compare"], arguments].concat()).ends(code);
        assert!(said.err.contains(expected) && said.out.is_empty(), "{}", said.err);
    };
    check(&["good", "other"], 8, "run other not found");
    check(&["good"], 2, "<CANDIDATE>");
    check(&["good", "../bad"], 2, "a run's name has");
    check(&["good", "bad", "--html", "no/such/folder/c.html"], 7, "cannot write no/such/folder/c.html");
    place.suite("large", &SMALL.replace("suite: small", "suite: large"));
    place.clawrl(&["run", "large", "--name", "large", "--policy", "noop", "--quiet"]).ends(0);
    check(
        &["good", "large"],
        2,
        "runs good and large have no task in common: one is of small, the other of large",
    );
}

#[test]
fn a_run_that_was_killed_is_compared_and_told() {
    let place = with_runs();
    let mut live = place.start(&["run", "small", "--name", "k", "--concurrency", "1", "--repeats", "20"]);
    live.hears("run k:");
    live.signal(rustix::process::Signal::KILL);
    live.ended();
    let open = place.run("k").summary().total.open;
    let said = place.clawrl(&["compare", "good", "k"]);
    if place.run("k").summary().total.finished == 0 {
        assert!(said.ends(2).err.contains("run k has no graded attempt to compare"));
    } else {
        let text = said.ends(0).out;
        let note = format!("k is incomplete: it was cut short: its process died, and {open} slot");
        assert!(text.contains(&note), "{text}");
    }
}
