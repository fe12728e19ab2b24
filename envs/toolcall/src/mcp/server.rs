//! A server of an episode: connected at reset and, if the connection is lost, again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, Fault, McpDecl, McpShare, McpTransport};
use clawrl_redact::Redactor;
use clawrl_sandbox::{Sandbox, SandboxCommand};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::connection::{Connection, McpCallOutcome};
use super::listing::{ServedTool, chosen};
use super::pool::PoolKey;
use crate::http::{Destinations, header_map};
use crate::provider::Shared;
use crate::ready_sandbox::{self, SandboxKey};
use crate::result::{CallResult, CallTimeout, Outcome};

/// Time for a server to answer `initialize`.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Part of a reset's time that is reserved for reporting a failure.
const LEFT_OVER: Duration = Duration::from_millis(250);

const RESTARTED: &str = "[the MCP server was restarted; what it kept is lost]\n";

/// A server of an episode.
#[derive(Debug)]
pub(crate) struct Server {
    decl: McpDecl,
    /// Without the server's secrets.
    environment: BTreeMap<String, String>,
    sandbox_key: Option<SandboxKey>,
    redactor: Redactor,
    connection: Mutex<Option<Arc<Connection>>>,
}

/// What a server of an episode runs on.
#[derive(Clone, Copy)]
pub(crate) struct ServerContext<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) sandbox: Option<&'a dyn Sandbox>,
}

impl Server {
    /// A server that is not connected yet. `environment` has the variables of workspace programs, `sandbox_key`
    /// identifies its sandbox, `redactor` has the secrets to redact.
    pub(crate) fn new(
        decl: McpDecl,
        environment: BTreeMap<String, String>,
        sandbox_key: Option<SandboxKey>,
        redactor: Redactor,
    ) -> Self {
        Self { decl, environment, sandbox_key, redactor, connection: Mutex::new(None) }
    }

    /// Connects, and lists the offered tools.
    ///
    /// # Errors
    /// A provider [`Fault`]
    pub(crate) async fn begin(
        &self,
        on: ServerContext<'_>,
        deadline: Instant,
    ) -> Result<Vec<ServedTool>, Fault> {
        let by = Instant::now() + START_LIMIT;
        let by = deadline.checked_sub(LEFT_OVER).map_or(by, |last| last.min(by));
        let mut held = self.connection.lock().await;
        let connection = self.connect(on, by).await?;
        let listed = connection.tools(&self.decl, by).await.inspect_err(|_| connection.spend())?;
        *held = Some(connection);
        chosen(&self.decl, listed, &self.redactor)
    }

