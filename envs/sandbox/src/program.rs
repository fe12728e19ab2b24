//! A program on pipes, beside the sandbox's main program, that lives until its owner drops it.
//!
//! I1. Whether the program ran at all is not derived from its exit code or output, which it controls: a launcher that
//! cannot run the program reports that on a pipe that the program never holds.
//! I2. [`ProgramHandle::kill`] ends the program and all its descendants, including those in sessions of their own. The
//! program inherits its orphans, so it is stopped first and ended last. Anything that cannot be ended this way ends
//! with the whole sandbox.
//! I3. Dropping a handle kills the program in the background. If the program has already ended, its daemons live until
//! the sandbox ends.
//!
//! Cancellation: every future here may be dropped; dropping a start ends what it began.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, BoxFuture, Fault};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use tokio::net::unix::pipe;

use crate::ProcessFacts;
use crate::blocking::blocking;
use crate::exec_error::{ExecError, NotRun};
use crate::procs;
use crate::spawner::{
    ExitWatch, LaunchError, LaunchRequest, MAX_LAUNCH_ERROR_BYTES, SpawnerClient, SpawnerError,
};

/// How long a kill tries to end the program without its sandbox.
const ALONE_LIMIT: Duration = Duration::from_secs(5);

/// A running program with our ends of its pipes. To use the parts concurrently, take the struct apart.
///
/// A pipe holds some 64 KiB: a program whose output or errors are not read blocks when a pipe is full.
#[derive(Debug)]
pub struct Program {
    /// Its standard input. Dropping it closes the input.
    pub input: Option<pipe::Sender>,
    /// Its standard output. After the program has ended, its descendants may still hold the other end.
    pub output: pipe::Receiver,
    /// Its standard error.
    pub errors: pipe::Receiver,
    /// Controls the program. Dropping it ends the program.
    pub handle: ProgramHandle,
}

impl Program {
    /// See [`ProgramHandle::ended`].
    ///
    /// # Errors
    /// As there.
    pub async fn ended(&mut self) -> Result<Option<i32>, ExecError> {
        self.handle.ended().await
    }

    /// See [`ProgramHandle::kill`].
    pub async fn kill(&self) {
        self.handle.kill().await;
    }

    /// See [`ProgramHandle::interrupt`].
    pub async fn interrupt(&self) {
        self.handle.interrupt().await;
    }
}

/// Controls a program and ends it when dropped.
#[derive(Debug)]
pub struct ProgramHandle(Box<dyn ProgramLife>);

/// The implementation of a [`ProgramHandle`]. Dropping it ends the program in the background.
pub trait ProgramLife: Send + Sync + std::fmt::Debug {
    /// See [`ProgramHandle::ended`].
    fn ended(&mut self) -> BoxFuture<'_, Result<Option<i32>, ExecError>>;

    /// See [`ProgramHandle::has_ended`].
    fn has_ended(&self) -> bool;

    /// See [`ProgramHandle::kill`].
    fn kill(&self) -> BoxFuture<'_, ()>;

    /// See [`ProgramHandle::interrupt`].
    fn interrupt(&self) -> BoxFuture<'_, ()>;
}

impl ProgramHandle {
    /// Wraps an implementation.
    #[must_use]
    pub fn new(life: impl ProgramLife + 'static) -> Self {
        Self(Box::new(life))
    }

    /// Waits for the end and returns the exit code: 128 + n for signal n, `None` when [`Self::kill`] ended it. May be
    /// called again, and the future may be dropped.
    ///
    /// # Errors
    /// [`ExecError`] when the program never ran, or its end is unknown.
    pub async fn ended(&mut self) -> Result<Option<i32>, ExecError> {
        self.0.ended().await
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Ends the program and its descendants (I2), and waits for that. Does nothing if it has ended.
    pub async fn kill(&self) {
        self.0.kill().await;
    }

    /// Sends SIGINT to the program only, as Ctrl-C would. Without a handler, which an interpreter installs only after
    /// some moments, the signal ends it.
    pub async fn interrupt(&self) {
        self.0.interrupt().await;
    }
}

#[derive(Debug)]
struct LaunchedProgram {
    exit: ExitWatch,
    killer: Arc<ProgramKiller>,
    killed: AtomicBool,
    /// Our end of the pipe of I1.
    error_pipe: Option<OwnedFd>,
    error_bytes: Vec<u8>,
    /// Whether the launcher is outside the sandbox, so that no program inside can kill it, not even by using up the
    /// memory.
    launcher_is_apart: bool,
}

/// What ending a program needs from its sandbox.
pub(crate) trait ProgramContext: Send + Sync + std::fmt::Debug {
    /// Lists the processes inside. Blocks.
    fn inside(&self) -> Vec<ProcessFacts>;

