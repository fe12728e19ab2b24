//! All sessions of a provider: none outlives it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use super::endpoint::{Endpoint, EndpointCallError};

/// Time for a session to end; afterwards it is left to its endpoint. A driver first finishes its current command, and
/// an endless script ends after 30 seconds.
const END_LIMIT: Duration = Duration::from_secs(45);

/// At shutdown, how long sessions that are still being created are awaited.
const ARRIVE_LIMIT: Duration = Duration::from_secs(10);

/// Time for a session to be created, wanted or not: a Grid keeps the request this long.
const START_LIMIT: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    known: Mutex<Known>,
    /// A session got its id, or will not get one.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    /// With their ids there, once known.
    open: HashMap<u64, (Arc<Endpoint>, Option<String>)>,
}

/// A session. Dropping it ends it.
#[derive(Debug)]
pub(super) struct SessionHandle {
    sessions: Arc<Sessions>,
    number: u64,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) id: String,
    port: Mutex<Option<OwnedFd>>,
}

impl SessionHandle {
    /// Keeps the port of the browser's proxy reserved, in place of the previous one, until the session has ended: late
    /// requests of its pages must not reach another listener.
    pub(super) fn keep(&self, port: OwnedFd) {
        // Each change is one replacement.
        *self.port.lock().unwrap_or_else(PoisonError::into_inner) = Some(port);
    }
}

impl Sessions {
    /// Requests a session, and returns the answer as well. A session whose caller has gone away is ended on arrival.
    pub(super) async fn begin(
        self: &Arc<Self>,
        endpoint: Arc<Endpoint>,
        wanted: Value,
    ) -> Result<(SessionHandle, Value), EndpointCallError> {
        let number = {
            let mut known = self.known();
            known.next += 1;
            let number = known.next;
            known.open.insert(number, (Arc::clone(&endpoint), None));
            number
        };
        let (sender, receiver) = oneshot::channel();
        let sessions = Arc::clone(self);
        // It ends within its limit; shutdown waits for it.
        tokio::spawn(async move {
            let asked = endpoint.ask(Method::POST, "session", Some(wanted), START_LIMIT).await;
            let begun = asked.and_then(|answer| match answer["sessionId"].as_str() {
                Some(id) => Ok((id.to_owned(), answer)),
                None => Err(EndpointCallError::Refused {
                    error: "no WebDriver".to_owned(),
                    message: "the new session lacks an id".to_owned(),
                }),
            });
            let held = match begun {
                Ok((id, answer)) => {
                    if let Some(entry) = sessions.known().open.get_mut(&number) {
                        entry.1 = Some(id.clone());
                    }
                    Ok((
                        SessionHandle {
                            sessions: Arc::clone(&sessions),
                            number,
                            endpoint,
                            id,
                            port: Mutex::default(),
                        },
                        answer,
                    ))
                }
                Err(error) => {
                    sessions.known().open.remove(&number);
                    Err(error)
                }
            };
            sessions.arrived.notify_waiters();
            let _ = sender.send(held);
        });
        receiver
            .await
            .unwrap_or_else(|_| Err(EndpointCallError::Unreachable("the request was dropped".to_owned())))
    }

    /// Ends all sessions, including those being created, and waits for that. Returns a message for each one left.
    pub(crate) async fn end_all(&self) -> Vec<String> {
        let arrived = async {
            loop {
                let next = self.arrived.notified();
                if self.known().open.values().all(|(_, id)| id.is_some()) {
                    return;
                }
                next.await;
            }
        };
        let _ = tokio::time::timeout(ARRIVE_LIMIT, arrived).await;
        let open: Vec<_> = self.known().open.iter().map(|(&number, entry)| (number, entry.clone())).collect();
        let ended = open.into_iter().map(async |(number, (endpoint, id))| {
            let Some(id) = id else { return Some(format!("a requested session of {endpoint}")) };
            self.end(number, &endpoint, &id)
                .await
                .err()
                .map(|why| format!("session {id} of {endpoint}: {why}"))
        });
        join_all(ended).await.into_iter().flatten().collect()
    }

    async fn end(&self, number: u64, endpoint: &Endpoint, id: &str) -> Result<(), EndpointCallError> {
        let asked = endpoint.ask(Method::DELETE, &format!("session/{id}"), None, END_LIMIT).await;
        self.known().open.remove(&number);
        match asked {
            // A session that does not exist has ended.
            Ok(_) | Err(EndpointCallError::Refused { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is one insert, remove or assignment.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        let (sessions, endpoint) = (Arc::clone(&self.sessions), Arc::clone(&self.endpoint));
        let (number, id) = (self.number, self.id.clone());
        let port = self.port.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Without a runtime the process is ending, and the endpoint's idle timeout ends the rest.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // It ends within its limit; shutdown retries and waits.
            runtime.spawn(async move {
                if let Err(error) = sessions.end(number, &endpoint, &id).await {
                    tracing::debug!(%endpoint, %error, "failed to end a session");
                }
                drop(port);
            });
        }
    }
}
