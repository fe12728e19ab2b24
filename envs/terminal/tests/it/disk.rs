//! A full disk while artifacts are transferred.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    ArtifactSpec, Boundary, NetworkPolicy, Retry, RewardSource, TaskSpec, VerifierApart, VerifierSpec,
};

use clawrl_testkit::{ready, small_terminal, step, step_ctx, terminal_task};

use crate::support::with_provider;

/// Says that this process has a small disk for its temporary files.
const SMALL: &str = "CLAWRL_TEST_SMALL_DISK";

#[test]
fn full_host_is_fault_full_sandbox_is_not() {
    if std::env::var_os(SMALL).is_some() {
        return on_a_small_disk();
    }
    if !rustix::process::geteuid().is_root() {
        // Without permission to mount, there is no small disk.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // The mount is seen by these processes alone.
    let script = "mount -t tmpfs -o size=1m,mode=1777 none \"$TMPDIR\" && exec \"$0\" \"$@\"";
    let name = "disk::full_host_is_fault_full_sandbox_is_not";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env("TMPDIR", folder.path())
        .env(SMALL, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn on_a_small_disk() {
    let graded = |command: &'static str| {
        let apart = VerifierApart {
            image: None,
            artifacts: vec![ArtifactSpec {
                source: "/work/made".to_owned(),
                destination: None,
                exclude: Vec::new(),
            }],
            collect: Vec::new(),
        };
        let verifier = VerifierSpec {
            files: Vec::new(),
            run: "[ -e made ]".to_owned(),
            env: Default::default(),
            user: None,
            timeout: Duration::from_secs(20),
            network: NetworkPolicy::None,
            reward: RewardSource::ExitCode,
            reward_key: None,
            apart: Some(apart),
        };
        let task = Arc::new(TaskSpec {
            verifier: Some(verifier),
            ..TaskSpec::clone(&terminal_task(small_terminal(), Vec::new()))
        });
        let mut graded = None;
        with_provider(|provider| {
            let graded = &mut graded;
            async move {
                let mut env = ready(provider.as_ref(), &task).await;
                step(env.as_mut(), command).await;
                *graded = Some(env.grade(step_ctx(9)).await);
                env.close().await;
            }
        });
        graded.unwrap()
    };
    assert_eq!(graded("echo small > made").unwrap().score, 1.0);
    let fault = graded("head -c 2000000 /dev/zero > made").unwrap_err();
    assert_eq!(
        (fault.boundary, fault.code.as_str(), fault.retry),
        (Boundary::Grader, "stage", Retry::Sound),
        "{fault}"
    );
    assert!(fault.message.contains("no space left"), "{fault}");
    // More than the workspace may hold is the agent's doing: it is flagged, and the verifier misses it.
    let grade = graded("mkdir made; for i in 1 2 3; do truncate -s 9M made/$i; done").unwrap();
    assert_eq!(grade.score, 1.0, "holes need no room: {grade:?}");
    let grade = graded("truncate -s 9M made").unwrap();
    assert_eq!((grade.score, grade.flags), (0.0, vec!["too-large".to_owned()]));
}
