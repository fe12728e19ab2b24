//! A small model's pass on the CPU, there and back, without autograd.
//!
//! A small model's layer is a few products of matrices and many element-wise operations, each of which costs libtorch a
//! call, a fresh tensor, a node of the graph and a barrier between threads. Here the derivatives are written out: loops
//! in Rust like the engine's, libtorch for products only, memory that is used again. Threads share no operation: each
//! takes whole pieces of a batch, small enough for its caches.
//!
//! I1. It computes the function of [`crate::layer_forward`] and its derivative. I2. The result is a function of
//! parameters, samples and the largest piece allowed, to the last bit: not of the number of threads. I3. Activations
//! kept and computed again give the same bits.
//!
//! Shapes: letters of [`crate::ModelConfig`]; R rows of a piece, M of its rows that predict.

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
