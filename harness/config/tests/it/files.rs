//! Reading suites and fixtures from disk.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use clawrl_config::{load_suite, load_suites, resolve_plan};
use clawrl_core::{EnvSpec, FixtureContent, FixtureFile, LINK_MODE, hex};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::diagnostics::{failure, rendered};
use crate::plans::options;

const SUITE: &str = "format: 1
suite: files
tasks:
  - id: one
    instruction: Do it.
    env: { terminal: { files: fixtures } }
    checks: [{ file_absent: { path: a } }]
";

struct Folder(TempDir);

impl Folder {
    fn new(suite: &str) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.write("suite.yaml", suite.as_bytes());
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(&path, bytes).expect("a file");
        path
    }

    /// The problems of loading it, without the folder's name.
    fn refused(&self) -> String {
        self.shown(&rendered(&failure(self.path())))
    }

    fn shown(&self, text: &str) -> String {
        text.replace(self.path().to_str().expect("a UTF-8 path"), "FOLDER")
    }

    fn files(&self) -> Vec<FixtureFile> {
        let suite = load_suite(self.path()).expect("a good suite");
        let plan = resolve_plan(&[suite], &options()).expect("a plan");
        let EnvSpec::Terminal(terminal) = &plan.tasks[0].env else { panic!("a terminal") };
        terminal.files.clone()
    }
}

#[test]
fn folders_are_laid_out_by_path_with_modes_and_hashes() {
    let folder = Folder::new(SUITE);
    let run = folder.write("fixtures/b/run.sh", b"#!/bin/sh\n");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o751)).expect("a mode");
    let text = folder.write("fixtures/a.txt", "{{ verbatim }} é\n".as_bytes());
    fs::set_permissions(&text, fs::Permissions::from_mode(0o600)).expect("a mode");
    let binary = folder.write("fixtures/b.bin", b"\xff\0");
    let large = folder.write("fixtures/large.txt", &vec![b'x'; 64 * 1024 + 1]);
    folder.write("fixtures/limit.txt", &vec![b'x'; 64 * 1024]);
    let files = folder.files();
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["a.txt", "b.bin", "b/run.sh", "large.txt", "limit.txt"]);
    assert_eq!((files[0].mode, files[2].mode), (0o600, 0o751));
    assert_eq!(files[0].content, FixtureContent::Inline("{{ verbatim }} é\n".to_owned()));
    for (file, path) in [(&files[1], binary), (&files[3], large)] {
        let FixtureContent::Host { path: host, sha256 } = &file.content else { panic!("on the host") };
        assert_eq!(host, &fs::canonicalize(&path).expect("a path"));
        assert_eq!(sha256, &hex(&Sha256::digest(fs::read(&path).expect("bytes"))));
    }
    assert!(matches!(files[4].content, FixtureContent::Inline(_)));
}

/// The hash is that of the output of `sha256sum` for all files in order of path.
#[test]
fn the_hash_covers_every_file_that_is_used() {
    let suite = SUITE.replace("tasks:", "vars: { words: { lines: words.txt } }\ntasks:");
    let folder = Folder::new(&suite);
    folder.write("fixtures/a.txt", b"a\n");
    folder.write("words.txt", b"one\ntwo\n");
    let hash = || load_suite(folder.path()).expect("a good suite").sha256().to_owned();
    let mut listing = String::new();
    for path in ["fixtures/a.txt", "suite.yaml", "words.txt"] {
        let bytes = fs::read(folder.path().join(path)).expect("bytes");
        writeln!(listing, "{}  {path}", hex(&Sha256::digest(bytes))).expect("writing to a string");
    }
    let before = hash();
    assert_eq!(before, hex(&Sha256::digest(listing)));
    folder.write("unused.txt", b"unused\n");
    assert_eq!(hash(), before);
    folder.write("words.txt", b"one\ntwo\nthree\n");
    let after_list = hash();
    assert_ne!(after_list, before);
    folder.write("fixtures/a.txt", b"b\n");
    assert_ne!(hash(), after_list);
}

#[test]
fn links_and_special_files_are_refused() {
    let mut text = String::new();
    let mut case = |what: &str, prepare: &dyn Fn(&Folder)| {
        let folder = Folder::new(SUITE);
        prepare(&folder);
        write!(text, "# {what}\n{}\n", folder.refused()).expect("writing to a string");
    };
    case("a link in the folder", &|folder| {
        folder.write("fixtures/a.txt", b"a");
        symlink("/etc/passwd", folder.path().join("fixtures/link")).expect("a link");
    });
    case("the folder is a link", &|folder| {
        symlink("/etc", folder.path().join("fixtures")).expect("a link");
    });
    case("a socket", &|folder| {
        folder.write("fixtures/a.txt", b"a");
        std::os::unix::net::UnixListener::bind(folder.path().join("fixtures/socket")).expect("a socket");
    });
    case("an empty folder", &|folder| {
        fs::create_dir_all(folder.path().join("fixtures/empty")).expect("folders");
    });
    insta::assert_snapshot!("refused_fixtures", text);
}

