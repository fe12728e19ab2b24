//! Accepts connections, and routes their requests.

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use url::Host;

use super::dial::{DialError, dial};
use super::download::{FileAnswers, Purpose};
use super::forward::{Forwarded, forward};
use super::in_flight::InFlight;
use super::refused_origins::RefusedOrigins;
use super::target::Target;
use super::tunnel::{Tunnel, TunnelTarget};
use crate::site::{Body, ConnectionDropped, Origin, Scheme, SiteNumber, Sites, empty, page};

/// Maximum connections of one attempt. Browsers open at most 32 to a proxy, and up to 255 WebSockets; the rest waits.
const MAX_CONNECTIONS: usize = 128;
/// Maximum bytes of a request's head, and of what is read of a body at once.
const HEAD_BYTES: usize = 64 << 10;
/// Idle time after which a connection is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Pause after a connection could not be accepted, most likely for lack of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A proxy. Dropping it ends all its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    /// Owns the tasks of all connections.
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Serves a listener. Everything is refused until [`Self::open`]. Only this machine and these `peers` may connect,
    /// if any are named.
    pub(crate) fn serve(listener: TcpListener, peers: Option<Vec<IpAddr>>) -> Self {
        let shared = Arc::new(Shared { peers, ..Shared::default() });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { shared, accepting }
    }

    /// Allows these sites and their origins from now on. Earlier refusals are forgotten: no page of the task caused
    /// them.
    pub(crate) fn open(&self, sites: Arc<Sites>) {
        *self.shared.sites.lock().unwrap_or_else(PoisonError::into_inner) = Some(sites);
    }

    /// Refused origins, each once, the first hundred.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.shared.refused.list()
    }

    /// The first origin of the task that could not be reached or did not answer, and why.
    pub(crate) fn unreachable(&self) -> Option<&str> {
        self.shared.unreachable.get().map(String::as_str)
    }

    /// The first peer that connected without permission, as the end of a sentence about the consequences.
    pub(crate) fn stranger(&self) -> Option<String> {
        let stranger = self.shared.stranger.get()?;
        Some(format!(
            "; refused a connection from {stranger}, which is not an address of the WebDriver endpoint: if \
             browsers run on other machines, set CLAWRL_WEBDRIVER_HOST to this machine's name"
        ))
    }

    /// Number of requests being answered, delayed ones included. A tunnel counts until it is established.
    pub(crate) fn in_flight(&self) -> usize {
        self.shared.in_flight.count()
    }

    /// Answers so far that the browser treats as downloads. Counted before they are sent.
    pub(crate) fn files(&self) -> FileAnswers {
        *self.shared.lock_files()
    }

    /// Ready when no request is being answered. Safe to drop and to call again.
    pub(crate) async fn quiet(&self) {
        self.shared.in_flight.none().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                // Closed before it is read.
                Ok((_, from)) if !shared.may_ask(from.ip().to_canonical()) => {}
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, Arc::clone(&shared)));
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a browser's connection");
                    // timer: a lack of descriptors may pass
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves a connection until it ends, as a tunnel if the browser requests one.
async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    // Best effort; answers are waited for.
    let _ = stream.set_nodelay(true);
    let asked = Mutex::new(None);
    let lock = || asked.lock().unwrap_or_else(PoisonError::into_inner);
    serve_http(TokioIo::new(stream), &shared, async |request| {
        let (answer, tunnel) = shared.answer(request).await?;
        *lock() = tunnel;
        Ok(answer)
    })
    .await;
    let tunnel: Option<Tunnel> = lock().take();
    if let Some(tunnel) = tunnel {
        tunnel.run(&shared).await;
    }
}

