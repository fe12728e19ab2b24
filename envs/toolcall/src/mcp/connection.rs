//! One connection to a server, from its start to its end.
//!
//! Cancellation: a start or a call may be dropped. A dropped start ends what it began; a dropped call is cancelled on
//! the server by `notifications/cancelled`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, Fault, McpDecl};
use clawrl_redact::Redactor;
use clawrl_sandbox::{ExecError, NotRun, Program, ProgramHandle, ProgramSpec, Sandbox, SandboxCommand};
use http::{HeaderMap, HeaderName};
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams,
    ProtocolVersion, Tool,
};
use rmcp::service::{ClientInitializeError, Peer, RoleClient, RunningService, serve_client};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::endpoint::{ConnectionErrors, Endpoint};
use super::listing::MAX_TOOLS;
use super::pending_requests::{PendingRequests, TrackingTransport};
use super::result_text::call_result;
use super::traffic_log::{LINE_BYTES, TrafficLog};
use crate::http::HttpClient;
use crate::ready_sandbox::ReadySandbox;
use crate::result::{CallResult, CallTimeout};

/// Maximum pages of a tool list.
const MAX_PAGES: usize = 64;

/// How long to wait for a program to end after it closed its output.
const END_LIMIT: Duration = Duration::from_millis(500);

/// Time for an HTTP server to accept the end of its session.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// A server that has answered `initialize`.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    /// Dropped before the rest: it holds the ends of the pipes.
    service: Mutex<RunningService<RoleClient, ClientConfig>>,
    other_side: OtherSide,
    /// Secrets of the first task that connected; all tasks that share the connection have the same ones.
    redactor: Redactor,
    /// No new request may start on it; running ones continue.
    spent: AtomicBool,
}

/// The other end of the connection.
enum OtherSide {
    Program {
        /// The program, and its other output.
        running: Box<Mutex<(ProgramHandle, TrafficLog)>>,
        /// The program's own sandbox, if it has one.
        home: Option<Box<ReadySandbox>>,
    },
    Http(Arc<ConnectionErrors>),
}

#[derive(Debug)]
pub(super) enum McpCallOutcome {
    Answered(CallResult),
    Late,
    /// The server has ended, with the reason.
    Lost(String),
}

/// Our identity for servers. Protocol versions without `initialize` are not offered; current servers speak these.
fn ourselves() -> ClientConfig {
    let name = Implementation::new("clawrl", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), name)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

