//! Sixty-four shells at once in a process that signals interrupt.

use std::path::Path;

use crate::place::Place;
use crate::profiling::{count, frames, phases};

#[test]
fn sixty_four_shells_at_once_do_not_mind_the_profile() {
    let place = Place::new();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/terminal-basics");
    let mut arguments =
        vec!["run", suite.to_str().unwrap(), "--policy", "oracle", "--name", "p", "--profile"];
    arguments.extend(["--concurrency", "64", "--max-retries", "0", "--limit", "256", "--json"]);
    let said = place.clawrl(&arguments).ends(0);
    let total = place.run("p").summary().total;
    assert_eq!((total.faulted, total.retries), (0, 0), "{}", said.err);
    assert_eq!((total.slots, total.passed), (256, 256), "{}", said.err);
    assert_eq!(said.json()["leftovers"], serde_json::json!([]));
    assert_eq!(count(&phases(&place, "p"), "grade"), Some(256));
    assert!(frames(&place, "p").len() > 100);
}
