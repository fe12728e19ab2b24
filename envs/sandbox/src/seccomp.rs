//! The system-call filter of every sandbox.
//!
//! A deny list, not an allow list, because agents run arbitrary programs. Namespaces and the missing capabilities
//! already stop most of these calls; the filter removes those that the kernel offers to everyone and that have a
//! history of vulnerabilities. Denied calls fail with `EPERM`; `clone3` with `ENOSYS`, so that the C library falls back
//! to `clone`, whose flags can be inspected.
//!
//! All rules are one BPF program: calls with x32 numbers, which would pass under the 64-bit architecture's name, and
//! `clone3` are answered first, then the list. The kernel keeps every program of every sandbox in memory that it
//! allocates under a lock, and frees ended ones in the background; three programs per sandbox tripled that work for
//! every system call, start and end.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};
use serde::{Deserialize, Serialize};

/// Calls that no program in a sandbox needs.
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

/// Those of the denied calls by which a browser creates its own sandbox.
const OF_INNER_SANDBOXES: &[i64] = &[libc::SYS_chroot, libc::SYS_unshare];

/// Namespaces of a browser's own sandbox. No mount namespaces: the outer sandbox determines what is visible.
const INNER_NAMESPACES: u64 = (libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNET) as u64;

/// Namespace flags of `clone`, all of which would only give an agent more kernel surface.
const NAMESPACE_FLAGS: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Socket families that programs use: UNIX, IPv4, IPv6, netlink. VSOCK reaches the hypervisor; ALG and others are
/// needless kernel surface.
const ALLOWED_FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Requests of `ioctl` that reach beyond the caller's own terminal.
const TERMINAL_TRICKS: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Call numbers from here on are x32 numbers.
const X32_BIT: u32 = 0x4000_0000;

/// Offset of the call's number in a filter's input (`struct seccomp_data`).
const CALL_NUMBER: u32 = 0;

/// Instructions of classic BPF, as in the kernel's `bpf_common.h`.
const LOAD_WORD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Which calls are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallFilter {
    /// For ordinary programs.
    Programs,
    /// Additionally the calls by which browsers create their own sandboxes.
    Browsers,
}

/// Compiles the program.
///
/// # Errors
/// When the list cannot be compiled, which only a mistake in this file can cause.
pub(crate) fn program(filter: CallFilter) -> io::Result<BpfProgram> {
    let listed = listed(filter).map_err(|error| io::Error::other(format!("call filter: {error}")))?;
    Ok(absent_calls().into_iter().chain(listed).collect())
}

/// The list, as a program that also ends a process of another architecture.
fn listed(filter: CallFilter) -> Result<BpfProgram, seccompiler::BackendError> {
    let (let_through, namespaces) = match filter {
        CallFilter::Programs => (&[] as &[i64], 0),
        CallFilter::Browsers => (OF_INNER_SANDBOXES, INNER_NAMESPACES),
    };
    let listed = DENIED.iter().filter(|call| !let_through.contains(call));
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = listed.map(|&call| (call, Vec::new())).collect();
    let flags = || {
        (0..32)
            .map(|bit| 1u64 << bit)
            .filter(|flag| NAMESPACE_FLAGS & !namespaces & flag != 0)
            .map(|flag| rule(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag))
            .collect::<Result<Vec<SeccompRule>, _>>()
    };
    denied.insert(libc::SYS_clone, flags()?);
    if filter == CallFilter::Browsers {
        denied.insert(libc::SYS_unshare, flags()?);
    }
    let other_family = ALLOWED_FAMILIES
        .iter()
        .map(|&family| condition(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family as u64))
        .collect::<Result<Vec<_>, _>>()?;
    denied.insert(libc::SYS_socket, vec![SeccompRule::new(other_family)?]);
    // Injecting input into a terminal and selecting console text allow escapes from a shared terminal.
    let terminal_tricks = TERMINAL_TRICKS
        .into_iter()
        .map(|request| rule(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request & 0xffff_ffff))
        .collect::<Result<_, _>>()?;
    denied.insert(libc::SYS_ioctl, terminal_tricks);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(denied, SeccompAction::Allow, refused, arch)?.try_into()
}

