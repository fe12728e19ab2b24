//! The libtorch that this process runs on: which one, whether it sees a GPU, how many threads it takes.
//!
//! I1. [`probe`] loads libtorch's CUDA library before any code can query CUDA; libtorch remembers the
//! first answer. I2. Of a libtorch of another version, only the version is read.
//!
//! Errors: [`RuntimeError`]. A libtorch that is missing altogether never gets here: the loader does not start the
//! program and names the file; `ci/setup.sh` brings it back to where the program looks.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

use clawrl_torch_shim::{LibraryError, LibtorchVersion, libtorch_folder, libtorch_version, load_cuda};
use thiserror::Error;

/// The PyTorch whose libtorch this is written for; `ci/setup.sh` installs it.
pub const LIBTORCH_VERSION: LibtorchVersion = LibtorchVersion { major: 2, minor: 11, patch: 0 };

/// Why libtorch cannot be used as asked.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// Another libtorch was loaded than the one this was built for, as LD_LIBRARY_PATH can bring about.
    #[error(
        "libtorch {found} is loaded, from {}, but this program is built for {LIBTORCH_VERSION}: run ci/setup.sh and \
         build again, with neither LIBTORCH nor LD_LIBRARY_PATH naming another one", .folder.display()
    )]
    WrongVersion {
        /// Loaded version.
        found: LibtorchVersion,
        /// From where.
        folder: PathBuf,
    },
    /// libtorch is loaded, and yet not found.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// libtorch did not take the number of threads.
    #[error("libtorch runs on {found} threads, not on the {asked} that were asked for")]
    Threads {
        /// Requested number.
        asked: NonZeroUsize,
        /// Actual number.
        found: i64,
    },
}

/// Facts about the libtorch of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// Its version, which is [`LIBTORCH_VERSION`].
    pub version: LibtorchVersion,
    /// The folder of its libraries.
    pub folder: PathBuf,
    /// Whether it sees a GPU.
    pub cuda: CudaFacts,
}

/// Facts about CUDA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CudaFacts {
    /// libtorch sees this many GPUs, at least one.
    Available {
        /// How many.
        devices: usize,
    },
    /// Everything runs on the CPU.
    Absent {
        /// Why.
        reason: String,
    },
}

/// Finds out about the libtorch of this process; the first call does the work. Call it before anything else.
pub fn probe() -> Result<&'static RuntimeFacts, RuntimeError> {
    static FACTS: OnceLock<RuntimeFacts> = OnceLock::new();
    if let Some(facts) = FACTS.get() {
        return Ok(facts);
    }
    let (version, folder) = (libtorch_version(), libtorch_folder()?);
    check_version(version, &folder)?;
    Ok(FACTS.get_or_init(|| RuntimeFacts { version, folder, cuda: probe_cuda() }))
}

/// Lets operations that the calling OS thread starts run on `threads` threads, the caller among them.
///
/// It holds for this OS thread alone: engine and learner each call it on their own.
pub fn configure_threads(threads: NonZeroUsize) -> Result<(), RuntimeError> {
    // libtorch sets a thread's number to its own default when the thread first needs it, and would overwrite ours;
    // asking for the number makes it do so now.
    let _default = tch::get_num_threads();
    tch::set_num_threads(i32::try_from(threads.get()).unwrap_or(i32::MAX));
    let found = i64::from(tch::get_num_threads());
    if usize::try_from(found) != Ok(threads.get()) {
        return Err(RuntimeError::Threads { asked: threads, found });
    }
    Ok(())
}

/// Waits until a GPU has done what was asked of it.
pub fn synchronize(gpu: i8) {
    tch::Cuda::synchronize(i64::from(gpu));
}

fn check_version(found: LibtorchVersion, folder: &std::path::Path) -> Result<(), RuntimeError> {
    if found != LIBTORCH_VERSION {
        return Err(RuntimeError::WrongVersion { found, folder: folder.to_path_buf() });
    }
    Ok(())
}

fn probe_cuda() -> CudaFacts {
    if let Err(error) = load_cuda() {
        return CudaFacts::Absent { reason: error.to_string() };
    }
    match usize::try_from(tch::Cuda::device_count()) {
        Ok(devices @ 1..) => CudaFacts::Available { devices },
        _ => CudaFacts::Absent { reason: "libtorch finds no NVIDIA GPU with a driver that fits".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tch::{Device, Kind, Tensor};

    use super::*;

    #[test]
    fn the_facts_are_those_of_the_loaded_libtorch() {
        let facts = probe().unwrap();
        assert_eq!(facts.version, LIBTORCH_VERSION);
        assert_eq!(LIBTORCH_VERSION.to_string(), env!("CLAWRL_LIBTORCH_VERSION"), "of build.rs");
        assert!(facts.folder.join("libc10.so").is_file(), "{facts:?}");
        let available = matches!(facts.cuda, CudaFacts::Available { .. });
        assert_eq!(available, Device::cuda_if_available().is_cuda(), "{facts:?}");
        assert_eq!(probe().unwrap(), facts);
    }

    #[test]
    fn another_version_is_refused_with_both_named() {
        let found = LibtorchVersion { minor: 10, ..LIBTORCH_VERSION };
        let error = check_version(found, Path::new("/opt/torch/lib")).unwrap_err().to_string();
        assert_eq!(
            error,
            "libtorch 2.10.0 is loaded, from /opt/torch/lib, but this program is built for 2.11.0: run ci/setup.sh \
             and build again, with neither LIBTORCH nor LD_LIBRARY_PATH naming another one"
        );
    }

    /// The number outlives the first operation, on a fresh thread of each.
    #[test]
    fn every_thread_keeps_its_own_number() {
        let keeps = |threads| {
            let threads = NonZeroUsize::new(threads).unwrap();
            std::thread::spawn(move || {
                configure_threads(threads).unwrap();
                let matrix_ab = Tensor::f_ones([256, 256], (Kind::Float, Device::Cpu)).unwrap();
                let sum = matrix_ab.f_matmul(&matrix_ab).unwrap().f_sum(Kind::Double).unwrap();
                assert_eq!(f64::try_from(sum).unwrap(), 256.0 * 256.0 * 256.0);
                assert_eq!(tch::get_num_threads(), i32::try_from(threads.get()).unwrap());
            })
        };
        let threads: Vec<_> = [1, 2, 3].into_iter().map(keeps).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
