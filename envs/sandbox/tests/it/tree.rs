//! Hashing and copying trees. Invariants I1 to I5 are those of the crate's `tree` module.

// The workspace's exception for tests covers functions marked as tests, not those they share.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use clawrl_sandbox::{
    CopyOptions, CopyReport, FileKind, Owner, SafeReadError, SkipReason, Skipped, TreeBound, TreeBounds,
    TreeError, copy_tree,
};
use proptest::prelude::*;
use rustix::process::Resource;

use crate::traps::{SECRET, Scratch, is_root, while_swapping};

fn hash(scratch: &Scratch) -> String {
    scratch.dir().tree_hash(".", TreeBounds::default()).unwrap()
}

fn copy(source: &Scratch, destination: &Scratch) -> CopyReport {
    copy_tree(&source.dir(), &destination.dir(), CopyOptions::default()).unwrap()
}

/// The independent program beside this file.
fn reference_hash(folder: &Path) -> String {
    let output = Command::new("python3")
        .args(["-c", include_str!("tree_hash.py")])
        .arg(folder)
        .output()
        .expect("the reference needs python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// One entry of every kind, with names that sort differently by path and by component.
fn one_of_everything() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("a/b", "content");
    scratch.file("a-b", "between a and a/b by plain path order");
    scratch.file("a.run", "#!/bin/sh\n");
    scratch.mode("a.run", 0o755);
    scratch.file("empty", "");
    scratch.file(OsStr::from_bytes(b"\xff line\nbreak"), vec![0, 255]);
    fs::create_dir(scratch.path("hollow")).unwrap();
    scratch.link("/etc/passwd", "link");
    scratch.link("nowhere", "a/dangling");
    scratch.link(scratch.outside(""), "folder-link");
    scratch
}

#[test]
fn i4_hash_is_that_of_the_reference_program() {
    let scratch = one_of_everything();
    scratch.fifo("fifo");
    scratch.socket("socket");
    scratch.device("device");
    assert_eq!(hash(&scratch), reference_hash(&scratch.path("")));
    let of_part = scratch.dir().tree_hash("a", TreeBounds::default()).unwrap();
    assert_eq!(of_part, reference_hash(&scratch.path("a")));
}

#[test]
fn the_definition_is_locked() {
    let scratch = Scratch::new();
    // printf 'clawrl-tree 1\n' | sha256sum
    assert_eq!(hash(&scratch), "96f9765669274a92f753202282241696935fa02957f17e081800a7b893539f63");
    scratch.file("a", "1\n");
    // printf 'clawrl-tree 1\nf 1:a %s\n' "$(printf '1\n' | sha256sum | cut -c-64)" | sha256sum
    assert_eq!(hash(&scratch), "34703ea6929efa5dc4ef33081bf7a7f3b2161b3927c0258e5b1ef77b610b6584");
}

#[test]
fn i4_hash_depends_on_documented_inputs_only() {
    let scratch = one_of_everything();
    let before = hash(&scratch);
    scratch.mode("empty", 0o606);
    scratch.mode("hollow", 0o700);
    fs::File::options()
        .write(true)
        .open(scratch.path("empty"))
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
    assert_eq!(hash(&scratch), before);

    let differs = |change: &dyn Fn(&Scratch)| {
        let other = one_of_everything();
        change(&other);
        assert_ne!(hash(&other), before);
    };
    differs(&|s| s.mode("empty", 0o744));
    differs(&|s| s.file("empty", "x"));
    differs(&|s| fs::rename(s.path("empty"), s.path("emptz")).unwrap());
    differs(&|s| fs::remove_dir(s.path("hollow")).unwrap());
    differs(&|s| {
        fs::remove_file(s.path("link")).unwrap();
        s.link("/etc/passwd2", "link");
    });
}

#[test]
fn i5_a_copy_has_the_same_hash_and_details() {
    let (source, destination) = (one_of_everything(), Scratch::new());
    source.mode("a.run", 0o6755);
    source.mode("hollow", 0o1555);
    source.mode("a", 0o500);
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400);
    for path in ["a.run", "hollow"] {
        fs::File::open(source.path(path)).unwrap().set_modified(old).unwrap();
    }
    let report = copy(&source, &destination);
    assert_eq!((report.files, report.folders, report.symlinks), (5, 2, 3));
    assert_eq!(report.skipped.named(), []);
    assert_eq!(hash(&destination), hash(&source));
    let copied = |path: &str| fs::symlink_metadata(destination.path(path)).unwrap();
    assert_eq!(copied("a.run").mode() & 0o7777, 0o755);
    assert_eq!(copied("hollow").mode() & 0o7777, 0o555);
    assert_eq!(copied("a.run").modified().unwrap(), old);
    assert_eq!(copied("hollow").modified().unwrap(), old);
    assert_eq!(fs::read_link(destination.path("link")).unwrap(), Path::new("/etc/passwd"));
    for scratch in [&source, &destination] {
        scratch.mode("a", 0o755);
    }
}

