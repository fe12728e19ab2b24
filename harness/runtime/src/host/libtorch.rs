//! The libtorch that `clawrl-torch` loads: whether it is there, and whether this user may read it.
//!
//! I1. An unusable libtorch is reported here, with its fix, before the loader would fail with a message of its own. I2. A file that
//! this user may not read is not reported as missing.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::environment::Variable;

/// The library whose presence decides.
const LIBRARY: &str = "libtorch_cpu.so";

/// The libtorch that `clawrl-torch` was linked to.
#[derive(Debug, Clone, Copy)]
pub struct LinkedLibtorch {
    /// PyTorch's version.
    pub version: &'static str,
    /// Folder of its libraries. `None`: the programs belong to a Python environment, whose PyTorch they load.
    pub folder: Option<&'static str>,
}

/// Where libtorch is, or why it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Libtorch {
    /// This program was built without libtorch.
    Unknown,
    /// PyTorch is not installed in the Python environment of this program.
    NotInstalled,
    /// It is in this folder and readable.
    There(PathBuf),
    /// This file is missing.
    Missing(PathBuf),
    /// This file may not be read, since the folder above it, or the file itself, is closed to this user.
    Closed {
        /// The file.
        library: PathBuf,
        /// The part of its path that is closed.
        by: PathBuf,
    },
}

impl Libtorch {
    /// Looks where the loader does: in [`Variable::LibraryPath`], in the Python environment of this program, and in the folder
    /// that the build was linked to.
    pub fn find(linked: Option<LinkedLibtorch>) -> Self {
        let first = Variable::LibraryPath.path().unwrap_or_default();
        let program = std::env::current_exe().unwrap_or_default();
        Self::among(std::env::split_paths(&first).chain(in_environment_of(&program)), linked)
    }

    fn among(first: impl Iterator<Item = PathBuf>, linked: Option<LinkedLibtorch>) -> Self {
        let Some(LinkedLibtorch { folder, .. }) = linked else { return Self::Unknown };
        let readable = |folder: &PathBuf| File::open(folder.join(LIBRARY)).is_ok();
        if let Some(folder) = first.into_iter().find(readable) {
            return Self::There(folder);
        }
        let Some(folder) = folder.map(Path::new) else { return Self::NotInstalled };
        let library = folder.join(LIBRARY);
        match File::open(&library) {
            Ok(_) => Self::There(folder.to_owned()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let by = closed_part(&library);
                Self::Closed { library, by }
            }
            Err(_) => Self::Missing(library),
        }
    }

    /// Why it cannot be loaded, and the fix. `None`: the loader may try.
    pub fn trouble(&self) -> Option<(String, String)> {
        match self {
            Self::Unknown | Self::There(_) => None,
            Self::NotInstalled => Some((
                "PyTorch, which training needs, is not installed beside clawrl".to_owned(),
                "`pip install 'clawrl[train]'` in the Python environment of clawrl installs it".to_owned(),
            )),
            Self::Missing(library) => Some((
                format!(
                    "libtorch is not where clawrl-torch was linked to it: {} is missing",
                    library.display()
                ),
                "`ci/setup.sh` installs it again".to_owned(),
            )),
            Self::Closed { library, by } => Some((
                format!(
                    "libtorch may not be read by this user: {} is closed, above or at {}",
                    by.display(),
                    library.display()
                ),
                format!(
                    "have its owner open it (`chmod a+X {}` for a folder, `a+r` for the file), or copy that libtorch to a \
                     folder that this user may read and name it by {}",
                    by.display(),
                    Variable::LibraryPath.name()
                ),
            )),
        }
    }
}

/// PyTorch's folders in the Python environment that a program is installed in, as `clawrl-torch` is linked (harness/clawrl/build.rs).
fn in_environment_of(program: &Path) -> Vec<PathBuf> {
    let Some(environment) = program.parent().and_then(Path::parent) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(environment.join("lib")) else { return Vec::new() };
    let versions =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("python3."));
    versions.map(|entry| entry.path().join("site-packages/torch/lib")).collect()
}

