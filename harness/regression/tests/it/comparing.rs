//! Two runs side by side.

use clawrl_record::{Run, RunEnd};
use clawrl_regression::{
    DifferencePlace, RunComparison, Turned, compare, comparison_page, render_comparison,
};
use clawrl_report::Heading;
use proptest::prelude::*;

use crate::assessed::HOSTILE;
use crate::recorded::{Did, Task, TestStore, graded};

const SORT: &[(&str, &str)] = &[("ls", "names.txt"), ("sort names.txt > out", ""), ("submit", "")];

fn of(run: &Run) -> (&Run, Heading) {
    (run, Heading { policy: "noop".to_owned(), state: "completed".to_owned() })
}

fn compared(before: &Run, after: &Run) -> RunComparison {
    compare(of(before), of(after)).unwrap()
}

/// Tasks that stay, break, are mended, waver and fault; and one that is asked otherwise.
fn baseline() -> Vec<Task<'static>> {
    let mut tasks: Vec<Task<'static>> = ["a", "b", "c", "d", "e", "f"]
        .map(|family| ("terminal-basics", family, "Sort names.txt.", vec![graded(true, SORT); 3]))
        .into();
    tasks.push(("terminal-basics", "breaks", "Sort names.txt.", vec![graded(true, SORT); 3]));
    tasks.push((
        "terminal-basics",
        "wavers",
        "Sort names.txt.",
        vec![graded(true, SORT), graded(false, &SORT[..1]), graded(true, SORT)],
    ));
    tasks.push(("more", "mended", "Say hello.", vec![graded(false, &[("echo bye", "bye")]); 3]));
    tasks.push((
        "more",
        "faults",
        "Say hello.",
        vec![graded(true, &[("echo hello", "hello")]), Did::Broke, Did::Broke],
    ));
    tasks.push(("more", "old", "Say hello.", vec![graded(true, &[("echo hello", "hello")]); 3]));
    tasks
}

fn candidate() -> Vec<Task<'static>> {
    let mut tasks = baseline();
    let wrong = graded(
        false,
        &[("ls", "names.txt"), ("sort -r names.txt > out", "sorted"), ("cat out", HOSTILE), ("submit", "")],
    );
    tasks[6].3 = vec![wrong.clone(), wrong.clone(), wrong];
    tasks[7].3 = vec![graded(false, &SORT[..2]), graded(true, SORT), graded(false, &SORT[..2])];
    tasks[8].2 = "Say hello, politely.";
    tasks[8].3 = vec![graded(true, &[("echo hello", "hello")]); 3];
    tasks[10].1 = "new";
    tasks
}

#[test]
fn flips_show_the_first_difference() {
    let place = TestStore::new();
    let before = place.record("before", &baseline(), Some(RunEnd::Completed));
    let after = place.record("after", &candidate(), Some(RunEnd::Completed));
    let comparison = compared(&before, &after);
    insta::assert_snapshot!("compared_text", render_comparison(&comparison, &before, &after, 9).unwrap());
    let flips: Vec<(&str, Turned, DifferencePlace)> = comparison
        .flips
        .iter()
        .map(|flip| (flip.task.as_str(), flip.turned, flip.difference.place))
        .collect();
    assert_eq!(
        flips,
        [
            ("terminal-basics/breaks", Turned::Worse, DifferencePlace::Action { turn: 2 }),
            (
                "terminal-basics/wavers",
                Turned::Worse,
                DifferencePlace::Length { turn: 3, goes_on: clawrl_gates::SideName::Baseline }
            ),
            ("more/mended", Turned::Better, DifferencePlace::Asked),
        ]
    );
    assert_eq!(
        (comparison.baseline_alone, comparison.candidate_alone),
        (vec!["more/old".to_owned()], vec!["more/new".to_owned()])
    );
}

#[test]
fn the_same_run_twice_differs_nowhere() {
    let place = TestStore::new();
    let run = place.record("one", &baseline(), Some(RunEnd::Completed));
    let comparison = compared(&run, &run);
    assert!(comparison.flips.is_empty());
    for metric in comparison.suites.iter().flat_map(|suite| &suite.metrics) {
        assert_eq!((metric.difference, metric.interval), (0.0, None), "{}", metric.metric);
    }
    assert!(comparison.notes.contains(&"both are the same run".to_owned()), "{:?}", comparison.notes);
}