/// Repositories contain symbolic links, including dangling ones.
#[test]
fn links_that_stay_in_their_folder_are_laid_as_links() {
    let folder = Folder::new(SUITE);
    folder.write("fixtures/docs/guide.md", b"guide");
    let links =
        [("docs/self", "guide.md"), ("latest", "docs"), ("nowhere", "docs/../moon"), ("up", "docs/..")];
    for (link, target) in links {
        symlink(target, folder.path().join("fixtures").join(link)).expect("a link");
    }
    let hash = || load_suite(folder.path()).expect("a good suite").sha256().to_owned();
    let before = hash();
    let files = folder.files();
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["docs/guide.md", "docs/self", "latest", "nowhere", "up"]);
    for (link, target) in links {
        let file = files.iter().find(|file| file.path == link).expect("the link");
        assert_eq!((file.mode, &file.content), (LINK_MODE, &FixtureContent::Inline(target.to_owned())));
    }
    fs::remove_file(folder.path().join("fixtures/latest")).expect("gone");
    symlink("docs/guide.md", folder.path().join("fixtures/latest")).expect("a link");
    assert_ne!(hash(), before, "where a link leads is part of the suite");
    for out in ["..", "docs/../../x", "/etc/passwd", "docs/guide.md/../../../x"] {
        fs::remove_file(folder.path().join("fixtures/latest")).expect("gone");
        symlink(out, folder.path().join("fixtures/latest")).expect("a link");
        assert!(folder.refused().contains("`fixtures/latest` is a symbolic link that leads out"), "{out}");
    }
}

/// Files with the line ends of Windows.
#[test]
fn lists_may_begin_with_a_byte_order_mark() {
    let suite = SUITE.replace("tasks:", "vars: { words: { lines: words.txt } }\ntasks:").replace(
        "    instruction: Do it.",
        "    template: { word: { from: words } }\n    instruction: Write {{ word }}.",
    );
    let folder = Folder::new(&suite);
    folder.write("fixtures/a.txt", b"a");
    folder.write("words.txt", "\u{feff}one\r\ntwo\r\n".as_bytes());
    let plan = resolve_plan(&[load_suite(folder.path()).expect("a good suite")], &options()).expect("a plan");
    let mut said: Vec<&str> = plan.tasks.iter().map(|task| task.instruction.as_str()).collect();
    said.sort_unstable();
    assert_eq!(said, ["Write one.", "Write two."]);
}

#[test]
fn suites_that_cannot_be_read_are_explained() {
    let mut text = String::new();
    let folder = Folder::new(SUITE);
    let mut case = |what: &str, path: PathBuf| {
        let shown = folder.shown(&rendered(&failure(&path)));
        write!(text, "# {what}\n{shown}\n").expect("writing to a string");
    };
    case("a name with a slip", folder.path().join("suit.yaml"));
    case("nothing there", folder.path().join("elsewhere/entirely"));
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    case("an empty folder", folder.path().join("empty"));
    folder.write("other/tasks.yaml", b"");
    folder.write("other/more.yml", b"");
    case("a folder with another file", folder.path().join("other"));
    let large = folder.write("large.yaml", &vec![b'#'; (32 << 20) + 1]);
    case("too large", large);
    case("below a file", folder.path().join("suite.yaml/suite.yaml"));
    case("a device", PathBuf::from("/dev/null"));
    insta::assert_snapshot!("unreadable_suites", text);
}

#[test]
fn names_of_suites_must_differ() {
    let minimal = PathBuf::from("tests/it/good/minimal");
    let copy = Folder::new(&fs::read_to_string("tests/it/good/minimal/suite.yaml").expect("a suite"));
    let broken = PathBuf::from("tests/it/broken/weight-zero.yaml");
    let paths = [minimal.clone(), copy.path().to_owned(), minimal.clone(), broken];
    let error = load_suites(&paths).expect_err("three mistakes");
    insta::assert_snapshot!("suites_of_one_name", copy.shown(&rendered(&error)));
    assert_eq!(load_suites(&[minimal]).expect("one good suite").len(), 1);
}

#[test]
fn open_doors_and_repetitions_warn() {
    let suite = "format: 1
suite: warned
tasks:
  - id: one
    template: { word: [a, b] }
    instances: 5
    instruction: Do {{ word }}.
    env:
      terminal:
        sandbox: none
        network: host
    checks: [{ file_absent: { path: a } }]
";
    let folder = Folder::new(suite);
    let suite = load_suite(folder.path()).expect("warnings only");
    let text: String = suite.warnings().iter().map(|warning| folder.shown(&rendered(warning))).collect();
    insta::assert_snapshot!("warnings", text);
    assert!(suite.warnings().iter().all(|warning| warning.report().severity == "warning"));
}

/// A plan uses the files that the suite's hash covers, even if they changed later.
#[test]
fn plan_has_files_as_they_were_loaded() {
    let suite = "format: 1
suite: files
tasks:
  - id: terminal
    instruction: Do it.
    env:
      terminal:
        files: { a: { host: fixtures/a } }
        verifier: { files: tests, apart: {} }
  - id: swe
    instruction: Mend it.
    env:
      swe:
        files: repo
        test: python3 -m unittest -v
        parser: unittest
        test_patch: p.diff
        fail_to_pass: { from: names.json }
    oracle: { patch: p.diff }
  - id: gui
    instruction: Look.
    env: { gui: { sites: { app: { folder: site } } } }
    checks: [page_url: http://app.localhost/]
";
    let folder = Folder::new(suite);
    for path in ["fixtures/a", "tests/test.sh", "repo/x.py", "p.diff", "site/index.html"] {
        folder.write(path, path.as_bytes());
    }
    folder.write("names.json", b"[\"test_a\"]");
    let suites = [load_suite(folder.path()).expect("a good suite")];
    let plan = resolve_plan(&suites, &options()).expect("a plan");
    fs::remove_dir_all(folder.path()).expect("an empty place");
    assert_eq!(resolve_plan(&suites, &options()).expect("the same plan"), plan);
}
