//! Browsers started by others: WebDriver endpoints, such as those of a Selenium Grid.
//!
//! N1. The user info of an address may be secret; it is sent to the endpoint and shown nowhere.
//! N2. The next session goes to the endpoint with the fewest of ours; one that failed is asked last for a while.
//! N3. A session is ended when it has no owner any more, even if it arrives late; at shutdown all remaining sessions
//! are ended, and their end is awaited.

mod endpoint;
mod endpoints;
mod session;
mod sessions;
mod zip;

pub use endpoint::EndpointError;
pub use endpoints::{EndpointStatus, Endpoints};
pub(crate) use session::{Session, beside};
pub(crate) use sessions::Sessions;
