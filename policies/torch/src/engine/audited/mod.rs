//! The engine's only unsafe code: slices over libtorch's memory, and the choice of instructions at run time.

mod dispatch;
mod matrix;
mod transpose;

pub(super) use dispatch::{Arithmetic, Kernel, dispatch};
pub(super) use matrix::{GemmRows, Matrix};
pub(super) use transpose::transposed;
