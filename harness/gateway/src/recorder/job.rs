//! What callers ask of the recorder's thread.
//!
//! I1. A job is answered once: when what it did is committed, or with why it is not.

use tokio::sync::oneshot;

use super::Desk;
use crate::{LedgerError, RequestId};

/// Something to be done in a transaction.
pub(crate) trait Job: Send {
    /// Does it. An error of the storage ends the whole transaction, any other one undoes this job alone.
    fn apply(&mut self, desk: &mut Desk<'_>) -> Result<(), LedgerError>;

    /// Answers the caller. The request that was admitted, if the caller is gone and will not end it.
    fn settle(self: Box<Self>, outcome: Result<(), LedgerError>) -> Option<RequestId>;
}

/// A job of a caller who waits for a `T`.
pub(crate) struct Call<T, W> {
    work: Option<W>,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, LedgerError>>,
    /// The request that somebody has to end, given what was done.
    admitted: fn(&T) -> Option<RequestId>,
}

impl<T, W> Call<T, W> {
    pub(crate) fn new(
        work: W,
        admitted: fn(&T) -> Option<RequestId>,
    ) -> (Self, oneshot::Receiver<Result<T, LedgerError>>) {
        let (reply, waits) = oneshot::channel();
        (Self { work: Some(work), done: None, reply, admitted }, waits)
    }
}

impl<T: Send, W: FnOnce(&mut Desk<'_>) -> Result<T, LedgerError> + Send> Job for Call<T, W> {
    fn apply(&mut self, desk: &mut Desk<'_>) -> Result<(), LedgerError> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(desk)?);
        }
        Ok(())
    }

    fn settle(self: Box<Self>, outcome: Result<(), LedgerError>) -> Option<RequestId> {
        let Self { done, reply, admitted, .. } = *self;
        let result = outcome.and_then(|()| done.ok_or(LedgerError::Ended));
        match reply.send(result) {
            Err(Ok(done)) => admitted(&done),
            Ok(()) | Err(Err(_)) => None,
        }
    }
}
