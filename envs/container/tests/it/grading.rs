//! Grading in containers: the workspace's path at the end counts, wherever the agent moved the folder.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    ArtifactSpec, Boundary, Check, EnvProvider, Fault, Grade, NetworkPolicy, Retry, RewardSource, TaskSpec,
    VerifierApart, VerifierSpec,
};
use clawrl_sandbox::{ExecError, ExecSpec, SafeDir, SandboxCommand, TreeBounds};
use clawrl_terminal::TerminalProvider;
use clawrl_testkit::{file_equals, ready, step, step_ctx, terminal_task};

use crate::conformance::{provider, terminal};
use crate::engine::{here_and_elsewhere, start};

fn verified(run: &str, apart: Option<VerifierApart>) -> Arc<TaskSpec> {
    let verifier = VerifierSpec {
        files: Vec::new(),
        run: run.to_owned(),
        env: Default::default(),
        user: None,
        timeout: Duration::from_secs(30),
        network: NetworkPolicy::None,
        reward: RewardSource::ExitCode,
        reward_key: None,
        apart,
    };
    Arc::new(TaskSpec { verifier: Some(verifier), ..TaskSpec::clone(&terminal_task(terminal(), Vec::new())) })
}

async fn graded(provider: &TerminalProvider, task: &Arc<TaskSpec>, command: &str) -> Result<Grade, Fault> {
    let mut env = ready(provider, task).await;
    step(env.as_mut(), command).await;
    let grade = env.grade(step_ctx(9)).await;
    assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    grade
}

const REPLACED: &str = "cd /; mv /app /aside; mkdir /app; echo 42 > /app/answer";

here_and_elsewhere!(what_is_graded_is_what_the_path_names, |backend, _| async move {
    let provider = provider(backend);
    let command = Check::Command {
        run: "cat answer; ls".to_owned(),
        exit_code: 0,
        stdout_equals: Some("42\nanswer\n".to_owned()),
        stdout_contains: None,
        timeout: Duration::from_secs(20),
    };
    let gone = Check::FileAbsent { path: "in.txt".to_owned() };
    let task = terminal_task(terminal(), vec![file_equals("answer", "42\n"), command, gone]);
    let scores = async |command: &str| {
        let grade = graded(&provider, &task, command).await.unwrap();
        grade.checks.iter().map(|check| check.score as u32).collect::<Vec<_>>()
    };
    assert_eq!(scores(REPLACED).await, [1, 1, 1]);
    // A link is followed as the verifier, or a person in there, would follow it.
    let linked = "cd /; mv /app /aside; mkdir /new; echo 42 > /new/answer; ln -s new /app";
    assert_eq!(scores(linked).await, [1, 1, 1]);
    // Files that were right at the old place do not count at the new one.
    let moved = "echo 42 > answer; rm in*; rm -r made; cd /; mv /app /aside; mkdir /app; touch /app/in.txt";
    assert_eq!(scores(moved).await, [0, 0, 0]);
    for away in [
        "rm -rf /app",
        "echo 42 > answer; cd /; mv /app /aside; echo 42 > /app",
        "cd /; mv /app /aside; ln -s /proc /app",
        "cd /; mv /app /aside; ln -s /proc/self/cwd /app",
        "cd /; mv /app /aside; ln -s /app /app",
    ] {
        assert_eq!(scores(away).await, [0, 0, 0], "{away}");
    }
    assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
});

here_and_elsewhere!(verifiers_find_what_the_path_names_or_score_nothing, |backend, _| async move {
    let provider = provider(backend);
    let look = "[ \"$(cat /app/answer answer)\" = \"42\n42\" ]";
    let artifact = ArtifactSpec { source: "/app".to_owned(), destination: None, exclude: Vec::new() };
    let apart = VerifierApart { image: None, artifacts: vec![artifact], collect: Vec::new() };
    for apart in [None, Some(apart)] {
        let flag = if apart.is_some() { vec!["artifact-missing".to_owned()] } else { Vec::new() };
        let task = verified(look, apart);
        assert_eq!(graded(&provider, &task, REPLACED).await.unwrap().score, 1.0, "{task:?}");
        let grade = graded(&provider, &task, "rm -rf /app").await.unwrap();
        assert_eq!((grade.score, &grade.flags), (0.0, &flag), "{grade:?}");
        let message = &grade.checks[0].message;
        assert!(!flag.is_empty() || message == "\"/app\" does not exist", "{message}");
    }
    assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
});

