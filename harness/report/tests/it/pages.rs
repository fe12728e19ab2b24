//! The page.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::fixture::{HOSTILE, Place};

const ROOM: u64 = 64 << 20;

/// All texts between two markers.
fn between<'a>(page: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    page.split(begin).skip(1).map(|rest| rest.split(end).next().unwrap()).collect()
}

/// The content of a block, as a browser would have it.
fn unpacked(page: &str, id: &str) -> Option<Value> {
    let blocks = between(page, &format!("<script type=\"text/plain\" id=\"{id}\">"), "</script>");
    let mut json = String::new();
    GzDecoder::new(&*STANDARD.decode(blocks.first()?).unwrap()).read_to_string(&mut json).unwrap();
    Some(serde_json::from_str(&json).unwrap())
}

/// A listed attempt: its row, its details in the page, and its recording.
fn looked_up(page: &str, attempt: &str) -> (Value, Value, Value) {
    let index = unpacked(page, "index").unwrap();
    let rows = index["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["attempt"] == attempt).unwrap().clone();
    let (chunk, place) = (row["chunk"].as_u64().unwrap(), row["place"].as_u64().unwrap() as usize);
    let detail = unpacked(page, &format!("d{chunk}")).unwrap()[place].clone();
    let cast = unpacked(page, &format!("c{chunk}")).unwrap()[place].clone();
    (row, detail, cast)
}

#[test]
fn every_attempt_is_in_it_turn_by_turn() {
    let place = Place::with_run();
    let page = place.report(ROOM).page;
    let index = unpacked(&page, "index").unwrap();
    assert_eq!(index["rows"].as_array().unwrap().len(), place.run().attempts().count());
    for summary in place.run().attempts() {
        let (row, detail, cast) = looked_up(&page, &summary.attempt.to_string());
        assert_eq!(detail["attempt"], summary.attempt.to_string());
        assert_eq!(detail["turns"].as_array().unwrap().len(), summary.turns as usize);
        assert_eq!(row["cast"], !cast.is_null());
    }
    let (row, detail, cast) = looked_up(&page, "s9.0");
    assert_eq!(index["kinds"][row["kind"].as_u64().unwrap() as usize], "failed");
    // A reply that is the whole of its only call is not said twice.
    assert_eq!((&detail["turns"][0]["reply"], &detail["turns"][1]["reply"]), (&"".into(), &HOSTILE.into()));
    assert_eq!(detail["turns"][0]["calls"][0]["text"], "sort names.txt > sorted.txt");
    assert_eq!(detail["turns"][1]["full"]["text"], format!("{HOSTILE} in full"));
    assert_eq!(detail["turns"][2]["marks"], serde_json::json!(["malformed"]));
    assert_eq!(detail["end"]["finished"]["checks"][0]["message"], HOSTILE);
    assert_eq!(detail["end"]["finished"]["flags"][0], "symlink-refused");
    assert!(cast.as_str().unwrap().starts_with("{\"version\":2"));
    assert_eq!(looked_up(&page, "s10.1").1["end"]["faulted"]["code"], "shell-lost");
    assert_eq!(looked_up(&page, "s11.0").1["end"]["cancelled"]["reason"], "interrupted");
}

#[test]
fn i3_attempt_text_is_escaped() {
    let page = Place::with_run().report(ROOM).page;
    for wrong in ["alert(", "onerror", "<img", "<b>find", "\u{2028}", "\u{202e}", "\u{0}"] {
        assert!(!page.contains(wrong), "{wrong:?}");
    }
    assert!(page.contains("&lt;b&gt;find &amp; co&lt;/b&gt;"));
    let (opened, closed) = (page.matches("<script").count(), page.matches("</script").count());
    let blocks = page.matches("<script type=\"text/plain\"").count();
    assert_eq!((opened, closed), (blocks + 1, blocks + 1));
}

#[test]
fn p1_csp_allows_only_own_script_and_style() {
    let page = Place::with_run().report(ROOM).page;
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"")[0];
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let (script, style) =
        (between(&page, "<script>", "</script>")[0], between(&page, "<style>", "</style>")[0]);
    let expected = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    );
    assert_eq!(policy, expected);
    for outside in [" src=", "href=\"http", "url(", "@import", " style=", " onclick="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn omitted_attempts_are_counted() {
    let place = Place::with_run();
    let whole = place.report(ROOM).page;
    assert!(!whole.contains("To keep the page small"));
    let size = |id: &str| between(&whole, &format!("id=\"{id}\">"), "</script>")[0].len() as u64;
    let without_casts = place.report(size("d0") + size("c0") - 1).page;
    assert!(
        without_casts.contains("To keep the page small, 16 terminal recordings"),
        "the recordings go first"
    );
    assert!(unpacked(&without_casts, "c0").is_none() && unpacked(&without_casts, "d0").is_some());
    let bare = place.report(size("d0") - 1).page;
    assert!(bare.contains("To keep the page small, 17 attempts are listed without their turns"));
    assert!(unpacked(&bare, "d0").is_none() && unpacked(&bare, "index").is_some());
}

#[test]
fn i2_the_same_record_makes_the_same_page() {
    let place = Place::with_run();
    assert_eq!(place.report(ROOM).page, place.report(ROOM).page);
}

#[test]
fn failures_come_first_and_lead_to_their_attempts() {
    let place = Place::with_run();
    let page = place.report(ROOM).page;
    let tasks = between(&page, "<h2 id=\"tasks\">", "<h2")[0];
    let rows = between(tasks, "<tr id=\"", "</tr>");
    let run = place.run();
    let standing = |row: &&str| {
        let index: u32 = row[1..].split('"').next().unwrap().parse().unwrap();
        let slots = run.plan().slots.iter().filter(|slot| slot.task.0 == index);
        let closing: Vec<_> =
            slots.filter_map(|slot| run.state().unwrap().slots()[slot.id.0 as usize].closing()).collect();
        let passed = closing.iter().filter(|attempt| attempt.passed()).count();
        for attempt in closing.iter().filter(|attempt| !attempt.passed()) {
            assert!(row.contains(&format!("href=\"#{0}\">{0}</a>", attempt.attempt)), "{row}");
        }
        assert_eq!(row.matches("href=\"#s").count(), closing.len() - passed, "{row}");
        assert!(row.contains(&format!("href=\"#attempts-of-{index}\"")), "{row}");
        if passed == closing.len() { 2.0 } else { passed as f64 / closing.len() as f64 }
    };
    let standings: Vec<f64> = rows.iter().map(standing).collect();
    assert_eq!(standings.len(), 4);
    assert!(standings.is_sorted() && standings[0] < 1.0, "{standings:?}");
    assert!(page.find("<h2 id=\"tasks\">") < page.find("<h2>Suites and families"), "failures come first");
    // In the list of attempts, too: attempts that closed a slot precede superseded ones.
    let index = unpacked(&page, "index").unwrap();
    let kinds: Vec<&str> = index["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| index["kinds"][row["kind"].as_u64().unwrap() as usize].as_str().unwrap())
        .collect();
    let order = ["fault", "failed", "fault", "cancelled", "passed"];
    let mut runs = kinds.clone();
    runs.dedup();
    assert_eq!(runs, order, "{kinds:?}");
    let first = &index["rows"][0]["attempt"];
    assert!(run.attempts().any(|summary| summary.closes_slot && *first == summary.attempt.to_string()));
}

#[test]
fn open_tasks_precede_passed_ones() {
    let place = Place::new();
    let writer = place.opened();
    crate::fixture::fill(&writer, 0..4);
    writer.close().unwrap();
    let page = place.report(0).page;
    assert!(page.contains("None of 4 tasks failed or had a fault."), "{page}");
    let order: Vec<&str> = between(&page, "<tr id=\"", "\"");
    assert_eq!(order, ["t1", "t2", "t3", "t0"], "in the order of the plan where they stand alike");
}
