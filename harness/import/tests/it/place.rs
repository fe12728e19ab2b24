//! A folder for one test: task folders, an unpacked image, and the messages about them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clawrl_config::ConfigError;
use clawrl_import::{
    ImportOptions, ImportSandbox, Imported, RootfsChoice, import_harbor, import_terminal_bench,
};
use miette::{GraphicalReportHandler, GraphicalTheme};

/// The folder of a test.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().expect("a folder") };
        // The programs that an import checks for; none is run here.
        for path in ["debian/etc/os-release", "debian/usr/bin/bash", "debian/usr/bin/sh"] {
            place.write(path, "");
        }
        place
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a file, and the folders above it.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
            .expect("something to remove");
    }

    /// Replaces a text in a file; fails if the file lacks it.
    pub(crate) fn replace(&self, path: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.path(path)).expect("a file");
        assert!(text.contains(old), "{path} has no {old:?}");
        self.write(path, &text.replace(old, new));
    }

    /// Copies a folder of the examples.
    pub(crate) fn copy(&self, example: &str, to: &str) {
        copy_folder(&Path::new("tests/examples").join(example), &self.path(to));
    }

    /// Options of an import of `paths` into `suite`, with fixed variables.
    pub(crate) fn options(&self, paths: &[&str], sandbox: ImportSandbox) -> ImportOptions {
        let rootfs = match sandbox {
            ImportSandbox::Container => Vec::new(),
            ImportSandbox::Bubblewrap => {
                vec![RootfsChoice { image: Some("debian:12".to_owned()), folder: self.path("debian") }]
            }
        };
        ImportOptions {
            paths: paths.iter().map(|path| self.path(path)).collect(),
            output: self.path("suite"),
            sandbox,
            rootfs,
            tasks: Vec::new(),
            force: false,
            max_turns: 100,
            environment: [("API_KEY".to_owned(), "hidden".to_owned())].into(),
        }
    }

    /// The text without the path of the test's folder.
    pub(crate) fn shown(&self, text: &str) -> String {
        let mut text = text.replace(&self.folder.path().display().to_string(), "PLACE");
        if let Ok(whole) = fs::canonicalize(self.folder.path()) {
            text = text.replace(&whole.display().to_string(), "PLACE");
        }
        text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// The message of a refused import of `task`.
    pub(crate) fn refusal(&self, format: Format, task: &str, sandbox: ImportSandbox) -> String {
        let error = match format.import(&self.options(&[task], sandbox)) {
            Ok(_) => panic!("{task} should be refused"),
            Err(error) => error,
        };
        assert!(!self.path("suite").exists(), "something was written");
        let left: Vec<_> = fs::read_dir(self.folder.path())
            .expect("the place")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with(".import-"))
            .collect();
        assert!(left.is_empty(), "left over: {left:?}");
        for problem in error.problems() {
            assert!(!problem.help_text().is_empty(), "{problem} has no help");
        }
        self.shown(&rendered(&error))
    }
}

/// The importer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Harbor,
    TerminalBench,
}

impl Format {
    pub(crate) fn import(self, options: &ImportOptions) -> Result<Imported, ConfigError> {
        match self {
            Self::Harbor => import_harbor(options),
            Self::TerminalBench => import_terminal_bench(options),
        }
    }
}

/// As on a terminal, without colours and line breaks: paths vary in length.
pub(crate) fn rendered(error: &ConfigError) -> String {
    let mut text = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(100)
        .with_wrap_lines(false)
        .with_links(false)
        .render_report(&mut text, error)
        .expect("writing to a string");
    text
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).expect("a file");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o644)).expect("a mode");
        }
    }
}
