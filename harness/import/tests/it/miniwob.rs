//! Imports pages of MiniWoB++ from a small package of the same form.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use clawrl_core::{EnvSpec, Script, Solver};
use clawrl_import::{MiniwobOptions, MiniwobSource, import_miniwob};

use crate::examples::plan_of;
use crate::place::{Place, rendered};

/// A package of two pages, unpacked at `wheel`.
fn package(place: &Place) {
    let page = |loads: &str| format!("<script src=\"../core/core.js\"></script>{loads}<div id=query></div>");
    let files = [
        ("html/miniwob/click-test.html", page("")),
        ("html/miniwob/count-sides.html", page("<img src='../common/special/count/' + name>")),
        ("html/core/core.js", "var core = {}; // core.css".to_owned()),
        ("html/core/core.css", "body { margin: 0 }".to_owned()),
        ("html/core/unused.js", String::new()),
        ("html/common/special/count/3.png", "three".to_owned()),
        ("html/flight/AA/index.html", "a flight".to_owned()),
        ("environment.py", "raise SystemExit".to_owned()),
    ];
    for (path, text) in files {
        place.write(&format!("wheel/miniwob/{path}"), &text);
    }
    place.write("wheel/miniwob-1.1.0.dist-info/licenses/LICENSE", "The MIT License\n");
}

fn options(place: &Place, from: &str) -> MiniwobOptions {
    MiniwobOptions {
        source: MiniwobSource::Path(place.path(from)),
        families: Vec::new(),
        episodes: 3,
        solved: BTreeSet::from(["click-test".to_owned()]),
        output: place.path("suite"),
        python: PathBuf::from("python3"),
        force: true,
        max_turns: 40,
    }
}

fn read(place: &Place, path: &str) -> String {
    fs::read_to_string(place.path("suite").join(path)).unwrap()
}

#[test]
fn pages_become_tasks_with_episodes() {
    let place = Place::new();
    package(&place);
    let imported =
        import_miniwob(&options(&place, "wheel")).unwrap_or_else(|error| panic!("{}", rendered(&error)));
    assert_eq!(imported.tasks, ["click-test", "count-sides"]);
    assert_eq!(imported.count, 6);
    let [(family, note)] = imported.notes.as_slice() else { panic!("one note: {:?}", imported.notes) };
    assert!(family == "count-sides" && note.contains("picture"), "{note}");
    insta::with_settings!({ snapshot_path => "suites", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("miniwob", read(&place, "suite.yaml"));
    });
    let plan = plan_of(&imported.suite);
    let prepared: BTreeSet<String> = plan
        .tasks
        .iter()
        .map(|task| match &task.env {
            EnvSpec::Gui(gui) => gui.prepare.concat(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(prepared.len(), 6, "every instance has an episode of its own: {prepared:?}");
    assert_eq!(plan.tasks[0].oracle, Some(Script::Solver(Solver::Miniwob)));
    assert_eq!(plan.tasks[3].oracle, None);
}

#[test]
fn site_holds_needed_files_and_licence() {
    let place = Place::new();
    package(&place);
    let chosen = |families: &[&str]| {
        let families = families.iter().map(|&name| name.to_owned()).collect();
        import_miniwob(&MiniwobOptions { families, ..options(&place, "wheel") }).unwrap();
        let there = [
            "core/core.js",
            "core/core.css",
            "core/unused.js",
            "common/special/count/3.png",
            "flight/AA/index.html",
        ];
        there.map(|path| place.path("suite/fixtures/miniwob").join(path).is_file())
    };
    assert_eq!(chosen(&["click-test"]), [true, true, false, false, false]);
    assert_eq!(chosen(&[]), [true, true, false, true, false]);
    assert_eq!(read(&place, "fixtures/LICENSE"), "The MIT License\n");
}

#[test]
fn wheel_and_folder_give_the_same_suite() {
    let place = Place::new();
    package(&place);
    import_miniwob(&options(&place, "wheel/miniwob/html")).unwrap();
    let suite = read(&place, "suite.yaml");
    let packed = Command::new("python3")
        .args([
            "-m",
            "zipfile",
            "-c",
            "../miniwob-1.1.0-py3-none-any.whl",
            "miniwob",
            "miniwob-1.1.0.dist-info",
        ])
        .current_dir(place.path("wheel"))
        .status()
        .unwrap();
    assert!(packed.success());
    import_miniwob(&options(&place, "miniwob-1.1.0-py3-none-any.whl")).unwrap();
    assert_eq!(read(&place, "suite.yaml"), suite);
    assert_eq!(read(&place, "fixtures/LICENSE"), "The MIT License\n");
    let record = read(&place, "import.json");
    assert!(record.contains("\"archive\": \"miniwob-1.1.0-py3-none-any.whl\""), "{record}");
}

fn check_refused(place: &Place, options: &MiniwobOptions, said: &str) {
    let error = import_miniwob(options).expect_err("refused");
    let text = rendered(&error);
    assert!(text.contains(said), "{text}");
    assert!(!place.path("suite").exists());
}

#[test]
fn unknown_packages_and_pages_are_refused() {
    let place = Place::new();
    package(&place);
    place.write("empty/notes.txt", "");
    place.write("broken.whl", "no archive");
    check_refused(&place, &options(&place, "empty"), "there is no page of MiniWoB++");
    check_refused(&place, &options(&place, "broken.whl"), "the archive cannot be read");
    check_refused(&place, &options(&place, "none.whl"), "is not available");
    let families = vec!["click".to_owned(), "count-sides".to_owned()];
    let unknown = MiniwobOptions { families, ..options(&place, "wheel") };
    check_refused(&place, &unknown, "there is no page `click`");
    check_refused(&place, &unknown, "there is click-test");
}
