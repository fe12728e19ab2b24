//! Attacks from inside, as root and as a normal user: each must be harmless to the host and to neighbours.
//!
//! Every attack runs in one sandbox while another one, the neighbour, goes on working. A root test run
//! repeats every attack in a process of a normal user, because that is where users live.

use std::time::Duration;

use clawrl_sandbox::{BubblewrapBackend, Sandbox, SandboxBackend};

use crate::support::{as_normal_user_too, sh, sh_within, start, text, with_backend};

/// Runs `attack`; checks its output, that the neighbour is unharmed, and that everything ends.
fn harmless(name: &str, attack: &str, expected: &str) {
    as_normal_user_too(&format!("hostile::{name}"), || {
        with_backend(name, |backend| async move {
            let attacker = start(&backend, "attacker").await;
            let said = text(&sh(attacker.sandbox.as_ref(), attack).await);
            assert_eq!(said.trim_end(), expected, "attack: {attack}");
            neighbour_works(&backend).await;
            attacker.sandbox.kill().await.unwrap();
        });
    });
}

/// Runs an attack that is not expected to come back, for a while, beside a working neighbour.
fn contained(name: &str, attack: &str) {
    as_normal_user_too(&format!("hostile::{name}"), || {
        with_backend(name, |backend| async move {
            let attacker = start(&backend, "attacker").await;
            let neighbour = start(&backend, "neighbour").await;
            let attack = async {
                let _ = sh_within(attacker.sandbox.as_ref(), attack, Duration::from_secs(3)).await;
            };
            let work = async {
                for _ in 0..20 {
                    works(neighbour.sandbox.as_ref()).await;
                }
            };
            tokio::join!(attack, work);
            works(neighbour.sandbox.as_ref()).await;
            attacker.sandbox.kill().await.unwrap();
            assert!(attacker.sandbox.processes().await.is_empty());
        });
    });
}

async fn neighbour_works(backend: &BubblewrapBackend) {
    works(start(backend, "neighbour").await.sandbox.as_ref()).await;
}

async fn works(sandbox: &dyn Sandbox) {
    let output = sh(sandbox, "echo alive > f && cat f && rm f").await;
    assert_eq!(text(&output), "alive\n");
}

/// A perl program that makes one system call by number and prints its error's name.
fn call(number: i64, arguments: &str) -> String {
    format!("perl -MErrno -e 'my $r = syscall({number}, {arguments}); print $r < 0 ? $!+0 : \"allowed\"'")
}

const EPERM: &str = "1";
const ENOSYS: &str = "38";

#[test]
fn fork_bomb() {
    contained("fork_bomb", "bash -c ':(){ :|:& };:'; wait");
}

#[test]
fn memory_hog() {
    contained("memory_hog", "perl -e 'my @a; push @a, \"x\" x 1e6 while 1'");
}

#[test]
fn memory_hog_in_many_processes() {
    contained(
        "memory_hog_in_many_processes",
        "for i in $(seq 20); do perl -e 'my @a; push @a, \"x\" x 1e6 while 1' & done; wait",
    );
}

#[test]
fn busy_loops() {
    contained("busy_loops", "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait");
}

#[test]
fn remove_everything() {
    let canary = tempfile::NamedTempFile::new().unwrap();
    harmless(
        "remove_everything",
        "rm -rf --no-preserve-root / 2>/dev/null; ls /usr/bin/env; ls /work | wc -l",
        "/usr/bin/env\n0",
    );
    assert!(canary.path().exists());
}

#[test]
fn full_disks() {
    let fill = |path: &str| {
        format!(
            "head -c 100000000 /dev/zero > {path}/fill 2>/dev/null; stat -c %s {path}/fill; rm {path}/fill"
        )
    };
    let attack = ["/work", "/tmp", "/dev/shm", "/home/agent"].map(fill).join(";");
    harmless("full_disks", &attack, "4194304\n4194304\n4194304\n4194304");
}

#[test]
fn nothing_else_is_writable() {
    let attack = "for d in / /dev /usr /etc /proc /proc/sys/kernel /sys /run /var /home /mnt; do \
                  touch $d/clawrl-canary 2>/dev/null && echo wrote $d; done; echo done";
    harmless("nothing_else_is_writable", attack, "done");
}

