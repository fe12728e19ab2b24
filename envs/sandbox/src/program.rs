//! A program on pipes that lives as long as somebody wants it to, beside the main one of its sandbox.
//!
//! I1. Whether the program ran at all is never told by an exit code, which it could choose, nor by its output: a launcher
//! that could not run it says so on a pipe that the program never holds.
//! I2. [`ProgramHandle::kill`] ends the program with all that descends from it, sessions of their own included: a program
//! is the one that inherits its orphans, so it is stopped first and ended last. What cannot be ended so ends with its
//! whole sandbox.
//! I3. A handle that is dropped kills the program in the background. One that has ended by itself leaves its daemons to the
//! sandbox's end.
//!
//! Cancellation: every future here may be dropped; a start that is dropped ends what it began.

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
use crate::exec::{ExecError, NotRun, spawn_fault};
use crate::procs;
use crate::spawner::{ExitWatch, LaunchRequest, MOST_TROUBLE, SpawnerClient, SpawnerError, Trouble};

/// How long a kill tries to end a program alone.
const ALONE_LIMIT: Duration = Duration::from_secs(5);

/// A started program with our ends of its pipes. To use parts of it at the same time, take it apart.
///
/// A pipe holds some 64 KiB: a program whose output or errors nobody reads stands still when one is full.
#[derive(Debug)]
pub struct Program {
    /// Its standard input. Dropping it closes the input.
    pub input: Option<pipe::Sender>,
    /// Its standard output. What it left behind may hold the other end when it has ended.
    pub output: pipe::Receiver,
    /// Its standard error.
    pub errors: pipe::Receiver,
    /// Its life. Dropping it ends the program.
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

/// The life of a program, which ends with the handle.
#[derive(Debug)]
pub struct ProgramHandle(Box<dyn ProgramLife>);

/// What a [`ProgramHandle`] is about. Dropping it ends the program in the background.
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
    /// Of a program somewhere.
    #[must_use]
    pub fn new(life: impl ProgramLife + 'static) -> Self {
        Self(Box::new(life))
    }

    /// Waits for its end: its exit code, 128 + n for signal n, `None` when [`Self::kill`] ended it. May be asked again,
    /// and given up.
    ///
    /// # Errors
    /// [`ExecError`] when it was never run, or nobody knows how it ended.
    pub async fn ended(&mut self) -> Result<Option<i32>, ExecError> {
        self.0.ended().await
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Ends the program with all that descends from it (I2), and waits for that. Nothing happens to one that has ended.
    pub async fn kill(&self) {
        self.0.kill().await;
    }

    /// Sends SIGINT to the program itself, as Ctrl-C would, and to nothing else. One that has not installed a handler,
    /// which takes an interpreter its first moments, is ended by it.
    pub async fn interrupt(&self) {
        self.0.interrupt().await;
    }
}

/// A program that our spawner started.
#[derive(Debug)]
struct Launched {
    exit: ExitWatch,
    ending: Arc<Ending>,
    killed: AtomicBool,
    /// Our end of the pipe of I1.
    trouble: Option<OwnedFd>,
    told: Vec<u8>,
    /// A launcher that no program inside can kill, not even by using up the sandbox's memory.
    launcher_is_apart: bool,
}

/// What a program's end needs of its sandbox.
pub(crate) trait Surroundings: Send + Sync + std::fmt::Debug {
    /// The processes inside. Blocks.
    fn inside(&self) -> Vec<ProcessFacts>;

