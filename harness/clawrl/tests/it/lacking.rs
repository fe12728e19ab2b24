//! Machines that lack requirements, simulated with bubblewrap on this one.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::place::Place;

#[test]
fn without_bubblewrap_nothing_starts_and_the_advice_says_how_to_get_it() {
    let place = Place::new();
    let worse = ["--bind", "/dev/null", "/usr/bin/bwrap"];
    let said = place.worse(&worse, &["run", "small"]).ends(6);
    insta::assert_snapshot!(said.err);
    assert!(!place.results().exists());
    let doctor = place.worse(&worse, &["doctor", "--json"]).ends(6).json();
    let found = doctor.as_array().unwrap().iter().find(|finding| finding["name"] == "bubblewrap").unwrap();
    assert_eq!(found["health"], "missing");
    assert!(found["advice"].as_str().unwrap().contains("apt-get install bubblewrap"));
}

#[test]
fn an_old_bubblewrap_is_refused_by_its_version() {
    let place = Place::new();
    let program = place.path().join("bwrap");
    fs::write(&program, "#!/bin/sh\necho bubblewrap 0.4.1\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", place.path().display());
    let output = place.command(&["run", "small"]).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    insta::assert_snapshot!(place.settled(&String::from_utf8_lossy(&output.stderr)));
}

#[test]
fn where_user_namespaces_are_forbidden_the_advice_says_how_to_allow_them() {
    let place = Place::of_normal_user();
    let worse = ["--unshare-user", "--disable-userns"];
    let said = place.worse(&worse, &["run", "small"]).ends(6);
    assert!(said.err.contains("(namespaces-forbidden)") && said.err.contains("help:"), "{}", said.err);
    assert!(!place.results().exists());
}

