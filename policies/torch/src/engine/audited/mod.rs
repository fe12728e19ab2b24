//! The crate's only unsafe code: slices over libtorch's memory, and the choice of instructions at run time. The learner
//! uses it too.

mod dispatch;
mod matrix;
mod transpose;

pub(crate) use dispatch::{Arithmetic, Kernel, dispatch};
pub(crate) use matrix::{GemmRows, Matrix, RANK_BLOCK};
pub(super) use transpose::transposed;