    /// Has everything inside end. Returns at once.
    fn strike(&self);
}

/// Starts a program on fresh pipes. When its sandbox is gone, which drops its surroundings, the program is gone, too.
pub(crate) async fn start(
    spawner: SpawnerClient,
    launch: LaunchRequest,
    surroundings: Weak<dyn Surroundings>,
) -> Result<Program, ExecError> {
    // In a task of its own: a caller that is dropped half-way must not lose a program that is on its way.
    let task = tokio::spawn(async move { start_now(&spawner, launch, surroundings).await });
    task.await.unwrap_or_else(|error| {
        let message = format!("starting a program: {error}");
        Err(Fault::permanent(Boundary::Harness, "panic", message).into())
    })
}

async fn start_now(
    spawner: &SpawnerClient,
    launch: LaunchRequest,
    surroundings: Weak<dyn Surroundings>,
) -> Result<Program, ExecError> {
    let failed = |error: std::io::Error| Fault::transient(Boundary::Env, "pipe", error.to_string());
    let make = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
    let (their_input, our_input) = make()?;
    let (our_output, their_output) = make()?;
    let (our_errors, their_errors) = make()?;
    let (our_trouble, their_trouble) = make()?;
    // It is looked into, never waited for.
    rustix::io::ioctl_fionbio(&our_trouble, true).map_err(|errno| failed(errno.into()))?;
    let input = pipe::Sender::from_owned_fd(our_input).map_err(failed)?;
    let output = pipe::Receiver::from_owned_fd(our_output).map_err(failed)?;
    let errors = pipe::Receiver::from_owned_fd(our_errors).map_err(failed)?;
    // Only who joins a sandbox has a launcher that stays.
    let joins = launch.join.is_some();
    let launcher_is_apart = joins && launch.confinement.cgroup_entrances.is_empty();
    let trouble: Option<BorrowedFd<'_>> = joins.then(|| their_trouble.as_fd());
    let descriptors: Vec<BorrowedFd<'_>> = [their_input.as_fd(), their_output.as_fd(), their_errors.as_fd()]
        .into_iter()
        .chain(trouble)
        .collect();
    let process = spawner.spawn(launch, None, &descriptors).await.map_err(|error| match error {
        // The launcher was not even started: the sandbox's control group is gone with it, or there is no room.
        SpawnerError::Refused(message) if joins => ExecError::NotRun { obstacle: NotRun::Launcher, message },
        error => spawn_fault(error).into(),
    })?;
    let ending = Ending { launcher: process.pid, joins, exit: process.exit.clone(), surroundings };
    let handle = ProgramHandle::new(Launched {
        exit: process.exit,
        ending: Arc::new(ending),
        killed: AtomicBool::new(false),
        trouble: Some(our_trouble),
        told: Vec::new(),
        launcher_is_apart,
    });
    Ok(Program { input: Some(input), output, errors, handle })
}

impl ProgramLife for Launched {
    fn ended(&mut self) -> BoxFuture<'_, Result<Option<i32>, ExecError>> {
        Box::pin(async move {
            let report = self.exit.ended().await;
            if self.killed.load(Ordering::Acquire) {
                return Ok(None);
            }
            if let Some(trouble) = self.trouble.take() {
                self.told = available(&trouble, MOST_TROUBLE);
            }
            if let Some(Trouble { not_run, message }) = Trouble::read(&self.told) {
                return Err(ExecError::NotRun { obstacle: not_run, message });
            }
            match (report.code, report.signal) {
                (None, None) => Err(spawn_fault(SpawnerError::Gone).into()),
                // What ends the program itself is told by the launcher's exit code.
                (None, Some(signal)) if self.launcher_is_apart => {
                    let message = format!(
                        "signal {signal} ended the launcher of a program, which only this machine can do"
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
            let ending = Arc::clone(&self.ending);
            if let Err(fault) = blocking(move || ending.now()).await {
                tracing::error!(%fault, "a program could not be ended in order");
                procs::kill(self.ending.launcher);
            }
            self.exit.clone().ended().await;
        })
    }

    fn interrupt(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.exit.has_ended() {
                return;
            }
            let ending = Arc::clone(&self.ending);
            let interrupted = blocking(move || {
                let Some(surroundings) = ending.surroundings.upgrade() else { return };
                if ending.joins {
                    let family = Family::of(ending.launcher, surroundings.inside());
                    procs::signal_each(family.program.iter(), Signal::INT);
                } else {
                    // Not looked for: what is about to become another program has no marks for a moment.
                    procs::signal(ending.launcher, Signal::INT);
                }
            });
            if let Err(fault) = interrupted.await {
                tracing::error!(%fault, "a program could not be interrupted");
            }
        })
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if self.exit.has_ended() {
            return;
        }
        let ending = Arc::clone(&self.ending);
        match tokio::runtime::Handle::try_current() {
            // Nobody waits for it: at the latest, the sandbox ends it.
            Ok(runtime) => drop(runtime.spawn_blocking(move || ending.now())),
            Err(_) => ending.now(),
        }
    }
}

/// Who ends a program.
#[derive(Debug)]
struct Ending {
    /// Process id of the launcher, whose child is the program; or of the program itself, where nothing is joined.
    launcher: u32,
    /// Whether there is a launcher beside the program.
    joins: bool,
    exit: ExitWatch,
    /// Of its sandbox, for as long as somebody holds that.
    surroundings: Weak<dyn Surroundings>,
}

impl Ending {
    /// What is inside, with what the launcher just started: until that runs its program, a normal user may not look at which
    /// namespaces it is in.
    fn seen(&self, surroundings: &dyn Surroundings) -> Vec<ProcessFacts> {
        let mut seen = surroundings.inside();
        if self.joins && !seen.iter().any(|process| process.host_parent == self.launcher) {
            seen.extend(procs::children(self.launcher));
        }
        seen
    }