#[test]
fn descriptors_of_the_host_are_closed() {
    as_normal_user_too("hostile::descriptors_of_the_host_are_closed", || {
        // Left open across exec, as a shell script leaves the lock that it runs the harness under.
        let secret = rustix::fs::memfd_create("host-secret", rustix::fs::MemfdFlags::empty()).unwrap();
        rustix::io::write(&secret, b"of the host").unwrap();
        with_backend("descriptors", |backend| async move {
            let attacker = start(&backend, "attacker").await;
            // Of every process inside, the program beside and the main one among them.
            let attack = "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c host-secret";
            assert_eq!(text(&sh(attacker.sandbox.as_ref(), attack).await).trim_end(), "0");
            let own = "ls /proc/self/fd | tr '\\n' ' '";
            assert_eq!(text(&sh(attacker.sandbox.as_ref(), own).await), "0 1 2 3 ");
        });
        drop(secret);
    });
}

#[test]
fn pids_run_out_for_the_attacker_only() {
    let attack = "perl -e 'my $n = 0; while ($n < 500) { my $p = fork; last if !defined $p; if (!$p) { sleep 100; exit } $n++ } \
                  print $n < 60 ? \"stopped\" : \"forked $n\"'";
    harmless("pids_run_out_for_the_attacker_only", attack, "stopped");
}

#[test]
fn killing_everything_in_sight() {
    contained("killing_everything_in_sight", "kill -9 -1; kill -9 1; kill -9 $PPID; perl -e 'kill 9, 0'");
}

#[test]
fn kill_cannot_reach_the_host() {
    let attack = "for p in $(seq 2 400); do kill -0 $p 2>/dev/null && tr '\\0' ' ' < /proc/$p/cmdline; echo; done | grep -c '^clawrl-box'";
    harmless("kill_cannot_reach_the_host", attack, "0");
}

#[test]
fn remounts() {
    let attack = "for o in '-o remount,rw /' '-o remount,size=1g /work' '-t tmpfs none /tmp' '--bind / /tmp'; do \
                  mount $o 2>/dev/null && echo mounted $o; done; umount /work 2>/dev/null && echo unmounted; echo done";
    harmless("remounts", attack, "done");
    harmless("remounts", &call(libc::SYS_mount, "0, 0, 0, 0, 0"), EPERM);
}

#[test]
fn kernel_settings() {
    let before = std::fs::read_to_string("/proc/sys/kernel/panic").unwrap();
    harmless(
        "kernel_settings",
        "for f in /proc/sys/kernel/panic /proc/sys/vm/drop_caches /proc/sysrq-trigger /proc/sys/kernel/core_pattern; do \
         (echo 7 > $f) 2>/dev/null && echo wrote $f; done; echo done",
        "done",
    );
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/panic").unwrap(), before);
}

#[test]
fn keyrings() {
    harmless("keyrings", &call(libc::SYS_keyctl, "0, -3, 1"), EPERM);
    harmless("keyrings", &call(libc::SYS_add_key, "0, 0, 0, 0, 0"), EPERM);
}

#[test]
fn nested_namespaces() {
    harmless("nested_namespaces", "unshare -Ur true 2>/dev/null && echo entered; echo done", "done");
    harmless("nested_namespaces", &call(libc::SYS_clone, "0x10000000, 0, 0, 0, 0"), EPERM);
    harmless("nested_namespaces", &call(libc::SYS_clone3, "0, 0"), ENOSYS);
}

#[test]
fn kernel_surface() {
    for number in [libc::SYS_bpf, libc::SYS_io_uring_setup, libc::SYS_userfaultfd, libc::SYS_perf_event_open]
    {
        harmless("kernel_surface", &call(number, "0, 0, 0, 0, 0"), EPERM);
    }
    // VSOCK reaches the hypervisor, ALG the kernel's crypto.
    for family in [libc::AF_VSOCK, libc::AF_ALG, libc::AF_PACKET] {
        harmless("kernel_surface", &call(libc::SYS_socket, &format!("{family}, 1, 0")), EPERM);
    }
    harmless("kernel_surface", &call(0x4000_0000 + libc::SYS_getpid, "0"), ENOSYS);
}

