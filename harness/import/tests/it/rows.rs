//! Imports rows of JSONL files, BFCL and Reasoning Gym: suites and refusals.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use clawrl_config::{ConfigError, load_suite};
use clawrl_import::{
    BfclOptions, Imported, JsonlOptions, ReasoningGymDataset, ReasoningGymOptions, RowChoice, import_bfcl,
    import_jsonl, import_reasoning_gym, list_reasoning_gym,
};

use crate::place::{Place, rendered};

fn jsonl(place: &Place, files: &[&str]) -> JsonlOptions {
    JsonlOptions {
        files: files.iter().map(|file| place.path(file)).collect(),
        output: place.path("suite"),
        question_key: None,
        answer_key: None,
        id_key: None,
        choice: RowChoice::All,
        tolerance: None,
        skip_unrepresentable: false,
        force: false,
        max_turns: 8,
    }
}

fn bfcl(place: &Place, categories: &[&str]) -> BfclOptions {
    BfclOptions {
        data: place.path("bfcl"),
        categories: categories.iter().map(|category| (*category).to_owned()).collect(),
        output: place.path("suite"),
        choice: RowChoice::All,
        skip_unrepresentable: false,
        force: false,
        max_turns: 4,
    }
}

/// The suite with its rows and its import record.
fn check_suite(name: &str, place: &Place, imported: Result<Imported, ConfigError>) {
    let imported = imported.unwrap_or_else(|error| panic!("{}", rendered(&error)));
    let suite = load_suite(&imported.suite).unwrap_or_else(|error| panic!("{}", rendered(&error)));
    let instances: usize = suite.families().iter().map(|family| family.instances).sum();
    assert_eq!(instances, imported.count);
    assert!(suite.families().iter().all(|family| family.has_oracle));
    let mut text = fs::read_to_string(&imported.suite).unwrap();
    for id in &imported.tasks {
        if let Ok(rows) = fs::read_to_string(place.path(&format!("suite/rows/{id}.jsonl"))) {
            text += &format!("--- rows/{id}.jsonl\n{rows}");
        }
    }
    text += &format!("--- import.json\n{}", fs::read_to_string(place.path("suite/import.json")).unwrap());
    text += &format!("--- notes\n{:#?}\n", imported.notes);
    insta::with_settings!({ snapshot_path => "suites", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name.to_owned(), place.shown(&text));
    });
}

fn check_refusal(name: &str, place: &Place, imported: Result<Imported, ConfigError>) {
    let error = match imported {
        Ok(_) => panic!("{name} should be refused"),
        Err(error) => error,
    };
    assert!(!place.path("suite").exists(), "something was written");
    for problem in error.problems() {
        assert!(!problem.help_text().is_empty(), "{problem} has no help");
    }
    insta::with_settings!({ snapshot_path => "refusals", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name.to_owned(), place.shown(&rendered(&error)));
    });
}

#[test]
fn questions_become_a_suite() {
    let place = Place::new();
    place.copy("jsonl", ".");
    check_suite("jsonl-plain", &place, import_jsonl(&jsonl(&place, &["plain.jsonl"])));
}

#[test]
fn unrepresentable_rows_are_skipped_on_request() {
    let place = Place::new();
    place.copy("jsonl", ".");
    let options = JsonlOptions { skip_unrepresentable: true, ..jsonl(&place, &["chat.jsonl"]) };
    check_suite("jsonl-chat", &place, import_jsonl(&options));
}

