//! Starting a program directly from the spawner: one fork, one exec.
//!
//! Between the two, the child sets up session, terminal, limits, cgroups and identity. The spawner has one thread, so
//! the child may do anything that a program may; it reports errors through a descriptor that both hold, because an exit
//! code or an error number says too little.
//!
//! This is the only place with a `pre_exec` hook, which is unsafe because of programs with several threads.

#![allow(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use super::launch::confine_child;
use super::protocol::LaunchRequest;
use crate::seccomp;

/// Input, output and error of a program to start.
pub(super) enum Streams {
    /// All three are this terminal, which becomes the program's own.
    Terminal(OwnedFd),
    Separate([OwnedFd; 3]),
}

/// Starts the program of `launch`, confined, and returns its process id. The parent waits for it by that id. The
/// program also holds `handed_on`, under the same number as here.
///
/// # Errors
/// What failed, in the child or before it.
pub(super) fn start(launch: &LaunchRequest, streams: Streams, handed_on: Option<OwnedFd>) -> io::Result<u32> {
    let on_terminal = matches!(streams, Streams::Terminal(_));
    let [input, output, error] = match streams {
        Streams::Terminal(terminal) => [terminal.try_clone()?, terminal.try_clone()?, terminal],
        Streams::Separate(three) => three,
    };
    let (arguments, mut inherited) = arguments(launch, &output)?;
    inherited.extend(handed_on);
    let error_file = std::fs::File::from(memfd_create("trouble", MemfdFlags::CLOEXEC)?);
    let mut command = Command::new(&launch.program);
    command
        .arg0(&launch.label)
        .args(arguments)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(launch.working_folder.as_deref().unwrap_or("/".as_ref()))
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(error));
    let child_trouble = error_file.try_clone()?;
    let (confinement, parent) = (launch.confinement.clone(), launch.parent);
    let prepare = move || {
        let prepared = prepare(on_terminal, &confinement, parent, &inherited);
        if let Err(error) = &prepared {
            let _ = (&child_trouble).write_all(error.to_string().as_bytes());
        }
        prepared
    };
    // SAFETY: the hook runs in the child of a process with one thread, so no lock can be held by a thread that does not
    // exist there, and it may allocate.
    unsafe { command.pre_exec(prepare) };
    command.spawn().map(|child| child.id()).map_err(|error| explained(error, error_file, launch))
}

fn prepare(
    on_terminal: bool,
    confinement: &super::protocol::Confinement,
    parent: u32,
    inherited: &[OwnedFd],
) -> io::Result<()> {
    // On pipes, too: signals to its process group then reach only its own programs.
    rustix::process::setsid()?;
    if on_terminal {
        rustix::process::ioctl_tiocsctty(std::io::stdin())?;
    } else {
        // Orphans of its descendants become its children, so that they can be ended with it. It means nothing to a
        // launcher.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    take_interrupts();
    for fd in inherited {
        let flags = fcntl_getfd(fd)?;
        fcntl_setfd(fd, flags - FdFlags::CLOEXEC)?;
    }
    confine_child(confinement, parent)
}

/// A harness that a shell script started in the background ignores interrupts, and would pass that on.
fn take_interrupts() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: takes numbers only, and installs no function.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The child's message if there is one, otherwise the system's error.
fn explained(error: io::Error, mut error_file: std::fs::File, launch: &LaunchRequest) -> io::Error {
    let mut said = String::new();
    let read = error_file.rewind().and_then(|()| error_file.read_to_string(&mut said));
    if read.is_ok() && !said.is_empty() {
        return io::Error::new(error.kind(), said);
    }
    io::Error::new(error.kind(), format!("cannot run {}: {error}", launch.program.display()))
}

/// Puts the hidden arguments, their data and the filter into descriptors for the program, and refers to them.
fn arguments(launch: &LaunchRequest, output: &OwnedFd) -> io::Result<(Vec<OsString>, Vec<OwnedFd>)> {
    let mut kept = Vec::new();
    let mut visible: Vec<OsString> = Vec::new();
    if !launch.hidden_arguments.is_empty() {
        let data: Vec<String> = launch
            .data
            .iter()
            .map(|content| inherit(&mut kept, "data", content.as_bytes()))
            .collect::<io::Result<_>>()?;
        let mut hidden = Vec::new();
        for argument in &launch.hidden_arguments {
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
        if let Some(filter) = launch.confinement.filter {
            let fd = inherit(&mut kept, "filter", &seccomp::bytes(&seccomp::program(filter)?))?;
            hidden.extend_from_slice(format!("--add-seccomp-fd\0{fd}\0").as_bytes());
        }
        // bubblewrap reports the first process inside on the terminal itself, before that process continues.
        let info = rustix::io::fcntl_dupfd_cloexec(output.as_fd(), 3)?;
        hidden.extend_from_slice(format!("--info-fd\0{}\0", info.as_raw_fd()).as_bytes());
        kept.push(info);
        visible.extend(["--args".into(), inherit(&mut kept, "arguments", &hidden)?.into()]);
    }
    visible.extend(launch.arguments.iter().map(OsString::from));
    Ok((visible, kept))
}

/// Puts bytes into a descriptor, and returns its number. Closed on exec until the child changes that.
fn inherit(kept: &mut Vec<OwnedFd>, name: &str, content: &[u8]) -> io::Result<String> {
    let mut file = std::fs::File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    let fd = OwnedFd::from(file);
    let number = fd.as_raw_fd().to_string();
    kept.push(fd);
    Ok(number)
}