#[test]
fn no_capabilities_and_no_way_to_new_ones() {
    harmless(
        "no_capabilities_and_no_way_to_new_ones",
        "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t' ' ' | sort -u",
        "CapAmb: 0000000000000000\nCapBnd: 0000000000000000\nCapEff: 0000000000000000\n\
         CapInh: 0000000000000000\nCapPrm: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2",
    );
}

#[test]
fn abstract_sockets_of_the_host() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("clawrl-canary-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let attack = format!(
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); print connect(S, pack(\"S a*\", AF_UNIX, \"\\0{name}\")) ? \"in\" : \"refused\"'"
    );
    harmless("abstract_sockets_of_the_host", &attack, "refused");
}

#[test]
fn network() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let attack = format!(
        "for a in 127.0.0.1/{port} 1.1.1.1/53 169.254.169.254/80; do \
         bash -c \"exec 3<>/dev/tcp/$a\" 2>/dev/null && echo reached $a; done; grep -c : /proc/net/dev"
    );
    // The one interface is a loopback of its own.
    harmless("network", &attack, "1");
}

#[test]
fn secrets_of_the_host() {
    let attack = "for f in /etc/shadow /etc/ssh /root /home/*/.ssh /var/log /run/secrets; do \
                  [ -e $f ] && echo sees $f; done; env | grep -c CARGO; grep -c root: /etc/passwd";
    harmless("secrets_of_the_host", attack, "0\n1");
}

#[test]
fn other_sandboxes() {
    as_normal_user_too("hostile::other_sandboxes", || {
        with_backend("other_sandboxes", |backend| async move {
            let victim = start(&backend, "victim").await;
            sh(victim.sandbox.as_ref(), "echo secret > /work/secret; echo secret > /tmp/secret").await;
            let attacker = start(&backend, "attacker").await;
            let attack = "cat /proc/*/root/work/secret /work/../work/secret /tmp/secret 2>/dev/null; \
                          ls /proc | grep -c '^[0-9]'; grep -l 'vic[t]im' /proc/*/cmdline 2>/dev/null; echo done";
            let said = text(&sh(attacker.sandbox.as_ref(), attack).await);
            assert!(
                !said.contains("secret") && !said.contains("cmdline") && said.ends_with("done\n"),
                "{said}"
            );
            if rustix::process::geteuid().is_root() {
                assert_ne!(victim.sandbox.identity().0, attacker.sandbox.identity().0);
                assert_ne!(attacker.sandbox.identity().0, 0);
            }
        });
    });
}

#[test]
fn privileged_programs_gain_nothing() {
    let attack = "for p in /usr/bin/su /usr/bin/sudo /usr/bin/passwd /usr/bin/newgrp; do \
                  [ -u $p ] && $p --version >/dev/null 2>&1; done; grep -c nosuid /proc/mounts > n; \
                  [ $(cat n) -ge 5 ] && echo nosuid; id -u";
    harmless("privileged_programs_gain_nothing", attack, "nosuid\n1000");
}

#[test]
fn a_killed_spawner_takes_every_sandbox_with_it() {
    use crate::support::{backend_on, spawner};
    let spawner = spawner();
    let pid = spawner.id();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let backend = backend_on(spawner, clawrl_sandbox::CgroupHost::detect(), "killed-spawner");
        let started = start(&backend, "a").await;
        let inside = started.sandbox.processes().await;
        assert!(!inside.is_empty());
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let fault = loop {
            if let Err(fault) = backend.start(crate::support::waiting("b")).await {
                break fault;
            }
        };
        assert_eq!(fault.boundary, clawrl_core::Boundary::Harness, "{fault}");
        // Ended means reaped by the adopting process; what counts is that it no longer runs.
        for process in inside {
            while std::fs::read_to_string(format!("/proc/{}/stat", process.host_pid))
                .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
            {
                tokio::task::yield_now().await;
            }
        }
    });
}
