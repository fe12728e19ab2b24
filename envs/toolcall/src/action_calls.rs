//! Executes the calls of one action.
//!
//! T1. Calls are accepted in their order, and run concurrently; results are in the order of the calls.
//! T2. A refused call runs nothing, and its result says why in one line.
//! T3. A call whose time is up is ended, and the others continue.
//! T4. Calls after an accepted `submit` are not run.
//! T5. No call is run twice (I7 of the architecture).
//!
//! Calls of `python` run one after another, since there is one interpreter; the time of each starts with its own run.
//!
//! Cancellation: after the future of [`finish`] was dropped, programs run until the sandbox ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{Fault, ToolCall, ToolKind, ToolcallSpec};
use clawrl_sandbox::Sandbox;
use futures_util::future::try_join_all;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::call_log::CallLog;
use crate::http::{HttpRequest, HttpTool};
use crate::mcp::{Server, ServerContext};
use crate::provider::Shared;
use crate::python::Python;
use crate::result::{CallResult, CallTimeout, Outcome};
use crate::step_reward::EarnedRewards;
use crate::toolbox::{Origin, SUBMIT, Tool, Toolbox};
use crate::tools::{CommandCall, Store, arithmetic, command_call, look_up, run_command};

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) call_log: CallLog,
    /// By the names of their tools.
    pub(crate) stores: BTreeMap<String, Store>,
    pub(crate) answer: Option<String>,
    pub(crate) earnings: EarnedRewards,
}

impl State {
    pub(crate) fn new(spec: &ToolcallSpec) -> Self {
        let stores = spec.tools.iter().filter_map(|tool| match &tool.kind {
            ToolKind::Store { initial } => Some((tool.name.clone(), Store::new(initial))),
            _ => None,
        });
        Self { stores: stores.collect(), ..Self::default() }
    }
}

#[derive(Debug)]
pub(crate) enum Job<'a> {
    /// The result is known, or the call was refused.
    Known(CallResult),
    Python {
        code: &'a str,
        limit: Duration,
    },
    Command {
        command: CommandCall,
        limit: Duration,
    },
    Http {
        tool: &'a HttpTool,
        ask: Box<HttpRequest>,
        limit: Duration,
    },
    /// A tool of a server, by its own name.
    Served {
        server: usize,
        own_name: &'a str,
        arguments: &'a Map<String, Value>,
        limit: Duration,
    },
    Never {
        limit: Duration,
    },
}

/// The accepted calls of an action.
#[derive(Debug)]
pub(crate) struct AcceptedCalls<'a> {
    /// In the order of the calls; an accepted `submit` is not included.
    pub(crate) jobs: Vec<(&'a ToolCall, Job<'a>)>,
    pub(crate) submitted: bool,
}

/// Accepts the calls; those that need no program are done at once.
pub(crate) fn accept_calls<'a>(
    calls: &'a [ToolCall],
    spec: &'a ToolcallSpec,
    toolbox: &'a Toolbox,
    servers: &[Server],
    state: &mut State,
) -> AcceptedCalls<'a> {
    let mut jobs = Vec::with_capacity(calls.len());
    let mut run = 0;
    for call in calls {
        if call.name == SUBMIT {
            match toolbox.submit().problem(&call.arguments) {
                None => {
                    state.call_log.note(call);
                    state.answer = call.str_argument("answer").map(str::to_owned);
                    return AcceptedCalls { jobs, submitted: true };
                }
                Some(problem) => jobs.push((call, Job::Known(CallResult::refused(problem)))),
            }
            continue;
        }
        let job = match accept(call, run, spec, toolbox, servers, &state.call_log) {
            Err(reason) => Job::Known(CallResult::refused(reason)),
            Ok(tool) => {
                let job = job(call, tool, spec, state);
                let is_refused = matches!(&job, Job::Known(result) if result.outcome == Outcome::Refused);
                if !is_refused {
                    run += 1;
                    state.call_log.note(call);
                }
                job
            }
        };
        jobs.push((call, job));
    }
    AcceptedCalls { jobs, submitted: false }
}

/// The tool of a call that may be run, or why it is refused.
fn accept<'a>(
    call: &ToolCall,
    run: u32,
    spec: &ToolcallSpec,
    toolbox: &'a Toolbox,
    servers: &[Server],
    call_log: &CallLog,
) -> Result<&'a Tool, String> {
    let Some(tool) = toolbox.find(&call.name) else {
        let known: Vec<&str> = toolbox.names().collect();
        return Err(format!("there is no such tool; tools: {}", known.join(", ")));
    };
    if let Some(problem) = tool.schema.problem(&call.arguments) {
        return Err(problem);
    }
    if run >= spec.max_parallel_calls {
        return Err(format!("not run: at most {} of one action", counted(spec.max_parallel_calls)));
    }
    let (most, made, of) = match &tool.origin {
        Origin::Declared { .. } => (tool.max_calls, call_log.count(&call.name), "this tool"),
        Origin::Served { server, .. } => {
            let most = servers.get(*server).and_then(Server::max_calls);
            (most, call_log.count_of(|name| toolbox.is_of(name, *server)), "the tools of this server")
        }
    };
    match most {
        Some(most) if made >= most as usize => Err(format!("not run: at most {} of {of}", counted(most))),
        _ => Ok(tool),
    }
}

