//! `clawrl report`.

use std::fs;

use crate::place::Place;

fn with_run() -> Place {
    let place = Place::new();
    place.clawrl(&["run", "small", "--name", "one", "--quiet", "--group-size", "2"]).ends(0);
    place
}

#[test]
fn a_run_is_told_and_its_page_is_written() {
    let place = with_run();
    let said = place.clawrl(&["report", "one"]).ends(0);
    assert_eq!(said.err, "");
    // Durations and column widths vary, so the test checks only that every part is present.
    for part in [
        "pass rate  100.0 %",
        "24 of 24 episodes in 12 tasks",
        "pass@k",
        "small",
        "policy (per turn)",
        "page     ",
    ] {
        assert!(said.out.contains(part), "{part}:\n{}", said.out);
    }
    let page = fs::read_to_string(place.run("one").dir().join("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("24 / 24") && page.contains("id=\"d0\"") && page.contains("id=\"c0\""));
    assert_eq!(place.clawrl(&["report", "one"]).ends(0).out, said.out, "the same record, the same report");
}

#[test]
fn figures_and_exports_are_had_on_demand() {
    let place = with_run();
    let said = place
        .clawrl(&["report", "one", "--json", "--output", "p.html", "--atif", "a", "--casts", "c/d"])
        .ends(0);
    let json = said.json();
    assert_eq!(json["total"]["rate"]["method"], "clustered_by_task");
    assert_eq!((&json["atif_files"], &json["cast_files"]), (&24.into(), &24.into()));
    assert_eq!(json["groups"].as_array().unwrap().len(), 12);
    assert!(place.path().join("p.html").is_file() && !place.run("one").dir().join("report.html").exists());
    let atif = fs::read_to_string(place.path().join("a/s3.0.json")).unwrap();
    assert!(atif.contains("\"schema_version\": \"ATIF-v1.8\""), "{atif}");
    assert!(fs::read_to_string(place.path().join("c/d/s3.0.cast")).unwrap().starts_with("{\"version\":2"));
    let small = place.clawrl(&["report", "one", "--page-mib", "0", "--output", "small.html"]).ends(0);
    assert!(small.out.contains("small.html"));
    let page = fs::read_to_string(place.path().join("small.html")).unwrap();
    assert!(page.contains("To keep the page small, 24 terminal recordings"), "{page}");
}

#[test]
fn slots_are_had_as_junit_and_csv() {
    let place = with_run();
    let said = place.clawrl(&["report", "one", "--junit", "j.xml", "--csv", "s.csv"]).ends(0);
    assert!(said.out.contains("\njunit    j.xml\ncsv      s.csv\n"), "{}", said.out);
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    let suite = "<testsuite name=\"small\" tests=\"24\" failures=\"0\" errors=\"0\" skipped=\"0\"";
    assert!(read("j.xml").contains(suite), "{}", read("j.xml"));
    assert!(
        read("s.csv").starts_with("run,suite,family,task,slot,repeat,outcome,")
            && read("s.csv").lines().count() == 25
    );
    let said = place.clawrl(&["report", "one", "--csv", "no/such/folder/s.csv"]).ends(7);
    assert!(said.err.contains("choose another place with --csv"), "{}", said.err);
}

#[test]
fn what_cannot_be_reported_is_named() {
    let place = with_run();
    assert!(place.clawrl(&["report", "other"]).ends(8).err.contains("run other not found"));
    assert!(place.clawrl(&["report", "one", "--page-mib", "many"]).ends(2).err.contains("--page-mib"));
    let said = place.clawrl(&["report", "one", "--output", "no/such/folder/page.html"]).ends(7);
    assert!(said.err.contains("cannot write no/such/folder/page.html"), "{}", said.err);
    let run = place.run("one");
    let frame = run.attempts().find(|summary| summary.attempt.to_string() == "s5.0").unwrap().frame;
    let path = run.dir().join("trajectories.zst");
    let mut bytes = fs::read(&path).unwrap();
    bytes[frame.offset as usize + 9] ^= 1;
    fs::write(path, bytes).unwrap();
    let said = place.clawrl(&["report", "one"]).ends(7);
    assert!(said.err.contains("s5.0") && said.out.is_empty(), "{}", said.err);
    assert!(!run.dir().join("report.html").exists());
}

#[test]
fn a_run_that_was_killed_is_reported() {
    let place = Place::new();
    let mut live = place.start(&["run", "small", "--name", "k", "--concurrency", "1", "--repeats", "20"]);
    live.hears("run k:");
    live.signal(rustix::process::Signal::KILL);
    live.ended();
    let said = place.clawrl(&["report", "k"]).ends(0);
    assert!(said.out.contains("its process died"), "{}", said.out);
    let run = place.run("k");
    let open = run.summary().total.open;
    assert!(open > 0 && said.out.contains(&format!("{open} open")), "{}", said.out);
}
