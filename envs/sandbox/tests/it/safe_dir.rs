//! [`SafeDir`] against a folder full of traps. Invariants I1 to I5 are those of its module.

// The workspace's exception for tests covers functions marked as tests, not those they share.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use clawrl_sandbox::{FileKind, Owner, SafeDir, SafeReadError, SafeWriteError};
use proptest::prelude::*;

use crate::traps::{SECRET, Scratch, SetOnDrop, is_root, while_swapping};

const CAP: u64 = 1 << 20;

/// The result of reading as one word, and the entry that the error names.
fn outcome(result: Result<Vec<u8>, SafeReadError>) -> String {
    let (word, path) = match result {
        Ok(bytes) => return format!("{} bytes", bytes.len()),
        Err(SafeReadError::Missing { path }) => ("missing", path),
        Err(SafeReadError::Symlink { path }) => ("symlink", path),
        Err(SafeReadError::NotRegular { path, kind }) => return format!("{kind}: {}", path.display()),
        Err(SafeReadError::NotFolder { path, .. }) => ("not a folder", path),
        Err(SafeReadError::TooLarge { size, cap, .. }) => return format!("{size} of {cap}"),
        Err(SafeReadError::Escape { path }) => ("escape", path),
        Err(SafeReadError::Changed { path }) => ("changed", path),
        Err(SafeReadError::Unreadable { path, .. }) => ("unreadable", path),
        Err(SafeReadError::NoOpenat2) => return "no openat2".to_owned(),
        Err(SafeReadError::Io { source, .. }) => return source.to_string(),
        Err(error @ SafeReadError::Bound { .. }) => return error.to_string(),
    };
    format!("{word}: {}", path.display())
}

#[track_caller]
fn check(scratch: &Scratch, path: &str, expected: &str) {
    assert_eq!(outcome(scratch.dir().read_file(path, CAP)), expected, "{path:?}");
}

#[test]
fn i1_links_parents_absolute_paths_stay_inside() {
    let scratch = Scratch::new();
    scratch.file("a/b/file", "12345");
    scratch.link("/etc/passwd", "passwd");
    scratch.link("a/b/file", "inner");
    scratch.link("nowhere", "dangling");
    scratch.link(scratch.outside(""), "a/out");
    scratch.link("b", "a/c");
    scratch.link("/proc/self/root", "magic");

    check(&scratch, "a/b/file", "5 bytes");
    check(&scratch, "./a//b/file/", "5 bytes");
    check(&scratch, "passwd", "symlink: passwd");
    check(&scratch, "inner", "symlink: inner");
    check(&scratch, "dangling", "symlink: dangling");
    check(&scratch, "a/out/secret", "symlink: a/out");
    check(&scratch, "a/c/file", "symlink: a/c");
    check(&scratch, "magic/etc/passwd", "symlink: magic");
    check(&scratch, "../outside/secret", "escape: ../outside/secret");
    check(&scratch, "a/../a/b/file", "escape: a/../a/b/file");
    check(&scratch, "/etc/passwd", "escape: /etc/passwd");
    check(&scratch, "none", "missing: none");
    check(&scratch, "a/b/file/below", "missing: a/b/file/below");
    check(&scratch, &"n".repeat(300), &format!("missing: {}", "n".repeat(300)));
}

#[test]
fn i2_only_regular_files_are_read_and_nothing_waits() {
    let scratch = Scratch::new();
    scratch.fifo("fifo");
    scratch.socket("socket");
    scratch.file("folder/x", "");

    check(&scratch, "fifo", "a FIFO: fifo");
    check(&scratch, "socket", "a socket: socket");
    check(&scratch, "folder", "a folder: folder");
    check(&scratch, ".", "a folder: .");
    if scratch.device("null") {
        check(&scratch, "null", "a character device: null");
    }
}

#[test]
fn i3_size_is_capped() {
    let scratch = Scratch::new();
    scratch.file("cap", vec![b'x'; CAP as usize]);
    scratch.file("over", vec![b'x'; CAP as usize + 1]);
    fs::File::create(scratch.path("sparse")).unwrap().set_len(1 << 40).unwrap();

    check(&scratch, "cap", "1048576 bytes");
    check(&scratch, "over", "1048577 of 1048576");
    check(&scratch, "sparse", "1099511627776 of 1048576");
    // A file of procfs claims to be empty and is not.
    let proc_self = SafeDir::open("/proc/self").unwrap();
    assert_eq!(outcome(proc_self.read_file("status", 10)), "11 of 10");
}