#[test]
fn rows_are_refused_at_their_place() {
    let check = |name: &str, text: &str, change: fn(&mut JsonlOptions)| {
        let place = Place::new();
        place.write("rows.jsonl", text);
        let mut options = jsonl(&place, &["rows.jsonl"]);
        change(&mut options);
        check_refusal(&format!("jsonl-{name}"), &place, import_jsonl(&options));
    };
    check("ambiguous", "{\"question\": \"q\", \"problem\": \"p\", \"answer\": \"1\"}\n", |_| {});
    check("no-answer", "{\"question\": \"q\", \"reply\": \"1\"}\n", |_| {});
    check("other-key", "{\"question\": \"q\", \"answer\": \"1\"}\n", |options| {
        options.answer_key = Some("gold".to_owned())
    });
    check(
        "formula",
        "{\"question\": \"q\", \"answer\": \"1\"}\n{\"question\": \"r\", \"answer\": \"x^2\"}\n",
        |_| {},
    );
    check(
        "twice",
        "{\"id\": 1, \"question\": \"q\", \"answer\": \"1\"}\n{\"id\": 1, \"question\": \"r\", \"answer\": \"2\"}\n",
        |_| {},
    );
    check("no-json", "{\"question\": \"q\", \"answer\": \"1\"}\n{\"question\": \n", |_| {});
    check("list", "[{\"question\": \"q\", \"answer\": \"1\"}]\n", |_| {});
    check("empty", "\n", |_| {});
    let formulas = "{\"question\": \"q\", \"answer\": \"x^2\"}\n".repeat(30);
    let place = Place::new();
    place.write("rows.jsonl", &formulas);
    let error = import_jsonl(&jsonl(&place, &["rows.jsonl"])).unwrap_err();
    assert_eq!(error.problems().len(), 13);
    assert!(error.problems().iter().any(|problem| problem.message() == "18 more rows cannot be imported"));
}

/// Windows writes a byte order mark; Python writes numbers and characters that JSON does not allow.
#[test]
fn rows_of_other_programs_are_imported() {
    let rows = [
        "\u{feff}{\"question\": \"q\", \"answer\": \"1\", \"score\": NaN}\r\n",
        "\u{feff}{\"question\": \"r\", \"answer\": 2, \"note\": \"\\ud83d\", \"far\": [-Infinity, 1e999]}\r\n",
    ];
    let place = Place::new();
    place.write("rows.jsonl", &rows.concat());
    let imported = import_jsonl(&jsonl(&place, &["rows.jsonl"]));
    assert_eq!(imported.unwrap_or_else(|error| panic!("{}", rendered(&error))).count, 2);
    // NaN is not an answer.
    place.write(
        "rows.jsonl",
        "{\"question\": \"q\", \"answer\": NaN}\n{\"question\": \"r\", \"answer\": 1}\n",
    );
    let named =
        JsonlOptions { force: true, answer_key: Some("answer".to_owned()), ..jsonl(&place, &["rows.jsonl"]) };
    let error = import_jsonl(&named).unwrap_err();
    assert_eq!(error.problems()[0].message(), "the row has no `answer`");
}

#[test]
fn unreadable_rows_are_skipped_on_request() {
    let place = Place::new();
    let good = "{\"question\": \"q\", \"answer\": \"1\"}\n";
    place.write("rows.jsonl", &format!("{{\"question\": 'q'}}\n{good}[1]\n{good}{{\"question\": \"cut o"));
    let error = import_jsonl(&jsonl(&place, &["rows.jsonl"])).unwrap_err();
    assert_eq!(error.problems().len(), 3, "{}", rendered(&error));
    let options = JsonlOptions { skip_unrepresentable: true, ..jsonl(&place, &["rows.jsonl"]) };
    let imported = import_jsonl(&options).unwrap_or_else(|error| panic!("{}", rendered(&error)));
    assert_eq!((imported.count, imported.notes.len()), (2, 3), "{:?}", imported.notes);
    let record = fs::read_to_string(place.path("suite/import.json")).unwrap();
    assert!(record.contains("\"line\": 5") && record.contains("this row is not JSON"), "{record}");
    // A file without a readable row cannot skip rows.
    place.write("rows.jsonl", "{'question': 'q'}\n");
    assert!(import_jsonl(&JsonlOptions { force: true, ..options }).is_err());
}

#[test]
fn huge_row_is_reported_by_place_only() {
    let place = Place::new();
    let row = |answer: &str, note: usize| {
        format!("{{\"question\": \"q\", \"note\": \"{}\", \"answer\": \"{answer}\"}}\n", "x".repeat(note))
    };
    place.write("rows.jsonl", &(row("1", 2 << 20) + &row("x^2", 9) + &row("y^2", 2 << 20)));
    let error = import_jsonl(&jsonl(&place, &["rows.jsonl"])).unwrap_err();
    let text = place.shown(&rendered(&error));
    assert!(
        text.len() < 2_000 && text.contains("`PLACE/rows.jsonl:2:"),
        "{}",
        &text[..text.len().min(4_000)]
    );
    assert!(text.contains("`PLACE/rows.jsonl:3:"), "{text}");
}