    /// Starts ending everything inside, and returns at once.
    fn kill_all(&self);
}

/// Starts a program on fresh pipes. When its sandbox ends, which drops the context, the program has ended, too.
pub(crate) async fn start(
    spawner: SpawnerClient,
    launch: LaunchRequest,
    context: Weak<dyn ProgramContext>,
) -> Result<Program, ExecError> {
    // Runs in its own task: a caller that is dropped midway must not lose a starting process.
    let task = tokio::spawn(async move { start_now(&spawner, launch, context).await });
    task.await.unwrap_or_else(|error| {
        let message = format!("starting a program: {error}");
        Err(Fault::permanent(Boundary::Harness, "panic", message).into())
    })
}

async fn start_now(
    spawner: &SpawnerClient,
    launch: LaunchRequest,
    context: Weak<dyn ProgramContext>,
) -> Result<Program, ExecError> {
    let failed = |error: std::io::Error| Fault::transient(Boundary::Env, "pipe", error.to_string());
    let make = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
    let (their_input, our_input) = make()?;
    let (our_output, their_output) = make()?;
    let (our_errors, their_errors) = make()?;
    let (our_trouble, their_trouble) = make()?;
    // Only its current state is read.
    rustix::io::ioctl_fionbio(&our_trouble, true).map_err(|errno| failed(errno.into()))?;
    let input = pipe::Sender::from_owned_fd(our_input).map_err(failed)?;
    let output = pipe::Receiver::from_owned_fd(our_output).map_err(failed)?;
    let errors = pipe::Receiver::from_owned_fd(our_errors).map_err(failed)?;
    // Only a launcher that joins a sandbox keeps running beside the program.
    let joins = launch.join.is_some();
    let launcher_is_apart = joins && launch.confinement.cgroup_entrances.is_empty();
    let error_pipe: Option<BorrowedFd<'_>> = joins.then(|| their_trouble.as_fd());
    let descriptors: Vec<BorrowedFd<'_>> = [their_input.as_fd(), their_output.as_fd(), their_errors.as_fd()]
        .into_iter()
        .chain(error_pipe)
        .collect();
    let process = spawner.spawn(launch, None, &descriptors).await.map_err(|error| match error {
        // The launcher was not even started: the sandbox's control group is gone, or no process could be created.
        SpawnerError::Refused(message) if joins => ExecError::NotRun { obstacle: NotRun::Launcher, message },
        error => Fault::from(error).into(),
    })?;
    let killer = ProgramKiller { launcher: process.pid, joins, exit: process.exit.clone(), context };
    let handle = ProgramHandle::new(LaunchedProgram {
        exit: process.exit,
        killer: Arc::new(killer),
        killed: AtomicBool::new(false),
        error_pipe: Some(our_trouble),
        error_bytes: Vec::new(),
        launcher_is_apart,
    });
    Ok(Program { input: Some(input), output, errors, handle })
}

impl ProgramLife for LaunchedProgram {
    fn ended(&mut self) -> BoxFuture<'_, Result<Option<i32>, ExecError>> {
        Box::pin(async move {
            let report = self.exit.ended().await;
            if self.killed.load(Ordering::Acquire) {
                return Ok(None);
            }
            if let Some(error_pipe) = self.error_pipe.take() {
                self.error_bytes = available(&error_pipe, MAX_LAUNCH_ERROR_BYTES);
            }
            if let Some(LaunchError { not_run, message }) = LaunchError::read(&self.error_bytes) {
                return Err(ExecError::NotRun { obstacle: not_run, message });
            }
            match (report.code, report.signal) {
                (None, None) => Err(Fault::from(SpawnerError::Gone).into()),
                // The launcher's exit code reports how the program ended.
                (None, Some(signal)) if self.launcher_is_apart => {
                    let message = format!(
                        "signal {signal} ended the launcher of a program, which only the machine can cause"
                    );
                    Err(Fault::transient(Boundary::Env, "launcher-killed", message).into())
                }
                (code, signal) => Ok(code.or(signal.map(|signal| 128 + signal))),
            }
        })
    }

