//! Cassettes: recorded replies of a policy, keyed by request, as VCR does for HTTP.
//!
//! They test changes of the harness, of prompts or of tools without a model. If a request of the model is unchanged,
//! the recorded reply is played; otherwise the attempt faults with the difference. The policy `replay` is different:
//! it plays the replies of a run by slot and turn and compares nothing.
//!
//! I1. A reply is played only to a request that equals the recorded one exactly: the settings that
//! affect sampling, every message, and every tool as the model sees it. I2. A request without a recording is
//! the permanent policy fault `cassette-miss`; no model is called. I3. The played reply is a function of the request,
//! of its seed, and of the number of equal requests by the same attempt: neither the order nor the number of
//! concurrent attempts matters. I4. Faults are not recorded. I5. Equal replies give equal files, regardless of the order of
//! recording; a file is complete or refused.
//!
//! The request of a model depends on the policy; the code that builds policies provides it ([`Show`]).
//! Cancellation: a recorded reply is ready when it is asked for; dropping a request that is being recorded records nothing.

mod canonical;
mod cassette;
mod difference;
mod error;
mod file;
mod line;
mod model_request;
mod policy;
mod recorder;
mod repeats;

pub use cassette::{Cassette, Origin, Reply};
pub use error::CassetteError;
pub use file::FORMAT;
pub use model_request::{ModelRequest, Show};
pub use policy::CassettePolicy;
pub use recorder::{Recorder, RecordingPolicy};