#[test]
fn i1_copy_lists_skipped_entries() {
    let (source, destination) = (Scratch::new(), Scratch::new());
    source.file("one", "x");
    fs::hard_link(source.path("one"), source.path("two")).unwrap();
    source.fifo("fifo");
    source.socket("socket");
    source.file("closed/file", "x");
    source.mode("closed", 0);
    let report = copy(&source, &destination);
    source.mode("closed", 0o755);

    let skipped = |path: &str, reason| Skipped { path: path.into(), reason };
    let expected = vec![
        skipped("closed", SkipReason::Unreadable),
        skipped("fifo", SkipReason::Special(FileKind::Fifo)),
        skipped("socket", SkipReason::Special(FileKind::Socket)),
    ];
    assert_eq!(report.skipped.named(), expected);
    assert_eq!(fs::metadata(destination.path("two")).unwrap().nlink(), 1);
}

#[test]
fn copy_keeps_holes_and_never_replaces() {
    let (source, destination) = (Scratch::new(), Scratch::new());
    let sparse = fs::File::create(source.path("sparse")).unwrap();
    sparse.set_len(1 << 34).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 1 << 33).unwrap();
    let report = copy(&source, &destination);
    let copied = fs::File::open(destination.path("sparse")).unwrap();
    assert_eq!(copied.metadata().unwrap().len(), 1 << 34);
    let mut middle = [0; 6];
    std::os::unix::fs::FileExt::read_exact_at(&copied, &mut middle, 1 << 33).unwrap();
    assert_eq!(&middle, b"middle");
    assert!(report.bytes < 1 << 20 && copied.metadata().unwrap().blocks() < 4096);

    let again = copy_tree(&source.dir(), &destination.dir(), CopyOptions::default());
    assert!(matches!(again, Err(TreeError::Write(_))));
}