impl Connection {
    /// Starts a program and waits until it has answered `initialize`.
    ///
    /// # Errors
    /// A provider [`Fault`] with its standard error.
    pub(super) async fn of_program(
        decl: &McpDecl,
        command: SandboxCommand,
        sandbox: &dyn Sandbox,
        redactor: &Redactor,
        by: Instant,
    ) -> Result<Self, Fault> {
        let opened = sandbox.open(ProgramSpec { command, user: None }).await;
        let Program { input, output, errors, mut handle } = opened.map_err(|error| not_run(decl, error))?;
        let input = input.ok_or_else(|| start_fault(decl, "it lacks an input"))?;
        let waiting = PendingRequests::default();
        let (mut traffic_log, tap) = TrafficLog::listen(output, errors, redactor.clone(), waiting.clone());
        // A repaired message may be longer than the original.
        let transport = AsyncRwTransport::new_client(tap, input).with_max_line_length(2 * LINE_BYTES);
        let transport = TrackingTransport { transport, waiting };
        let started = tokio::time::timeout_at(by.into(), serve_client(ourselves(), transport)).await;
        let service = match started {
            Ok(Ok(service)) => service,
            Ok(Err(
                ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. },
            )) => {
                return Err(match end_of(&mut handle, &mut traffic_log).await {
                    Ok(how) => start_fault(
                        decl,
                        &format!("it ended before it answered ({how}){}", traffic_log.summary()),
                    ),
                    Err(error) => not_run(decl, error),
                });
            }
            Ok(Err(error)) => {
                return Err(start_fault(decl, &format!("{}{}", reason(&error), traffic_log.summary())));
            }
            Err(_) => {
                let said = traffic_log.summary();
                handle.kill().await;
                return Err(hung(decl, &said));
            }
        };
        let running = Box::new(Mutex::new((handle, traffic_log)));
        Self::agreed(decl, service, OtherSide::Program { running, home: None }, redactor)
    }

    /// Connects to an HTTP server, and waits until it has answered `initialize`.
    ///
    /// # Errors
    /// A provider [`Fault`]
    pub(super) async fn of_endpoint(
        decl: &McpDecl,
        url: &str,
        headers: HeaderMap,
        client: HttpClient,
        redactor: &Redactor,
        by: Instant,
    ) -> Result<Self, Fault> {
        let (endpoint, trouble) = Endpoint::new(client);
        let headers = headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
        let config = StreamableHttpClientTransportConfig::with_uri(url)
            .custom_headers(headers.collect::<std::collections::HashMap<HeaderName, _>>())
            // A forgotten session has lost its state; that must not be hidden.
            .reinit_on_expired_session(false)
            // Waiting for others in here must not count against a call's own time.
            .max_concurrent_requests(usize::MAX);
        let transport = StreamableHttpClientTransport::with_client(endpoint, config);
        match tokio::time::timeout_at(by.into(), serve_client(ourselves(), transport)).await {
            Ok(Ok(service)) => Self::agreed(decl, service, OtherSide::Http(trouble), redactor),
            Ok(Err(error)) => {
                let reason = trouble.words().unwrap_or_else(|| reason(&error));
                let message =
                    format!("the MCP server `{}` at {url} did not answer `initialize`: {reason}", decl.name);
                Err(Fault::transient(Boundary::Provider, "mcp-unreachable", message))
            }
            Err(_) => Err(hung(decl, "")),
        }
    }

    fn agreed(
        decl: &McpDecl,
        service: RunningService<RoleClient, ClientConfig>,
        other_side: OtherSide,
        redactor: &Redactor,
    ) -> Result<Self, Fault> {
        let version = service.peer_info().map(|info| info.protocol_version.clone()).unwrap_or_default();
        let known = || ProtocolVersion::KNOWN_VERSIONS.iter().filter(|version| version.has_initialize());
        if known().all(|known| *known != version) {
            let known: Vec<&str> = known().map(ProtocolVersion::as_str).collect();
            let message = format!(
                "the MCP server `{}` speaks protocol version {:?}, but supported are {}: install another \
                 version of it",
                decl.name,
                version.as_str(),
                known.join(", ")
            );
            return Err(Fault::permanent(Boundary::Provider, "mcp-version", message));
        }
        Ok(Self {
            peer: service.peer().clone(),
            service: Mutex::new(service),
            other_side,
            redactor: redactor.clone(),
            spent: AtomicBool::new(false),
        })
    }

    /// Transfers the ownership of a program's sandbox to its connection.
    pub(super) fn at_home(mut self, ready: ReadySandbox) -> Self {
        if let OtherSide::Program { home, .. } = &mut self.other_side {
            *home = Some(Box::new(ready));
        }
        self
    }

    /// Whether no further request is possible.
    pub(super) fn is_closed(&self) -> bool {
        let in_trouble = matches!(&self.other_side, OtherSide::Http(trouble) if trouble.known().is_some());
        in_trouble || self.spent.load(Ordering::Acquire) || self.peer.is_transport_closed()
    }

    /// Forbids new requests: the next caller connects anew.
    pub(super) fn spend(&self) {
        self.spent.store(true, Ordering::Release);
    }

    /// Lists the server's tools.
    ///
    /// # Errors
    /// A provider [`Fault`]
    pub(super) async fn tools(&self, decl: &McpDecl, by: Instant) -> Result<Vec<Tool>, Fault> {
        match tokio::time::timeout_at(by.into(), self.listed(decl)).await {
            Ok(listed) => listed,
            Err(_) => {
                let message = format!(
                    "the MCP server `{}` did not list its tools in time{}",
                    decl.name,
                    self.said().await
                );
                Err(Fault::transient(Boundary::Provider, "mcp-hung", message))
            }
        }
    }

    async fn listed(&self, decl: &McpDecl) -> Result<Vec<Tool>, Fault> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let page = match self.peer.list_tools(Some(page)).await {
                Ok(page) => page,
                Err(error) => {
                    let said = self.said().await;
                    let message =
                        format!("the MCP server `{}` did not list its tools: {error}{said}", decl.name);
                    return Err(Fault::transient(Boundary::Provider, "mcp-list", message));
                }
            };
            tools.extend(page.tools);
            // Some servers mark the last page with an empty cursor, or repeat the previous one.
            let next = page.next_cursor.filter(|next| !next.is_empty() && cursor.as_ref() != Some(next));
            cursor = next;
            if tools.len() > MAX_TOOLS {
                break;
            }
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        let message = format!(
            "the MCP server `{}` lists more than {MAX_TOOLS} tools, or endless pages of them",
            decl.name
        );
        Err(Fault::permanent(Boundary::Provider, "mcp-list", message))
    }

    /// Calls a tool. The request is sent once.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        allowance: CallTimeout,
    ) -> McpCallOutcome {
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.clone());
        let asked = async {
            let trouble = async {
                match &self.other_side {
                    OtherSide::Http(trouble) => trouble.comes().await,
                    OtherSide::Program { .. } => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answered = self.peer.call_tool(request) => answered.map_err(Some),
                _ = trouble => Err(None),
            }
        };
        // Dropping a request tells the server that it is cancelled.
        match tokio::time::timeout_at(allowance.until.into(), asked).await {
            Err(_) => McpCallOutcome::Late,
            Ok(Ok(result)) => McpCallOutcome::Answered(call_result(&result, &self.redactor)),
            Ok(Err(Some(ServiceError::McpError(error)))) => {
                McpCallOutcome::Answered(CallResult::failed(error.message))
            }
            Ok(Err(Some(ServiceError::UnexpectedResponse))) => {
                McpCallOutcome::Answered(CallResult::failed("the server's answer is not a tool result"))
            }
            Ok(Err(error)) => McpCallOutcome::Lost(self.why_lost(error.as_ref()).await),
        }
    }

    async fn why_lost(&self, error: Option<&ServiceError>) -> String {
        match &self.other_side {
            OtherSide::Http(trouble) => {
                trouble.words().or(error.map(ToString::to_string)).unwrap_or_else(|| "no answer".to_owned())
            }
            OtherSide::Program { running, .. } => {
                let mut running = running.lock().await;
                let (handle, traffic_log) = &mut *running;
                let how = end_of(handle, traffic_log).await;
                format!("{}{}", how.unwrap_or_else(|error| not_run_text(&error)), traffic_log.summary())
            }
        }
    }

    /// Other output of a program.
    async fn said(&self) -> String {
        match &self.other_side {
            OtherSide::Http(trouble) => {
                trouble.words().map(|reason| format!(": {reason}")).unwrap_or_default()
            }
            OtherSide::Program { running, .. } => running.lock().await.1.summary(),
        }
    }

    /// Ends it, and tells an HTTP server that the session is over.
    pub(super) async fn close(&self) {
        // What is not done by then continues in the background, by the service's own end.
        let _ = self.service.lock().await.close_with_timeout(CLOSE_LIMIT).await;
        if let OtherSide::Program { running, home } = &self.other_side {
            running.lock().await.0.kill().await;
            if let Some(home) = home
                && let Err(fault) = home.sandbox.kill().await
            {
                tracing::error!(%fault, "failed to end the sandbox of an MCP server");
            }
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// How a program ended whose output is closed.
async fn end_of(handle: &mut ProgramHandle, traffic_log: &mut TrafficLog) -> Result<String, ExecError> {
    let ended = tokio::time::timeout(END_LIMIT, handle.ended()).await;
    let Ok(code) = ended else {
        handle.kill().await;
        return Ok("it closed its output".to_owned());
    };
    let how = match code? {
        Some(code @ 129..) => format!("signal {}", code - 128),
        Some(code) => format!("exit code {code}"),
        None => "killed".to_owned(),
    };
    let _ = tokio::time::timeout(END_LIMIT, traffic_log.end()).await;
    Ok(how)
}

fn reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => format!("it refused `initialize`: {}", error.message),
        ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
            "its answer to `initialize` violates the protocol".to_owned()
        }
        error => error.to_string(),
    }
}