    fn has_ended(&self) -> bool {
        self.exit.has_ended()
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.exit.has_ended() {
                return;
            }
            self.killed.store(true, Ordering::Release);
            let killer = Arc::clone(&self.killer);
            if let Err(fault) = blocking(move || killer.now()).await {
                tracing::error!(%fault, "failed to end a program");
                procs::kill(self.killer.launcher);
            }
            self.exit.clone().ended().await;
        })
    }

    fn interrupt(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.exit.has_ended() {
                return;
            }
            let killer = Arc::clone(&self.killer);
            let interrupted = blocking(move || {
                let Some(context) = killer.context.upgrade() else { return };
                if killer.joins {
                    let family = ProcessTree::of(killer.launcher, context.inside());
                    procs::signal_each(family.program.iter(), Signal::INT);
                } else {
                    // Not searched for: a process that is about to exec shows no marks for a moment.
                    procs::signal(killer.launcher, Signal::INT);
                }
            });
            if let Err(fault) = interrupted.await {
                tracing::error!(%fault, "failed to interrupt a program");
            }
        })
    }
}

impl Drop for LaunchedProgram {
    fn drop(&mut self) {
        if self.exit.has_ended() {
            return;
        }
        let killer = Arc::clone(&self.killer);
        match tokio::runtime::Handle::try_current() {
            // Not awaited: at the latest, the sandbox ends it.
            Ok(runtime) => drop(runtime.spawn_blocking(move || killer.now())),
            Err(_) => killer.now(),
        }
    }
}

#[derive(Debug)]
struct ProgramKiller {
    /// Process id of the launcher, whose child is the program; without joining, of the program itself.
    launcher: u32,
    /// Whether a launcher runs beside the program.
    joins: bool,
    exit: ExitWatch,
    /// The sandbox's context, until it is dropped.
    context: Weak<dyn ProgramContext>,
}

impl ProgramKiller {
    /// The processes inside, plus the launcher's new child: until that executes its program, an unprivileged user may
    /// not read its namespaces.
    fn seen(&self, context: &dyn ProgramContext) -> Vec<ProcessFacts> {
        let mut seen = context.inside();
        if self.joins && !seen.iter().any(|process| process.host_parent == self.launcher) {
            seen.extend(procs::children(self.launcher));
        }
        seen
    }

