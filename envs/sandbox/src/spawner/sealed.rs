//! A write-proof copy of our own program.
//!
//! A program inside a container can make the joining process execute itself again: with a script whose interpreter is
//! `/proc/self/exe`. If root inside is root outside, that yields a handle of the file, which can be written to once no
//! process runs it. So the program that joins a container runs from a copy in memory that is sealed against every
//! change.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

/// The copy. It exists as long as this value.
#[derive(Debug)]
pub(super) struct SealedProgram {
    /// Closed on exec, so no program inherits it.
    file: File,
}

impl SealedProgram {
    /// Copies `program`. Takes some milliseconds, and its size in memory.
    pub(super) fn copy(program: &Path) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = match memfd_create("clawrl-sbx", flags | MemfdFlags::EXEC) {
            // Before Linux 6.3, which allows executing such files without being asked.
            Err(Errno::INVAL) => memfd_create("clawrl-sbx", flags)?,
            other => other?,
        };
        let mut file = File::from(file);
        io::copy(&mut File::open(program)?, &mut file)?;
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self { file })
    }

    /// The path by which this process's children can execute it.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_program_runs_and_is_read_only() {
        let sealed = SealedProgram::copy(Path::new("/bin/true")).unwrap();
        assert!(std::process::Command::new(sealed.path()).status().unwrap().success());
        let error = File::options().write(true).open(sealed.path()).and_then(|mut file| {
            use std::io::Write;
            file.write_all(b"x")
        });
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
}
