//! Declarations of the C++ functions of `cpp/shim.h`, and conversion of their texts.

// The only calls into C++ are in the functions that use these declarations, each with its proof.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

use torch_sys::C_tensor;

/// `clawrl_adamw_parameter`.
#[repr(C)]
pub(crate) struct ForeignParameter {
    pub(crate) param: *const C_tensor,
    pub(crate) grad: *const C_tensor,
    pub(crate) exp_avg: *const C_tensor,
    pub(crate) exp_avg_sq: *const C_tensor,
}

/// `clawrl_adamw_settings`.
#[repr(C)]
pub(crate) struct ForeignSettings {
    pub(crate) learning_rate: f64,
    pub(crate) beta1: f64,
    pub(crate) beta2: f64,
    pub(crate) weight_decay: f64,
    pub(crate) epsilon: f64,
}

/// `clawrl_gpu_bytes`.
#[derive(Default)]
#[repr(C)]
pub(crate) struct ForeignBytes {
    pub(crate) allocated: i64,
    pub(crate) peak: i64,
    pub(crate) reserved: i64,
}

unsafe extern "C" {
    pub(crate) fn clawrl_fused_adamw(
        parameters: *const ForeignParameter,
        count: usize,
        update: u64,
        settings: *const ForeignSettings,
    ) -> *mut c_char;
    pub(crate) safe fn clawrl_libtorch_version() -> u64;
    pub(crate) safe fn clawrl_libtorch_path() -> *mut c_char;
    pub(crate) fn clawrl_load_library(path: *const c_char) -> *mut c_char;
    pub(crate) fn clawrl_flash_attention(
        query: *const C_tensor,
        key: *const C_tensor,
        value: *const C_tensor,
        starts: *const C_tensor,
        longest: i64,
        attended: *mut *mut C_tensor,
    ) -> *mut c_char;
    pub(crate) safe fn clawrl_allow_tf32(allow: bool);
    pub(crate) fn clawrl_gpu_memory(device: i8, bytes: *mut ForeignBytes) -> *mut c_char;
    pub(crate) safe fn clawrl_reset_gpu_peak(device: i8) -> *mut c_char;
    pub(crate) safe fn clawrl_release_gpu_memory() -> *mut c_char;
    fn clawrl_free_text(text: *mut c_char);
}

/// Takes a text of the C++ side; `None` for a null pointer.
///
/// # Safety
///
/// `text` is null, or was returned by a function of `cpp/shim.h` and has not been taken before.
pub(crate) unsafe fn take_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the contract it is a C string that the C++ side has allocated, without another owner.
    let owned = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: likewise, and it is not read again.
    unsafe { clawrl_free_text(text) };
    Some(owned)
}
