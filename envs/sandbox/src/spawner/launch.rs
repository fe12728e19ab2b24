//! Confining a process that is about to exec, and joining a sandbox.

use std::io;

use rustix::process::{
    Gid, Pid, Resource, Rlimit, Signal, Uid, getppid, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::join::join_and_run;
use super::launch_error::{LaunchError, LaunchErrorPipe};
use super::protocol::{Confinement, LaunchRequest, ResourceLimit};

/// Joins the sandbox of `request` (JSON), runs its program there, and returns the program's exit code.
///
/// A separate process does this, because the program inside needs a waiting parent outside. `error_pipe` is the number
/// of the descriptor for reporting why the program was not run.
///
/// # Errors
/// What failed, with the step's name; it was reported.
pub fn join(request: &str, error_pipe: Option<&str>) -> io::Result<i32> {
    let error_pipe = LaunchErrorPipe::take(error_pipe)?;
    joined(request, &error_pipe).inspect_err(|error| error_pipe.tell(&LaunchError::of_launcher(error)))
}

fn joined(request: &str, error_pipe: &LaunchErrorPipe) -> io::Result<i32> {
    let request: LaunchRequest = serde_json::from_str(request)?;
    let target = request
        .join
        .clone()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the request names no sandbox"))?;
    // The rest of the confinement was in place before this program was started.
    let identity = Confinement { identity: request.confinement.identity, ..Confinement::default() };
    confine_child(&identity, request.parent)?;
    join_and_run(&request, &target, error_pipe)
}

/// Confines the calling process, whose parent must be the spawner.
pub(super) fn confine_child(confinement: &Confinement, parent: u32) -> io::Result<()> {
    confine(confinement)?;
    // Setting an identity clears the death signal, so it is set afterwards; the parent may have died before.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(Pid::as_raw_nonzero).map(std::num::NonZero::get) != i32::try_from(parent).ok() {
        return Err(io::Error::other("the spawner is gone"));
    }
    Ok(())
}

fn confine(confinement: &Confinement) -> io::Result<()> {
    for entrance in &confinement.cgroup_entrances {
        std::fs::write(entrance, "0").map_err(|error| named(&entrance.display().to_string(), error))?;
    }
    if let Some(score) = confinement.oom_score {
        // Best effort: a container may forbid even raising it, and it protects only ourselves.
        let _ = std::fs::write("/proc/self/oom_score_adj", score.to_string());
    }
    for &(limit, value) in confinement.limits.iter().filter(|(limit, _)| *limit != ResourceLimit::Processes) {
        set_limit(limit, value).map_err(|error| named(&format!("limit {limit:?}"), error))?;
    }
    if let Some((uid, gid)) = confinement.identity {
        if uid == 0 || gid == 0 {
            return Err(io::Error::other("a sandbox never starts as root"));
        }
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_groups(&[]).map_err(|error| named("setgroups", error.into()))?;
        set_thread_res_gid(gid, gid, gid).map_err(|error| named("setresgid", error.into()))?;
        set_thread_res_uid(uid, uid, uid).map_err(|error| named("setresuid", error.into()))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(|error| named("no_new_privs", error.into()))
}

/// Sets a limit, soft and hard, never above the existing hard limit.
pub(super) fn set_limit(limit: ResourceLimit, value: u64) -> io::Result<()> {
    let resource = match limit {
        ResourceLimit::Core => Resource::Core,
        ResourceLimit::Data => Resource::Data,
        ResourceLimit::OpenFiles => Resource::Nofile,
        ResourceLimit::LockedMemory => Resource::Memlock,
        ResourceLimit::MessageQueues => Resource::Msgqueue,
        ResourceLimit::PendingSignals => Resource::Sigpending,
        ResourceLimit::Processes => Resource::Nproc,
    };
    let ceiling = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let value = Some(value.min(ceiling));
    Ok(setrlimit(resource, Rlimit { current: value, maximum: value })?)
}

pub(super) fn named(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