/// Speaks HTTP with a browser until its connection ends or becomes a tunnel.
pub(super) async fn serve_http<I, A>(
    connection: I,
    shared: &Arc<Shared>,
    answer: impl Fn(Request<Incoming>) -> A,
) where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    A: Future<Output = Result<Response<Body>, ConnectionDropped>>,
{
    let service = service_fn(|request| {
        let answering = shared.in_flight.begin();
        let purpose = Purpose::of(request.headers());
        let answer = answer(request);
        async move {
            let answer = answer.await?;
            shared.lock_files().count(purpose, &answer);
            Ok::<_, ConnectionDropped>(answer.map(|body| answering.until_sent(body)))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEAD_BYTES)
        // A page could read it, and it would differ between attempts.
        .auto_date_header(false)
        .serve_connection(connection, service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of a browser ended");
    }
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    sites: Mutex<Option<Arc<Sites>>>,
    in_flight: InFlight,
    files: Mutex<FileAnswers>,
    refused: RefusedOrigins,
    unreachable: OnceLock<String>,
    /// Peers that may connect, besides this machine; `None` for all.
    peers: Option<Vec<IpAddr>>,
    /// The first peer that connected without permission.
    stranger: OnceLock<IpAddr>,
}

type Answered = Result<(Response<Body>, Option<Tunnel>), ConnectionDropped>;

impl Shared {
    fn lock_files(&self) -> MutexGuard<'_, FileAnswers> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_ask(&self, peer: IpAddr) -> bool {
        let may = may_ask(self.peers.as_deref(), peer);
        if !may {
            // The first counts.
            let _ = self.stranger.set(peer);
        }
        may
    }

    async fn answer(&self, request: Request<Incoming>) -> Answered {
        let alone = |answer| Ok((answer, None));
        let Some(target) = Target::of(request.method(), request.uri()) else {
            return alone(page(StatusCode::BAD_REQUEST, "this proxy does not serve the requested address"));
        };
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(sites) = sites else {
            let (Target::Page(origin) | Target::Tunnel(origin)) = &target;
            return alone(refusal(origin));
        };
        match target {
            Target::Page(origin) => match site_of(&sites, &origin) {
                Some(site) => Ok((sites.answer(site, request).await?, None)),
                None if origin.scheme == Scheme::Http && sites.origins().contains(&origin) => {
                    alone(match dial(&origin).await {
                        Ok(stream) => match forward(stream, &origin, request).await {
                            Forwarded::Answered(answer) => answer,
                            Forwarded::Failed(why) => self.failed(why),
                        },
                        Err(error) => self.not_reached(&origin, error),
                    })
                }
                None => alone(self.refuse(&origin)),
            },
            Target::Tunnel(origin) => match self.far(sites, &origin).await {
                Ok(far) => {
                    let near = hyper::upgrade::on(request);
                    Ok((Response::new(empty()), Some(Tunnel { near, far })))
                }
                Err(answer) => alone(answer),
            },
        }
    }

    /// The destination of a tunnel to an origin, or the answer to send instead.
    async fn far(&self, sites: Arc<Sites>, origin: &Origin) -> Result<TunnelTarget, Response<Body>> {
        if let Some(site) = site_of(&sites, origin) {
            return Ok(TunnelTarget::Site(sites, site));
        }
        // The content is not inspected: WebSockets of pages without TLS use this as well.
        let is_allowed = |known: &Origin| known.host == origin.host && known.port == origin.port;
        if !sites.origins().iter().any(is_allowed) {
            return Err(self.refuse(origin));
        }
        dial(origin).await.map(TunnelTarget::Origin).map_err(|error| self.not_reached(origin, error))
    }

    fn refuse(&self, origin: &Origin) -> Response<Body> {
        self.refused.add(&origin.to_string());
        refusal(origin)
    }

    fn not_reached(&self, origin: &Origin, error: DialError) -> Response<Body> {
        match error {
            DialError::Refused(reason) => {
                self.refused.add(&origin.to_string());
                page(StatusCode::FORBIDDEN, &format!("refused: {reason}"))
            }
            DialError::Unreachable(reason) => self.failed(reason),
        }
    }

    /// The page displays it, and the grader is informed: it says nothing about the agent.
    fn failed(&self, why: String) -> Response<Body> {
        let answer = page(StatusCode::BAD_GATEWAY, &why);
        // The first counts.
        let _ = self.unreachable.set(why);
        answer
    }
}

/// Whether a peer may connect: it is this machine, or in the list, if there is one.
pub(super) fn may_ask(peers: Option<&[IpAddr]>, peer: IpAddr) -> bool {
    peer.is_loopback() || peers.is_none_or(|peers| peers.contains(&peer))
}

fn refusal(origin: &Origin) -> Response<Body> {
    page(StatusCode::FORBIDDEN, &format!("refused: {origin} is not one of this task's"))
}

fn site_of(sites: &Sites, origin: &Origin) -> Option<SiteNumber> {
    match &origin.host {
        Host::Domain(name) if origin.port == Scheme::Http.usual_port() && origin.scheme == Scheme::Http => {
            sites.site(name)
        }
        _ => None,
    }
}
