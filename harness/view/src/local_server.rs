//! A small HTTP server for pages of the same user, such as in a browser.
//!
//! L1. The number of connections is limited; each carries one request, which must arrive in time.
//!
//! Cancellation: dropping the future stops new connections; answers in progress finish.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Time for a connection to send its request.
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// Maximum concurrent requests.
const ASKING: usize = 16;
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_secs(2);

/// Answers requests forever. `answer` runs on a thread for blocking work.
pub async fn serve<A>(listener: TcpListener, answer: A)
where
    A: Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Send + Sync + 'static,
{
    let (answer, room) = (Arc::new(answer), Arc::new(Semaphore::new(ASKING)));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "failed to accept a connection");
                // timer: without free descriptors the next accept fails at once as well.
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answer = Arc::clone(&answer);
                async move {
                    let answered = tokio::task::spawn_blocking(move || answer(&request)).await;
                    answered.map_err(std::io::Error::other)
                }
            });
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(ASK_LIMIT).keep_alive(false);
            if let Err(error) = connection.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "who asked went away");
            }
            drop(place);
        });
    }
}
