//! The project's own gates with committed baselines: a failure here is a change of the harness.

use std::path::Path;

use crate::place::{Place, Said};

/// A gate of the project in a separate test folder.
struct Own {
    place: Place,
    gate: String,
    baseline: String,
}

impl Own {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = |relative: String| root.join(relative).to_str().unwrap().to_owned();
        let (gate, baseline) = (format!("ci/gates/{name}.yaml"), format!("results/baselines/{name}.json"));
        Self { place: Place::new(), gate: path(gate), baseline: path(baseline) }
    }

    fn judge(&self, policy: &[&str]) -> Said {
        let ci = ["ci", &self.gate, "--baseline", &self.baseline, "--quiet"];
        self.place.clawrl(&[&ci, policy].concat())
    }
}

#[test]
fn the_scripted_policy_does_what_was_accepted() {
    let own = Own::new("scripted");
    let said = own.judge(&[]).ends(0);
    assert!(said.out.starts_with("gate scripted: pass\n"), "{}", said.out);
    // A gate must be able to fail.
    let said = own.judge(&["--policy", "demonstrator:40"]).ends(10);
    assert!(said.out.contains("terminal-basics/") && said.out.contains("broke"), "{}", said.out);
}

#[cfg(feature = "torch")]
#[test]
fn the_tiny_policy_is_as_good_as_was_accepted() {
    let own = Own::new("tiny");
    let said = own.judge(&[]).ends(0);
    assert!(said.out.starts_with("gate tiny: pass\n"), "{}", said.out);
    // This machine samples the accepted actions again.
    let seeds = ["--sampling-seed", "5"];
    let here = own.place.path().join("here.json");
    let here = here.to_str().unwrap();
    let accept = ["ci", "accept", &own.gate, "--baseline", here, "--quiet"];
    own.place.clawrl(&[&accept[..], &seeds].concat()).ends(0);
    let judge = ["ci", &own.gate, "--baseline", here, "--quiet"];
    let said = own.place.clawrl(&[&judge[..], &seeds].concat()).ends(0);
    assert!(said.out.contains("turns: pass. Every attempt equals the baseline's"), "{}", said.out);
    let hotter = format!("torch:{}@1.5", own.gate.trim_end_matches(".yaml"));
    let said = own.judge(&["--policy", &hotter]).ends(10);
    let worse = "  worse:\n    toolcall-basics/";
    assert!(said.out.contains("pass_rate: fail. ") && said.out.contains(worse), "{}", said.out);
}
