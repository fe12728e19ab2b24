//! Copies to destinations that are not empty, or have no space.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use clawrl_sandbox::{
    CopyOptions, Exclusions, Existing, Owner, SafeDir, SandboxBackend, SizeLimit, TransferError,
    TransferRequest, TreeBounds, TreeError, copy_part, copy_tree, remove_content,
};

use crate::support::{as_normal_user_too, sh, waiting, with_backend};
use crate::traps::{SECRET, Scratch};

const REPLACED: CopyOptions = CopyOptions {
    bounds: TreeBounds { entries: 1000, depth: 100, bytes: 1 << 20 },
    owner: None,
    existing: Existing::Replaced,
    size_limit: SizeLimit::Shared,
};

/// Copies `from` of a source to `to` of a destination, and looks at the result; nothing outside may have changed.
fn check(
    source: impl FnOnce(&Scratch),
    destination: impl FnOnce(&Scratch),
    (from, to): (&str, &str),
    look: impl FnOnce(&Scratch),
) {
    let (comes, there) = (Scratch::new(), Scratch::new());
    source(&comes);
    destination(&there);
    let copied = copy_part(&comes.dir(), from, &there.dir(), to, &Exclusions::default(), REPLACED);
    copied.unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
    look(&there);
    assert_eq!(fs::read(there.outside("secret")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(there.outside("")).unwrap().count(), 1);
}

/// A folder whose content is hard to remove.
fn folder_in_the_way(at: &Scratch, name: &str) {
    at.file(format!("{name}/deep/er/f"), "old");
    at.link(at.outside(""), format!("{name}/deep/out"));
    at.fifo(format!("{name}/deep/fifo"));
    at.mode(format!("{name}/deep/er"), 0o555);
    at.mode(format!("{name}/deep"), 0o555);
}

fn file(at: &Scratch, name: &str) -> String {
    assert!(fs::symlink_metadata(at.path(name)).unwrap().is_file(), "{name}");
    fs::read_to_string(at.path(name)).unwrap()
}

#[test]
fn a_file_takes_the_place_of_whatever_is_there() {
    let comes = |at: &Scratch| at.file("new", "new");
    let look = |at: &Scratch| assert_eq!(file(at, "there"), "new");
    check(comes, |at| folder_in_the_way(at, "there"), ("new", "there"), look);
    check(comes, |at| at.link(at.outside("secret"), "there"), ("new", "there"), look);
    check(comes, |at| at.link(at.outside(""), "there"), ("new", "there"), look);
    check(comes, |at| at.fifo("there"), ("new", "there"), look);
    check(comes, |_| {}, ("new", "there"), look);
    let twice = |at: &Scratch| {
        at.file("there", "old");
        at.mode("there", 0o444);
        fs::hard_link(at.path("there"), at.path("other")).unwrap();
    };
    check(comes, twice, ("new", "there"), |at| {
        look(at);
        assert_eq!(file(at, "other"), "old");
    });
}

#[test]
fn folder_replaces_files_and_fills_folders() {
    let comes = |at: &Scratch| at.file("new/f", "new");
    let look = |at: &Scratch| assert_eq!(file(at, "there/f"), "new");
    check(comes, |at| at.file("there", "old"), ("new", "there"), look);
    check(comes, |at| at.link(at.outside(""), "there"), ("new", "there"), look);
    check(comes, |at| at.fifo("there"), ("new", "there"), look);
    let closed = |at: &Scratch| {
        at.file("there/kept", "old");
        at.mode("there", 0o555);
    };
    check(comes, closed, ("new", "there"), |at| {
        look(at);
        assert_eq!(file(at, "there/kept"), "old");
        assert_eq!(fs::metadata(at.path("there")).unwrap().mode() & 0o777, 0o555);
        at.mode("there", 0o755);
    });
}

#[test]
fn all_folder_files_are_protected() {
    let comes = |at: &Scratch| {
        at.file("new/file", "new");
        at.file("new/folder/f", "new");
        at.link("nowhere", "new/link");
        at.file("new/both/f", "new");
    };
    let there = |at: &Scratch| {
        folder_in_the_way(at, "there/file");
        at.link(at.outside(""), "there/folder");
        folder_in_the_way(at, "there/link");
        at.file("there/both/kept", "old");
        at.mode("there/both", 0o555);
        at.file("there/kept", "old");
    };
    check(comes, there, ("new", "there"), |at| {
        assert_eq!(file(at, "there/file"), "new");
        assert_eq!(file(at, "there/folder/f"), "new");
        assert_eq!(fs::read_link(at.path("there/link")).unwrap(), Path::new("nowhere"));
        assert_eq!((file(at, "there/both/f"), file(at, "there/both/kept")), ("new".into(), "old".into()));
        assert_eq!(file(at, "there/kept"), "old");
    });
}

#[test]
fn non_folder_on_path_is_replaced() {
    let comes = |at: &Scratch| at.file("new", "new");
    let look = |at: &Scratch| assert_eq!(file(at, "a/b/c"), "new");
    check(comes, |at| at.file("a", "old"), ("new", "a/b/c"), look);
    check(comes, |at| at.file("a/b", "old"), ("new", "a/b/c"), look);
    check(comes, |at| at.link(at.outside(""), "a"), ("new", "a/b/c"), look);
    let closed = |at: &Scratch| {
        folder_in_the_way(at, "a/b/c");
        at.mode("a/b", 0o555);
    };
    check(comes, closed, ("new", "a/b/c"), |at| {
        look(at);
        assert_eq!(fs::metadata(at.path("a/b")).unwrap().mode() & 0o777, 0o555);
        at.mode("a/b", 0o755);
    });
}

#[test]
fn file_cannot_replace_whole_destination() {
    let (comes, there) = (Scratch::new(), Scratch::new());
    comes.file("new", "new");
    there.file("there/f", "old");
    let copy = |to: &str, existing| {
        let options = CopyOptions { existing, ..REPLACED };
        copy_part(&comes.dir(), "new", &there.dir(), to, &Exclusions::default(), options).unwrap_err()
    };
    let error = copy(".", Existing::Replaced);
    assert_eq!((error.is_infrastructure(), error.flag()), (false, Some("not-regular")), "{error}");
    let error = copy("there", Existing::Refused);
    assert!(matches!(error, TreeError::Write(_)) && error.is_lasting(), "{error}");
    assert_eq!(file(&there, "there/f"), "old");
}

/// One disk of 4 MiB, and larger files.
#[test]
fn full_machine_differs_from_full_sandbox() {
    with_backend("room", |backend| async move {
        let small = backend.start(waiting("small")).await.unwrap();
        let mut spec = waiting("large");
        spec.limits.disk_mib = 16;
        let large = backend.start(spec).await.unwrap();
        sh(large.sandbox.as_ref(), "mkdir d; head -c 6000000 /dev/zero > d/f").await;
        let source = large.sandbox.workspace().await.unwrap().unwrap();
        let destination = small.sandbox.workspace().await.unwrap().unwrap();
        let (host, _) = small.sandbox.identity();
        let owner = rustix::process::geteuid().is_root().then_some(Owner { uid: host, gid: host });
        let copies = move |size_limit| {
            let options =
                CopyOptions { owner, size_limit, existing: Existing::Replaced, ..CopyOptions::default() };
            let tree = copy_tree(&source, &destination, options).unwrap_err();
            let part = copy_part(&source, "d/f", &destination, "f", &Exclusions::default(), options);
            [tree, part.unwrap_err()]
        };
        let copied =
            tokio::task::spawn_blocking(move || [copies(SizeLimit::Shared), copies(SizeLimit::Bounded)]);
        let [machine, sandbox] = copied.await.unwrap();
        for error in machine {
            assert!(error.is_infrastructure() && !error.is_lasting(), "{error}");
            assert_eq!(error.flag(), None, "{error}");
        }
        for error in sandbox {
            assert_eq!((error.is_infrastructure(), error.flag()), (false, Some("too-large")), "{error}");
        }

        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("f"), vec![1; 6_000_000]).unwrap();
        let request = TransferRequest {
            inside: "/work/carried".to_owned(),
            outside: Arc::new(SafeDir::open(outside.path()).unwrap()),
            name: "f".to_owned(),
            exclude: Exclusions::default(),
            bounds: TreeBounds::default(),
        };
        match small.sandbox.copy_in(request).await {
            Err(TransferError::Tree(error)) => assert!(matches!(error, TreeError::NoRoom { .. }), "{error}"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_copy_is_removed_whatever_its_modes_are() {
    as_normal_user_too("copies::a_copy_is_removed_whatever_its_modes_are", || {
        let copy = Scratch::new();
        for (name, mode) in [("none", 0), ("listed", 0o444), ("entered", 0o111), ("written", 0o200)] {
            copy.file(format!("{name}/{name}/f"), "x");
            copy.link(copy.outside(""), format!("{name}/{name}/out"));
            copy.mode(format!("{name}/{name}"), mode);
            copy.mode(name, mode);
        }
        remove_content(&copy.dir()).unwrap();
        assert_eq!(fs::read_dir(copy.path("")).unwrap().count(), 0);
        assert_eq!(fs::read(copy.outside("secret")).unwrap(), SECRET);
    });
}
