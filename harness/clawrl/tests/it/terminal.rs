//! Progress on a terminal.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::place::Place;

/// Runs with standard error on a terminal, and returns the terminal's input.
fn on_a_terminal(place: &Place, arguments: &[&str]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let size = rustix::termios::Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&terminal, size).unwrap();
    let mut command = place.command(arguments);
    command.env("TERM", "xterm").stdout(Stdio::null()).stderr(terminal);
    let mut child = command.spawn().unwrap();
    // Closes our own handle too, or reading would never end.
    drop(command);
    let mut sent = Vec::new();
    // The end of a terminal is an error, also after successful reads.
    let _ = File::from(master).read_to_end(&mut sent);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", String::from_utf8_lossy(&sent));
    String::from_utf8_lossy(&sent).into_owned()
}

#[test]
fn bars_are_drawn_and_taken_away() {
    let place = Place::new();
    let sent = on_a_terminal(&place, &["run", "small", "--group-size", "4"]);
    assert!(sent.contains("/48") && sent.contains("running") && sent.contains("sandboxes"), "{sent:?}");
    assert!(!sent.contains("\u{1b}[?25l"), "the cursor stays visible: {sent:?}");
    assert!(sent.trim_end_matches("\u{1b}[0m").ends_with("\u{1b}[2K") || sent.ends_with('A'), "{sent:?}");
    let quiet = on_a_terminal(&place, &["run", "small", "--limit", "3", "--quiet"]);
    assert_eq!(quiet, "");
}
