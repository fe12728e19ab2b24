//! What a pass on a GPU needs: attention over segments of many lengths, the precision of products, memory.
//!
//! I1. Where no GPU is used, everything but [`allow_tf32`] is an error.

// `foreign` is C++: the tensors go there as pointers.
#![allow(unsafe_code)]

use tch::Tensor;
use thiserror::Error;

use crate::foreign::{
    ForeignBytes, clawrl_allow_tf32, clawrl_flash_attention, clawrl_gpu_memory, clawrl_release_gpu_memory,
    clawrl_reset_gpu_peak, take_text,
};

/// Why something was not done on a GPU.
#[derive(Debug, Error)]
#[error("on a GPU: {0}")]
pub struct GpuError(String);

/// What this process has of a GPU's memory, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuMemory {
    /// Of tensors that there are.
    pub allocated: u64,
    /// The most of that since [`reset_gpu_peak`].
    pub peak: u64,
    /// Held of the driver, tensors and what is kept for those to come.
    pub reserved: u64,
}

/// Causal attention within each segment: query (R x H x E), key and value (R x K x E), H a multiple of K, all bf16 on one GPU, to
/// (R x H x E). `starts` (B + 1, i32, on the same GPU) has the first row of each segment, and R; no segment has more than `longest`
/// rows. The graph of the inputs goes on.
///
/// # Errors
/// [`GpuError`] in libtorch's words, as of a head size over 256 or a GPU older than Ampere.
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
    // SAFETY: it was returned a moment ago and is taken once.
    checked(unsafe { take_text(error) })?;
    // SAFETY: without an error it is a tensor of the C++ heap that nobody else has.
    Ok(unsafe { Tensor::from_ptr(attended) })
}

/// Whether a GPU multiplies fp32 matrices with factors rounded to 10 bits of fraction, several times as fast. For the process.
pub fn allow_tf32(allow: bool) {
    clawrl_allow_tf32(allow);
}

/// What this process has of a GPU's memory.
///
/// # Errors
/// [`GpuError`] where none was used yet.
pub fn gpu_memory(device: i8) -> Result<GpuMemory, GpuError> {
    let mut bytes = ForeignBytes::default();
    // SAFETY: `bytes` is a place to write to that lives through the call, which catches every exception; the text is taken once.
    checked(unsafe { take_text(clawrl_gpu_memory(device, &raw mut bytes)) })?;
    let ForeignBytes { allocated, peak, reserved } = bytes;
    let known = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
    Ok(GpuMemory { allocated: known(allocated), peak: known(peak), reserved: known(reserved) })
}

/// From now on the peak is that of what is yet to come.
///
/// # Errors
/// [`GpuError`] where no GPU was used yet.
pub fn reset_gpu_peak(device: i8) -> Result<(), GpuError> {
    // SAFETY: it was returned a moment ago and is taken once.
    checked(unsafe { take_text(clawrl_reset_gpu_peak(device)) })
}

/// Gives memory that no tensor has back to the driver, for other processes.
///
/// # Errors
/// [`GpuError`] where no GPU was used yet.
pub fn release_gpu_memory() -> Result<(), GpuError> {
    // SAFETY: it was returned a moment ago and is taken once.
    checked(unsafe { take_text(clawrl_release_gpu_memory()) })
}

fn checked(error: Option<String>) -> Result<(), GpuError> {
    error.map_or(Ok(()), |reason| Err(GpuError(reason)))
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    /// I1, and what it does where there is one.
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
