//! Trees sent through a stream: the received copy looks like the source, with and without root.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clawrl_sandbox::{
    CopyOptions, EntryStat, Exclusions, FileKind, SafeDir, SafeReadError, SafeWriteError, SkipReason,
    TreeBound, TreeBounds, TreeError, TreeMetadata, UnpackError, copy_part, copy_tree, pack_tree,
    unpack_tree,
};

use crate::support::as_normal_user_too;
use crate::traps::{SECRET, Scratch};

const WIDE: TreeBounds = TreeBounds { entries: 10_000, depth: 300, bytes: 1 << 20 };

fn pack(source: &Scratch, from: &str) -> Vec<u8> {
    let mut stream = Vec::new();
    pack_tree(&source.dir(), from, &Exclusions::default(), WIDE, &mut stream).unwrap();
    stream
}

fn unpack(stream: &[u8]) -> Result<(tempfile::TempDir, TreeMetadata), UnpackError> {
    let folder = tempfile::tempdir().unwrap();
    let mut rest = stream;
    let told = unpack_tree(&mut rest, &SafeDir::open(folder.path()).unwrap(), "t")?;
    assert_eq!(rest, b"", "a stream was not read to its end");
    Ok((folder, told))
}

/// The received tree, kept until it is dropped, which must remove it.
fn brought(source: &Scratch) -> SafeDir {
    let (folder, told) = unpack(&pack(source, ".")).unwrap();
    SafeDir::open_with_metadata(folder.path().join("t"), told, Arc::new(folder)).unwrap()
}

fn hash(tree: &SafeDir) -> String {
    tree.tree_hash(".", WIDE).unwrap()
}

fn dated(source: &Scratch, path: &str) -> SystemTime {
    fs::symlink_metadata(source.path(path)).unwrap().modified().unwrap()
}

/// Whatever an agent may leave that is not a file or a folder of the usual kind.
fn hostile() -> Hostile {
    let source = Scratch::new();
    source.file("file", "content");
    source.file("run", "#!/bin/sh\n");
    source.mode("run", 0o6755);
    source.file("folder/inner", "x");
    source.mode("folder", 0o1555);
    source.file(OsStr::from_bytes(b"\xff line\nbreak"), [0, 255]);
    source.fifo("fifo");
    source.socket("socket");
    source.device("device");
    source.file("links/file", "x");
    for (name, target) in [("a", "b//c"), ("dot", "x/."), ("root", "/"), ("out", "/etc/passwd")] {
        source.link(target, format!("links/{name}"));
    }
    source.link("x/".repeat(2_000), "links/long");
    Hostile(source)
}

struct Hostile(Scratch);

impl std::ops::Deref for Hostile {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.0
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        // So that the unprivileged user can remove it.
        self.0.mode("folder", 0o755);
    }
}

#[test]
fn unpacked_tree_looks_like_its_source() {
    as_normal_user_too("packed::unpacked_tree_looks_like_its_source", || {
        let source = hostile();
        let came = brought(&source);
        assert_eq!(hash(&came), hash(&source.dir()));
        for path in ["file", "run", "folder", "folder/inner", "fifo", "socket", "links/root", "."] {
            let [EntryStat { kind, mode, uid, gid, .. }, there] =
                [&came, &source.dir()].map(|tree| tree.stat(path).unwrap());
            assert_eq!((kind, mode, uid, gid), (there.kind, there.mode, there.uid, there.gid), "{path}");
        }
        for (path, found) in [("fifo", FileKind::Fifo), ("socket", FileKind::Socket)] {
            let error = came.read_file(path, 100).unwrap_err();
            assert!(matches!(error, SafeReadError::NotRegular { kind, .. } if kind == found), "{error}");
        }
        assert_eq!(came.read_file("run", 100).unwrap(), b"#!/bin/sh\n");
    });
}

