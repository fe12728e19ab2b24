//! The proxy of an attempt: the only way from its pages to anything.
//!
//! P1. Until it is opened, and to all but the sites and origins of the task, every request is refused. P2. A name leads to
//! public addresses alone, whatever a name server says; other addresses are reached where the task names them. P3. When a
//! [`Proxy`] is dropped, all its connections end. P4. What is being answered is counted, so that nobody has to guess
//! whether a page is still loading; open tunnels are not, for what is in them is not known. P5. The first origin of the task
//! that cannot be reached, or does not begin to answer, is remembered; one that breaks off in the middle of an answer is not.
//! P6. Where browsers are on another machine, whoever has none of the addresses that may ask is not read.
//! P7. Answers that a browser takes for downloads are counted: it tells of them later, over another connection.
//!
//! Cancellation: see P3; there is nothing else to wait for.

mod dial;
mod download;
mod forward;
mod in_flight;
mod refused_origins;
mod serve;
mod target;
#[cfg(test)]
mod tests;
mod tunnel;

pub(crate) use download::FileAnswers;
pub(crate) use serve::Proxy;
