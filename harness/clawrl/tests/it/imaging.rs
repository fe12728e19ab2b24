//! Suites with an unpacked image and a verifier.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use crate::place::Place;

const SUITE: &str = r#"
format: 1
suite: imaged
defaults:
  env:
    terminal:
      memory_mib: 64
      disk_mib: 4
      pids: 32
      idle_millis: 300
      image: { rootfs: rootfs, workdir: /app }
      verifier: { files: tests, timeout_secs: 20 }
tasks:
  - id: copy
    template: { name: [names, places] }
    instruction: Copy {{ name }} to copy.
    env: { terminal: { vars: { ASKED: "{{ name }}" } } }
    oracle: { commands: ["cat {{ name }} > copy"] }
    mistakes: [["touch copy"]]
"#;

/// A test folder with the suite, and an image elsewhere that sandbox users can read.
fn imaged(place: Place) -> (Place, TempDir) {
    let elsewhere = tempfile::tempdir().unwrap();
    let open = |path: &std::path::Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(elsewhere.path());
    let root = elsewhere.path().join("image");
    fs::create_dir(&root).unwrap();
    clawrl_testkit::unpack_image(&root, &[]).unwrap();
    fs::create_dir(root.join("app")).unwrap();
    open(&root.join("app"));
    fs::write(root.join("app/names"), "ada\ngrace\n").unwrap();
    fs::write(root.join("app/places"), "oslo\n").unwrap();
    place.suite("imaged", SUITE);
    let folder = place.path().join("tasks/imaged");
    symlink(&root, folder.join("rootfs")).unwrap();
    fs::create_dir(folder.join("tests")).unwrap();
    let test = "[ \"$(cat copy)\" = \"$(cat $ASKED)\" ] && [ -n \"$(cat copy)\" ]\n\
                echo $((1 - $?)) > /logs/verifier/reward.txt\n";
    fs::write(folder.join("tests/test.sh"), test).unwrap();
    (place, elsewhere)
}

#[test]
fn a_suite_with_an_image_and_a_verifier_is_valid() {
    for place in [Place::new(), Place::of_normal_user()] {
        let (place, _image) = imaged(place);
        let said = place.clawrl(&["validate", "imaged", "--mistakes", "--quiet"]).ends(0);
        assert!(
            said.out.contains("0 of 2 mistakes pass") && said.out.contains("2 of 2 tasks are valid"),
            "{}",
            said.out
        );
    }
}

#[test]
fn a_verifier_that_says_nothing_is_a_fault_with_its_last_words() {
    let (place, _image) = imaged(Place::new());
    fs::write(place.path().join("tasks/imaged/tests/test.sh"), "echo nothing to say; exit 3\n").unwrap();
    let said = place.clawrl(&["run", "imaged", "--policy", "oracle", "--name", "silent"]).ends(4);
    let told = format!("{}{}", said.out, said.err);
    assert!(told.contains("no-reward"), "{told}");
    let shown = place.clawrl(&["show", "silent", "--attempt", "s0.0"]);
    let shown = format!("{}{}", shown.out, shown.err);
    assert!(shown.contains("the verifier reported no score") && shown.contains("nothing to say"), "{shown}");
}
