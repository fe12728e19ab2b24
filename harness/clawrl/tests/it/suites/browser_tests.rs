//! The suites of pages, with a real browser.

use super::{a_replay_repeats, suite};
use crate::place::Place;

/// By the pages' own reward, which must be 1; one or more episodes of each template.
#[test]
fn miniwob_tiny_is_valid() {
    let place = Place::new();
    let arguments = ["--limit", "12", "--quiet", "--concurrency", "2"];
    let said = place.clawrl(&[&["validate", &suite("miniwob-tiny")][..], &arguments].concat()).ends(0);
    assert!(said.out.contains("12 of 12 tasks are valid"), "{}", said.out);
}

mod slow {
    use super::*;

    /// For one task of each template, the no-op and wrong solutions fail and the oracle passes.
    #[test]
    fn gui_basics_is_valid_and_no_mistake_passes() {
        let place = Place::new();
        let arguments = ["--mistakes", "--limit", "32", "--quiet", "--concurrency", "2"];
        let said = place.clawrl(&[&["validate", &suite("gui-basics")][..], &arguments].concat()).ends(0);
        assert!(
            said.out.contains("\n0 of ") && said.out.contains("32 of 32 tasks are valid"),
            "{}",
            said.out
        );
    }

    #[test]
    fn a_replay_of_every_family_of_gui_basics_repeats_it() {
        a_replay_repeats(&[&suite("gui-basics"), "--limit", "32", "--concurrency", "2"], 32);
    }
}