/// If root packs a tree, foreign and closed files are included: the receiver can read them, sees their owners, and can
/// remove them.
#[test]
fn unpacking_without_root_keeps_metadata() {
    as_normal_user_too("packed::unpacking_without_root_keeps_metadata", || {
        let source = Scratch::new();
        source.file("folder/file", "content");
        source.mode("folder/file", 0o601);
        source.mode("folder", 0o701);
        let mut stream = pack(&source, ".");
        // As if they were another's, and closed to all but that one: rights are four bytes each of mode, user and group after the tag.
        let mut close = |tag: u8, mode: u32| {
            let open = [&[tag][..], &mode.to_le_bytes()].concat();
            let at = stream.windows(open.len()).position(|window| window == open).unwrap();
            stream[at + 1..at + 5].copy_from_slice(&(mode & !0o077).to_le_bytes());
            stream[at + 5..at + 9].copy_from_slice(&54_321u32.to_le_bytes());
        };
        close(b'd', 0o40_701);
        close(b'f', 0o100_601);
        let (folder, told) = unpack(&stream).unwrap();
        let path = folder.path().to_owned();
        let came = SafeDir::open_with_metadata(path.join("t"), told, Arc::new(folder)).unwrap();
        assert_eq!(came.read_file("folder/file", 100).unwrap(), b"content");
        for (path, mode) in [("folder", 0o700), ("folder/file", 0o600)] {
            let stat = came.stat(path).unwrap();
            assert_eq!((stat.mode, stat.uid), (mode, 54_321), "{path}");
        }
        let mut again = Vec::new();
        pack_tree(&came, ".", &Exclusions::default(), WIDE, &mut again).unwrap();
        assert_eq!(again, stream);
        let copy = Scratch::new();
        let report = copy_tree(&came, &copy.dir(), CopyOptions::default()).unwrap();
        assert_eq!((report.files, report.skipped.is_empty()), (1, true));
        assert_eq!(fs::metadata(copy.path("folder")).unwrap().mode() & 0o7777, 0o700);
        drop(came);
        assert!(!path.exists());
    });
}

#[test]
fn copy_of_unpacked_equals_copy_of_source() {
    as_normal_user_too("packed::copy_of_unpacked_equals_copy_of_source", || {
        let (source, copies) = (hostile(), [Scratch::new(), Scratch::new()]);
        let trees = [source.dir(), brought(&source)];
        let copied = trees.iter().zip(&copies);
        let reports: Vec<_> = copied
            .map(|(tree, copy)| copy_tree(tree, &copy.dir(), CopyOptions::default()).unwrap())
            .collect();
        assert_eq!(reports[0], reports[1]);
        assert_eq!(reports[0].skipped.named().last().unwrap().reason, SkipReason::Special(FileKind::Socket));
        assert_eq!(hash(&copies[0].dir()), hash(&copies[1].dir()));
        for path in ["run", "folder"] {
            let [first, second] =
                [&copies[0], &copies[1]].map(|copy| fs::metadata(copy.path(path)).unwrap().mode());
            assert_eq!(first, second, "{path}");
        }
        for copy in &copies {
            copy.mode("folder", 0o755);
        }
    });
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    let source = Scratch::new();
    source.file("folder/file", "x");
    source.link("nowhere", "folder/link");
    let (beginning, odd) = (UNIX_EPOCH, UNIX_EPOCH + Duration::new(86_400, 123_456_789));
    fs::File::open(source.path("folder/file")).unwrap().set_modified(odd).unwrap();
    fs::File::open(source.path("folder")).unwrap().set_modified(beginning).unwrap();
    let copy = Scratch::new();
    copy_tree(&brought(&source), &copy.dir(), CopyOptions::default()).unwrap();
    assert_eq!((dated(&copy, "folder/file"), dated(&copy, "folder")), (odd, beginning));
    assert_eq!(dated(&copy, "folder/link"), dated(&source, "folder/link"));
}

#[test]
fn paths_may_be_longer_than_any_that_the_kernel_takes() {
    as_normal_user_too("packed::paths_may_be_longer_than_any_that_the_kernel_takes", || {
        let source = Scratch::new();
        let made = std::process::Command::new("sh")
            .args(["-c", "for i in $(seq 40); do mkdir $0 && cd -P $0 || exit; done; echo deep > file"])
            .arg("n".repeat(250))
            .current_dir(source.path(""))
            .status();
        assert!(made.unwrap().success());
        source.deep(250);
        let (folder, told) = unpack(&pack(&source, ".")).unwrap();
        let path = folder.path().to_owned();
        let came = SafeDir::open_with_metadata(path.join("t"), told, Arc::new(folder)).unwrap();
        assert_eq!(hash(&came), hash(&source.dir()));
        drop(came);
        assert!(!path.exists());
    });
}

