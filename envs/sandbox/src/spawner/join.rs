//! Starting a program inside a running sandbox.
//!
//! I1. The joined process is at no moment more powerful than the sandbox: before it runs anything it has the sandbox's
//! identity, no capabilities, no new privileges and the call filter.
//! I2. Nothing inside can look into it before exec: it is not dumpable, and its memory belongs to the host's user
//! namespace, so `/proc/<pid>/exe` and `ptrace` are refused inside.
//! I3. In a container without its own user namespace, I1 holds from exec on, and I2 before it; `contain` and `sealed`
//! describe what protects the host in between, and what keeps its programs from this one's file.
//! I4. The reason why a program was not run is reported to the harness separately from the exit code, see
//! `launch_error`.
//!
//! The only place with `fork`: a process enters a pid namespace only through a child.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{
    DumpableBehavior, Gid, Pid, PidfdFlags, Signal, Uid, WaitOptions, pidfd_open, set_child_subreaper,
    set_dumpable_behavior, set_parent_process_death_signal, waitpid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, ThreadNameSpaceType, move_into_thread_name_spaces,
    remove_capability_from_bounding_set, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use super::contain::{self, CgroupFds};
use super::launch::{named, set_limit};
use super::launch_error::{LaunchError, LaunchErrorPipe};
use super::protocol::{JoinTarget, LaunchKind, LaunchRequest, ResourceLimit};
use super::sockets;
use crate::exec_error::NotRun;
use crate::seccomp;

/// Joins the sandbox, runs the program and returns its exit code, 128 + signal when a signal ended it.
pub(super) fn join_and_run(
    request: &LaunchRequest,
    target: &JoinTarget,
    error_pipe: &LaunchErrorPipe,
) -> io::Result<i32> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // The process limit counts per user namespace; it is set inside, where it applies to this sandbox.
    let inside_processes =
        request.confinement.limits.iter().find(|(limit, _)| *limit == ResourceLimit::Processes).map(|l| l.1);
    let filter = request.confinement.filter.map(seccomp::program).transpose()?;
    if request.kind == LaunchKind::Sockets {
        let first = enter(target, ThreadNameSpaceType::USER | ThreadNameSpaceType::NETWORK)?;
        drop_privileges(target)?;
        // The identity change cleared it.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if let Some(filter) = &filter {
            seccompiler::apply_filter(filter).map_err(io::Error::other)?;
        }
        return sockets::make(std::io::stdin().as_fd(), first.as_fd()).map(|()| 0);
    }
    // Their paths exist only outside.
    let entrances = target.container.as_ref().map(CgroupFds::open).transpose()?;
    let all = match target.container {
        Some(_) => contain::namespaces(target.pid)?,
        None => {
            ThreadNameSpaceType::USER
                | ThreadNameSpaceType::MOUNT
                | ThreadNameSpaceType::PROCESS_ID
                | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
                | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
                | ThreadNameSpaceType::NETWORK
        }
    };
    enter(target, all)?;
    // SAFETY: this process has one thread, so the child may call anything.
    match unsafe { libc::fork() } {
        -1 => Err(named("fork", io::Error::last_os_error())),
        0 => {
            let confining = PreparedConfinement { inside_processes, entrances, filter: filter.as_ref() };
            let launch_error = become_program(request, target, confining, error_pipe);
            error_pipe.tell(&launch_error);
            eprintln_plain(&format!("clawrl-sbx: {}\n", launch_error.message));
            std::process::exit(126);
        }
        child => wait(child),
    }
}

/// Joins the namespaces and returns a handle of the sandbox's first process.
fn enter(target: &JoinTarget, namespaces: ThreadNameSpaceType) -> io::Result<OwnedFd> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "the sandbox is gone");
    let pid = i32::try_from(target.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
    // The descriptor pins the process; its start time verifies that it is the intended one.
    match crate::procs::ProcessStat::read(target.pid) {
        Some(stat) if stat.start_ticks == target.start_ticks => {}
        _ => return Err(gone()),
    }
    move_into_thread_name_spaces(pidfd.as_fd(), namespaces)
        .map_err(|error| named("joining the sandbox", error.into()))?;
    Ok(pidfd)
}

