//! Whether an environment may begin an operation.

use crate::{Boundary, Fault};

/// Kept by an environment: one operation at a time, none after one that was dropped half-way, none after its close.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress(State);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// An operation runs; or one was dropped, for nothing else finds it so.
    Busy,
    Closed,
}

impl Progress {
    /// Begins an operation.
    ///
    /// # Errors
    /// A permanent harness [`Fault`]: `poisoned` after an operation that was never [ended](Self::end), `closed` after
    /// [`Self::close`].
    pub fn begin(&mut self) -> Result<(), Fault> {
        match self.0 {
            State::Idle => {
                self.0 = State::Busy;
                Ok(())
            }
            State::Busy => {
                let message = "an operation was dropped half-way, or left something running; the environment can only be \
                               closed";
                Err(Fault::permanent(Boundary::Harness, "poisoned", message))
            }
            State::Closed => Err(Self::closed()),
        }
    }

    /// The operation ended, and another one may begin.
    pub fn end(&mut self) {
        if self.0 == State::Busy {
            self.0 = State::Idle;
        }
    }

    /// Nothing may begin any more. Whether all that began had ended.
    pub fn close(&mut self) -> bool {
        std::mem::replace(&mut self.0, State::Closed) == State::Idle
    }

    /// The fault of every call to a closed environment.
    #[must_use]
    pub fn closed() -> Fault {
        Fault::permanent(Boundary::Harness, "closed", "the environment was closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_none_after_the_close() {
        let mut progress = Progress::default();
        let code = |begun: Result<(), Fault>| begun.map_err(|fault| fault.code);
        assert_eq!(code(progress.begin()), Ok(()));
        assert_eq!(code(progress.begin()), Err("poisoned".to_owned()));
        progress.end();
        assert_eq!(code(progress.begin()), Ok(()));
        assert!(!progress.close());
        progress.end();
        assert_eq!(code(progress.begin()), Err("closed".to_owned()));
        assert!(Progress::default().close());
    }
}