#[test]
fn incomparable_runs_are_errors() {
    let place = TestStore::new();
    let run = place.record("one", &baseline(), Some(RunEnd::Completed));
    let check = |name: &str, tasks: &[Task<'_>], end, expected: &str| {
        let other = place.record(name, tasks, end);
        assert_eq!(compare(of(&run), of(&other)).unwrap_err().to_string(), expected);
    };
    check(
        "elsewhere",
        &[("gui-basics", "a", "Click.", vec![graded(true, SORT)])],
        Some(RunEnd::Completed),
        "runs one and elsewhere have no task in common: one is of terminal-basics, more, the other of gui-basics",
    );
    let of_one = |did: Did| [("terminal-basics", "a", "Sort names.txt.", vec![did.clone(), did])];
    check(
        "broken",
        &of_one(Did::Broke),
        Some(RunEnd::Completed),
        "run broken has no graded attempt to compare: 2 slots ended in a fault, 0 are open",
    );
    check(
        "begun",
        &of_one(Did::Nothing),
        None,
        "run begun has no graded attempt to compare: 0 slots ended in a fault, 2 are open",
    );
}

#[test]
fn i3_missing_data_is_noted() {
    let place = TestStore::new();
    let run = place.record("one", &baseline(), Some(RunEnd::Completed));
    let mut cut = baseline();
    cut[0].3 = vec![Did::Nothing; 3];
    let died = place.record("died", &cut, None);
    let notes = compared(&run, &died).notes;
    for expected in [
        "died is incomplete: it was cut short: its process died, and 3 slots are open",
        "2 slots of one ended in a fault and are excluded",
        "1 task is without a graded attempt in died",
    ] {
        assert!(notes.iter().any(|note| note == expected), "no {expected:?} in {notes:#?}");
    }
    let stopped = place.record("stopped", &cut, Some(RunEnd::Interrupted));
    let notes = compared(&stopped, &run).notes;
    assert!(notes[0].starts_with("stopped is incomplete: it was interrupted, and 3 slots"), "{notes:?}");
}

#[test]
fn p2_page_limits_trajectory_bytes() {
    let place = TestStore::new();
    let before = place.record("before", &baseline(), Some(RunEnd::Completed));
    let after = place.record("after", &candidate(), Some(RunEnd::Completed));
    let comparison = compared(&before, &after);
    let page = |bytes| comparison_page(&comparison, &before, &after, bytes).unwrap();
    let (whole, none) = (page(1 << 20), page(0));
    assert!(whole.contains("&lt;script&gt;alert(1)") && !whole.contains("<script"), "text is text");
    assert!(!whole.contains("To keep the page small"));
    assert!(whole.contains("sort -r names.txt") && !none.contains("sort -r names.txt"));
    assert_eq!(none.matches("To keep the page small").count(), 3);
    assert_eq!(none.matches("<details").count(), none.matches("</details>").count());
    let trajectories = whole.len() - none.len();
    assert!(page(trajectories as u64 / 2).len() < whole.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// I4 of the comparison: text of attempts never changes the structure of the page.
    #[test]
    fn i4_trajectories_are_text(did in any::<String>(), saw in any::<String>()) {
        let place = TestStore::new();
        let tags = |name: &str, did: &str, saw: &str| {
            let tasks = |passed| vec![("s", "a", "Do.", vec![graded(passed, &[(did, saw)])])];
            let before = place.record(&format!("{name}-1"), &tasks(true), Some(RunEnd::Completed));
            let after = place.record(&format!("{name}-2"), &tasks(false), Some(RunEnd::Completed));
            let comparison = compared(&before, &after);
            comparison_page(&comparison, &before, &after, 1 << 20).unwrap().matches('<').count()
        };
        // Invisible characters must not appear in the page.
        let saw = format!("x{saw}");
        prop_assert_eq!(tags("plain", "ls", "x"), tags("odd", &did, &saw));
    }
}