#[test]
fn bounds_are_those_of_a_copy() {
    let source = Scratch::new();
    source.deep(20);
    source.file("huge", vec![1; 5_000]);
    fs::File::create(source.path("hole")).unwrap().set_len(1 << 30).unwrap();
    let check = |bounds: TreeBounds, expected: Option<TreeBound>| {
        let mut stream = Vec::new();
        let packed = pack_tree(&source.dir(), ".", &Exclusions::default(), bounds, &mut stream);
        let bound = match packed {
            Ok(()) => None,
            Err(TreeError::Bound { bound, .. }) => Some(bound),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(bound, expected);
        assert_eq!(matches!(unpack(&stream), Err(UnpackError::GivenUp)), expected.is_some());
    };
    check(WIDE, None);
    check(TreeBounds { depth: 20, ..WIDE }, Some(TreeBound::Depth));
    check(TreeBounds { entries: 22, ..WIDE }, Some(TreeBound::Entries));
    check(TreeBounds { bytes: 4_999, ..WIDE }, Some(TreeBound::Bytes));
}

#[test]
fn a_file_goes_alone_and_holes_stay_holes() {
    let source = Scratch::new();
    let sparse = fs::File::create(source.path("sparse")).unwrap();
    sparse.set_len(1 << 19).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 1 << 18).unwrap();
    source.mode("sparse", 0o640);
    let stream = pack(&source, "sparse");
    assert!(stream.len() < 1 << 17, "{}", stream.len());
    let (folder, told) = unpack(&stream).unwrap();
    let came = SafeDir::open_with_metadata(folder.path(), told, Arc::new(())).unwrap();
    assert_eq!(came.read_file("t", 1 << 20).unwrap(), fs::read(source.path("sparse")).unwrap());
    let copy = Scratch::new();
    copy_part(&came, "t", &copy.dir(), "copy", &Exclusions::default(), CopyOptions::default()).unwrap();
    let copied = fs::metadata(copy.path("copy")).unwrap();
    assert_eq!((copied.mode() & 0o7777, copied.len()), (0o640, 1 << 19));
    assert!(copied.blocks() * 512 < 1 << 18);
    for (from, expected) in [("link", "a symbolic link, which is not followed"), ("fifo", "a FIFO, not")] {
        source.link("sparse", "link");
        source.fifo("fifo");
        let packed = pack_tree(&source.dir(), from, &Exclusions::default(), WIDE, &mut Vec::new());
        assert!(packed.unwrap_err().to_string().contains(expected));
        fs::remove_file(source.path("link")).unwrap();
        fs::remove_file(source.path("fifo")).unwrap();
    }
}

#[test]
fn invalid_stream_is_refused_and_contained() {
    let source = hostile();
    let stream = pack(&source, ".");
    for length in (0..stream.len()).step_by(31) {
        assert!(matches!(unpack(&stream[..length]), Err(UnpackError::Stream(_))), "{length}");
    }
    let place = Scratch::new();
    let made_up = |name: &[u8]| {
        let mut stream = b"d".to_vec();
        stream.extend([0; 24]);
        stream.extend([0; 4]);
        stream.push(b'o');
        stream.extend([0; 24]);
        stream.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
        stream.extend(name);
        stream.extend(b"uz");
        unpack_tree(&mut stream.as_slice(), &place.dir(), "t")
    };
    for name in [&b""[..], b".", b"..", b"../../outside/x", b"a/b", b"/x", b"a\0b"] {
        assert!(matches!(made_up(name), Err(UnpackError::Stream(_))), "{name:?}");
        fs::remove_dir(place.path("t")).unwrap();
    }
    made_up(b"good").unwrap();
    assert!(matches!(made_up(b"good"), Err(UnpackError::Write(SafeWriteError::Io { .. }))));
    assert_eq!(fs::read(place.outside("secret")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 1);
}

/// Unreadable entries exist in the tree, so that a copy can count them as missing.
#[test]
fn unreadable_entries_are_reported() {
    as_normal_user_too("packed::unreadable_entries_are_reported", || {
        let source = Scratch::new();
        source.file("closed", "x");
        source.file("folder/file", "x");
        source.mode("closed", 0);
        source.mode("folder", 0);
        let came = brought(&source);
        source.mode("folder", 0o755);
        let copied = copy_tree(&came, &Scratch::new().dir(), CopyOptions::default()).unwrap();
        let skipped = copied.skipped.named().iter().map(|skipped| skipped.path.as_path());
        assert_eq!(skipped.collect::<Vec<_>>(), [Path::new("closed"), Path::new("folder")]);
    });
}

/// Whoever receives may be gone.
#[test]
fn a_stream_that_breaks_is_an_error_of_writing() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let packed = pack_tree(&Scratch::new().dir(), ".", &Exclusions::default(), WIDE, &mut Broken);
    assert!(matches!(packed, Err(TreeError::Write(SafeWriteError::Io { .. }))));
}
