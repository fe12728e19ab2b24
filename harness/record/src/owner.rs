//! Ownership of a run: an advisory lock (`flock`) on `owner.lock`.
//!
//! I1. At most one process holds the lock. The kernel frees it when that process ends, however it ends.
//! I2. A reader that checks whether a run is being written never makes a writer fail.
//!
//! A child of the owner shares the lock between fork and exec, and may outlive a killed owner for that
//! moment. Taking the lock waits long enough for this; releasing it explicitly frees it for all.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use clawrl_core::RunId;

use crate::{RecordError, files};

/// Far longer than any child takes from fork to exec, and hardly noticed by a person.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

/// Ownership of a run, until dropped.
#[derive(Debug)]
pub(crate) struct Owner {
    file: File,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child that was just forked.
        let _ = self.file.unlock();
    }
}

impl Owner {
    /// Takes the run.
    ///
    /// # Errors
    /// [`RecordError::Running`] when another process has it.
    pub(crate) fn take(dir: &Path, run: &RunId) -> Result<Self, RecordError> {
        let path = dir.join(files::OWNER);
        let failed = |source| RecordError::io("lock", &path, source);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) => {}
            }
            // Either a writer has it, or a reader looks whether one does: only a writer keeps others from
            // sharing it. A reader is gone within microseconds.
            match file.try_lock_shared() {
                Ok(()) => file.unlock().map_err(failed)?,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(PAUSE); // timer: the kernel has no event for a freed lock
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(RecordError::Running { run: run.clone(), owner: named(&mut file) });
                }
            }
        }
        // Only for the error message; the lock itself decides.
        file.set_len(0).and_then(|()| writeln!(file, "process {}", std::process::id())).map_err(failed)?;
        Ok(Self { file })
    }

    /// Whether a process is writing the run now.
    pub(crate) fn is_held(dir: &Path) -> bool {
        let Ok(file) = File::open(dir.join(files::OWNER)) else { return false };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

fn named(file: &mut File) -> String {
    let mut text = String::new();
    let known = file.read_to_string(&mut text).is_ok() && !text.trim().is_empty();
    if known { text.trim().to_owned() } else { "another process".to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn i1_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::new("a").unwrap();
        assert!(!Owner::is_held(dir.path()));
        let owner = Owner::take(dir.path(), &run).unwrap();
        assert!(Owner::is_held(dir.path()));
        let refused = Owner::take(dir.path(), &run).unwrap_err().to_string();
        let own =
            format!("run a is still running in process {}; wait for it, or stop it", std::process::id());
        assert_eq!(refused, own);
        drop(owner);
        assert!(!Owner::is_held(dir.path()));
        Owner::take(dir.path(), &run).unwrap();
    }

    #[test]
    fn release_frees_a_shared_lock() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::new("a").unwrap();
        let owner = Owner::take(dir.path(), &run).unwrap();
        // A duplicate shares the lock as a forked child does.
        let child = owner.file.try_clone().unwrap();
        drop(owner);
        assert!(!Owner::is_held(dir.path()));
        drop(child);
    }

    #[test]
    fn a_child_that_outlives_its_owner_is_sat_out() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::new("a").unwrap();
        // A duplicate of the killed owner's locked descriptor, which exec closes.
        let child = File::create(dir.path().join(files::OWNER)).unwrap();
        child.try_lock().unwrap();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| Owner::take(dir.path(), &run).map(drop));
            drop(child);
            taker.join().unwrap().unwrap();
        });
    }

    #[test]
    fn i2_onlookers_never_make_a_writer_fail() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::new("a").unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        Owner::is_held(dir.path());
                    }
                });
            }
            let results: Vec<_> = (0..300).map(|_| Owner::take(dir.path(), &run).map(drop)).collect();
            done.store(true, Ordering::Relaxed);
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        });
    }
}
