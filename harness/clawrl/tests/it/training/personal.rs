//! `clawrl eval personal`, at a scale that only shows that every part runs.

use std::fs;

use serde_json::Value;

use crate::place::Place;

/// An untrained policy, two users of each persona, and the minimum of sessions.
fn evaluate(place: &Place, out: &str, more: &[&str]) -> Value {
    let sizes = [
        "--seeds",
        "2",
        "--sessions",
        "3",
        "--held-out",
        "4",
        "--warm-start-steps",
        "8",
        "--train-every-turns",
        "3",
    ];
    let arguments: Vec<&str> = ["eval", "personal", "--json", "--quiet", "--out", out]
        .into_iter()
        .chain(sizes)
        .chain(more.iter().copied())
        .collect();
    let said = place.clawrl(&arguments).ends(0);
    assert_eq!(said.err, "");
    said.json()
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    let place = Place::new();
    let check = |arguments: &[&str], part: &str| {
        let all: Vec<&str> = ["eval", "personal"].into_iter().chain(arguments.iter().copied()).collect();
        let said = place.clawrl(&all).ends(2);
        assert!(said.err.contains(part) && said.out.is_empty(), "{said:?}");
    };
    check(&["--policy", "mine"], "`--policy` is not there yet");
    check(&["--users", "model.yaml"], "`--users` is not there yet");
    check(&["--arms", "both"], "invalid value 'both'");
    fs::create_dir(place.path().join("full")).unwrap();
    fs::write(place.path().join("full/notes.txt"), "mine").unwrap();
    check(&["--out", "full"], "full is not empty");
    assert!(!place.results().exists(), "what is refused leaves nothing");
}

mod slow {
    use super::*;

    #[test]
    fn every_arm_is_tried_and_what_it_comes_to_does_not_depend_on_what_is_tried_beside_it() {
        let place = Place::new();
        let together = evaluate(&place, "together", &["--jobs", "3", "--personas", "student,teacher"]);
        let courses = together["courses"].as_array().unwrap();
        // Seeds, personas, arms.
        assert_eq!(courses.len(), 2 * 2 * 5);
        for course in courses {
            assert_eq!(course["first"].as_array().unwrap().len(), 3, "{course}");
            let learns = ["binary", "opd", "combined"].contains(&course["arm"].as_str().unwrap());
            let (updates, rejected) =
                (course["updates"].as_u64().unwrap(), course["rejected"].as_u64().unwrap());
            assert!(learns || updates + rejected == 0, "{course}");
            // An untrained policy satisfies no user, so there are nine turns, each of which is learned from.
            assert!(course["arm"] != "combined" || updates + rejected == 3, "{course}");
        }
        let comparisons = together["findings"]["comparisons"].as_array().unwrap();
        assert_eq!(comparisons.len(), 7, "{comparisons:?}");
        let kept = fs::read_to_string(place.path().join("together/personal.json")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), together);
        let report = fs::read_to_string(place.path().join("together/report.md")).unwrap();
        assert!(report.contains("| combined |") && report.contains("## teacher"), "{report}");
        assert!(fs::read_to_string(place.path().join("together/curves.svg")).unwrap().ends_with("</svg>\n"));
        assert!(!place.path().join("together/adapters").exists());

        // The policy exists now and is reused.
        let policies = || fs::read_dir(place.results().join("personal")).unwrap().count();
        assert_eq!(policies(), 1);
        let alone = evaluate(&place, "alone", &["--jobs", "1", "--personas", "teacher"]);
        assert_eq!(policies(), 1);
        let of_teachers: Vec<&Value> =
            courses.iter().filter(|course| course["persona"] == "teacher").collect();
        assert_eq!(alone["courses"].as_array().unwrap().iter().collect::<Vec<_>>(), of_teachers);
    }
}
