//! Requests to a program that wait for a response: they get the error for an unreadable response.
//!
//! A cancelled request counts as answered: its caller does not wait any more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// The pending requests, shared by sender and reader.
#[derive(Debug, Clone, Default)]
pub(super) struct PendingRequests(Arc<Mutex<BTreeSet<i64>>>);

impl PendingRequests {
    pub(super) fn ids(&self) -> Vec<i64> {
        self.with(|waiting| waiting.iter().copied().collect())
    }

    /// The id of a request, as assigned by the SDK.
    pub(super) fn id_of(message: &ClientJsonRpcMessage) -> Option<i64> {
        match message {
            JsonRpcMessage::Request(request) => number(&request.id),
            _ => None,
        }
    }

    fn with<T>(&self, read: impl FnOnce(&mut BTreeSet<i64>) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}

/// A transport that tracks its requests.
pub(super) struct TrackingTransport<T> {
    pub(super) transport: T,
    pub(super) waiting: PendingRequests,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for TrackingTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let Some(id) = PendingRequests::id_of(&item) {
            self.waiting.with(|waiting| waiting.insert(id));
        }
        if let JsonRpcMessage::Notification(noted) = &item
            && let ClientNotification::CancelledNotification(cancelled) = &noted.notification
            && let Some(id) = cancelled.params.request_id.as_ref().and_then(number)
        {
            self.waiting.with(|waiting| waiting.remove(&id));
        }
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let received = self.transport.receive().await;
        let answered = match &received {
            Some(JsonRpcMessage::Response(response)) => number(&response.id),
            Some(JsonRpcMessage::Error(error)) => error.id.as_ref().and_then(number),
            _ => None,
        };
        if let Some(id) = answered {
            self.waiting.with(|waiting| waiting.remove(&id));
        }
        received
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}
