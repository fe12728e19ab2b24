//! One attempt's session with a server that serves many.
//!
//! P1. A request is sent once and never again.
//! P2. Every request names the attempt's session, so that a server can distinguish attempts.
//! P3. An answer belongs to the request of its own exchange, or is a fault.
//!
//! Cancellation: dropping the future of [`HttpSession::ask`] closes its connection.

use serde_json::Value;

use super::client::HttpClient;
use crate::message::{Answer, AnswerId, Method, read};
use crate::peer_error::PeerError;

#[derive(Debug)]
pub(crate) struct HttpSession {
    client: HttpClient,
    /// Without a trailing slash.
    base_url: String,
    most: usize,
    last_id: u64,
}

impl HttpSession {
    pub(crate) fn new(client: HttpClient, base_url: &str, most: usize) -> Self {
        Self { client, base_url: base_url.trim_end_matches('/').to_owned(), most, last_id: 0 }
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends the request of the last id and waits for its result.
    pub(crate) async fn ask(&self, request: String, method: Method) -> Result<Value, PeerError> {
        let url = format!("{}/{}", self.base_url, method.name());
        let answered = self.client.post(&url, request, self.most).await?;
        let answer = match read(&answered.body, method) {
            Ok(answer) => answer,
            Err(trouble) if answered.status.is_success() => return Err(trouble),
            Err(_) => return Err(answered.refusal(&url)),
        };
        match answer {
            Answer { id: AnswerId::Number(id), result } if id == self.last_id => result,
            Answer { id: AnswerId::Null, result } => result,
            Answer { id: AnswerId::Number(id), .. } => {
                let message = format!("{url} answered the request {} with the id {id}", self.last_id);
                Err(PeerError::transient("answer-unasked", message))
            }
            Answer { id: AnswerId::Other(id), .. } => {
                let message = format!("{url} answered the request {} with the id {id}", self.last_id);
                Err(PeerError::transient("answer-unasked", message))
            }
        }
    }
}
