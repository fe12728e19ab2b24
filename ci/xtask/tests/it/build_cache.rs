//! `ci/cache.sh` with a small package: what clean clones share, and what becomes of an entry that is not what it should be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The oldest of the versions of `base64` that our own lock file has for Linux: Cargo has their sources wherever this test was
/// built.
const OLD: &str = "0.13.1";
const OLD_PROGRAM: &str = "fn main() { println!(\"old {}\", base64::encode(\"a\")); }\n";
const NEW_PROGRAM: &str = "use base64::{Engine, engine::general_purpose::STANDARD};\nfn main() { println!(\"new {}\", STANDARD.encode(\"a\")); }\n";

/// A user with a cache folder, and clones.
struct User {
    home: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a folder") }
    }

    /// A clean clone of a package that depends on this version of the crate.
    fn clone_of(&self, name: &str, version: &str, program: &str) -> Checkout {
        let path = self.home.path().join(name);
        let write = |file: &str, text: &str| {
            let file = path.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../cache.sh");
        write("ci/cache.sh", &fs::read_to_string(script).expect("the script"));
        write(".cargo/config.toml", "");
        let package = "[package]\nname = \"clawrl-sample\"\nedition = \"2024\"\n";
        write(
            "Cargo.toml",
            &format!(
                "{package}[dependencies]\nbase64 = {{ version = \"={version}\", default-features = false, features = [\"std\"] }}\n"
            ),
        );
        write("src/main.rs", program);
        let checkout = Checkout { path, cache: self.home.path().join("cache") };
        checkout.cargo(&["generate-lockfile"], "");
        checkout
    }

    /// The only entry of the cache.
    fn entry(&self) -> PathBuf {
        let folder = fs::read_dir(self.home.path().join("cache/clawrl/build")).expect("the cache");
        let mut entries: Vec<PathBuf> = folder.map(|entry| entry.expect("an entry").path()).collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }
}

struct Checkout {
    path: PathBuf,
    cache: PathBuf,
}

impl Checkout {
    fn command(&self, program: &str, flags: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.path).env("XDG_CACHE_HOME", &self.cache).env("CARGO_NET_OFFLINE", "true");
        command.env_remove("CARGO_TARGET_DIR").env_remove("CLAWRL_BUILD_CACHE").env("RUSTFLAGS", flags);
        command
    }

    fn cargo(&self, arguments: &[&str], flags: &str) -> String {
        said(self.command("cargo", flags).args(arguments).output())
    }

    fn cache(&self, what: &str, flags: &str) -> String {
        said(self.command("bash", flags).args(["ci/cache.sh", what, "debug"]).output())
    }

    /// Builds as `make` does; what Cargo said.
    fn build(&self, flags: &str) -> String {
        let restored = self.cache("restore", flags);
        let built = self.cargo(&["build", "--verbose", "--locked"], flags);
        restored + &built + &self.cache("save", flags)
    }

    /// Checks that the program is that of its sources.
    fn prints(&self, expected: &str) {
        let program = self.path.join("target/debug/clawrl-sample");
        let output = Command::new(program).output().expect("the program");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{expected}\n"));
    }
}

fn said(output: std::io::Result<Output>) -> String {
    let output = output.expect("a process");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// The version of the crate in our lock file that is not [`OLD`].
fn new_version() -> String {
    let lock =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).expect("the lock file");
    let versions = lock.split("name = \"base64\"\nversion = \"").skip(1);
    let versions = versions.filter_map(|rest| rest.split('"').next());
    versions.filter(|version| *version != OLD).last().expect("another version").to_owned()
}

fn filled(user: &User) -> String {
    let version = new_version();
    let first = user.clone_of("first", &version, NEW_PROGRAM);
    let built = first.build("");
    assert!(built.contains("Compiling base64"), "{built}");
    first.prints("new YQ==");
    version
}

fn damaged(damage: impl FnOnce(&Path)) {
    let user = User::new();
    let version = filled(&user);
    damage(&user.entry().join("archive.tar"));
    let second = user.clone_of("second", &version, NEW_PROGRAM);
    let built = second.build("");
    assert!(built.contains("is broken, and is deleted") && built.contains("Compiling base64"), "{built}");
    second.prints("new YQ==");
    // There is a good one again.
    let third = user.clone_of("third", &version, NEW_PROGRAM).build("");
    assert!(third.contains("Fresh base64"), "{third}");
}

#[test]
fn clean_clones_share_third_party_builds_alone() {
    let user = User::new();
    let version = filled(&user);
    let second = user.clone_of("second", &version, &NEW_PROGRAM.replace("new ", "edited "));
    let built = second.build("");
    assert!(built.contains("Fresh base64") && built.contains("Compiling clawrl-sample"), "{built}");
    second.prints("edited YQ==");
    fs::write(second.path.join("src/main.rs"), NEW_PROGRAM).expect("a file");
    assert!(second.build("").contains("Fresh base64"));
    second.prints("new YQ==");
}

#[test]
fn an_entry_that_is_half_written_is_deleted() {
    damaged(|archive| {
        let bytes = fs::read(archive).expect("the archive");
        fs::write(archive, &bytes[..bytes.len() / 2]).expect("half of it");
    });
}

#[test]
fn an_entry_with_a_changed_byte_is_deleted() {
    damaged(|archive| {
        let mut bytes = fs::read(archive).expect("the archive");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(archive, bytes).expect("the archive");
    });
}

#[test]
fn an_entry_of_other_flags_serves_nothing() {
    let user = User::new();
    let version = new_version();
    let first = user.clone_of("first", &version, NEW_PROGRAM);
    first.build("");
    let right = user.entry();
    fs::remove_dir_all(&right).expect("the entry");
    user.clone_of("other", &version, NEW_PROGRAM).build("-C opt-level=1");
    fs::rename(user.entry(), &right).expect("the entry");
    let second = user.clone_of("second", &version, NEW_PROGRAM);
    let built = second.build("");
    assert!(built.contains("Compiling base64"), "{built}");
    second.prints("new YQ==");
}

#[test]
fn an_entry_of_an_older_lock_file_serves_nothing() {
    let user = User::new();
    filled(&user);
    let right = user.entry();
    fs::remove_dir_all(&right).expect("the entry");
    let old = user.clone_of("old", OLD, OLD_PROGRAM);
    old.build("");
    old.prints("old YQ==");
    fs::rename(user.entry(), &right).expect("the entry");
    let second = user.clone_of("second", &new_version(), NEW_PROGRAM);
    let built = second.build("");
    assert!(built.contains("Compiling base64"), "{built}");
    second.prints("new YQ==");
}