/// Calls that are answered as if the kernel did not have them; all others continue with the next instructions.
///
/// On x86-64 `ld [nr]; jge X32_BIT, 1, 0; jeq clone3, 0, 1; ret ENOSYS`. The list after it loads for itself.
fn absent_calls() -> BpfProgram {
    let op = |code: u16, jt: u8, jf: u8, k: u32| sock_filter { code, jt, jf, k };
    let mut program = vec![op(LOAD_WORD, 0, 0, CALL_NUMBER)];
    if cfg!(target_arch = "x86_64") {
        program.push(op(JUMP_AT_LEAST, 1, 0, X32_BIT));
    }
    program.push(op(JUMP_EQUAL, 0, 1, libc::SYS_clone3 as u32));
    program.push(op(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    program
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

    const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
    const PASS: u32 = libc::SECCOMP_RET_ALLOW;
    const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

    /// The kernel's answer, computed by interpreting the instructions that filters consist of.
    fn answer(program: &[sock_filter], architecture: u32, call: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(call.to_ne_bytes());
        data.extend(architecture.to_ne_bytes());
        data.extend(0u64.to_ne_bytes());
        arguments.iter().for_each(|argument| data.extend(argument.to_ne_bytes()));
        let (mut at, mut value) = (0, 0u32);
        loop {
            let op = &program[at];
            at += 1;
            let branch = |holds: bool| usize::from(if holds { op.jt } else { op.jf });
            match op.code {
                LOAD_WORD => {
                    let from = op.k as usize;
                    value = u32::from_ne_bytes(data[from..from + 4].try_into().unwrap());
                }
                0x54 => value &= op.k,
                0x05 => at += op.k as usize,
                JUMP_EQUAL => at += branch(value == op.k),
                0x25 => at += branch(value > op.k),
                JUMP_AT_LEAST => at += branch(value >= op.k),
                0x45 => at += branch(value & op.k != 0),
                RETURN => return op.k,
                code => panic!("instruction {code:#x} at {}", at - 1),
            }
        }
    }

    fn check(call: i64, arguments: [u64; 6], expected: u32) {
        let found = answer(&program(CallFilter::Programs).unwrap(), ARCHITECTURE, call as u32, arguments);
        assert_eq!(found, expected, "call {call} with {arguments:x?}");
    }

    #[test]
    fn every_call_number_follows_the_list() {
        let program = program(CallFilter::Programs).unwrap();
        assert!(program.len() <= 4096);
        assert_eq!(bytes(&program).len(), 8 * program.len());
        for call in 0..1024u32 {
            // With arguments that pass every argument rule.
            let arguments = if i64::from(call) == libc::SYS_socket { [1, 0, 0, 0, 0, 0] } else { [0; 6] };
            let expected = match i64::from(call) {
                libc::SYS_clone3 => ABSENT,
                number if DENIED.contains(&number) => REFUSED,
                _ => PASS,
            };
            assert_eq!(answer(&program, ARCHITECTURE, call, arguments), expected, "call {call}");
            if cfg!(target_arch = "x86_64") {
                assert_eq!(
                    answer(&program, ARCHITECTURE, call | X32_BIT, arguments),
                    ABSENT,
                    "x32 call {call}"
                );
            }
        }
    }

    #[test]
    fn another_architecture_ends_the_process() {
        let program = program(CallFilter::Programs).unwrap();
        // 32-bit x86, whose `getpid` is 20.
        let found = answer(&program, 0x4000_0003, 20, [0; 6]);
        assert_eq!(found, libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn clone_may_not_make_namespaces() {
        for bit in 0..32 {
            let flag = 1u64 << bit;
            let expected = if NAMESPACE_FLAGS & flag == 0 { PASS } else { REFUSED };
            check(libc::SYS_clone, [flag, 0, 0, 0, 0, 0], expected);
            check(libc::SYS_clone, [flag | u64::from(libc::SIGCHLD as u32), 0, 0, 0, 0, 0], expected);
        }
        // The flags that glibc uses for a thread.
        check(libc::SYS_clone, [0x003d_0f00, 0, 0, 0, 0, 0], PASS);
    }

    #[test]
    fn browser_filter_allows_sandboxes_but_no_mounts() {
        let program = program(CallFilter::Browsers).unwrap();
        let check = |call: i64, flags: i32, expected: u32| {
            let arguments = [flags as u64, 0, 0, 0, 0, 0];
            assert_eq!(answer(&program, ARCHITECTURE, call as u32, arguments), expected, "{call} {flags:x}");
        };
        check(libc::SYS_chroot, 0, PASS);
        check(libc::SYS_unshare, libc::CLONE_NEWUSER | libc::CLONE_NEWNET, PASS);
        check(libc::SYS_unshare, libc::CLONE_NEWNS, REFUSED);
        check(libc::SYS_unshare, libc::CLONE_NEWUSER | libc::CLONE_NEWIPC, REFUSED);
        check(libc::SYS_clone, libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNET, PASS);
        check(libc::SYS_clone, libc::CLONE_NEWNS, REFUSED);
        check(libc::SYS_clone, libc::CLONE_NEWUSER | libc::CLONE_NEWNS, REFUSED);
        check(libc::SYS_mount, 0, REFUSED);
        check(libc::SYS_setns, 0, REFUSED);
        check(libc::SYS_pivot_root, 0, REFUSED);
        check(libc::SYS_clone3, 0, ABSENT);
    }

    #[test]
    fn unneeded_socket_families_are_refused() {
        for family in 0..64 {
            let expected = if ALLOWED_FAMILIES.contains(&family) { PASS } else { REFUSED };
            check(libc::SYS_socket, [family as u64, 1, 0, 0, 0, 0], expected);
            // The kernel looks at the lower half only, so the upper half hides nothing.
            check(libc::SYS_socket, [family as u64 | 1 << 40, 1, 0, 0, 0, 0], expected);
        }
    }

    #[test]
    fn input_is_not_pushed_into_terminals() {
        for trick in TERMINAL_TRICKS {
            check(libc::SYS_ioctl, [0, trick, 0, 0, 0, 0], REFUSED);
            check(libc::SYS_ioctl, [0, trick | 1 << 32, 0, 0, 0, 0], REFUSED);
        }
        check(libc::SYS_ioctl, [0, libc::TIOCGWINSZ, 0, 0, 0, 0], PASS);
    }
}
