//! The libtorch that `clawrl-torch` loads: whether it is there, and whether this user may read it.
//!
//! I1. What keeps the loader from it is told in words, before the loader tells it in its own. I2. What may not be read is not called
//! missing.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::environment::Variable;

/// The library that everything else follows from.
const LIBRARY: &str = "libtorch_cpu.so";

/// How libtorch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Libtorch {
    /// This program does not know of one: it was built without.
    Unknown,
    /// In this folder, and it may be read.
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
    /// Looks for it as the loader does, with the folder that the program was linked to: first where [`Variable::LibraryPath`] says.
    pub fn find(built_with: Option<&Path>) -> Self {
        let first = Variable::LibraryPath.path().unwrap_or_default();
        Self::among(std::env::split_paths(&first), built_with)
    }

    fn among(first: impl Iterator<Item = PathBuf>, built_with: Option<&Path>) -> Self {
        let readable = |folder: &PathBuf| File::open(folder.join(LIBRARY)).is_ok();
        if let Some(folder) = first.into_iter().find(readable) {
            return Self::There(folder);
        }
        let Some(folder) = built_with else { return Self::Unknown };
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

    /// What keeps it from being loaded, and what to do; nothing where nothing is known to.
    pub fn trouble(&self) -> Option<(String, String)> {
        match self {
            Self::Unknown | Self::There(_) => None,
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

/// The first part of a path that this user may not pass; the path itself where all above it are open.
fn closed_part(path: &Path) -> PathBuf {
    let mut folders: Vec<&Path> =
        path.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).collect();
    folders.reverse();
    let is_closed = |folder: &&Path| access(*folder, Access::EXEC_OK).is_err();
    let closed = folders.into_iter().find(is_closed).unwrap_or(path);
    // Of a link, what it leads to is closed, and its own path opens nothing.
    fs::canonicalize(closed).unwrap_or_else(|_| closed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first: &[&Path], built_with: Option<&Path>, expected: Libtorch) {
        let first = first.iter().map(|folder| (*folder).to_owned());
        assert_eq!(Libtorch::among(first, built_with), expected);
    }

    #[test]
    fn libtorch_is_looked_for_where_the_loader_looks() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (own, other) = (own.path(), other.path());
        check(&[], None, Libtorch::Unknown);
        check(&[other], Some(own), Libtorch::Missing(own.join(LIBRARY)));
        std::fs::write(other.join(LIBRARY), "").unwrap();
        check(&[own, other], Some(own), Libtorch::There(other.to_owned()));
        check(&[other], None, Libtorch::There(other.to_owned()));
        std::fs::write(own.join(LIBRARY), "").unwrap();
        check(&[], Some(own), Libtorch::There(own.to_owned()));
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
        let found = || as_a_normal_user(|| Libtorch::among(std::iter::empty(), Some(&own)));
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
