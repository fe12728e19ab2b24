//! GPU functions for passes: attention over segments of different lengths, the precision of products, memory.
//!
//! I1. Without a GPU, every function except [`allow_tf32`] returns an error.

// `foreign` is C++, which takes the tensors as pointers.
#![allow(unsafe_code)]

use tch::Tensor;
use thiserror::Error;

use crate::foreign::{
    ForeignBytes, clawrl_allow_tf32, clawrl_flash_attention, clawrl_gpu_memory, clawrl_release_gpu_memory,
    clawrl_reset_gpu_peak, take_text,
};

/// Error of a GPU function.
#[derive(Debug, Error)]
#[error("on a GPU: {0}")]
pub struct GpuError(String);

/// GPU memory of this process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuMemory {
    /// Memory of live tensors.
    pub allocated: u64,
    /// Maximum of `allocated` since [`reset_gpu_peak`].
    pub peak: u64,
    /// Memory taken from the driver: live tensors and the cache for new ones.
    pub reserved: u64,
}

/// Causal attention within each segment: query (R x H x E), key and value (R x K x E), H a multiple of K, all bf16 on one GPU, to
/// (R x H x E). `starts` (B + 1, i32, on the same GPU) has the first row of each segment, and R; no segment has more than
/// `longest` rows. The result is part of the inputs' graph.
///
/// # Errors
/// [`GpuError`] with libtorch's message, for example for a head size over 256 or a GPU older than Ampere.
pub fn flash_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    starts: &Tensor,
    longest: i64,
) -> Result<Tensor, GpuError> {
    let mut attended = std::ptr::null_mut();
    // SAFETY: the pointers are those of live tensors, borrowed for the call, which catches every exception; `attended` is a place
    // to write one pointer to.
    let error = unsafe {
        clawrl_flash_attention(
            query.as_ptr(),
            key.as_ptr(),
            value.as_ptr(),
            starts.as_ptr(),
            longest,
            &raw mut attended,
        )
    };
    // SAFETY: it has just been returned and is taken once.
    checked(unsafe { take_text(error) })?;
    // SAFETY: without an error it is a tensor on the C++ heap without another owner.
    Ok(unsafe { Tensor::from_ptr(attended) })
}

/// Whether GPUs multiply fp32 matrices with factors rounded to 10 bits of fraction, which is several times faster. The
/// setting holds for the process.
pub fn allow_tf32(allow: bool) {
    clawrl_allow_tf32(allow);
}

/// GPU memory of this process.
///
/// # Errors
/// [`GpuError`] if no GPU was used yet.
pub fn gpu_memory(device: i8) -> Result<GpuMemory, GpuError> {
    let mut bytes = ForeignBytes::default();
    // SAFETY: `bytes` is a place to write to that lives through the call, which catches every exception; the text is taken once.
    checked(unsafe { take_text(clawrl_gpu_memory(device, &raw mut bytes)) })?;
    let ForeignBytes { allocated, peak, reserved } = bytes;
    let known = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
    Ok(GpuMemory { allocated: known(allocated), peak: known(peak), reserved: known(reserved) })
}

/// Resets the peak to the present use.
///
/// # Errors
/// [`GpuError`] if no GPU was used yet.
pub fn reset_gpu_peak(device: i8) -> Result<(), GpuError> {
    // SAFETY: it has just been returned and is taken once.
    checked(unsafe { take_text(clawrl_reset_gpu_peak(device)) })
}

/// Returns unused memory to the driver, for other processes.
///
/// # Errors
/// [`GpuError`] if no GPU was used yet.
pub fn release_gpu_memory() -> Result<(), GpuError> {
    // SAFETY: it has just been returned and is taken once.
    checked(unsafe { take_text(clawrl_release_gpu_memory()) })
}

fn checked(error: Option<String>) -> Result<(), GpuError> {
    error.map_or(Ok(()), |reason| Err(GpuError(reason)))
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    /// I1, and the functions if there is a GPU.
    #[test]
    fn without_a_gpu_it_is_an_error_in_words() {
        let _cuda = crate::load_cuda();
        if tch::Cuda::is_available() {
            let held = Tensor::zeros([1 << 20], (Kind::Float, Device::Cuda(0)));
            let before = gpu_memory(0).unwrap();
            assert!(before.allocated >= 4 << 20 && before.reserved >= before.allocated, "{before:?}");
            drop(held);
            assert!(gpu_memory(0).unwrap().allocated < before.allocated);
            reset_gpu_peak(0).unwrap();
            release_gpu_memory().unwrap();
            assert!(gpu_memory(0).unwrap().peak < before.peak);
            return;
        }
        let rows = Tensor::zeros([4, 2, 16], (Kind::BFloat16, Device::Cpu));
        let starts = Tensor::from_slice(&[0i32, 4]);
        let error = flash_attention(&rows, &rows, &rows, &starts, 4).unwrap_err().to_string();
        assert!(error.contains("flash attention is for a GPU"), "{error}");
        for error in [gpu_memory(0).err(), reset_gpu_peak(0).err(), release_gpu_memory().err()] {
            assert!(error.unwrap().to_string().starts_with("on a GPU: "));
        }
    }
}