#[test]
fn a_read_only_results_folder_is_told_before_anything_runs() {
    let place = Place::new();
    fs::create_dir(place.results()).unwrap();
    let results = place.results();
    let results = results.to_str().unwrap();
    let said = place.worse(&["--ro-bind", results, results], &["run", "small"]).ends(7);
    insta::assert_snapshot!(place.settled(&said.err), @"
    error: failed to write [folder]/results/runs (Read-only file system (os error 30))
      help: make the results folder writable, or choose another with --results
    ");
    let doctor = place.worse(&["--ro-bind", results, results], &["doctor"]).ends(6);
    assert!(doctor.out.contains("MISSING  results"), "{}", doctor.out);
}

#[test]
fn a_disk_that_fills_up_ends_the_run_and_loses_nothing() {
    let place = Place::new();
    // A limit on file sizes simulates a full disk; the resume runs without it.
    let script = format!(
        "ulimit -f 160; exec {} run small --name full --group-size 40 --quiet",
        place.program().display()
    );
    let output =
        std::process::Command::new("bash").args(["-c", &script]).current_dir(place.path()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{err}");
    assert!(err.contains("no space left") && err.contains("clawrl run --resume full"), "{err}");
    let recorded = place.run("full").summary().total;
    assert!(recorded.closed > 0 && recorded.open > 0, "{recorded:?}");
    let said = place.clawrl(&["run", "--resume", "full", "--quiet", "--json"]).ends(0).json();
    assert_eq!(said["summary"]["total"]["passed"], 480);
}

#[test]
fn the_doctor_looks_at_everything() {
    let place = Place::new();
    let said = place.clawrl(&["doctor", "--json"]).ends(0).json();
    let names: Vec<&str> =
        said.as_array().unwrap().iter().map(|finding| finding["name"].as_str().unwrap()).collect();
    insta::assert_snapshot!(names.join(" "));
    for finding in said.as_array().unwrap() {
        let fine = finding["health"] == "ok";
        assert_eq!(fine, finding.get("advice").is_none(), "{finding}");
    }
    assert!(place.clawrl(&["doctor"]).ends(0).out.contains("namespaces"));
    assert!(!place.results().exists(), "a look leaves nothing");
}

/// A suite with one task that needs a browser.
const BROWSED: &str = "
format: 1
suite: browsed
tasks:
  - id: look
    instruction: Look.
    env: { gui: { sites: { app: { files: { index.html: Here } } } } }
    checks: [ { page_url: http://app.localhost/ } ]
";

/// Output of a run and of the doctor if only these browser programs exist, given by name and reported version.
fn of_browsers(programs: &[(&str, &str)]) -> String {
    let place = Place::new();
    place.suite("browsed", BROWSED);
    let bin = place.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink("/usr/bin/bwrap", bin.join("bwrap")).unwrap();
    for (name, version) in programs {
        let program = bin.join(name);
        fs::write(&program, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Browsers are searched in these folders regardless of PATH.
    let folders = ["/usr/lib/chromium", "/usr/lib64/chromium-browser", "/opt/google/chrome"];
    let hidden =
        folders.iter().filter(|folder| Path::new(folder).is_dir()).flat_map(|folder| ["--tmpfs", folder]);
    let worse: Vec<&str> = ["--setenv", "PATH", bin.to_str().unwrap()].into_iter().chain(hidden).collect();
    let run = place.worse(&worse, &["run", "browsed", "--policy", "noop"]).ends(6);
    assert!(!place.results().exists());
    // Other tasks run without browsers, so a missing one is not an error for the doctor.
    let doctor = place.worse(&worse, &["doctor", "--json"]).json();
    let found = doctor.as_array().unwrap().iter().find(|finding| finding["name"] == "browser").unwrap();
    let (health, says) = (found["health"].as_str().unwrap(), found["found"].as_str().unwrap());
    place.settled(&format!("{}doctor, {health}: {says}\n  {}\n", run.err, found["advice"].as_str().unwrap()))
}

#[test]
fn a_browser_without_its_driver_is_told_before_anything_runs() {
    let (driver, browser) =
        (("chromedriver", "ChromeDriver 99.0.1 (abc)"), ("chromium", "Chromium 100.0.2 built on Debian"));
    let machines = [
        ("neither", vec![]),
        ("no driver", vec![browser]),
        ("no browser", vec![driver]),
        ("versions that differ", vec![driver, browser]),
        ("a driver that says nothing", vec![("chromedriver", ""), browser]),
    ];
    let mut text = String::new();
    for (name, programs) in machines {
        write!(text, "# {name}\n{}\n", of_browsers(&programs)).unwrap();
    }
    insta::assert_snapshot!(text);
}

/// A suite with one task that needs a container.
const BOXED: &str = r#"
format: 1
suite: boxed
tasks:
  - id: write
    instruction: Write a word into out.txt.
    env: { terminal: { sandbox: container, image: "debian:12" } }
    checks: [ { file_equals: { path: out.txt, expected: "word\n" } } ]
    oracle: { commands: ["echo word > out.txt"] }
"#;

#[test]
fn a_budget_for_images_is_a_size_and_has_a_folder_for_its_list() {
    let place = Place::new();
    place.suite("boxed", BOXED);
    let check = |budget: &str, home: &str, code: i32, part: &str| {
        let mut command = place.command(&["run", "boxed"]);
        command.env("CLAWRL_IMAGE_BUDGET_GIB", budget).env("XDG_CACHE_HOME", "").env("HOME", home);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{said}");
        assert!(!place.results().exists());
    };
    check("much", "/nowhere", 2, "`much`, which is no size");
    check("10", "", 6, "XDG_CACHE_HOME");
}

#[test]
fn without_an_engine_no_container_starts() {
    let check = |place: &Place, socket: &str, part: &str| {
        place.suite("boxed", BOXED);
        let output = place.command(&["run", "boxed"]).env("DOCKER_HOST", socket).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(said.contains(part), "{said}");
        assert!(!place.results().exists());
    };
    let (place, of_user) = (Place::new(), Place::of_normal_user());
    check(&place, "tcp://10.0.0.1:2375", "engine-without-tls");
    check(&place, "ssh://somewhere", "engine-address");
    check(&place, ",", "engine-missing");
    check(&of_user, "unix:///run/nowhere.sock", "engine-missing");
    if rustix::process::geteuid().is_root() {
        check(&place, "unix:///run/nowhere.sock", "engine-missing");
        check(&place, "unix:///run/nowhere.sock,unix:///run/nowhere-either.sock", "/run/nowhere.sock");
    }
}
