//! Finds the driver and the browser of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clawrl_core::{Boundary, Fault};

/// Program names of browsers without windows, which take two thirds of the time.
const SHELLS: &[&str] = &["/usr/lib/chromium/chromium-headless-shell", "chrome-headless-shell"];

/// Program names of browsers with windows, those of distributions first. Debian's `chromium` is a script that reads
/// settings which do not exist in a sandbox.
const WINDOWED: &[&str] = &[
    "/usr/lib/chromium/chromium",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "chrome",
];

const DRIVER: &str = "chromedriver";

/// Paths of the driver and the browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserPrograms {
    /// `chromedriver`.
    pub driver: PathBuf,
    /// The browser's binary.
    pub browser: PathBuf,
    /// Its version output, `Chromium 148.0.7778.167 …`, and whether it has no windows.
    pub version: String,
}

/// Searches the folders of `path`, as in `PATH`, and asks both programs for their versions. Blocks.
///
/// # Errors
/// A permanent provider [`Fault`]: `driver-missing` or `browser-missing`; `driver-broken` or `browser-broken` if a
/// program does not print its version; `driver-version` if the versions do not match.
pub fn find_programs(path: &str) -> Result<BrowserPrograms, Fault> {
    find_among(&[SHELLS, WINDOWED].concat(), path)
}

/// The same for a browser with windows, although they are never shown.
#[cfg(test)]
pub(crate) fn find_windowed(path: &str) -> Result<BrowserPrograms, Fault> {
    find_among(WINDOWED, path)
}

fn find_among(browsers: &[&str], path: &str) -> Result<BrowserPrograms, Fault> {
    let refuse = |code, message: String| Fault::permanent(Boundary::Provider, code, message);
    let install = "install it (Debian: `apt-get install chromium chromium-driver`), or name another driver";
    let driver = found(DRIVER, path).ok_or_else(|| {
        refuse("driver-missing", format!("GUI tasks need `{DRIVER}`, which is not in PATH; {install}"))
    })?;
    let there: Vec<PathBuf> = browsers.iter().filter_map(|name| found(name, path)).collect();
    let Some((first, others)) = there.split_first() else {
        let message = format!("GUI tasks need Chromium or Chrome, and none is in PATH; {install}");
        return Err(refuse("browser-missing", message));
    };
    let asked = |program: &Path, code| {
        version(program).ok_or_else(|| {
            let message = format!("`{} --version` does not print a version; reinstall it", program.display());
            refuse(code, message)
        })
    };
    let of_driver = asked(&driver, "driver-broken")?;
    let fitting = |browser: &PathBuf| {
        let version = asked(browser, "browser-broken")?;
        if major(&of_driver) == major(&version) {
            return Ok(BrowserPrograms { driver: driver.clone(), browser: browser.clone(), version });
        }
        let message = format!(
            "{} is `{of_driver}` and {} is `{version}`: a driver needs a browser of its own major version; \
             install both from one source",
            driver.display(),
            browser.display()
        );
        Err(refuse("driver-version", message))
    };
    // If none matches, report why the first one does not.
    fitting(first).or_else(|why| others.iter().find_map(|other| fitting(other).ok()).ok_or(why))
}

fn found(name: &str, path: &str) -> Option<PathBuf> {
    let absolute = Path::new(name);
    if absolute.is_absolute() {
        return absolute.is_file().then(|| absolute.to_owned());
    }
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn version(program: &Path) -> Option<String> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().next()?.trim();
    let is_shell = program.file_name().is_some_and(|name| name.to_string_lossy().ends_with("headless-shell"));
    major(line).map(|_| format!("{line}{}", if is_shell { " (headless shell)" } else { "" }))
}

/// The first integer in a version line.
fn major(line: &str) -> Option<u32> {
    let number = line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    number.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use clawrl_core::Retry;

    use super::*;

    #[test]
    fn versions_are_read() {
        let check = |line: &str, expected| assert_eq!(major(line), expected, "{line}");
        check("ChromeDriver 148.0.7778.167 (bc7f6a20)", Some(148));
        check("Chromium 148.0.7778.167 built on Debian", Some(148));
        check("Google Chrome 99.0.1 ", Some(99));
        check("something else", None);
    }

    #[test]
    fn missing_or_mismatched_programs_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let program = |name: &str, says: &str| {
            let file = folder.path().join(name);
            fs::write(&file, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let check = |expected: &str, part: &str| {
            // The browser of a test machine is not searched for.
            let fault = find_among(&["chromium"], path).unwrap_err();
            assert_eq!((fault.code.as_str(), fault.retry), (expected, Retry::Never), "{fault}");
            assert!(fault.message.contains(part), "{fault}");
        };
        check("driver-missing", "`chromedriver`, which is not in PATH");
        program("chromedriver", "nothing");
        check("browser-missing", "none is in PATH");
        program("chromium", "nothing");
        check("driver-broken", "/chromedriver --version`");
        program("chromedriver", "ChromeDriver 1.0.0");
        check("browser-broken", "/chromium --version`");
        program("chromium", "Chromium 2.0.0");
        check("driver-version", "ChromeDriver 1.0.0");
        program("chromium", "Chromium 1.2.3 built on Debian");
        let found = find_among(&["chromium"], path).unwrap();
        assert_eq!(found.version, "Chromium 1.2.3 built on Debian");
        assert_eq!(found.driver, folder.path().join("chromedriver"));
        // A mismatch is skipped, and the first match is used.
        let shell = ["chrome-headless-shell", "chromium"];
        program("chrome-headless-shell", "Chromium 2.0.0");
        assert_eq!(find_among(&shell, path).unwrap().version, "Chromium 1.2.3 built on Debian");
        program("chrome-headless-shell", "Chromium 1.2.4");
        assert_eq!(find_among(&shell, path).unwrap().version, "Chromium 1.2.4 (headless shell)");
    }
}