/// Confinement to apply inside, prepared outside.
struct PreparedConfinement<'a> {
    inside_processes: Option<u64>,
    entrances: Option<CgroupFds>,
    filter: Option<&'a seccompiler::BpfProgram>,
}

/// Returns only if the program was not run.
fn become_program(
    request: &LaunchRequest,
    target: &JoinTarget,
    confining: PreparedConfinement<'_>,
    error_pipe: &LaunchErrorPipe,
) -> LaunchError {
    let PreparedConfinement { inside_processes, entrances, filter } = confining;
    let inside = (|| -> io::Result<()> {
        // A session of its own: signals to its process group reach only its own programs.
        rustix::process::setsid()?;
        if request.kind == LaunchKind::OwnTerminal {
            rustix::process::ioctl_tiocsctty(std::io::stdin())?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if request.kind == LaunchKind::Descriptors {
            // Orphans of its descendants become its children, so that they can be ended with it.
            set_child_subreaper(Some(rustix::process::getpid()))?;
        }
        if let Some(processes) = inside_processes {
            set_limit(ResourceLimit::Processes, processes)?;
        }
        if let (Some(entrances), Some(container)) = (entrances, &target.container) {
            entrances.go_through()?;
            contain::close_everything_else(error_pipe.number())?;
            contain::take_label(container)?;
        }
        drop_privileges(target)?;
        // The identity change cleared it.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The launcher is in another process namespace, which has no number here; the first process of this namespace
        // has one.
        match rustix::process::getppid() {
            None => Ok(()),
            Some(_) => Err(io::Error::other("the launcher has ended")),
        }
    })();
    if let Err(error) = inside {
        return LaunchError::of_launcher(&error);
    }
    if let Some(folder) = &request.working_folder
        && let Err(error) = std::env::set_current_dir(folder).and_then(|()| contain::stands_inside())
    {
        return LaunchError::of_path(NotRun::Folder, folder, &error);
    }
    if let Some(Err(error)) = filter.map(|filter| seccompiler::apply_filter(filter)) {
        return LaunchError::of_launcher(&io::Error::other(error));
    }
    let error = Command::new(&request.program)
        .args(&request.arguments)
        .env_clear()
        .envs(request.environment.iter().map(|(name, value)| (name, value)))
        .exec();
    LaunchError::of_path(NotRun::Program, &request.program, &error)
}

fn drop_privileges(target: &JoinTarget) -> io::Result<()> {
    let (uid, gid) = target.inside_identity;
    let allowed = target.container.as_ref().map_or(0, |container| container.capabilities);
    let allowed = CapabilitySet::from_bits_retain(allowed);
    for capability in CapabilitySet::all().iter().filter(|&capability| !allowed.contains(capability)) {
        // Numbers above the kernel's last capability are refused; those capabilities do not exist then.
        let _ = remove_capability_from_bounding_set(capability);
    }
    if let Some(container) = &target.container {
        let groups: Vec<Gid> = container.groups.iter().map(|&group| Gid::from_raw(group)).collect();
        set_thread_groups(&groups)?;
    }
    let held = if uid == 0 { allowed } else { CapabilitySet::empty() };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

fn wait(child: i32) -> io::Result<i32> {
    let pid = Pid::from_raw(child);
    loop {
        match waitpid(pid, WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let by_signal = status.terminating_signal().map(|signal| 128 + signal);
                return Ok(status.exit_status().or(by_signal).unwrap_or(126));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes to standard error without the locks and buffers that a forked child must not rely on.
fn eprintln_plain(text: &str) {
    let _ = rustix::io::write(std::io::stderr(), text.as_bytes());
}
