//! Files that an import writes, and files that it refuses to overwrite.

use std::fs;

use clawrl_core::hex;
use clawrl_import::{ImportSandbox, RootfsChoice};
use sha2::{Digest, Sha256};

use crate::place::{Format, Place, rendered};

fn place_with_copy() -> Place {
    let place = Place::new();
    place.copy("harbor/copy", "copy");
    place
}

#[test]
fn suites_are_overwritten_only_by_force() {
    let place = place_with_copy();
    let mut options = place.options(&["copy"], ImportSandbox::Bubblewrap);
    Format::Harbor.import(&options).unwrap();
    place.write("suite/left", "");
    let error = Format::Harbor.import(&options).unwrap_err();
    insta::assert_snapshot!(place.shown(&rendered(&error)), @r"
      × there is already an imported suite at `PLACE/suite`
      help: choose another folder with `--output`, or replace it with `--force`
    ");
    options.force = true;
    Format::Harbor.import(&options).unwrap();
    assert!(!place.path("suite/left").exists(), "replaced as a whole");
    place.remove("suite/import.json");
    let error = Format::Harbor.import(&options).unwrap_err();
    assert!(error.to_string().ends_with("exists, but is not an imported suite"), "{error}");
}

#[test]
fn failed_replacement_keeps_the_old_suite() {
    let place = place_with_copy();
    let mut options = place.options(&["copy"], ImportSandbox::Bubblewrap);
    Format::Harbor.import(&options).unwrap();
    let before = fs::read_to_string(place.path("suite/suite.yaml")).unwrap();
    options.force = true;
    place.remove("copy/tests");
    Format::Harbor.import(&options).unwrap_err();
    assert_eq!(fs::read_to_string(place.path("suite/suite.yaml")).unwrap(), before);
}

#[test]
fn tasks_are_chosen_by_name() {
    let place = Place::new();
    place.copy("harbor", "tasks");
    let mut options = place.options(&["tasks"], ImportSandbox::Container);
    options.tasks = vec!["separate".to_owned()];
    assert_eq!(Format::Harbor.import(&options).unwrap().tasks, ["separate"]);
    options.output = place.path("other");
    options.tasks = vec!["moon".to_owned()];
    let error = Format::Harbor.import(&options).unwrap_err();
    assert_eq!(error.to_string(), "there is no task `moon`");
}

#[test]
fn unnamed_rootfs_replaces_one_image() {
    let place = place_with_copy();
    place.copy("harbor/run", "run");
    let mut options = place.options(&["copy", "run"], ImportSandbox::Bubblewrap);
    options.rootfs = vec![RootfsChoice { image: None, folder: place.path("debian") }];
    Format::Harbor.import(&options).unwrap();
    options.output = place.path("other");
    place.replace("run/environment/Dockerfile", "debian:12", "debian:11");
    let error = Format::Harbor.import(&options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no root file system for the image `debian:11`, only for debian:12"
    );
}

/// The digest of the example, computed by `sha256sum` with Harbor's rule.
fn digest(place: &Place) -> String {
    let files = [
        "environment/Dockerfile",
        "environment/notes.txt",
        "instruction.md",
        "solution/solve.sh",
        "task.toml",
        "tests/test.sh",
    ];
    let line = |path: &str| {
        let bytes = fs::read(place.path(&format!("tasks/copy/{path}"))).unwrap();
        format!("{path}\0{}\n", hex(&Sha256::digest(bytes)))
    };
    hex(&Sha256::digest(files.map(line).concat()))
}

#[test]
fn datasets_name_tasks_by_digest() {
    let place = Place::new();
    place.copy("harbor/copy", "tasks/copy");
    let dataset = format!(
        "[dataset]\nname = \"org/set\"\n\n[[tasks]]\nname = \"org/copy\"\ndigest = \"sha256:{}\"\n",
        digest(&place)
    );
    place.write("dataset.toml", &dataset);
    let options = place.options(&["dataset.toml"], ImportSandbox::Container);
    assert_eq!(Format::Harbor.import(&options).unwrap().tasks, ["copy"]);
    place.write("tasks/copy/environment/notes.txt", "other\n");
    place.remove("suite");
    let text = place.refusal(Format::Harbor, "dataset.toml", ImportSandbox::Container);
    assert!(text.contains("not the dataset's"), "{text}");
}

#[test]
fn registries_name_tasks_by_path() {
    let place = Place::new();
    place.copy("harbor/copy", "sets/copy");
    let here = r#"[{"name": "set", "version": "1", "tasks": [{"name": "copy", "git_url": "https://example.org/x", "path": "sets/copy"}]}]"#;
    place.write("registry.json", here);
    let options = place.options(&["registry.json"], ImportSandbox::Container);
    assert_eq!(Format::Harbor.import(&options).unwrap().tasks, ["copy"]);
    place.remove("suite");
    place.write("registry.json", &here.replace("sets/copy", "elsewhere"));
    let text = place.refusal(Format::Harbor, "registry.json", ImportSandbox::Container);
    assert!(text.contains("is in the repository `https://example.org/x`"), "{text}");
}

/// The new file no longer exists when the user reads the message.
#[test]
fn invalid_suite_is_reported_without_its_path() {
    let place = place_with_copy();
    place.replace("copy/environment/Dockerfile", "WORKDIR /app", "WORKDIR /etc");
    let error = Format::Harbor.import(&place.options(&["copy"], ImportSandbox::Bubblewrap)).unwrap_err();
    let text = rendered(&error);
    assert!(text.contains("the imported suite would not be valid, at `workdir: /etc`"), "{text}");
    assert!(!text.contains(".import-"), "{text}");
    assert!(!place.path("suite").exists());
}
