//! `/events`: changes as server-sent events.
//!
//! I1. An event names the change and its place, and no content. I2. A user gets only their own events. I3. The recorder never waits for a reader:
//! a slow one is disconnected, reconnects, and reloads the page. I4. A stream ends with the login, and with the server.
//!
//! Cancellation: dropping a stream releases everything.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::document::{self, PageError};
use super::login::Visitor;
use crate::api::gateway::Gateway;
use crate::recorder::{LedgerChange, LedgerEvent};

/// `GET /events`.
pub(super) async fn events(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
) -> Response<Body> {
    let Ok(permit) = gateway.watcher_limit.acquire(&visitor.user) else {
        let why = PageError::new(StatusCode::SERVICE_UNAVAILABLE, "Too many open pages.");
        return document::error_page(&why, None);
    };
    let watch = Watch {
        changes: gateway.recorder.events(),
        visitor,
        ending: gateway.ending.clone(),
        keep_alive: gateway.settings.keep_alive,
        has_begun: false,
        _permit: permit,
    };
    document::response(StatusCode::OK, "text/event-stream", Body::from_stream(stream(watch)))
}

/// A connected page. `_permit` is released at its end.
struct Watch<P> {
    changes: broadcast::Receiver<LedgerEvent>,
    visitor: Visitor,
    ending: CancellationToken,
    keep_alive: Duration,
    has_begun: bool,
    _permit: P,
}

fn stream<P>(watch: Watch<P>) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
    unfold(watch, |mut watch| async move {
        if !std::mem::replace(&mut watch.has_begun, true) {
            return Some((Ok(Bytes::from_static(b"data: {\"what\":\"watching\"}\n\n")), watch));
        }
        let piece = watch.next().await?;
        Some((Ok(piece), watch))
    })
}

impl<P> Watch<P> {
    /// The next event or keep-alive; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let Visitor { user, until, ended, .. } = &self.visitor;
        let over = async {
            match until {
                Some(until) => sleep_until(*until).await,
                None => std::future::pending().await,
            }
        };
        let change = async {
            loop {
                match self.changes.recv().await {
                    Ok(event) if event.user == *user => return Some(event),
                    Ok(_) => {}
                    // The reader is too slow, or the recorder has ended.
                    Err(_) => return None,
                }
            }
        };
        tokio::select! {
            () = self.ending.cancelled() => None,
            () = ended.cancelled() => None,
            () = over => None,
            change = change => change.map(|event| event_line(&event)),
            () = sleep(self.keep_alive) => Some(Bytes::from_static(b": keepalive\n\n")), // timer: keeps a quiet stream open
        }
    }
}

fn event_line(event: &LedgerEvent) -> Bytes {
    let session = event.session.map(|session| session.0.0);
    let turn = event.turn.map(|turn| turn.0.0);
    let event = json!({"what": word(event.what), "session": session, "turn": turn});
    Bytes::from(format!("data: {event}\n\n"))
}

fn word(what: LedgerChange) -> &'static str {
    match what {
        LedgerChange::SessionOpened => "session opened",
        LedgerChange::SessionClosed => "session closed",
        LedgerChange::EpochClosed => "epoch closed",
        LedgerChange::TurnOpened => "turn opened",
        LedgerChange::Retried => "retried",
        LedgerChange::Answered => "answered",
        LedgerChange::Unanswered => "unanswered",
        LedgerChange::NextState => "next state",
        LedgerChange::Feedback => "feedback",
        LedgerChange::Judged => "judged",
        LedgerChange::Learned => "learned",
        LedgerChange::Consent => "consent",
        LedgerChange::Deleted => "deleted",
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tokio::time::Instant;

    use super::*;
    use crate::{RequestId, SessionId, UserId};

    fn watch(changes: broadcast::Receiver<LedgerEvent>) -> Watch<()> {
        Watch {
            changes,
            visitor: Visitor::with_key(UserId("ada".to_owned())),
            ending: CancellationToken::new(),
            keep_alive: Duration::from_secs(10),
            has_begun: false,
            _permit: (),
        }
    }

    fn event(user: &str, session: u64) -> LedgerEvent {
        let session = Some(SessionId(RequestId(session)));
        LedgerEvent { user: UserId(user.to_owned()), session, turn: None, what: LedgerChange::SessionOpened }
    }

    #[tokio::test(start_paused = true)]
    async fn i2_users_get_only_their_events() {
        let (live, changes) = broadcast::channel(8);
        live.send(event("bob", 1)).unwrap();
        live.send(event("ada", 2)).unwrap();
        let pieces: Vec<_> = stream(watch(changes)).take(3).map(Result::unwrap).collect().await;
        let expected = [
            "data: {\"what\":\"watching\"}\n\n",
            "data: {\"session\":2,\"turn\":null,\"what\":\"session opened\"}\n\n",
            ": keepalive\n\n",
        ];
        assert_eq!(pieces, expected);
    }

    #[tokio::test]
    async fn i3_slow_reader_is_disconnected() {
        let (live, changes) = broadcast::channel(2);
        let mut slow = Box::pin(stream(watch(changes)));
        slow.next().await.unwrap().unwrap();
        for session in 0..9 {
            // Sending does not wait for the reader.
            live.send(event("ada", session)).unwrap();
        }
        assert_eq!(slow.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn i4_streams_end() {
        let (_live, changes) = broadcast::channel(2);
        let check = async |change: &dyn Fn(&mut Watch<()>)| {
            let mut watch = watch(changes.resubscribe());
            watch.has_begun = true;
            change(&mut watch);
            assert_eq!(Box::pin(stream(watch)).next().await, None);
        };
        check(&|watch| watch.ending.cancel()).await;
        check(&|watch| watch.visitor.ended.cancel()).await;
        check(&|watch| watch.visitor.until = Some(Instant::now())).await;
    }
}
