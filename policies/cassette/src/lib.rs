//! Cassettes: what a policy said, filed under what it was asked, and served again.
//!
//! A change of the harness, of a prompt or of a tool is tested with no model: where it leaves what a model would be shown
//! alone, the recorded reply is played, and where it does not, the attempt faults and says what is different. That is not
//! the policy `replay`, which plays the replies of a run by slot and turn and compares nothing.
//!
//! I1. A reply is played only to a request that would be sent exactly as it was when it was recorded: the settings that
//! decide how a reply is drawn, every message, every tool as the model is told of it. I2. A request without a recording is
//! the permanent policy fault `cassette-miss`. Nothing else is ever asked. I3. What is played is a function of the request,
//! of its seed, and of how many times the attempt has made that request: neither the order nor the number of
//! the attempts at once changes it. I4. Faults are not recorded. I5. The same replies make the same file, whatever the order they
//! came in; a file is whole or refused.
//!
//! What a model is shown depends on who it is behind; whoever makes these policies says it ([`Show`]).
//! Cancellation: a recorded reply is ready when it is asked for; dropping a request that is being recorded records nothing.

mod asked;
mod canonical;
mod cassette;
mod difference;
mod error;
mod file;
mod line;
mod policy;
mod recorder;
mod repeats;

pub use asked::{Asked, Show};
pub use cassette::{Cassette, Origin, Reply};
pub use error::CassetteError;
pub use file::FORMAT;
pub use policy::CassettePolicy;
pub use recorder::{Recorder, RecordingPolicy};
