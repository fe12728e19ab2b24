//! Baseline files: they read back exactly, and changed files are refused.

use std::fs;

use clawrl_record::RunEnd;
use clawrl_regression::{Baseline, BaselineError};

use crate::fixture::{End, Shape, TestStore, usual};

fn written() -> (TestStore, Baseline) {
    let place = TestStore::new();
    let run = place.run("before", Shape::default(), usual);
    let baseline = Baseline::of("g", 1.0, &run, "clawrl 0.1.0", 5).unwrap();
    baseline.write(&place.baseline_path()).unwrap();
    (place, baseline)
}

#[test]
fn written_file_reads_back() {
    let (place, baseline) = written();
    let path = place.baseline_path();
    assert_eq!(Baseline::read(&path, "g").unwrap(), baseline);
    let text = fs::read_to_string(&path).unwrap();
    let of_third: Vec<&str> = text.lines().filter(|line| line.contains("\"suite-0/task-3\": {")).collect();
    assert_eq!(of_third.len(), 1, "one line for each task:\n{text}");
    assert!(of_third[0].contains("\"latency_s\":0.135"), "{of_third:?}");
    assert!(text.ends_with("}\n"));
    baseline.write(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "the same baseline, the same bytes");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn changed_baseline_is_refused() {
    let check = |from: &str, to: &str, expected: &str| {
        let (place, _) = written();
        let path = place.baseline_path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = Baseline::read(&path, "g").unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("\"passed\":false", "\"passed\":true", "damaged: its hash does not match its outcomes");
    check("\"seed\": 1", "\"seed\": 2", "damaged: its hash does not match its conditions");
    check("\"format\": 1", "\"format\": 2", "has format 2, newer than 1");
    check("\"gate\": \"g\"", "\"gate\": \"h\"", "belongs to the gate `h`, not to `g`");
    check("{", "[", "is damaged: ");
    check("\"outcomes\"", "\"outcomez\"", "is damaged: missing field `outcomes`");
    let (place, _) = written();
    let path = place.baseline_path();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(matches!(Baseline::read(&path, "g"), Err(BaselineError::Damaged { .. })));
    fs::remove_file(&path).unwrap();
    assert!(matches!(Baseline::read(&path, "g"), Err(BaselineError::Missing { .. })));
}

#[test]
fn incomplete_run_is_not_accepted() {
    let check = |shape, end: fn(u32, u32) -> End, expected: &str| {
        let run = TestStore::new();
        let run = run.run("after", shape, end);
        assert_eq!(Baseline::of("g", 1.0, &run, "clawrl 0.1.0", 5).unwrap_err().to_string(), expected);
    };
    let died = Shape { end: None, ..Shape::default() };
    let whole = Shape::default();
    check(died, |_, _| End::Missing, "run after was cut short: 32 of its attempts are unfinished");
    check(died, usual, "run after was cut short: 0 of its attempts are unfinished");
    check(whole, |_, _| End::Faults, "no attempt of run after was graded: 32 ended in faults");
    check(
        whole,
        |task, _| if task == 2 { End::Faults } else { End::Passes },
        "all attempts of run after at task `suite-0/task-2` ended in faults",
    );
    let place = TestStore::new();
    let run = place.run("faulty", whole, |_, repeat| if repeat == 0 { End::Faults } else { End::Passes });
    let told = Baseline::of("g", 0.2, &run, "clawrl 0.1.0", 5).unwrap_err().to_string();
    assert_eq!(told, "8 of 32 attempts of run faulty ended in faults (limit of the gate: 20 %)");
    Baseline::of("g", 0.25, &run, "clawrl 0.1.0", 5).unwrap();
    let writer = place.filled("live", whole, usual);
    let told = Baseline::of("g", 1.0, &place.recorded("live"), "clawrl 0.1.0", 5).unwrap_err().to_string();
    assert_eq!(told, "run live is still under way");
    writer.finish(RunEnd::Completed).unwrap();
}
