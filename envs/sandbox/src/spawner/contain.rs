//! Joining a container: applies what a container engine gives its programs besides namespaces.
//!
//! Root in such a container is often the host's user 0, limited only by what is taken away. So between entering and
//! exec nothing of the host may be reachable. All descriptors are closed before a path inside is followed (otherwise a
//! working folder that is a link to `/proc/self/fd/N` leads outside), except a pipe, which leads nowhere; and the
//! entered folder must lie below the container's root.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::RawFd;
use std::path::Path;

use rustix::thread::ThreadNameSpaceType;

use super::launch::named;
use super::protocol::ContainerJoin;

/// The first descriptor after input, output and error.
const FIRST_OTHER: libc::c_uint = 3;

/// Files by which a process enters control groups, opened while their paths are still visible.
#[derive(Debug)]
pub(super) struct CgroupFds(Vec<File>);

impl CgroupFds {
    pub(super) fn open(container: &ContainerJoin) -> io::Result<Self> {
        let open = |path: &std::path::PathBuf| {
            File::options()
                .write(true)
                .open(path)
                .map_err(|error| named(&format!("control group {}", path.display()), error))
        };
        container.entrances.iter().map(open).collect::<io::Result<_>>().map(Self)
    }

    /// Moves the calling process, which has one thread.
    pub(super) fn go_through(self) -> io::Result<()> {
        self.0.into_iter().try_for_each(|mut entrance| entrance.write_all(b"0"))
    }
}

/// The namespaces of the process that differ from ours: the kernel refuses to enter one's own user namespace.
pub(super) fn namespaces(pid: u32) -> io::Result<ThreadNameSpaceType> {
    let kinds = [
        ("user", ThreadNameSpaceType::USER),
        ("mnt", ThreadNameSpaceType::MOUNT),
        ("pid", ThreadNameSpaceType::PROCESS_ID),
        ("ipc", ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION),
        ("uts", ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME),
        ("net", ThreadNameSpaceType::NETWORK),
        ("cgroup", ThreadNameSpaceType::CONTROL_GROUP),
    ];
    let mut foreign = ThreadNameSpaceType::empty();
    for (name, kind) in kinds {
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{name}"));
        if of(&pid.to_string())? != of("self")? {
            foreign |= kind;
        }
    }
    let needed = ThreadNameSpaceType::MOUNT | ThreadNameSpaceType::PROCESS_ID;
    if foreign.contains(needed) {
        return Ok(foreign);
    }
    Err(io::Error::other("the container has no mount or process namespace of its own"))
}

/// Closes all descriptors except input, output, error and `kept`.
pub(super) fn close_everything_else(kept: Option<RawFd>) -> io::Result<()> {
    let kept = kept.and_then(|number| libc::c_uint::try_from(number).ok());
    let (below, above) = match kept {
        Some(kept) => (Some((FIRST_OTHER, kept - 1)), (kept + 1, libc::c_uint::MAX)),
        None => (None, (FIRST_OTHER, libc::c_uint::MAX)),
    };
    for (first, last) in below.into_iter().chain([above]).filter(|(first, last)| first <= last) {
        // SAFETY: takes numbers only. No owner of one of the descriptors is used after this: the caller proceeds to
        // exec.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return Err(named("close_range", io::Error::last_os_error()));
        }
    }
    Ok(())
}

/// Requests the security label of the container's first process, effective from the next exec.
pub(super) fn take_label(container: &ContainerJoin) -> io::Result<()> {
    let Some(label) = &container.label else { return Ok(()) };
    // AppArmor appends the mode to the name and requires a word before it; SELinux has neither.
    let wanted = match label.rsplit_once(" (") {
        Some((profile, _mode)) => format!("exec {profile}"),
        None => label.clone(),
    };
    std::fs::write("/proc/self/attr/exec", wanted).map_err(|error| named(&format!("label {label}"), error))
}

/// Fails unless the working folder is below our root. The kernel reports one that is not by a path that is not
/// absolute.
pub(super) fn stands_inside() -> io::Result<()> {
    let here = std::env::current_dir()?;
    if Path::new(&here).is_absolute() {
        return Ok(());
    }
    Err(io::Error::other("the working folder leads outside the sandbox"))
}
