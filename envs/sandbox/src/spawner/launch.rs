//! What runs between the spawner's fork and the program: limits, cgroup, identity, filter, exec.
//!
//! Everything here happens in a fresh process of one thread that ends in `exec`. It reports trouble on
//! standard error, which is the terminal or pipe that the harness reads.

use std::ffi::OsString;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    Gid, Pid, Resource, Rlimit, Signal, Uid, getppid, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::join::join_and_run;
use super::protocol::{Confinement, LaunchKind, LaunchRequest, ResourceLimit};
use crate::seccomp;

/// Confines this process as `request` (JSON) says and becomes its program.
///
/// Returns only when that failed, or, for a joined sandbox, with the program's exit code.
///
/// # Errors
/// What failed, with the step's name.
pub fn launch(request: &str) -> io::Result<i32> {
    let request: LaunchRequest = serde_json::from_str(request)?;
    confine(&request.confinement)?;
    // Setting an identity clears the death signal, so it comes after; the parent may have died before.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(Pid::as_raw_nonzero).map(std::num::NonZero::get) != i32::try_from(request.parent).ok() {
        return Err(io::Error::other("the spawner is gone"));
    }
    if let Some(target) = request.join {
        return join_and_run(&request, target);
    }
    if request.kind == LaunchKind::Descriptors {
        // A session of its own, so that its process group names everything it starts; on a terminal it has one.
        rustix::process::setsid()?;
    }
    if let Some(folder) = &request.working_folder {
        std::env::set_current_dir(folder).map_err(|error| named(&folder.display().to_string(), error))?;
    }
    let (arguments, kept) = visible_arguments(&request)?;
    let error = Command::new(&request.program)
        .arg0(&request.label)
        .args(arguments)
        .env_clear()
        .envs(request.environment.iter().map(|(name, value)| (name, value)))
        .exec();
    drop(kept);
    Err(named(&format!("cannot run {}", request.program.display()), error))
}

fn confine(confinement: &Confinement) -> io::Result<()> {
    for procs in &confinement.cgroup_procs {
        std::fs::write(procs, "0").map_err(|error| named(&procs.display().to_string(), error))?;
    }
    if let Some(score) = confinement.oom_score {
        // Best effort: a container may forbid even raising it, and it protects only ourselves.
        let _ = std::fs::write("/proc/self/oom_score_adj", score.to_string());
    }
    for &(limit, value) in &confinement.limits {
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

/// Sets a limit, soft and hard, but never above the hard limit that is there already.
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

/// Puts the hidden arguments, their data and the filter into descriptors that survive the exec.
fn visible_arguments(request: &LaunchRequest) -> io::Result<(Vec<OsString>, Vec<OwnedFd>)> {
    let mut kept = Vec::new();
    let mut visible: Vec<OsString> = Vec::new();
    if !request.hidden_arguments.is_empty() {
        let data: Vec<String> = request
            .data
            .iter()
            .map(|content| inherit(&mut kept, "data", content.as_bytes()))
            .collect::<io::Result<_>>()?;
        let mut hidden = Vec::new();
        for argument in &request.hidden_arguments {
            let index = argument.strip_prefix("{fd:").and_then(|rest| rest.strip_suffix('}'));
            let argument = match index.and_then(|index| index.parse::<usize>().ok()) {
                Some(index) => data
                    .get(index)
                    .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such data"))?,
                None => argument,
            };
            hidden.extend_from_slice(argument.as_bytes());
            hidden.push(0);
        }
        if request.confinement.filter_calls {
            for program in seccomp::programs()? {
                let fd = inherit(&mut kept, "filter", &seccomp::bytes(&program))?;
                hidden.extend_from_slice(format!("--add-seccomp-fd\0{fd}\0").as_bytes());
            }
        }
        // bubblewrap reports the first inside process on the terminal itself, before that process goes on.
        let info = rustix::io::dup(std::io::stdout())?;
        hidden.extend_from_slice(format!("--info-fd\0{}\0", info.as_raw_fd()).as_bytes());
        kept.push(info);
        visible.extend(["--args".into(), inherit(&mut kept, "arguments", &hidden)?.into()]);
    }
    visible.extend(request.arguments.iter().map(OsString::from));
    Ok((visible, kept))
}

/// Puts bytes into a descriptor that the program inherits, and returns its number.
fn inherit(kept: &mut Vec<OwnedFd>, name: &str, content: &[u8]) -> io::Result<String> {
    let mut file = std::fs::File::from(memfd_create(name, MemfdFlags::empty())?);
    file.write_all(content)?;
    file.rewind()?;
    let fd = OwnedFd::from(file);
    let number = fd.as_raw_fd().to_string();
    kept.push(fd);
    Ok(number)
}

pub(super) fn named(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
