//! A small root file system, made of this machine's own programs.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs of every unpacked image, beside those that are asked for.
const PROGRAMS: &[&str] = &[
    "bash", "sh", "cat", "chmod", "cp", "echo", "env", "id", "ln", "ls", "mkdir", "mv", "printf", "rm",
    "sleep", "stat", "true",
];

/// The terminal of every sandbox.
const TERMINAL: &str = "xterm-256color";

/// Makes a root file system in `folder`, which must be there: a merged `/usr`, `/etc` with accounts, bash, some
/// coreutils and `more` programs, each with the libraries that `ldd` names, copied from this machine.
///
/// Everybody may read it, as far as the folders above allow.
///
/// # Errors
/// A program is not on this machine, or a file cannot be copied.
pub fn unpack_image(folder: &Path, more: &[&str]) -> io::Result<()> {
    open(folder)?;
    for inside in ["etc", "root", "tmp", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "var/tmp", "opt"] {
        let mut made = folder.to_owned();
        for name in Path::new(inside) {
            made.push(name);
            if !made.exists() {
                std::fs::create_dir(&made)?;
                open(&made)?;
            }
        }
    }
    for name in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{name}"), folder.join(name))?;
    }
    let accounts = "root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1000::/opt/node:/bin/sh\n";
    std::fs::write(folder.join("etc/passwd"), accounts)?;
    std::fs::write(folder.join("etc/group"), "root:x:0:\nnode:x:1000:\n")?;
    std::fs::write(folder.join("etc/os-release"), "NAME=unpacked\n")?;
    let terminals = folder.join("usr/share/terminfo/x");
    std::fs::create_dir_all(&terminals)?;
    copy(&terminal_description()?, &terminals.join(TERMINAL))?;
    let mut files = BTreeSet::new();
    for program in PROGRAMS.iter().chain(more) {
        let path = which(program)?;
        files.extend(libraries(&path)?);
        copy(&path, &folder.join("usr/bin").join(program))?;
    }
    for library in files {
        let inside = library.strip_prefix("/").unwrap_or(&library);
        let inside =
            if inside.starts_with("usr") { inside.to_owned() } else { Path::new("usr").join(inside) };
        let to = folder.join(inside);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
            open(parent)?;
        }
        copy(&library, &to)?;
    }
    Ok(())
}

/// Terminal data for line editing.
fn terminal_description() -> io::Result<PathBuf> {
    let folders = ["/lib/terminfo", "/usr/share/terminfo", "/etc/terminfo"].iter().map(Path::new);
    folders.map(|folder| folder.join("x").join(TERMINAL)).find(|path| path.is_file()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("this machine has no description of {TERMINAL}"))
    })
}

fn which(program: &str) -> io::Result<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/local/bin"].iter().map(Path::new);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("this machine has no program {program}"))
    })
}

/// Files that `ldd` lists: `NAME => PATH (…)` and `PATH (…)`. A script has none.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(words.map(PathBuf::from).collect())
}

/// The content, whatever links lead to it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::copy(from, to)?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755))
}

/// Whatever the umask was.
fn open(folder: &Path) -> io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}
