//! Forward and backward pass of a small model on the CPU, without autograd.
//!
//! A small model's layer is a few products of matrices and many element-wise operations, each of which costs libtorch a
//! call, a fresh tensor, a node of the graph and a barrier between threads. Here the derivatives are written out: Rust
//! loops like the engine's, libtorch only for products, and reused memory. Threads share no operation: each processes whole
//! pieces of a batch, which are small enough for its caches.
//!
//! I1. The pass computes the function of [`crate::layer_forward`] and its derivative. I2. The result is a function of
//! parameters, samples and the maximum piece size, to the last bit, and not of the number of threads. I3. Kept and
//! recomputed activations give the same bits.
//!
//! Shapes: letters of [`crate::ModelConfig`]; R rows of a piece, M predicting rows.

mod attention;
mod crew;
mod elementwise;
mod head;
mod pass;
mod piece;
mod prefixes;
mod products;
#[cfg(test)]
mod tests;

pub(super) use crew::Crew;
pub(super) use piece::{Piece, pieces};