    /// Ends the program. Blocks, usually for some milliseconds.
    fn now(&self) {
        if self.exit.has_ended() {
            return;
        }
        // Without a context the sandbox is ending, and everything with it.
        if let Some(context) = self.context.upgrade() {
            // Stopped, so that it cannot start the program between the listing and the kill.
            procs::stop(self.launcher);
            if !end_process_tree(self.launcher, || self.seen(context.as_ref())) {
                tracing::warn!(
                    launcher = self.launcher,
                    "failed to end a program by itself; ending its sandbox"
                );
                context.kill_all();
            }
        }
        if !self.exit.has_ended() {
            procs::kill(self.launcher);
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ProcessTree {
    program: Option<ProcessFacts>,
    descendants: Vec<ProcessFacts>,
}

impl ProcessTree {
    fn of(launcher: u32, mut seen: Vec<ProcessFacts>) -> Self {
        let own = seen.iter().position(|process| process.host_pid == launcher);
        let child = || seen.iter().position(|process| process.host_parent == launcher);
        let Some(program) = own.or_else(child).map(|index| seen.swap_remove(index)) else {
            return Self::default();
        };
        let mut children: HashMap<u32, Vec<ProcessFacts>> = HashMap::new();
        for process in seen {
            children.entry(process.host_parent).or_default().push(process);
        }
        let mut descendants = children.remove(&program.host_pid).unwrap_or_default();
        let mut next = 0;
        while let Some(parent) = descendants.get(next).map(|process| process.host_pid) {
            descendants.extend(children.remove(&parent).unwrap_or_default());
            next += 1;
        }
        Self { program: Some(program), descendants }
    }
}

/// Ends a program and its descendants; false when some are left at the limit. Blocks.
fn end_process_tree(launcher: u32, look: impl Fn() -> Vec<ProcessFacts>) -> bool {
    let until = Instant::now() + ALONE_LIMIT;
    let mut stopped: HashMap<(u32, u64), ProcessFacts> = HashMap::new();
    loop {
        let ProcessTree { program, descendants } = ProcessTree::of(launcher, look());
        let is_late = Instant::now() >= until;
        let known = |process: &&ProcessFacts| stopped.contains_key(&(process.host_pid, process.start_ticks));
        let fresh: Vec<ProcessFacts> =
            program.iter().chain(&descendants).filter(|process| !known(process)).cloned().collect();
        if !fresh.is_empty() && !is_late {
            // Stopped processes cannot fork; killing them one by one would let others do so.
            procs::signal_each(fresh.iter(), Signal::STOP);
            stopped
                .extend(fresh.into_iter().map(|process| ((process.host_pid, process.start_ticks), process)));
            continue;
        }
        let first = program.as_ref().map(|process| process.host_pid);
        let others = stopped.values().filter(|process| Some(process.host_pid) != first);
        procs::kill_each(others.chain(&descendants));
        if descendants.is_empty() || is_late {
            procs::kill_each(program.iter());
        }
        // Killed processes may take a moment to end, and a stopped launcher does not wait for them.
        if program.is_none() && !stopped.values().any(procs::is_alive) {
            return true;
        }
        if is_late {
            return false;
        }
        std::thread::yield_now();
    }
}

/// Up to `most` bytes that a pipe holds now, read directly from the kernel: the runtime may not have noticed what was written
/// just before an end.
#[must_use]
pub fn available(pipe: impl AsFd, most: usize) -> Vec<u8> {
    let (mut found, mut chunk) = (Vec::new(), [0u8; 8192]);
    while found.len() < most {
        let room = chunk.len().min(most - found.len());
        match rustix::io::read(&pipe, &mut chunk[..room]) {
            Ok(read) if read > 0 => found.extend_from_slice(&chunk[..read]),
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(host_pid: u32, host_parent: u32) -> ProcessFacts {
        ProcessFacts { host_pid, host_parent, start_ticks: 1, command_line: String::new() }
    }

    /// The process tree of launcher 10 among (process, parent).
    fn check(seen: &[(u32, u32)], program: Option<u32>, descendants: &[u32]) {
        let family = ProcessTree::of(10, seen.iter().map(|&(pid, parent)| facts(pid, parent)).collect());
        let mut found: Vec<u32> = family.descendants.iter().map(|process| process.host_pid).collect();
        found.sort_unstable();
        assert_eq!(
            (family.program.map(|process| process.host_pid), &found[..]),
            (program, descendants),
            "{seen:?}"
        );
    }

    #[test]
    fn process_tree_has_only_descendants() {
        check(&[], None, &[]);
        check(&[(3, 1), (4, 3)], None, &[]);
        // Joined: the launcher is not among them.
        check(&[(3, 1), (11, 10)], Some(11), &[]);
        check(&[(14, 13), (13, 11), (11, 10), (12, 11), (3, 1), (5, 3)], Some(11), &[12, 13, 14]);
        // Not joined: the launcher is the program.
        check(&[(11, 10), (10, 1), (12, 11), (3, 1)], Some(10), &[11, 12]);
    }

    #[test]
    fn available_bytes_are_read_up_to_cap() {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        rustix::io::ioctl_fionbio(&reading, true).unwrap();
        let check = |most: usize, expected: usize| {
            rustix::io::write(&writing, &[7; 20_000]).unwrap();
            assert_eq!(available(&reading, most).len(), expected, "{most}");
        };
        check(100_000, 20_000);
        assert_eq!(available(&reading, 100), Vec::<u8>::new());
        check(9_000, 9_000);
    }
}
