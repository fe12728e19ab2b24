//! The libtorch of this process, and its CUDA library.
//!
//! libtorch_cpu.so is linked. libtorch_cuda.so is not: it needs gigabytes of other libraries, and a machine without a GPU
//! needs none of them. Loading it registers CUDA with the library that is loaded already.

// The loader is reached through `foreign`.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::foreign::{clawrl_libtorch_path, clawrl_libtorch_version, clawrl_load_library, take_text};

const CUDA_LIBRARY: &str = "libtorch_cuda.so";

/// Error of finding or loading libtorch's files.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// The loader does not know a libtorch_cpu.so, for example because it is linked statically.
    #[error("the loader does not say where libtorch_cpu.so is")]
    Unlocated,
    /// This libtorch is one without CUDA.
    #[error("the libtorch in {} is one without CUDA", .0.display())]
    NoCuda(PathBuf),
    /// The library exists but does not load; the loader's message.
    #[error("cannot load libtorch's CUDA half: {0}")]
    Load(String),
}

/// A version of PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LibtorchVersion {
    /// Changes rarely.
    pub major: u8,
    /// Changes with every release; C++ interfaces do not outlive it.
    pub minor: u8,
    /// Changes with bug fixes.
    pub patch: u8,
}

impl fmt::Display for LibtorchVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The version of the libtorch that is loaded, which need not be the one this was built with.
pub fn libtorch_version() -> LibtorchVersion {
    let [major, minor, patch, ..] = clawrl_libtorch_version().to_be_bytes();
    LibtorchVersion { major, minor, patch }
}

/// The folder of the loaded libtorch_cpu.so, with links resolved.
pub fn libtorch_folder() -> Result<PathBuf, LibraryError> {
    // SAFETY: it has just been returned and is taken once.
    let path = unsafe { take_text(clawrl_libtorch_path()) }.ok_or(LibraryError::Unlocated)?;
    let path = std::fs::canonicalize(path).map_err(|_| LibraryError::Unlocated)?;
    path.parent().map(Path::to_path_buf).ok_or(LibraryError::Unlocated)
}

/// Loads libtorch's CUDA library permanently; repeated calls are harmless. It does not check for a GPU.
///
/// libtorch checks for CUDA once in a process and remembers the result: call this first.
pub fn load_cuda() -> Result<(), LibraryError> {
    let folder = libtorch_folder()?;
    let path = folder.join(CUDA_LIBRARY);
    if !path.exists() {
        return Err(LibraryError::NoCuda(folder));
    }
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| LibraryError::Unlocated)?;
    // SAFETY: the path is a C string that lives through the call. Initialisers of the library run now, as they would
    // at the program's start were it linked; the absolute path makes it the one that belongs to libtorch_cpu.so.
    let error = unsafe { take_text(clawrl_load_library(path.as_ptr())) };
    error.map_or(Ok(()), |reason| Err(LibraryError::Load(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_libtorch_is_the_linked_one() {
        assert_eq!(libtorch_version(), LibtorchVersion { major: 2, minor: 11, patch: 0 });
        let folder = libtorch_folder().unwrap();
        assert!(folder.join("libtorch_cpu.so").is_file(), "{}", folder.display());
    }

    #[test]
    fn versions_are_written_as_usual() {
        assert_eq!(LibtorchVersion { major: 2, minor: 11, patch: 0 }.to_string(), "2.11.0");
    }

    /// Distinguishes a libtorch without CUDA from one whose CUDA library does not load.
    #[test]
    fn cuda_is_loaded_or_the_reason_is_told() {
        let is_there = libtorch_folder().unwrap().join(CUDA_LIBRARY).exists();
        match load_cuda() {
            Ok(()) => assert!(is_there),
            Err(LibraryError::NoCuda(_)) => assert!(!is_there),
            Err(LibraryError::Load(reason)) => assert!(is_there && reason.contains(".so"), "{reason}"),
            Err(error @ LibraryError::Unlocated) => panic!("{error}"),
        }
    }
}
