//! An unprivileged user gets the same results with fewer limits, and a report of those missing.

use crate::place::Place;

#[test]
fn a_normal_user_runs_and_is_told_which_limits_are_not_set() {
    let place = Place::of_normal_user();
    let said = place.clawrl(&["run", "small", "--name", "one"]).ends(0);
    assert!(said.out.contains("0 left behind"), "{}", said.out);
    assert_eq!(place.run("one").summary().total.passed, 12);
    let not_set = place.run("one").lock_file().unwrap().limits_not_set;
    assert!(not_set.iter().any(|limit| limit.limit.starts_with("a host user of its own")), "{not_set:?}");
    for limit in &not_set {
        assert!(said.err.contains(&limit.limit), "{} is not in {}", limit.limit, said.err);
    }
    assert!(said.out.contains("not limited "), "{}", said.out);
    place.clawrl(&["doctor"]).ends(0);
}
