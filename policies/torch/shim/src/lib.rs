//! The few libtorch functions that tch does not offer, in C++ behind `extern "C"`.
//!
//! I1. No C++ exception crosses into Rust: every failure is a `Result` with libtorch's message. I2. Arguments for which
//! libtorch would read or write out of bounds are refused before the call.

mod adamw;
mod cuda;
mod foreign;
mod library;

pub use adamw::{AdamwError, AdamwParameter, AdamwSettings, fused_adamw};
pub use cuda::{
    GpuError, GpuMemory, allow_tf32, flash_attention, gpu_memory, release_gpu_memory, reset_gpu_peak,
};
pub use library::{LibraryError, LibtorchVersion, libtorch_folder, libtorch_version, load_cuda};
