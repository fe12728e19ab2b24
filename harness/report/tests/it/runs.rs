//! Runs in every state, and their figures.

use clawrl_record::RunStore;
use clawrl_report::{Method, Options, ReportError, csv_of_run, junit_of_run, render_text, report};

use crate::fixture::{Place, fill, heading};

#[test]
fn the_terminal_summary() {
    let mut figures = Place::with_run().report(0).figures;
    figures.wall_ms = 61_000;
    insta::assert_snapshot!(render_text(&figures));
}

#[test]
fn i1_faults_are_in_no_denominator() {
    let figures = Place::with_run().report(0).figures;
    let total = &figures.total;
    assert_eq!((total.slots, total.finished, total.faulted, total.open), (16, 13, 1, 2));
    assert_eq!((total.attempts, total.faulted_attempts, total.cancelled_attempts), (17, 3, 1));
    let rate = total.rate.unwrap();
    assert_eq!((rate.passed, rate.episodes, rate.tasks, rate.method), (7, 13, 4, Method::ClusteredByTask));
    for row in figures.tasks.iter().map(|task| &task.row).chain(figures.groups.iter().map(|group| &group.row))
    {
        assert_eq!(row.slots, row.finished + row.faulted + row.open);
    }
    // Turns of the 13 finished episodes, not of those that broke.
    let turns = figures.phases.iter().find(|phase| phase.phase == "step").unwrap();
    assert_eq!(turns.durations.count, 39);
    let of_k: Vec<(u32, u32)> = figures.at_k.iter().map(|figure| (figure.k, figure.tasks)).collect();
    assert_eq!(of_k, [(1, 4), (2, 4), (4, 2)]);
}

/// `clawrl run` ends with a summary, `clawrl report` says the same of the run: episodes of a task are no independent ones in either.
#[test]
fn summary_and_report_have_one_interval() {
    let place = Place::with_run();
    let (summary, figures) = (place.run().summary(), place.report(0).figures);
    let mut rows = vec![(summary.total.pass_rate, figures.total.rate)];
    for (suite, of_suite) in summary.suites.iter().zip(&figures.suites) {
        rows.push((suite.total.pass_rate, of_suite.total.rate));
        rows.extend(
            suite.families.iter().map(|(name, counts)| (counts.pass_rate, of_suite.families[name].rate)),
        );
    }
    assert!(rows.len() > 3 && rows[0].1.unwrap().method == Method::ClusteredByTask);
    for (summarized, reported) in rows {
        let summarized = summarized.map(|rate| (rate.value, rate.low, rate.high));
        assert_eq!(summarized, reported.map(|rate| (rate.value, rate.low, rate.high)));
    }
}

#[test]
fn listing_has_rate_and_cost_of_the_report() {
    let place = Place::with_run();
    let total = place.report(0).figures.total;
    let listed = RunStore::open(place.path()).unwrap().info(&place.run().plan().run);
    let rate = total.rate.map(|rate| (rate.value, rate.low, rate.high));
    assert!(rate.is_some() && listed.pass_rate.map(|rate| (rate.value, rate.low, rate.high)) == rate);
    // Attempts that broke have cost as much as those that finished.
    assert_eq!(listed.cost_nano_usd, Some(16 * 2_500_000));
    assert_eq!(listed.cost_nano_usd, total.usage.unwrap().cost_nano_usd);
}

#[test]
fn every_slot_is_a_case_of_junit_and_a_row_of_csv() {
    let run = Place::with_run().run();
    let (junit, csv) = (junit_of_run(&run), csv_of_run(&run));
    insta::assert_snapshot!("junit", junit);
    insta::assert_snapshot!("csv", csv);
    let slots = run.plan().slots.len();
    assert_eq!((junit.matches("<testcase ").count(), csv.lines().count()), (slots, slots + 1));
    // As the report counts them: a fault is an error, and an open slot was skipped.
    let total = Place::with_run().report(0).figures.total;
    let count = |tag: &str| junit.matches(tag).count() as u32;
    assert_eq!(count("<failure "), total.finished - total.passed);
    assert_eq!((count("<error "), count("<skipped ")), (total.faulted, total.open));
}

#[test]
fn figures_are_json() {
    let figures = serde_json::to_value(Place::with_run().report(0).figures).unwrap();
    assert_eq!(figures["total"]["rate"]["method"], "clustered_by_task");
    assert_eq!(figures["suites"][0]["families"]["sort"]["rate"]["passed"], 2);
    assert_eq!(figures["groups"][1]["task"], "terminal-basics/sort");
    assert_eq!(figures["faults"][0]["code"], "shell-lost");
    assert_eq!(figures["phases"][0]["per"], "attempt");
}

#[test]
fn a_run_without_any_attempt() {
    let place = Place::new();
    let writer = place.opened();
    let made = place.report(64 << 20);
    assert!(made.page.contains("No attempt finished.") && made.page.contains("so there is no rate"));
    let mut figures = made.figures;
    figures.wall_ms = 0;
    insta::assert_snapshot!(render_text(&figures));
    writer.close().unwrap();
}

#[test]
fn running_run_is_reported_as_a_snapshot() {
    let place = Place::new();
    let writer = place.opened();
    fill(&writer, 0..6);
    let figures = place.report(64 << 20).figures;
    assert_eq!((figures.total.finished, figures.total.open), (6, 10));
    assert!(figures.warnings[0].starts_with("the run is still running"), "{:?}", figures.warnings);
    writer.close().unwrap();
    assert!(place.report(0).figures.warnings.is_empty());
}

#[test]
fn i4_a_damaged_frame_is_named() {
    let place = Place::with_run();
    let path = place.trajectories();
    let mut bytes = std::fs::read(&path).unwrap();
    let frame = place.run().attempts().find(|summary| summary.attempt.to_string() == "s9.0").unwrap().frame;
    bytes[frame.offset as usize + 7] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = report(&place.run(), &heading(), &Options::default()).unwrap_err();
    assert!(matches!(error, ReportError::Record(_)));
    assert!(error.to_string().contains("the frame of attempt s9.0"), "{error}");
}

#[test]
fn recordings_are_exported() {
    let place = Place::with_run();
    let folder = place.path().join("new/casts");
    let made = place.report_with(&Options { casts: Some(folder.clone()), ..Options::default() });
    assert_eq!(made.exported_casts, 16);
    let cast = std::fs::read_to_string(folder.join("s8.1.cast")).unwrap();
    assert!(cast.starts_with("{\"version\":2") && cast.lines().count() == 4, "{cast}");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 16);
}
