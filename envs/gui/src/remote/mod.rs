//! Browsers that somebody else starts: addresses at which WebDriver is spoken, such as those of a Selenium Grid.
//!
//! N1. What may be secret in an address, its user info, is sent there and shown nowhere. N2. The next session goes to the
//! endpoint with the fewest of ours; one that failed is asked last for a while. N3. A session that was asked for is ended
//! when nobody has it any more, also when it comes too late; at the end all that are left are ended, and waited for.

mod endpoint;
mod endpoints;
mod session;
mod sessions;
mod zip;

pub use endpoint::EndpointError;
pub use endpoints::{EndpointStatus, Endpoints};
pub(crate) use session::{Session, beside};
pub(crate) use sessions::Sessions;