    /// Calls a tool by the server's own name.
    ///
    /// # Errors
    /// A [`Fault`] when the server is lost and the agent cannot have caused that (M5).
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        limit: Duration,
        deadline: Instant,
        on: ServerContext<'_>,
    ) -> Result<CallResult, Fault> {
        let (connection, before) = match self.connected(on, deadline).await? {
            Ok(found) => found,
            Err(reason) => return Ok(CallResult { outcome: Outcome::Lost, ..CallResult::failed(reason) }),
        };
        let allowance = CallTimeout::begin(limit, deadline);
        let result = match connection.call(tool, arguments, allowance).await {
            McpCallOutcome::Answered(result) => result,
            McpCallOutcome::Late => {
                let text = format!("error: no answer, ended {}", allowance.when());
                CallResult { outcome: Outcome::TimedOut, ..CallResult::done(text) }
            }
            McpCallOutcome::Lost(reason) => {
                self.forget(&connection).await;
                self.blame(on, &reason).await?;
                let text = format!("the MCP server has ended ({reason}); the next call starts it again");
                CallResult { outcome: Outcome::Lost, ..CallResult::failed(text) }
            }
        };
        Ok(CallResult { text: format!("{before}{}", result.text), ..result })
    }

    /// The connection, renewed if it was lost, with a note for the policy in that case. The inner error says why there
    /// is none, if the agent may have caused that.
    async fn connected(
        &self,
        on: ServerContext<'_>,
        deadline: Instant,
    ) -> Result<Result<(Arc<Connection>, &'static str), String>, Fault> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(Ok((Arc::clone(connection), "")));
        }
        *held = None;
        if self.decl.share == McpShare::Attempt && !self.decl.is_program() {
            // A new session would not know what the attempt did in the old one.
            let message = format!("the MCP server `{}` has lost the attempt's session", self.decl.name);
            return Err(Fault::transient(Boundary::Env, "mcp-lost", message));
        }
        if !self.is_own_program() {
            // Another attempt may have noticed the loss of a shared connection first.
            let by = deadline.min(Instant::now() + START_LIMIT);
            let connection = self.connect(on, by).await.map_err(lost)?;
            *held = Some(Arc::clone(&connection));
            return Ok(Ok((connection, "")));
        }
        let by = deadline.min(Instant::now() + START_LIMIT);
        match self.connect(on, by).await {
            Ok(connection) => {
                *held = Some(Arc::clone(&connection));
                Ok(Ok((connection, RESTARTED)))
            }
            Err(fault) => {
                self.blame(on, &fault.message).await?;
                Ok(Err(format!("the MCP server could not be started again: {}", fault.message)))
            }
        }
    }

    async fn forget(&self, connection: &Arc<Connection>) {
        connection.spend();
        let mut held = self.connection.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, connection)) {
            *held = None;
        }
    }

    /// Returns a fault, unless the server is a program in the attempt's sandbox, where the agent can end it.
    async fn blame(&self, on: ServerContext<'_>, reason: &str) -> Result<(), Fault> {
        if !self.is_own_program() {
            let message = format!("the MCP server `{}` is lost: {reason}", self.decl.name);
            return Err(Fault::transient(Boundary::Env, "mcp-lost", message));
        }
        match on.sandbox {
            Some(sandbox) => sandbox.lost().await.map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    fn is_own_program(&self) -> bool {
        self.decl.is_program() && self.decl.share == McpShare::Attempt
    }

    async fn connect(&self, on: ServerContext<'_>, by: Instant) -> Result<Arc<Connection>, Fault> {
        let shared = on.shared;
        match (self.decl.share, &self.decl.transport) {
            (McpShare::Attempt, McpTransport::Stdio { argv, .. }) => {
                let sandbox = on.sandbox.ok_or_else(|| self.no_sandbox())?;
                let environment = self.variables(shared)?;
                let command = command(argv, environment);
                Connection::of_program(&self.decl, command, sandbox, &self.redactor, by).await.map(Arc::new)
            }
            (McpShare::Attempt, McpTransport::Http { .. }) => {
                let (decl, redactor) = (self.decl.clone(), self.redactor.clone());
                connect_http(decl, Arc::clone(shared), redactor, by).await.map(Arc::new)
            }
            (McpShare::Run, transport) => {
                let sandbox_key = if self.decl.is_program() {
                    Some(self.sandbox_key.clone().ok_or_else(|| self.no_sandbox())?)
                } else {
                    None
                };
                let key = PoolKey {
                    transport: transport.clone(),
                    sandbox_key: sandbox_key.clone(),
                    // Variables cannot reach a running server.
                    environment: if self.decl.is_program() {
                        self.environment.clone()
                    } else {
                        BTreeMap::new()
                    },
                };
                let (decl, own, redactor) = (self.decl.clone(), Arc::clone(shared), self.redactor.clone());
                let environment = self.variables(shared)?;
                let connect = || -> clawrl_core::BoxFuture<'static, Result<Connection, Fault>> {
                    match sandbox_key {
                        Some(sandbox_key) => Box::pin(connect_in_own_sandbox(
                            decl,
                            environment,
                            sandbox_key,
                            own,
                            redactor,
                            by,
                        )),
                        None => Box::pin(connect_http(decl, own, redactor, by)),
                    }
                };
                let connected = tokio::time::timeout_at(by.into(), shared.mcp.get(key, connect)).await;
                connected.unwrap_or_else(|_| {
                    let message = format!("the MCP server `{}` did not start in time", self.decl.name);
                    Err(Fault::transient(Boundary::Provider, "mcp-hung", message))
                })
            }
        }
    }

    /// Variables of the workspace and the server's own, secrets included.
    fn variables(&self, shared: &Shared) -> Result<BTreeMap<String, String>, Fault> {
        let mut environment = self.environment.clone();
        if let McpTransport::Stdio { env, .. } = &self.decl.transport {
            for (name, source) in env {
                let place = format!("mcp: {}: vars: {name}", self.decl.name);
                environment.insert(name.clone(), shared.secrets.text(&place, source)?);
            }
        }
        Ok(environment)
    }

    fn no_sandbox(&self) -> Fault {
        let message = format!("the MCP server `{}` is a program, but has no sandbox", self.decl.name);
        Fault::permanent(Boundary::Harness, "no-sandbox", message)
    }

    /// Ends its own connection; a shared one stays.
    pub(crate) async fn end(&self) {
        let connection = self.connection.lock().await.take();
        if let (Some(connection), McpShare::Attempt) = (connection, self.decl.share) {
            connection.close().await;
        }
    }

    /// Maximum calls of its tools in an episode.
    pub(crate) fn max_calls(&self) -> Option<u32> {
        self.decl.max_calls
    }
}

/// During an episode, an unreachable server counts as lost.
fn lost(fault: Fault) -> Fault {
    Fault::transient(Boundary::Env, "mcp-lost", fault.message)
}

async fn connect_http(
    decl: McpDecl,
    shared: Arc<Shared>,
    redactor: Redactor,
    by: Instant,
) -> Result<Connection, Fault> {
    let McpTransport::Http { url, headers } = &decl.transport else {
        return Err(Fault::permanent(Boundary::Harness, "not-http", "a program has no address"));
    };
    let headers = header_map(&format!("mcp: {}", decl.name), headers, &shared.secrets)?;
    let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let client = shared.http.get(&scheme, &Destinations::Anything).map_err(|error| {
        let message = format!("failed to read this machine's certificates: {error}");
        Fault::permanent(Boundary::Provider, "http-certificates", message)
    })?;
    Connection::of_endpoint(&decl, url, headers, client, &redactor, by).await
}

/// Connects in a separate sandbox.
async fn connect_in_own_sandbox(
    decl: McpDecl,
    environment: BTreeMap<String, String>,
    kind: SandboxKey,
    shared: Arc<Shared>,
    redactor: Redactor,
    by: Instant,
) -> Result<Connection, Fault> {
    let McpTransport::Stdio { argv, .. } = &decl.transport else {
        return Err(Fault::permanent(Boundary::Harness, "not-a-program", "an address needs no sandbox"));
    };
    let backend = Arc::clone(shared.backend(kind.sandbox)?);
    let ready = ready_sandbox::make(backend.as_ref(), kind, &shared.determinism, &shared.count).await?;
    let command = command(argv, environment);
    let connection = Connection::of_program(&decl, command, ready.sandbox.as_ref(), &redactor, by).await?;
    Ok(connection.at_home(ready))
}

fn command(argv: &[String], environment: BTreeMap<String, String>) -> SandboxCommand {
    let mut argv = argv.iter().cloned();
    SandboxCommand { program: argv.next().unwrap_or_default(), arguments: argv.collect(), environment }
}
