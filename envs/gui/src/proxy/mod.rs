//! The proxy of an attempt: the only network access of its pages.
//!
//! P1. Until it is opened, every request is refused; afterwards, every request except those to the sites and origins of
//! the task.
//! P2. A name resolves to public addresses only, whatever a name server answers; other addresses are reached only if
//! the task names them.
//! P3. Dropping a [`Proxy`] ends all its connections.
//! P4. Requests that are being answered are counted, so that it is known whether a page is still loading; open tunnels
//! are not, because their content is unknown.
//! P5. The first origin of the task that cannot be reached, or does not start to answer, is remembered; one that breaks
//! off in the middle of an answer is not.
//! P6. If browsers run on another machine, connections from other addresses are closed unread.
//! P7. Answers that a browser treats as downloads are counted: the browser reports them later, over another connection.
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