/// The first part of a path that this user may not pass; the path itself where all above it are open.
fn closed_part(path: &Path) -> PathBuf {
    let mut folders: Vec<&Path> =
        path.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).collect();
    folders.reverse();
    let is_closed = |folder: &&Path| access(*folder, Access::EXEC_OK).is_err();
    let closed = folders.into_iter().find(is_closed).unwrap_or(path);
    // If the path is a link, its target is closed; to open the link's own path would not help.
    fs::canonicalize(closed).unwrap_or_else(|_| closed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(folder: Option<&Path>) -> Option<LinkedLibtorch> {
        // A string with static lifetime, as in a program.
        let folder = folder.map(|folder| &*folder.to_str().unwrap().to_owned().leak());
        Some(LinkedLibtorch { version: "2.11.0", folder })
    }

    fn check(first: &[&Path], linked: Option<LinkedLibtorch>, expected: Libtorch) {
        let first = first.iter().map(|folder| (*folder).to_owned());
        assert_eq!(Libtorch::among(first, linked), expected);
    }

    #[test]
    fn libtorch_is_looked_for_where_the_loader_looks() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (own, other) = (own.path(), other.path());
        check(&[], None, Libtorch::Unknown);
        check(&[other], linked(Some(own)), Libtorch::Missing(own.join(LIBRARY)));
        check(&[other], linked(None), Libtorch::NotInstalled);
        std::fs::write(other.join(LIBRARY), "").unwrap();
        check(&[own, other], linked(Some(own)), Libtorch::There(other.to_owned()));
        check(&[other], linked(None), Libtorch::There(other.to_owned()));
        std::fs::write(own.join(LIBRARY), "").unwrap();
        check(&[], linked(Some(own)), Libtorch::There(own.to_owned()));
    }

    #[test]
    fn wheel_finds_torch_of_its_environment() {
        let environment = tempfile::tempdir().unwrap();
        let folder = environment.path().join("lib/python3.13/site-packages/torch/lib");
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(in_environment_of(&environment.path().join("bin/clawrl")), [folder]);
        assert!(in_environment_of(Path::new("clawrl")).is_empty());
    }

    /// Runs `work` as an unprivileged user if this user is root, who may read everything; in a thread of its own, because the change is
    /// permanent.
    fn as_a_normal_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        const NOBODY: u32 = 65_534;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                if rustix::process::geteuid().is_root() {
                    let (uid, gid) =
                        (rustix::thread::Uid::from_raw(NOBODY), rustix::thread::Gid::from_raw(NOBODY));
                    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
                    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                }
                work()
            });
            thread.join().unwrap()
        })
    }

    #[test]
    fn i2_the_folder_that_is_closed_is_named() {
        let place = tempfile::tempdir().unwrap();
        let (above, own) = (place.path().join("home"), place.path().join("home/cache/lib"));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join(LIBRARY), "").unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(place.path(), 0o755);
        let found = || as_a_normal_user(|| Libtorch::among(std::iter::empty(), linked(Some(&own))));
        assert_eq!(found(), Libtorch::There(own.clone()));
        let closed =
            |by: &Path| Libtorch::Closed { library: own.join(LIBRARY), by: by.canonicalize().unwrap() };
        mode(&own.join(LIBRARY), 0);
        assert_eq!(found(), closed(&own.join(LIBRARY)));
        mode(&above, 0);
        let told = found();
        mode(&above, 0o755);
        assert_eq!(told, closed(&above));
    }

    #[test]
    fn what_is_missing_and_what_is_closed_are_told_apart() {
        let missing = Libtorch::Missing("/lib/x.so".into()).trouble().unwrap();
        assert!(missing.0.ends_with("/lib/x.so is missing"), "{missing:?}");
        let closed =
            Libtorch::Closed { library: "/srv/lib/x.so".into(), by: "/srv".into() }.trouble().unwrap();
        assert!(closed.0.contains("may not be read by this user: /srv is closed"), "{closed:?}");
        assert!(closed.1.contains("chmod a+X /srv") && closed.1.contains("LD_LIBRARY_PATH"), "{closed:?}");
    }
}
