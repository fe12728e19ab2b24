//! Attacks from inside: harmless to the host, to neighbours, and to the container's own end.

use std::time::Duration;

use clawrl_sandbox::{ExecError, ExecSpec, NotRun, SandboxCommand};

use crate::engine::{sh, sh_as, start, text, with_backend};

/// Runs attacks one after another, each in its own container beside a working neighbour, and checks their output.
fn harmless(attacks: &'static [(&'static str, &'static str)]) {
    with_backend(|backend, _| async move {
        let neighbour = start(&backend).await;
        for (attack, expected) in attacks {
            let attacker = start(&backend).await;
            let said = text(&sh(attacker.sandbox.as_ref(), attack).await);
            assert_eq!(said.trim_end(), *expected, "attack: {attack}");
            assert_eq!(attacker.sandbox.lost().await, None, "attack: {attack}");
            attacker.sandbox.kill().await.unwrap();
            assert_eq!(text(&sh(neighbour.sandbox.as_ref(), "echo alive").await), "alive\n");
        }
    });
}

#[test]
fn host_is_not_reachable() {
    harmless(&[
        ("ls /var/run/docker.sock /run/docker.sock /run/containerd 2>/dev/null; echo done", "done"),
        (
            "grep -c : /proc/net/dev; (exec 3<>/dev/tcp/1.1.1.1/53) 2>/dev/null && echo reached; echo done",
            "1\ndone",
        ),
        (
            "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t' ' '",
            "CapInh: 0000000000000000\nCapPrm: 00000000000004fb\nCapEff: 00000000000004fb\nCapBnd: 00000000000004fb\n\
             CapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2",
        ),
        ("mount -t tmpfs none /tmp 2>/dev/null && echo mounted; echo done", "done"),
        (
            "(echo 7 > /proc/sys/kernel/panic) 2>/dev/null && echo wrote; (echo c > /proc/sysrq-trigger) 2>/dev/null && echo wrote; echo done",
            "done",
        ),
        // unshare, bpf, keyctl, open_by_handle_at, mknod of a disk: by number, since no program here makes them.
        (
            "for n in 272 321 250 304; do perl -e 'print syscall($ARGV[0], 0x10000000, 0, 0) < 0 ? \"no \" : \"allowed \"' $n; done; \
             perl -e 'my $f = \"/tmp/disk\"; print syscall(133, $f, 0060600, 0xfe00) < 0 ? \"no\" : \"allowed\"'",
            "no no no no no",
        ),
        ("rm -rf --no-preserve-root / 2>/dev/null; echo survived", "survived"),
    ]);
}

#[test]
fn first_process_cannot_be_killed_from_inside() {
    harmless(&[
        ("kill -9 1; kill -TERM 1; kill -HUP 1; echo alive", "alive"),
        ("(echo x > /proc/1/mem) 2>/dev/null && echo wrote; readlink /proc/1/exe || echo hidden", "hidden"),
        // ptrace(PTRACE_ATTACH, 1).
        ("perl -e 'print syscall(101, 16, 1, 0, 0) < 0 ? \"refused\" : \"attached\"'", "refused"),
        // Orphans are reaped although no process waits for them.
        (
            "for i in $(seq 30); do (setsid sleep 0.01 &); done; sleep 0.5; grep -l '^State:.Z' /proc/[0-9]*/status | wc -l",
            "0",
        ),
    ]);
}

#[test]
fn exhausted_resources_stay_inside() {
    with_backend(|backend, _| async move {
        let neighbour = start(&backend).await;
        for attack in [
            "bash -c ':(){ :|:& };:'; wait",
            "perl -e 'my @a; push @a, \"x\" x 1e6 while 1'",
            "for i in $(seq 20); do perl -e 'my @a; push @a, \"x\" x 1e6 while 1' & done; wait",
            "kill -9 -1; perl -e 'kill 9, 0'",
        ] {
            let attacker = start(&backend).await;
            let attacking = sh_as(attacker.sandbox.as_ref(), None, attack, Duration::from_secs(2));
            let working = async {
                for _ in 0..10 {
                    assert_eq!(text(&sh(neighbour.sandbox.as_ref(), "echo alive").await), "alive\n");
                }
            };
            tokio::join!(attacking, working);
            assert_eq!(attacker.sandbox.lost().await, None, "attack: {attack}");
            // The bomb keeps running; the container is stopped as a whole, and then programs run again.
            attacker.sandbox.halt().await.unwrap();
            assert_eq!(
                text(&sh(attacker.sandbox.as_ref(), "echo again").await),
                "again\n",
                "attack: {attack}"
            );
            attacker.sandbox.kill().await.unwrap();
        }
    });
}

/// A program that starts after the agent acted runs in the environment that the agent left. If root inside is root
/// outside, a descriptor or the executable of its launcher would be a way out.
#[test]
fn launcher_cannot_be_hijacked() {
    with_backend(|backend, _| async move {
        let started = start(&backend).await;
        let sandbox = started.sandbox.as_ref();
        // The next program starts itself again, through its interpreter: without a request it only prints that it is
        // not for users.
        let trap = "cp /bin/bash /tmp/bash; rm /bin/bash; printf '#!/proc/self/exe\\n' > /bin/bash; /tmp/bash -c 'chmod +x /bin/bash'";
        assert_eq!(text(&sh(sandbox, trap).await), "");
        let again = sh(sandbox, "echo never").await;
        assert!(!text(&again).contains("never") && again.code != Some(0), "{again:?}");
        let fix = SandboxCommand {
            program: "/tmp/bash".to_owned(),
            arguments: vec![
                "-c".to_owned(),
                "cp /tmp/bash /bin/fixed; rm /bin/bash; mv /bin/fixed /bin/bash".to_owned(),
            ],
            ..Default::default()
        };
        let spec = ExecSpec {
            command: fix,
            input: Vec::new(),
            output_cap: 1024,
            deadline: std::time::Instant::now() + Duration::from_secs(20),
            user: None,
        };
        assert_eq!(sandbox.exec(spec).await.unwrap().code, Some(0));
        sandbox.kill().await.unwrap();
        // A workspace that is a link to a descriptor of the next program's launcher.
        for number in 3..7 {
            let started = start(&backend).await;
            let sandbox = started.sandbox.as_ref();
            let trap = format!("cd /; rm -rf /app; ln -s /proc/self/fd/{number} /app; echo set");
            assert_eq!(text(&sh(sandbox, &trap).await), "set\n");
            let list = SandboxCommand { program: "/bin/ls".to_owned(), ..Default::default() };
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            let spec = ExecSpec { command: list, input: Vec::new(), output_cap: 1024, deadline, user: None };
            match sandbox.exec(spec).await {
                Err(ExecError::NotRun { obstacle: NotRun::Folder, message }) => {
                    assert!(message.contains("folder /app"), "descriptor {number}: {message}");
                }
                led => panic!("descriptor {number}: {led:?}"),
            }
            let workspace = sandbox.workspace().await.unwrap();
            assert!(workspace.is_err_and(|error| !error.is_infrastructure()), "descriptor {number}");
            sandbox.kill().await.unwrap();
        }
    });
}