    /// Blocks, for some milliseconds in general.
    fn now(&self) {
        if self.exit.has_ended() {
            return;
        }
        // Without surroundings the sandbox is ending, and everything with it.
        if let Some(surroundings) = self.surroundings.upgrade() {
            // So that it does not start the program between the look for it and its own end.
            procs::stop(self.launcher);
            if !end_family(self.launcher, || self.seen(surroundings.as_ref())) {
                tracing::warn!(launcher = self.launcher, "a program did not end alone, so its sandbox ends");
                surroundings.strike();
            }
        }
        if !self.exit.has_ended() {
            procs::kill(self.launcher);
        }
    }
}

/// A program and what descends from it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    program: Option<ProcessFacts>,
    descendants: Vec<ProcessFacts>,
}

impl Family {
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

/// Ends a program with its family; false when some of it are left at the limit. Blocks.
fn end_family(launcher: u32, look: impl Fn() -> Vec<ProcessFacts>) -> bool {
    let until = Instant::now() + ALONE_LIMIT;
    let mut stopped: HashMap<(u32, u64), ProcessFacts> = HashMap::new();
    loop {
        let Family { program, descendants } = Family::of(launcher, look());
        let is_late = Instant::now() >= until;
        let known = |process: &&ProcessFacts| stopped.contains_key(&(process.host_pid, process.start_ticks));
        let fresh: Vec<ProcessFacts> =
            program.iter().chain(&descendants).filter(|process| !known(process)).cloned().collect();
        if !fresh.is_empty() && !is_late {
            // Stopped, none can fork any more; killed, each would make room for another one.
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
        // Killed, they may take a moment to end, which a launcher that is stopped does not wait for.
        if program.is_none() && !stopped.values().any(procs::is_alive) {
            return true;
        }
        if is_late {
            return false;
        }
        std::thread::yield_now();
    }
}

/// What a pipe holds now, asked of the kernel itself: the runtime may not have heard yet of what was written just before
/// an end.
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

    /// The family of launcher 10 among (process, parent).
    fn check(seen: &[(u32, u32)], program: Option<u32>, descendants: &[u32]) {
        let family = Family::of(10, seen.iter().map(|&(pid, parent)| facts(pid, parent)).collect());
        let mut found: Vec<u32> = family.descendants.iter().map(|process| process.host_pid).collect();
        found.sort_unstable();
        assert_eq!(
            (family.program.map(|process| process.host_pid), &found[..]),
            (program, descendants),
            "{seen:?}"
        );
    }

    #[test]
    fn a_family_is_who_descends_from_the_program_and_nobody_else() {
        check(&[], None, &[]);
        check(&[(3, 1), (4, 3)], None, &[]);
        // Joined: the launcher is not among them.
        check(&[(3, 1), (11, 10)], Some(11), &[]);
        check(&[(14, 13), (13, 11), (11, 10), (12, 11), (3, 1), (5, 3)], Some(11), &[12, 13, 14]);
        // Not joined: the launcher is the program.
        check(&[(11, 10), (10, 1), (12, 11), (3, 1)], Some(10), &[11, 12]);
    }

    #[test]
    fn all_that_is_there_is_taken_up_to_the_cap() {
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
