//! Why there is no profile.

use std::io;

/// Why a process cannot be sampled, or could not.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// SIGPROF is somebody else's, or this process was sampled before.
    #[error("the signal SIGPROF is in use")]
    Taken,
    /// The kernel, or what filters its calls, refuses the way in which stacks are copied.
    #[error("this process may not copy its own memory by process_vm_readv: {0}")]
    Memory(io::Error),
    /// The handler or the timer was refused.
    #[error("no timer of processor time: {0}")]
    Timer(io::Error),
    /// The thread that reads the samples was not to be had.
    #[error("no thread to read samples: {0}")]
    Thread(io::Error),
    /// The thread that reads the samples panicked.
    #[error("reading the samples broke")]
    Broken,
}
