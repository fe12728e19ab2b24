//! The documented exit codes match the program.

use crate::place::Place;

/// One command for every code that arguments can cause; other tests cover the rest.
#[test]
fn codes_mean_what_the_table_says() {
    let place = Place::new();
    let table = place.clawrl(&["help", "exit-codes"]).ends(0).out;
    let first = |line: &str| line.split_whitespace().next().and_then(|word| word.parse().ok());
    let codes: Vec<i32> =
        table.lines().filter(|line| !line.starts_with("      ")).filter_map(first).collect();
    assert_eq!(codes, (0..=11).collect::<Vec<i32>>());
    place.clawrl(&["--version"]).ends(0);
    place.clawrl(&[]).ends(2);
    place.clawrl(&["ls", "--results", "tasks/small/suite.yaml"]).ends(7);
    place.clawrl(&["show", "nobody"]).ends(8);
}
