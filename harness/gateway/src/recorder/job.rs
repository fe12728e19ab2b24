//! Jobs of the recorder's thread.
//!
//! I1. A job is answered once: when it is committed, or with an error. A job that may be lost is answered when it is done.

use tokio::sync::oneshot;

use super::WriteContext;
use crate::{LedgerError, RequestId};

/// Work in a transaction.
pub(crate) trait Job: Send {
    /// Does the work. A storage error ends the whole transaction; any other error undoes this job alone.
    fn apply(&mut self, context: &mut WriteContext<'_>) -> Result<(), LedgerError>;

    /// Whether a crash right after the answer may lose it: it is committed soon, together with the next job.
    fn may_be_lost(&self) -> bool;

    /// Whether it writes nothing before it is certain to succeed, so that it need not be undone.
    fn refuses_first(&self) -> bool;

    /// Answers the caller. Returns the admitted request, if the caller is gone and will not end it.
    fn settle(self: Box<Self>, outcome: Result<(), LedgerError>) -> Option<RequestId>;
}

/// A job of a caller who waits for a `T`.
pub(crate) struct Call<T, W> {
    work: Option<W>,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, LedgerError>>,
    may_be_lost: bool,
    refuses_first: bool,
    /// The request of this result that someone must end.
    admitted: fn(&T) -> Option<RequestId>,
}

impl<T, W> Call<T, W> {
    pub(crate) fn new(
        work: W,
        admitted: fn(&T) -> Option<RequestId>,
    ) -> (Self, oneshot::Receiver<Result<T, LedgerError>>) {
        let (reply, waits) = oneshot::channel();
        (
            Self { work: Some(work), done: None, reply, may_be_lost: false, refuses_first: false, admitted },
            waits,
        )
    }

    pub(crate) fn that_may_be_lost(self) -> Self {
        Self { may_be_lost: true, ..self }
    }

    pub(crate) fn that_refuses_first(self) -> Self {
        Self { refuses_first: true, ..self }
    }
}

impl<T: Send, W: FnOnce(&mut WriteContext<'_>) -> Result<T, LedgerError> + Send> Job for Call<T, W> {
    fn apply(&mut self, context: &mut WriteContext<'_>) -> Result<(), LedgerError> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(context)?);
        }
        Ok(())
    }

    fn may_be_lost(&self) -> bool {
        self.may_be_lost
    }

    fn refuses_first(&self) -> bool {
        self.refuses_first
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