#[test]
fn i2_bounds_are_named() {
    let scratch = Scratch::new();
    for index in 0..20 {
        scratch.file(format!("folder/{index:02}"), "0123456789");
    }
    fs::File::create(scratch.path("huge")).unwrap().set_len(1 << 40).unwrap();
    let check = |bounds: TreeBounds, expected: TreeBound| {
        let result = scratch.dir().tree_hash(".", bounds);
        assert!(matches!(result, Err(TreeError::Bound { bound, .. }) if bound == expected), "{result:?}");
    };
    let wide = TreeBounds::default();
    check(TreeBounds { entries: 21, ..wide }, TreeBound::Entries);
    check(TreeBounds { depth: 1, ..wide }, TreeBound::Depth);
    check(wide, TreeBound::Bytes);
    let error = scratch.dir().tree_hash(".", wide).unwrap_err();
    assert_eq!(error.to_string(), r#"the tree has more than 1073741824 bytes (exceeded at "huge")"#);
    assert!(!error.is_infrastructure());

    fs::remove_file(scratch.path("huge")).unwrap();
    let exact = TreeBounds { entries: 21, depth: 2, bytes: 5_000 };
    scratch.dir().tree_hash(".", exact).unwrap();
    let over = CopyOptions { bounds: TreeBounds { bytes: 199, ..wide }, ..CopyOptions::default() };
    let result = copy_tree(&scratch.dir(), &Scratch::new().dir(), over);
    assert!(matches!(result, Err(TreeError::Bound { bound: TreeBound::Bytes, limit: 199, .. })));
}

#[test]
fn i3_deep_trees_need_neither_stack_nor_descriptors() {
    let (source, destination) = (Scratch::new(), Scratch::new());
    source.deep(5_000);
    // A sibling half way up makes the walk return to a level whose descriptor was closed long ago.
    source.dir().write_file("d/".repeat(700) + "e", b"back again", 0o644, None).unwrap();
    assert!(matches!(
        source.dir().tree_hash(".", TreeBounds::default()),
        Err(TreeError::Bound { bound: TreeBound::Depth, limit: 256, .. })
    ));
    let bounds = TreeBounds { depth: 5_001, ..TreeBounds::default() };
    // Fewer descriptors than levels, for this process; no test needs more.
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.current.map(|current| current.min(1_024)).or(Some(1_024));
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    let report =
        copy_tree(&source.dir(), &destination.dir(), CopyOptions { bounds, ..CopyOptions::default() })
            .unwrap();
    assert_eq!((report.files, report.folders), (2, 5_000));
    let hashes = [&source, &destination].map(|scratch| scratch.dir().tree_hash(".", bounds).unwrap());
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn folder_with_many_entries() {
    let (source, destination) = (Scratch::new(), Scratch::new());
    for index in 0..10_000 {
        fs::File::create(source.path(format!("{index:05}"))).unwrap();
    }
    assert_eq!(copy(&source, &destination).files, 10_000);
    assert_eq!(hash(&destination), reference_hash(&source.path("")));
}

#[test]
fn i1_links_are_not_entered() {
    let scratch = Scratch::new();
    scratch.file("folder/file", "x");
    scratch.link("folder", "link");
    scratch.link(scratch.outside(""), "out");
    for path in ["link", "out", "out/x"] {
        let result = scratch.dir().tree_hash(path, TreeBounds::default());
        assert!(matches!(result, Err(TreeError::Read(SafeReadError::Symlink { .. }))), "{path}: {result:?}");
    }
    let of_file = scratch.dir().tree_hash("folder/file", TreeBounds::default());
    assert!(matches!(of_file, Err(TreeError::Read(SafeReadError::NotFolder { .. }))));
    assert_eq!(fs::read(scratch.outside("secret")).unwrap(), SECRET);
}

#[test]
fn i1_changing_tree_does_not_lead_outside() {
    let source = Scratch::new();
    source.file("folder/secret", "inside");
    source.link(source.outside(""), "folder-link");
    source.file("secret", "inside");
    source.link(source.outside("secret"), "secret-link");
    let (mut copied, mut refused) = (0, 0);
    let mut walk = || {
        let destination = Scratch::new();
        match copy_tree(&source.dir(), &destination.dir(), CopyOptions::default()) {
            Ok(_) => copied += 1,
            // A file or folder in the listing was a link when it was opened.
            Err(TreeError::Read(
                SafeReadError::Symlink { .. } | SafeReadError::Missing { .. } | SafeReadError::Changed { .. },
            )) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        for path in ["folder/secret", "secret", "folder-link/secret", "secret-link"] {
            if let Ok(content) = destination.dir().read_file(path, 100) {
                assert_eq!(content, b"inside", "{path}");
            }
        }
    };
    while_swapping(source.path("folder"), source.path("folder-link"), 100, &mut walk);
    while_swapping(source.path("secret"), source.path("secret-link"), 100, &mut walk);
    assert_eq!(copied + refused, 200);
    assert!(copied > 0, "all {refused} walks were refused");
}

#[test]
fn an_unreadable_entry_makes_the_hash_fail() {
    let scratch = Scratch::new();
    scratch.file("a/file", "x");
    scratch.mode("a/file", 0);
    let result = scratch.dir().tree_hash(".", TreeBounds::default());
    assert!(
        matches!(result, Err(TreeError::Read(SafeReadError::Unreadable { path, .. })) if path == Path::new("a/file"))
    );
}

#[test]
fn entries_unreadable_to_owner_are_not_copied() {
    let (source, destination) = (Scratch::new(), Scratch::new());
    for name in ["closed", "open", "shut/file", "unlisted/file", "unpassed/file"] {
        source.file(name, "x");
    }
    for (name, mode) in [("closed", 0), ("shut", 0), ("unlisted", 0o300), ("unpassed", 0o600)] {
        source.mode(name, mode);
    }
    let report = copy_tree(&source.dir(), &destination.dir(), CopyOptions::default()).unwrap();
    let named = report.skipped.named().iter();
    let named: Vec<_> = named.map(|skipped| skipped.path.to_str().unwrap()).collect();
    assert_eq!(named, ["closed", "shut", "unlisted", "unpassed/file"]);
    assert_eq!((report.files, report.folders), (1, 1));
    for name in ["shut", "unlisted", "unpassed"] {
        source.mode(name, 0o755);
    }
    destination.mode("unpassed", 0o755);
}

#[test]
fn a_copy_belongs_to_the_given_owner() {
    if !is_root("copying for another owner") {
        return;
    }
    let (source, destination) = (one_of_everything(), Scratch::new());
    source.mode("empty", 0o500);
    let owner = Owner { uid: 54_321, gid: 54_322 };
    chown(destination.path(""), Some(owner.uid), Some(owner.gid)).unwrap();
    copy_tree(
        &source.dir(),
        &destination.dir(),
        CopyOptions { owner: Some(owner), ..CopyOptions::default() },
    )
    .unwrap();
    assert_eq!(hash(&destination), hash(&source));
    for path in ["a", "a/b", "a/dangling", "empty", "hollow", "link"] {
        let found = fs::symlink_metadata(destination.path(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), (owner.uid, owner.gid), "{path}");
    }
}

/// A path of one to three short components, and its content.
fn random_entry() -> impl Strategy<Value = (PathBuf, u8, Vec<u8>)> {
    let name = prop_oneof![
        "[ab]{1,2}".prop_map(String::into_bytes),
        proptest::collection::vec(
            any::<u8>().prop_filter("a name", |b| *b != 0 && *b != b'/' && *b != b'.'),
            1..4
        ),
    ];
    let path = proptest::collection::vec(name, 1..4)
        .prop_map(|names| names.iter().map(|name| OsStr::from_bytes(name)).collect::<PathBuf>());
    (path, 0..4u8, proptest::collection::vec(any::<u8>(), 0..40))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn i5_copies_of_random_trees_have_the_same_hash(entries in proptest::collection::vec(random_entry(), 0..12)) {
        let (source, destination) = (Scratch::new(), Scratch::new());
        for (path, kind, bytes) in &entries {
            // A name may be taken as a file already, or be a link: then it is left out.
            let dir = source.dir();
            match kind {
                0 => drop(dir.make_dirs(path, 0o711, None)),
                1 => drop(dir.write_file(path, bytes, 0o755, None)),
                2 => drop(dir.write_file(path, bytes, 0o600, None)),
                _ => {
                    let target = bytes.iter().filter(|b| **b != 0).copied().collect::<Vec<_>>();
                    let _ = std::os::unix::fs::symlink(OsStr::from_bytes(&target), source.path(path));
                }
            }
        }
        copy(&source, &destination);
        prop_assert_eq!(hash(&source), hash(&destination));
    }
}