here_and_elsewhere!(artifact_replaces_entry_of_other_kind, |backend, _| async move {
    let provider = provider(backend);
    let artifact = |source: &str, destination: &str| ArtifactSpec {
        source: source.to_owned(),
        destination: Some(destination.to_owned()),
        exclude: Vec::new(),
    };
    // The image has a folder where the first one comes, and files in the way of the others.
    let artifacts = vec![
        artifact("/app/file", "/home/agent"),
        artifact("/app/folder", "/app/in-image.txt"),
        artifact("/app/folder", "/bin/tty/below"),
    ];
    let apart = VerifierApart { image: None, artifacts, collect: Vec::new() };
    let look = "[ -f /home/agent ] && [ -f in-image.txt/f ] && [ -f /bin/tty/below/f ]";
    let command = "touch file; mkdir folder; touch folder/f";
    let grade = graded(&provider, &verified(look, Some(apart)), command).await.unwrap();
    assert_eq!((grade.score, grade.flags), (1.0, Vec::new()));
    assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
});

/// Files that an agent may leave so that a copy looks different, or is impossible.
const ODD: &str = "rm in.txt; mkfifo in.txt; mkdir odd; cd odd; ln -s a//b l; ln -s x/. m; mkfifo p; echo 42 > f; cd ..; \
     chmod 400 odd/f; touch -d @0.5 odd; echo 42 > answer";

/// More bytes than a path has, and a tree that is not too deep.
const LONG: &str = "(n=$(printf %0250d 0); for i in $(seq 40); do mkdir $n && cd -P $n || exit; done; echo x > f); echo 42 > answer";

here_and_elsewhere!(what_is_no_file_and_where_no_path_leads_is_seen_as_it_is, |backend, _| async move {
    let provider = provider(backend);
    let command = |run: &str| Check::Command {
        run: run.to_owned(),
        exit_code: 0,
        stdout_equals: None,
        stdout_contains: None,
        timeout: Duration::from_secs(20),
    };
    let same = tempfile::tempdir().unwrap();
    let at = |name: &str| same.path().join(name);
    std::os::unix::fs::symlink("a//b", at("l")).unwrap();
    std::os::unix::fs::symlink("x/.", at("m")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("p"), rustix::fs::Mode::RUSR).unwrap();
    std::fs::write(at("f"), "42\n").unwrap();
    let sha256 = SafeDir::open(same.path()).unwrap().tree_hash(".", TreeBounds::default()).unwrap();
    let checks = vec![
        Check::FileAbsent { path: "in.txt".to_owned() },
        Check::TreeHash { path: "odd".to_owned(), sha256 },
        file_equals("odd/f", "42\n"),
        Check::FileMode { path: "odd/f".to_owned(), mode: 0o400 },
        command(
            "[ \"$(readlink odd/l odd/m)\" = \"$(printf 'a//b\\nx/.')\" ] && [ \"$(stat -c %y odd/l)\" ]",
        ),
        command("[ -p odd/p ]"),
    ];
    let grade = graded(&provider, &terminal_task(terminal(), checks), ODD).await.unwrap();
    let scores: Vec<u32> = grade.checks.iter().map(|check| check.score as u32).collect();
    assert_eq!(scores, [0, 1, 1, 1, 1, 0], "{grade:?}");
    assert_eq!(grade.checks[0].message, "expected nothing, found a FIFO");
    assert_eq!(grade.flags, ["copy-incomplete"]);

    let checks = vec![file_equals("answer", "42\n"), command("[ $(find . -name f | wc -c) -gt 10000 ]")];
    let grade = graded(&provider, &terminal_task(terminal(), checks), LONG).await.unwrap();
    assert_eq!((grade.score, grade.flags), (1.0, Vec::new()), "{:?}", grade.checks);
    assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
});

// A launcher runs outside, so nothing inside can end it.
here_and_elsewhere!(a_launcher_that_is_killed_is_no_end_of_its_program, |backend, _| async move {
    let started = start(&backend).await;
    let sandbox = started.sandbox.as_ref();
    let command = SandboxCommand {
        program: "/bin/sleep".to_owned(),
        arguments: vec!["4711".to_owned()],
        ..SandboxCommand::default()
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let spec = ExecSpec { command, input: Vec::new(), output_cap: 100, deadline, user: None };
    let killing = async {
        let launcher = loop {
            let inside = sandbox.processes().await;
            if let Some(process) = inside.iter().find(|process| process.command_line == "/bin/sleep 4711") {
                break process.host_parent;
            }
            tokio::task::yield_now().await;
        };
        let launcher = rustix::process::Pid::from_raw(launcher.try_into().unwrap()).unwrap();
        rustix::process::kill_process(launcher, rustix::process::Signal::KILL).unwrap();
    };
    let (result, ()) = tokio::join!(sandbox.exec(spec), killing);
    match result {
        Err(ExecError::Fault(fault)) => assert_eq!(
            (fault.boundary, fault.code.as_str(), fault.retry),
            (Boundary::Env, "launcher-killed", Retry::Sound)
        ),
        other => panic!("{other:?}"),
    }
    sandbox.kill().await.unwrap();
});