fn counted(number: u32) -> String {
    if number == 1 { "1 call".to_owned() } else { format!("{number} calls") }
}

fn job<'a>(call: &'a ToolCall, tool: &'a Tool, spec: &'a ToolcallSpec, state: &mut State) -> Job<'a> {
    let Some(arguments) = call.arguments.as_object() else {
        return Job::Known(CallResult::refused("the arguments must be a JSON object"));
    };
    let limit = tool.timeout;
    let index = match &tool.origin {
        Origin::Served { server, own_name } => {
            return Job::Served { server: *server, own_name, arguments, limit };
        }
        Origin::Declared { http: Some(tool), .. } => {
            return match HttpRequest::new(tool, arguments) {
                Ok(ask) => Job::Http { tool, ask: Box::new(ask), limit },
                Err(reason) => Job::Known(CallResult::refused(reason)),
            };
        }
        Origin::Declared { index, .. } => *index,
    };
    match &spec.tools[index].kind {
        ToolKind::Python => match arguments.get("code").and_then(Value::as_str) {
            Some(code) => Job::Python { code, limit },
            None => Job::Known(CallResult::refused("`code` is missing, a string")),
        },
        ToolKind::Command { argv, stdin } => match command_call(argv, stdin.as_deref(), arguments) {
            Ok(command) => Job::Command { command, limit },
            Err(reason) => Job::Known(CallResult::refused(reason)),
        },
        ToolKind::Never => Job::Never { limit },
        ToolKind::Table { rows, missing } => Job::Known(look_up(rows, missing, arguments)),
        ToolKind::Store { .. } => Job::Known(match state.stores.get_mut(&call.name) {
            Some(store) => store.call(arguments),
            None => CallResult::failed("there is no such store"),
        }),
        ToolKind::Arithmetic => Job::Known(arithmetic(arguments)),
        ToolKind::Returns { text } => Job::Known(CallResult::done(text)),
        ToolKind::Fails { message } => Job::Known(CallResult::failed(message)),
        other => Job::Known(CallResult::refused(format_args!("unknown kind of tool: `{}`", other.key()))),
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Programs<'a> {
    pub(crate) sandbox: &'a dyn Sandbox,
    pub(crate) python: Option<&'a Mutex<Python>>,
    /// Environment variables of commands.
    pub(crate) environment: &'a BTreeMap<String, String>,
}

/// What jobs need to finish.
#[derive(Clone, Copy)]
pub(crate) struct JobContext<'a> {
    pub(crate) programs: Option<Programs<'a>>,
    pub(crate) servers: &'a [Server],
    pub(crate) shared: &'a Arc<Shared>,
}

/// Finishes all jobs concurrently.
///
/// # Errors
/// The first [`Fault`].
pub(crate) async fn finish<'a>(
    jobs: Vec<(&'a ToolCall, Job<'a>)>,
    ground: JobContext<'_>,
    deadline: Instant,
) -> Result<Vec<(&'a ToolCall, CallResult)>, Fault> {
    let finished = jobs
        .into_iter()
        .map(|(call, job)| async move { Ok((call, finish_one(job, ground, deadline).await?)) });
    try_join_all(finished).await
}

async fn finish_one(job: Job<'_>, ground: JobContext<'_>, deadline: Instant) -> Result<CallResult, Fault> {
    let programs = ground.programs;
    let nowhere = || Ok(CallResult::failed("no sandbox to run it in"));
    match job {
        Job::Known(result) => Ok(result),
        Job::Never { limit } => {
            let allowance = CallTimeout::begin(limit, deadline);
            // timer: waiting is the purpose of this tool.
            tokio::time::sleep_until(allowance.until.into()).await;
            let text = format!("error: no answer, ended {}", allowance.when());
            Ok(CallResult { outcome: Outcome::TimedOut, ..CallResult::done(text) })
        }
        Job::Http { tool, ask, limit } => tool.call(*ask, CallTimeout::begin(limit, deadline)).await,
        Job::Served { server, own_name, arguments, limit } => {
            let Some(server) = ground.servers.get(server) else { return nowhere() };
            let sandbox = programs.map(|programs| programs.sandbox);
            let on = ServerContext { shared: ground.shared, sandbox };
            server.call(own_name, arguments, limit, deadline, on).await
        }
        Job::Command { command, limit } => {
            let Some(programs) = programs else { return nowhere() };
            let allowance = CallTimeout::begin(limit, deadline);
            run_command(programs.sandbox, command, programs.environment.clone(), allowance).await
        }
        Job::Python { code, limit } => {
            let Some((programs, python)) = programs.and_then(|programs| Some((programs, programs.python?)))
            else {
                return nowhere();
            };
            match tokio::time::timeout_at(deadline.into(), python.lock()).await {
                Ok(mut python) => python.call(programs.sandbox, code, limit, deadline).await,
                Err(_) => {
                    let text = "error: not run: calls before it took all of the step's time";
                    Ok(CallResult { outcome: Outcome::TimedOut, ..CallResult::done(text) })
                }
            }
        }
    }
}
