//! Reports panics as internal errors with a documented exit code.
//!
//! The scheduler turns panics inside an episode into faults; they are reported here as well, once each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::exit_code::Exit;
use crate::log::Log;

/// Runs the program; an uncaught panic is an internal error.
pub(crate) fn caught(log: &Log, program: impl FnOnce() -> Exit) -> Exit {
    let told = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
        let text = panic.payload_as_str().unwrap_or("no message");
        told.write(&format!(
            "bug: {text}{}\nPlease report it. A run under way stays valid: `clawrl ls` names it, and \
             `clawrl run --resume RUN` goes on.\n",
            place.unwrap_or_default()
        ));
    }));
    catch_unwind(AssertUnwindSafe(program)).unwrap_or(Exit::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_internal_error() {
        assert_eq!(caught(&Log::new(), || panic!("for the test")), Exit::Internal);
        assert_eq!(caught(&Log::new(), || Exit::Faulted), Exit::Faulted);
    }
}