#[test]
fn i3_growing_file_stops_at_cap() {
    let scratch = Scratch::new();
    let mut file = fs::File::create(scratch.path("log")).unwrap();
    let (dir, done) = (scratch.dir(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                file.write_all(&[b'x'; 4096]).unwrap();
            }
        });
        let _stop = SetOnDrop(&done);
        let mut largest = 0;
        loop {
            match dir.read_file("log", CAP) {
                Ok(bytes) => largest = largest.max(bytes.len() as u64),
                Err(SafeReadError::TooLarge { size, .. }) => {
                    assert!(size > CAP);
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(largest <= CAP);
    });
}

#[test]
fn permission_bits_apply_to_every_user() {
    let scratch = Scratch::new();
    for (name, mode) in [("closed", 0), ("others", 0o077), ("written", 0o333), ("read", 0o400)] {
        scratch.file(name, "123");
        scratch.mode(name, mode);
    }
    scratch.file("folder/sub/file", "123");
    check(&scratch, "closed", "unreadable: closed");
    check(&scratch, "others", "unreadable: others");
    check(&scratch, "written", "unreadable: written");
    check(&scratch, "read", "3 bytes");
    for (mode, passes) in [(0, false), (0o600, false), (0o077, false), (0o100, true)] {
        scratch.mode("folder", mode);
        let expected = if passes { "3 bytes" } else { "unreadable: folder/sub/file" };
        check(&scratch, "folder/sub/file", expected);
        assert_eq!(scratch.dir().exists("folder/sub/file").is_ok(), passes, "{mode:o}");
        assert_eq!(scratch.dir().stat("folder").unwrap().mode, mode);
    }
    let dir = scratch.dir();
    scratch.mode("", 0);
    assert!(dir.exists("read").is_err());
    scratch.mode("", 0o755);
    assert_eq!(scratch.dir().stat("closed").unwrap().mode, 0);
    scratch.mode("folder", 0o755);
}

#[test]
fn stat_describes_the_entry_itself() {
    let scratch = Scratch::new();
    scratch.file("file", "12");
    scratch.mode("file", 0o4751);
    fs::hard_link(scratch.path("file"), scratch.path("second")).unwrap();
    scratch.link("nowhere", "dangling");
    scratch.link(scratch.outside(""), "out");
    let dir = scratch.dir();

    let stat = dir.stat("file").unwrap();
    assert_eq!((stat.kind, stat.mode, stat.size, stat.nlink), (FileKind::Regular, 0o4751, 2, 2));
    assert_eq!(stat.uid, rustix::process::geteuid().as_raw());
    assert_eq!(dir.stat("dangling").unwrap().kind, FileKind::Symlink);
    assert_eq!(dir.stat(".").unwrap().kind, FileKind::Folder);
    assert!(dir.exists("dangling").unwrap());
    assert!(!dir.exists("none").unwrap());
    assert!(
        matches!(dir.exists("out/secret"), Err(SafeReadError::Symlink { path }) if path == Path::new("out"))
    );
}

