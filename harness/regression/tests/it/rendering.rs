//! Renderings of assessments.

use clawrl_regression::{
    Assessment, MARKDOWN_BYTES, Outcome, annotations, assessments_json, gates_page, junit, markdown,
    write_outputs,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::assessed::{HOSTILE, all, failing, passing, undecided};

/// By snapshot, the hash of the text that junitparser has read: `ci/golden/junit.py`.
const READ_BY_JUNITPARSER: &str = include_str!("../golden/junit.json");
/// The same of cmark-gfm: `ci/golden/markdown.py`.
const READ_BY_CMARK: &str = include_str!("../golden/markdown.json");

fn accepted(golden: &str, name: &str, text: &str) {
    let hash: String =
        Sha256::digest(text.trim().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    // Read the snapshot first when it differs, then run the script in `ci/golden`.
    assert_eq!(golden["sha256"][name], hash, "the reference has not been shown this text of {name}");
}

#[test]
fn junit_matches_junitparser() {
    for (name, gates) in
        [("junit_all", all()), ("junit_failing", vec![failing()]), ("junit_none", Vec::new())]
    {
        let text = junit(&gates);
        insta::assert_snapshot!(name, text);
        accepted(READ_BY_JUNITPARSER, name, &text);
    }
}

#[test]
fn j1_suites_fail_as_their_gates_do() {
    let check = |gate: Assessment, failures: bool, errors: bool| {
        let text = junit(std::slice::from_ref(&gate));
        assert_eq!(text.contains("<failure"), failures, "{}", gate.gate);
        assert_eq!(text.contains("<error"), errors, "{}", gate.gate);
        // The reason against a pass may be none of its parts.
        let mut bare = gate.clone();
        (bare.metrics, bare.must_pass, bare.tasks) = (Vec::new(), Vec::new(), Vec::new());
        bare.each_task = None;
        let text = junit(&[bare]);
        assert_eq!(text.contains("<failure"), gate.outcome == Outcome::Fail);
        assert_eq!(text.contains("<error"), gate.outcome == Outcome::Inconclusive);
    };
    check(passing(), false, false);
    check(undecided(), false, true);
    let mut failing = failing();
    check(failing.clone(), true, false);
    failing.outcome = Outcome::Inconclusive;
    failing.metrics.clear();
    failing.each_task = None;
    check(failing, false, true);
}

#[test]
fn markdown_for_pull_requests() {
    let text = markdown(&all());
    insta::assert_snapshot!("markdown_all", text);
    accepted(READ_BY_CMARK, "markdown_all", &text);
}

#[test]
fn m1_comment_size_is_limited_for_any_input() {
    let check = |gates: &[Assessment], expected: &[&str]| {
        let text = markdown(gates);
        assert!(text.len() <= MARKDOWN_BYTES, "{}", text.len());
        assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
        assert_eq!(text.matches("<code>").count(), text.matches("</code>").count());
        for expected in expected {
            assert!(text.contains(expected), "no {expected}");
        }
    };
    let mut large = failing();
    for task in 0..5_000u32 {
        let mut copy = large.tasks[3].clone();
        copy.task = format!("copy/{task:05} {HOSTILE}");
        large.tasks.push(copy);
    }
    check(
        std::slice::from_ref(&large),
        &["copy/first-line", "passes less often at", "rows left out: the report has them."],
    );
    check(&vec![failing(); 300], &["300 of 300 gates fail", " gates, ", "left out: the report has them."]);
    let mut wordy = failing();
    wordy.reasons = vec![format!("{HOSTILE}{}", "@|`".repeat(50_000)); 1_000];
    check(&[wordy], &["<code>nightly</code>: fail", "- and 9", "cost_usd"]);
    check(&[], &["no gates were judged"]);
}

#[test]
fn jobs_print_annotations() {
    insta::assert_snapshot!("annotations_all", annotations(&all()));
    let mut many = failing();
    many.tasks.iter_mut().for_each(|task| task.change = clawrl_gates::Change::Broke);
    let text = annotations(&[many.clone()]);
    assert_eq!(text.matches("::error ").count(), 10, "{text}");
    assert!(text.contains("more are in the report"));
}

#[test]
fn json_is_read_back() {
    let read: Vec<Assessment> = serde_json::from_str(&assessments_json(&all()).unwrap()).unwrap();
    assert_eq!(read[1], failing());
    assert!(!read[2].metrics[0].verdict.findings.upper.is_finite());
}

#[test]
fn pages_escape_foreign_text() {
    let text = gates_page(&all());
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
    assert!(!text.contains("<script"), "a page without script");
    assert!(!text.contains("http://") && !text.contains("https://"), "nothing is loaded");
    for part in [
        "copy/first-line",
        "clawrl show nightly-7 --slot SLOT",
        "<code>s7</code>",
        "&lt;script&gt;alert(1)",
        "Regression gates",
    ] {
        assert!(text.contains(part), "no {part}");
    }
    // Every verdict stands in the page as in the JSON.
    for gate in all() {
        for metric in gate.metrics {
            assert!(text.contains(&clawrl_record::escape_html(&metric.sentence)), "{}", metric.sentence);
        }
    }
}

#[test]
fn files_are_written_whole_or_not_at_all() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("out/gates");
    let outputs = write_outputs(&folder, &all()).unwrap();
    for path in [&outputs.junit, &outputs.markdown, &outputs.json, &outputs.page, &outputs.annotations] {
        assert!(std::fs::metadata(path).unwrap().len() > 1_000, "{}", path.display());
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 5, "nothing is left beside them");
    let blocked = place.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let error = write_outputs(&blocked, &all()).unwrap_err().to_string();
    assert!(error.starts_with("failed to write ") && error.contains("file"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// I3 of the renderings: a name changes no structure.
    #[test]
    fn i3_names_are_text_everywhere(name in any::<String>()) {
        let with = |name: &str| {
            let mut gate = failing();
            gate.gate = name.to_owned();
            gate.tasks[3].task = name.to_owned();
            // Applied to all, so that a match is never by chance.
            gate.tasks.iter_mut().for_each(|task| task.family = name.to_owned());
            gate.must_pass[0].task = name.to_owned();
            gate.reasons = vec![name.to_owned()];
            gate.lost = vec![name.to_owned()];
            gate.interim_analyses[0].said = name.to_owned();
            gate.each_task.as_mut().unwrap().sentence = name.to_owned();
            [gate]
        };
        let tags = |text: &str| text.matches('<').count();
        let (plain, named) = (with("plain"), with(&name));
        prop_assert_eq!(tags(&gates_page(&plain)), tags(&gates_page(&named)));
        prop_assert_eq!(tags(&junit(&plain)), tags(&junit(&named)));
        prop_assert_eq!(annotations(&plain).lines().count(), annotations(&named).lines().count());
        let told = markdown(&named).replace("<code>&#64;</code>", "").replace("<code>&#35;</code>", "");
        let told = told.replace("<!-- -->", "");
        prop_assert_eq!(tags(&markdown(&plain).replace("<!-- -->", "")), tags(&told));
        prop_assert_eq!(markdown(&plain).lines().count(), told.lines().count());
    }
}
