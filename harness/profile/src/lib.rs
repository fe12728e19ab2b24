//! Where the processor time of this process goes: samples of all its threads, and their flame graph.
//!
//! A timer that counts the processor time of the whole process sends SIGPROF to whichever thread is running. The
//! handler copies that thread's registers and the newest part of its stack, and nothing else. A thread of ours unwinds
//! the copies and gives the addresses their names.
//!
//! I1. The handler allocates nothing, takes no lock and unwinds nothing: whatever it interrupts, an allocation, the
//! loader, a C++ exception on its way, goes on as if nothing had happened. What is wrong in unwind tables spoils a
//! copy, never the process. I2. What the process starts is not sampled: a fork does not inherit the timer, an exec drops
//! the handler. I3. System calls that the signal interrupts are restarted where the kernel can do that. I4. Without
//! [`Sampler::start`] there is neither handler nor timer.
//!
//! Units: samples; each stands for [`PERIOD`] of processor time, up to the next tick of the kernel's clock.
//!
//! Errors: [`SamplerError`].

mod drain;
mod error;
mod flame;
mod modules;
mod registers;
mod sampler;
mod signal;
mod stacks;
mod symbols;
mod tree;

pub use error::SamplerError;
pub use sampler::{PERIOD, Sampled, Sampler};