#[test]
fn rows_are_chosen() {
    let place = Place::new();
    let rows: String = (0..50).map(|n| format!("{{\"question\": \"q{n}\", \"answer\": {n}}}\n")).collect();
    place.write("rows.jsonl", &rows);
    let options =
        JsonlOptions { choice: RowChoice::Some { count: 7, seed: 1 }, ..jsonl(&place, &["rows.jsonl"]) };
    assert_eq!(import_jsonl(&options).unwrap().count, 7);
}

#[test]
fn bfcl_rows_become_a_suite() {
    let place = Place::new();
    place.copy("bfcl", "bfcl");
    check_suite("bfcl", &place, import_bfcl(&bfcl(&place, &["parallel", "irrelevance"])));
}

#[test]
fn bad_bfcl_categories_and_rows_are_refused() {
    let place = Place::new();
    place.copy("bfcl", "bfcl");
    check_refusal(
        "bfcl-categories",
        &place,
        import_bfcl(&bfcl(&place, &["multi_turn_base", "simple_java", "multiple", "simple"])),
    );
    check_refusal("bfcl-no-category", &place, import_bfcl(&bfcl(&place, &[])));
    place.replace("bfcl/possible_answer/BFCL_v4_parallel.json", "hotel.book", "hotel.cancel");
    check_refusal("bfcl-other-function", &place, import_bfcl(&bfcl(&place, &["parallel"])));
    place.replace("bfcl/BFCL_v4_parallel.json", "\"type\": \"float\"", "\"type\": \"HashMap\"");
    check_refusal("bfcl-type", &place, import_bfcl(&bfcl(&place, &["parallel"])));
    let answers = fs::read_to_string(place.path("bfcl/possible_answer/BFCL_v4_parallel.json")).unwrap();
    place.write("bfcl/possible_answer/BFCL_v4_parallel.json", &(answers + "{\"id\": \n"));
    let options = BfclOptions { skip_unrepresentable: true, ..bfcl(&place, &["parallel"]) };
    let error = import_bfcl(&options).unwrap_err();
    assert!(error.problems()[0].message().starts_with("this row is not JSON"), "{}", rendered(&error));
}

/// Replaces a Python with the library, which tests must not need: prints what our program would.
fn library(place: &Place) -> ReasoningGymOptions {
    let lines = [
        "{\"version\": \"0\", \"known\": {\"gcd\": false, \"chain_sum\": true, \"sudoku\": true}}",
        "{\"dataset\": \"gcd\", \"question\": \"Divisor of 4 and 6?\", \"answer\": \"2\", \"score\": 1.0}",
        "{\"dataset\": \"chain_sum\", \"question\": \"1 + 2\", \"answer\": \"3\", \"score\": 1.0}",
    ];
    place.write("python", &format!("#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{}\nEND\n", lines.join("\n")));
    fs::set_permissions(place.path("python"), fs::Permissions::from_mode(0o755)).unwrap();
    ReasoningGymOptions {
        datasets: ["gcd", "chain_sum:min_terms=2"]
            .map(|text| ReasoningGymDataset::parse(text).unwrap())
            .into(),
        size: 1,
        seed: 3,
        python: place.path("python"),
        output: place.path("suite"),
        force: false,
        max_turns: 8,
    }
}

#[test]
fn reasoning_gym_sets_become_a_suite() {
    let place = Place::new();
    let options = library(&place);
    check_suite("reasoning-gym", &place, import_reasoning_gym(&options));
    let listed = list_reasoning_gym(&options.python).unwrap();
    let listed: Vec<_> = listed.iter().map(|set| (set.name.as_str(), set.imported)).collect();
    assert_eq!(listed, [("chain_sum", true), ("gcd", true), ("sudoku", false)]);
}

#[test]
fn bad_reasoning_gym_sets_are_refused() {
    let place = Place::new();
    let mut options = library(&place);
    options.datasets =
        ["sudoku", "gdc", "gcd", "gcd"].map(|text| ReasoningGymDataset::parse(text).unwrap()).into();
    check_refusal("reasoning-gym-sets", &place, import_reasoning_gym(&options));
    options.python = place.path("none");
    check_refusal("reasoning-gym-no-python", &place, import_reasoning_gym(&options));
    assert!(ReasoningGymDataset::parse("gcd:3").is_err());
}