#[test]
fn names_are_bytes() {
    let scratch = Scratch::new();
    let name = OsStr::from_bytes(b"\xff\xfe\n");
    scratch.file(name, "raw");
    assert_eq!(scratch.dir().read_file(name, CAP).unwrap(), b"raw");
    scratch.dir().write_file(Path::new("d").join(name), b"1", 0o600, None).unwrap();
    assert_eq!(fs::read(scratch.path("d").join(name)).unwrap(), b"1");
    let error = scratch.dir().read_file(OsStr::from_bytes(b"\x1b[2J\xff"), CAP).unwrap_err();
    assert_eq!(error.to_string(), r#""\u{1b}[2J\xFF" does not exist"#);
}

#[test]
fn only_a_folder_is_a_safe_dir() {
    let scratch = Scratch::new();
    scratch.file("file", "");
    let file = fs::File::open(scratch.path("file")).unwrap();
    assert!(matches!(SafeDir::from_fd(file.into()), Err(SafeReadError::NotFolder { .. })));
    assert!(matches!(SafeDir::open(scratch.path("none")), Err(SafeReadError::Missing { .. })));
    let readable = fs::File::open(scratch.path("")).unwrap();
    assert!(SafeDir::from_fd(readable.into()).unwrap().exists("file").unwrap());
}

#[test]
fn i1_swapping_a_link_in_does_not_lead_out() {
    let scratch = Scratch::new();
    scratch.file("file", "inside");
    scratch.link(scratch.outside("secret"), "link");
    scratch.file("folder/secret", "inside");
    scratch.link(scratch.outside(""), "folder-link");
    scratch.fifo("fifo");
    let dir = scratch.dir();
    let mut seen = (0, 0);
    let look = |path: &str, (read, refused): &mut (u32, u32)| match dir.read_file(path, CAP) {
        Ok(bytes) => {
            assert_eq!(bytes, b"inside");
            *read += 1;
        }
        Err(
            SafeReadError::Symlink { .. } | SafeReadError::NotRegular { .. } | SafeReadError::Changed { .. },
        ) => *refused += 1,
        Err(other) => panic!("{other}"),
    };
    let swaps =
        [("file", "link", "file"), ("folder", "folder-link", "folder/secret"), ("file", "fifo", "file")];
    // A machine under load may let one side run alone for a while, so there are rounds until both were seen.
    for _ in 0..50 {
        for (first, second, path) in swaps {
            while_swapping(scratch.path(first), scratch.path(second), 2_000, || look(path, &mut seen));
        }
        if seen.0 > 0 && seen.1 > 0 {
            return;
        }
    }
    panic!("the swapper never ran beside the reader: {} read, {} refused", seen.0, seen.1);
}

#[test]
fn i1_swapping_a_link_in_does_not_lead_a_writer_out() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder")).unwrap();
    scratch.link(scratch.outside(""), "link");
    let dir = scratch.dir();
    while_swapping(scratch.path("folder"), scratch.path("link"), 3_000, || {
        match dir.write_file("folder/new/file", b"x", 0o644, None) {
            Ok(()) | Err(SafeWriteError::Refused(SafeReadError::Symlink { .. })) => {}
            // Between making a folder and opening it, the name had become the other one's.
            Err(SafeWriteError::Refused(SafeReadError::NotFolder { .. }) | SafeWriteError::Io { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    });
    let outside: Vec<_> =
        fs::read_dir(scratch.outside("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(outside, ["secret"]);
}

#[test]
fn writes_make_parents_and_set_exact_modes() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    dir.write_file("a/b/run.sh", b"#!/bin/sh\n", 0o777, None).unwrap();
    dir.make_dirs("p/q", 0o1770, None).unwrap();
    dir.make_dirs("p/q", 0o700, None).unwrap();
    let mode = |path: &str| fs::metadata(scratch.path(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("a"), mode("a/b"), mode("a/b/run.sh")), (0o755, 0o755, 0o777));
    assert_eq!((mode("p"), mode("p/q")), (0o755, 0o1770));

    dir.write_file("a/b/run.sh", b"x", 0o640, None).unwrap();
    assert_eq!((fs::read(scratch.path("a/b/run.sh")).unwrap(), mode("a/b/run.sh")), (b"x".to_vec(), 0o640));
}

#[test]
fn i2_i4_writes_go_to_plain_files_only() {
    let scratch = Scratch::new();
    scratch.link(scratch.outside("secret"), "link");
    scratch.link(scratch.outside("new"), "dangling");
    scratch.link(scratch.outside(""), "out");
    scratch.fifo("fifo");
    scratch.socket("socket");
    scratch.file("folder/file", "kept");
    fs::hard_link(scratch.outside("secret"), scratch.path("hard")).unwrap();
    let check = |path: &str, expected: &str| {
        let error = scratch.dir().write_file(path, b"overwritten", 0o644, None).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check("link", r#""link" is a symbolic link, which is not followed"#);
    check("dangling", r#""dangling" is a symbolic link, which is not followed"#);
    check("out/secret", r#""out" is a symbolic link, which is not followed"#);
    check("out/more/x", r#""out" is a symbolic link, which is not followed"#);
    check("fifo", r#""fifo" is a FIFO, not a regular file"#);
    check("socket", r#""socket" is a socket, not a regular file"#);
    check("folder", r#""folder" is a folder, not a regular file"#);
    check("folder/file/x", r#""folder/file" is a regular file, not a folder"#);
    check("hard", r#""hard" is a hard link, which is never written through"#);
    check("../outside/new", r#""../outside/new" leads outside the workspace"#);
    check("/x", r#""/x" leads outside the workspace"#);
    assert_eq!(fs::read(scratch.outside("secret")).unwrap(), SECRET);
    assert!(!scratch.outside("new").exists());
    assert_eq!(fs::read(scratch.path("folder/file")).unwrap(), b"kept");
}

#[test]
fn i5_root_creates_as_the_owner_and_is_root_again() {
    let scratch = Scratch::new();
    let owner = Owner { uid: 54_321, gid: 54_322 };
    if !is_root("creating entries for another owner") {
        let refused = scratch.dir().write_file("a/file", b"", 0o600, Some(owner));
        assert!(matches!(refused, Err(SafeWriteError::Io { .. })));
        return;
    }
    chown(scratch.path(""), Some(owner.uid), Some(owner.gid)).unwrap();
    scratch.dir().write_file("a/file", b"x", 0o600, Some(owner)).unwrap();
    for path in ["a", "a/file"] {
        let found = fs::metadata(scratch.path(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), (owner.uid, owner.gid), "{path}");
    }
    // The owner's permissions only: root's files stay closed to it.
    fs::create_dir(scratch.path("roots")).unwrap();
    scratch.dir().write_file("roots/x", b"", 0o600, Some(owner)).unwrap_err();
    assert!(rustix::process::geteuid().is_root() && rustix::process::getegid().is_root());
    let none = Owner { uid: u32::MAX, gid: 1 };
    scratch.dir().write_file("b", b"", 0o600, Some(none)).unwrap_err();
}

/// A user namespace of an ordinary uid with a tmpfs over the workspace and another one inside it, as in a sandbox. It
/// ends when dropped.
struct Namespace {
    child: Child,
}

impl Namespace {
    /// The uid on the host that owns everything inside, and gid. Root hands over to one of its own.
    const OWNER: Owner = Owner { uid: 54_321, gid: 54_321 };

    fn over(scratch: &Scratch) -> Option<Self> {
        let script = r#"mount -t tmpfs -o size=4m none "$1" && cd "$1" && mkdir inner && mount -t tmpfs none inner &&
            echo secret > inner/file && echo plain > file && chmod 600 file && echo ready && read -r _"#;
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            let id = Self::OWNER.uid.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "unshare"]);
            command
        } else {
            Command::new("unshare")
        };
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(scratch.path(""));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut line = String::new();
        let ready = BufReader::new(child.stdout.take()?).read_line(&mut line).is_ok() && line == "ready\n";
        let namespace = Self { child };
        if !ready {
            println!("note: no user namespace with a tmpfs could be made; that part is not tested here");
        }
        ready.then_some(namespace)
    }

    fn workspace(&self, scratch: &Scratch) -> SafeDir {
        let inside = scratch.path("").strip_prefix("/").unwrap().to_owned();
        SafeDir::open(Path::new("/proc").join(self.child.id().to_string()).join("root").join(inside)).unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn i1_mounts_are_not_crossed_detached_works() {
    let scratch = Scratch::new();
    let Some(namespace) = Namespace::over(&scratch) else { return };
    let dir = namespace.workspace(&scratch);
    assert_eq!(outcome(dir.read_file("inner/file", CAP)), "escape: inner/file");
    assert_eq!(outcome(dir.read_file("file", CAP)), "6 bytes");

    // The tmpfs knows only the ids of its namespace, so even root must write as its owner.
    if is_root("writing into the tmpfs of another user's namespace") {
        assert!(dir.write_file("as-root", b"", 0o644, None).is_err());
        dir.write_file("a/as-owner", b"x", 0o644, Some(Namespace::OWNER)).unwrap();
        assert_eq!(dir.stat("a/as-owner").unwrap().uid, Namespace::OWNER.uid);
    }
    drop(namespace);
    assert_eq!(outcome(dir.read_file("file", CAP)), "6 bytes");
    // With the namespace its mounts are gone: below the inner one there is an empty folder.
    assert_eq!(outcome(dir.read_file("inner/file", CAP)), "missing: inner/file");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn i1_no_path_leads_out(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("..".to_owned()), Just(".".to_owned()), Just(String::new()), Just("a".to_owned()),
                Just("up".to_owned()), Just("out".to_owned()), Just("root".to_owned()), Just("loop".to_owned()),
                Just("outside".to_owned()), Just("secret".to_owned()), Just("workspace".to_owned()), "\\PC{1,3}",
            ],
            0..6,
        ),
        absolute: bool,
    ) {
        let scratch = Scratch::new();
        scratch.file("a/file", "inside");
        scratch.link("..", "up");
        scratch.link("../..", "a/up");
        scratch.link(scratch.outside(""), "out");
        scratch.link("/", "root");
        scratch.link("loop", "loop");
        scratch.link(scratch.outside("secret"), "secret");
        let prefix = if absolute { scratch.outside("").display().to_string() + "/" } else { String::new() };
        let path = prefix + &parts.join("/");
        let dir = scratch.dir();

        if let Ok(bytes) = dir.read_file(&path, CAP) {
            prop_assert_ne!(bytes, SECRET);
        }
        if let Ok(stat) = dir.stat(&path) {
            prop_assert!(stat.size != SECRET.len() as u64 || stat.kind != FileKind::Regular);
        }
        let _ = dir.write_file(&path, b"written", 0o644, None);
        let _ = dir.make_dirs(&path, 0o755, None);
        prop_assert_eq!(fs::read(scratch.outside("secret")).unwrap(), SECRET);
        prop_assert_eq!(fs::read_dir(scratch.outside("")).unwrap().count(), 1);
        let beside = fs::read_dir(scratch.path("").parent().unwrap()).unwrap().count();
        prop_assert_eq!(beside, 2);
    }
}
