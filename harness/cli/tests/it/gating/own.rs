//! The project's own gate, with the baseline that is committed: what fails here is a change of the harness.

use std::path::Path;

use crate::place::Place;

#[test]
fn the_scripted_policy_does_what_was_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = |relative: &str| root.join(relative).to_str().unwrap().to_owned();
    let (gate, baseline) = (path("ci/gates/scripted.yaml"), path("results/baselines/scripted.json"));
    let place = Place::new();
    let judge = |policy: &[&str]| {
        place.clawrl(&[&["ci", &gate, "--baseline", &baseline, "--quiet"], policy].concat())
    };
    let said = judge(&[]).ends(0);
    assert!(said.out.starts_with("gate scripted: pass\n"), "{}", said.out);
    // A gate that passes whatever is put before it would be none.
    let said = judge(&["--policy", "demonstrator:40"]).ends(10);
    assert!(said.out.contains("terminal-basics/") && said.out.contains("broke"), "{}", said.out);
}
