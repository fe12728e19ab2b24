//! The system-call filter of every sandbox.
//!
//! A list of what is denied, not of what is allowed: agents run any program. Namespaces and the missing
//! capabilities already stop most of these; the filter takes away what the kernel offers to everybody and
//! what has a history of holes. Denied calls fail with `EPERM`; `clone3` with `ENOSYS`, so that the C
//! library falls back to `clone`, whose flags can be looked at.
//!
//! Three programs, all of which run, the strictest answer counting: denied calls, `clone3`, and calls through
//! the x32 numbering, which would pass under the 64-bit architecture's name.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

/// Calls that nothing in a sandbox needs.
const DENIED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Namespace flags of `clone`, all of which an agent could only use to get at more of the kernel.
const NAMESPACE_FLAGS: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Socket families that programs use: UNIX, IPv4, IPv6, netlink. VSOCK reaches the hypervisor, ALG and
/// others are kernel surface for nothing.
const ALLOWED_FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The programs, in order of installation.
pub(crate) fn programs() -> io::Result<Vec<BpfProgram>> {
    let build = || -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
        let mut denied: BTreeMap<i64, Vec<SeccompRule>> =
            DENIED.iter().map(|&call| (call, Vec::new())).collect();
        let flags: Vec<SeccompRule> = (0..32)
            .map(|bit| 1u64 << bit)
            .filter(|flag| NAMESPACE_FLAGS & flag != 0)
            .map(|flag| rule(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag))
            .collect::<Result<_, _>>()?;
        denied.insert(libc::SYS_clone, flags);
        let other_family = ALLOWED_FAMILIES
            .iter()
            .map(|&family| condition(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family as u64))
            .collect::<Result<Vec<_>, _>>()?;
        denied.insert(libc::SYS_socket, vec![SeccompRule::new(other_family)?]);
        // Pushing input into a terminal and selecting console text: ways out of a shared terminal.
        let terminal_tricks = [libc::TIOCSTI, libc::TIOCLINUX]
            .into_iter()
            .map(|request| rule(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request & 0xffff_ffff))
            .collect::<Result<_, _>>()?;
        denied.insert(libc::SYS_ioctl, terminal_tricks);
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let absent = SeccompAction::Errno(libc::ENOSYS as u32);
        let arch = std::env::consts::ARCH.try_into()?;
        let denied = SeccompFilter::new(denied, SeccompAction::Allow, refused, arch)?;
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let clone3 = SeccompFilter::new(clone3, SeccompAction::Allow, absent, arch)?;
        Ok(vec![denied.try_into()?, clone3.try_into()?])
    };
    let mut programs = build().map_err(|error| io::Error::other(format!("call filter: {error}")))?;
    if cfg!(target_arch = "x86_64") {
        programs.push(without_x32());
    }
    Ok(programs)
}

/// The program as the kernel and bubblewrap read it: an array of `struct sock_filter`.
pub(crate) fn bytes(program: &[sock_filter]) -> Vec<u8> {
    program
        .iter()
        .flat_map(|op| {
            let mut bytes = [0u8; 8];
            bytes[..2].copy_from_slice(&op.code.to_ne_bytes());
            bytes[2] = op.jt;
            bytes[3] = op.jf;
            bytes[4..].copy_from_slice(&op.k.to_ne_bytes());
            bytes
        })
        .collect()
}

/// Refuses every call number with the x32 bit: `ld [nr]; jge 0x40000000; ret ENOSYS; ret ALLOW`.
fn without_x32() -> BpfProgram {
    let op = |code: u16, jt: u8, jf: u8, k: u32| sock_filter { code, jt, jf, k };
    vec![
        op(0x20, 0, 0, 0),
        op(0x35, 0, 1, 0x4000_0000),
        op(0x06, 0, 0, 0x0005_0000 | libc::ENOSYS as u32),
        op(0x06, 0, 0, 0x7fff_0000),
    ]
}

fn condition(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, length, operator, value)
}

fn rule(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![condition(argument, length, operator, value)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_compile_and_fit_the_kernel() {
        for program in programs().unwrap() {
            assert!(!program.is_empty() && program.len() <= 4096);
            assert_eq!(bytes(&program).len(), 8 * program.len());
        }
    }
}
