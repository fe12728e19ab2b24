//! Browsers that do not come up.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, EnvProvider, Retry};
use clawrl_gui::{BrowserSource, GuiConfig, find_programs};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use crate::support::{begin, page, request, spec, task, with_changed};

/// A folder that users of sandboxes can look into.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Puts a script in place of the browser.
fn script(config: &mut GuiConfig, folder: &Path, lines: &str) {
    let program = folder.join("browser");
    fs::write(&program, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let BrowserSource::Here(programs) = &mut config.source else { panic!("browsers are not started here") };
    programs.browser = program;
}

fn real_browser() -> PathBuf {
    find_programs(&std::env::var("PATH").unwrap()).unwrap().browser
}

#[test]
fn early_browser_exit_is_explained_fault() {
    let folder = open_folder();
    let lines = "echo 'there is no room for a browser' >&2; exit 1";
    with_changed(
        |config| script(config, folder.path(), lines),
        |provider| async move {
            let task = task(spec(vec![page("index.html", "<title>Never</title>")]), Vec::new());
            let begun = Instant::now();
            let fault = provider.lease(request(&task)).await.err().unwrap();
            assert_eq!(
                (fault.boundary, fault.code.as_str()),
                (Boundary::Provider, "browser-start"),
                "{fault}"
            );
            assert!(fault.retry == Retry::Sound, "{fault}");
            assert!(fault.message.contains("there is no room for a browser"), "{fault}");
            // No caller waits for a dead one.
            assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
        },
    );
}

#[test]
fn failed_browser_start_is_retried() {
    let folder = open_folder();
    let (told, ready) = (folder.path().join("told"), folder.path().join("ready"));
    mknodat(CWD, &told, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let lines = format!(
        "if [ -e '{}' ]; then exec '{}' \"$@\"; fi; read line < '{}'; exit 1",
        ready.display(),
        real_browser().display(),
        told.display()
    );
    // The first one ends once it has seen that its turn has not come.
    let telling = std::thread::spawn(move || {
        let mut first = fs::OpenOptions::new().write(true).open(told).unwrap();
        fs::write(ready, "").unwrap();
        first.write_all(b"go\n").unwrap();
    });
    with_changed(
        |config| script(config, folder.path(), &lines),
        |provider| async move {
            let task = task(spec(vec![page("index.html", "<title>Here</title>")]), Vec::new());
            let (mut env, seen) = begin(provider.as_ref(), &task).await;
            assert!(seen.contains("title: Here"), "{seen}");
            env.close().await;
        },
    );
    telling.join().unwrap();
}