fn start_fault(decl: &McpDecl, reason: &str) -> Fault {
    let message = format!("the MCP server `{}` did not start: {reason}", decl.name);
    Fault::permanent(Boundary::Provider, "mcp-start", message)
}

/// Transient: a loaded machine may be slow once.
fn hung(decl: &McpDecl, said: &str) -> Fault {
    let message = format!("the MCP server `{}` did not answer `initialize` in time{said}", decl.name);
    Fault::transient(Boundary::Provider, "mcp-hung", message)
}

fn not_run(decl: &McpDecl, error: ExecError) -> Fault {
    match error {
        ExecError::Fault(fault) => fault,
        ExecError::NotRun { obstacle: NotRun::Program, message } => {
            let message = format!(
                "the MCP server `{}` cannot be run: {message}; a sandbox contains the system's programs, and \
                 the folders under `workspace: read_only:`",
                decl.name
            );
            Fault::permanent(Boundary::Provider, "mcp-missing", message)
        }
        ExecError::NotRun { message, .. } => {
            let message = format!("the MCP server `{}` did not start: {message}", decl.name);
            Fault::transient(Boundary::Provider, "mcp-start", message)
        }
    }
}

fn not_run_text(error: &ExecError) -> String {
    match error {
        ExecError::NotRun { message, .. } => message.clone(),
        ExecError::Fault(fault) => fault.message.clone(),
    }
}
