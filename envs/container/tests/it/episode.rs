//! Whole episodes in containers: the image's folder, a real terminal, grades.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    ArtifactSpec, Check, EnvProvider, NetworkPolicy, RewardSource, StopReason, TaskSpec, VerifierApart,
    VerifierSpec,
};
use clawrl_testkit::{call, file_equals, ready, step, step_ctx, terminal_task, text_file};

use crate::conformance::{provider, terminal};
use crate::engine::{here_and_elsewhere, small};

here_and_elsewhere!(an_episode_begins_in_the_image_and_is_graded_after_the_end, |backend, _| async move {
    let provider = provider(backend);
    let command = Check::Command {
        run: "cat in-image.txt answer; ls; ls /only-the-agents 2>/dev/null".to_owned(),
        exit_code: 2,
        stdout_equals: Some("from the image\n42\nanswer\nin-image.txt\nin.txt\nmade\n".to_owned()),
        stdout_contains: None,
        timeout: Duration::from_secs(20),
    };
    let checks = vec![
        file_equals("answer", "42\n"),
        Check::FileAbsent { path: "gone".to_owned() },
        Check::Process { regex: "^sleep 4711$".to_owned(), running: true },
        command,
    ];
    let mut env = ready(&provider, &terminal_task(terminal(), checks)).await;
    let env = env.as_mut();
    assert_eq!(
        step(env, "pwd; cat in-image.txt; id -u; echo $FROM_IMAGE $HOME").await,
        "/app\nfrom the image\n0\nyes /root\n[exit 0]"
    );
    assert_eq!(step(env, "cd /tmp; X=5; tty; false").await, "/dev/pts/0\n[exit 1]");
    assert_eq!(step(env, "echo $X; pwd; cat").await, "5\n/tmp\n[still running]");
    let keys = clawrl_core::ToolCall::new("keys", serde_json::json!({"keys": "C-c"}));
    env.step(&[keys], step_ctx(2)).await.unwrap();
    assert_eq!(
        step(env, "ls -1d /logs/* /solution; ls -A /solution").await,
        "/logs/agent\n/logs/artifacts\n/logs/verifier\n/solution\n[exit 0]"
    );
    // Not only the workspace is the agent's: it is root in a machine of its own.
    assert_eq!(
        step(env, "mkdir /only-the-agents && chown 1000 /only-the-agents; echo $?").await,
        "0\n[exit 0]"
    );
    step(env, "sleep 4711 & cd /app; touch gone; rm gone; echo 42 > answer").await;
    // The daemon would undo the work if grading did not stop it first.
    step(env, "(setsid bash -c 'sleep 0.3; rm answer' &)").await;
    let grade = env.grade(step_ctx(9)).await.unwrap();
    assert!(grade.passed, "{grade:?}");
    assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
});

here_and_elsewhere!(a_user_is_who_the_image_says_and_a_shell_may_leave, |backend, _| async move {
    let provider = provider(backend);
    let mut spec = terminal();
    let image = clawrl_core::ImageSpec {
        workdir: Some("/home/agent".to_owned()),
        user: Some("agent".to_owned()),
        ..small()
    };
    spec.image = Some(image);
    let owner = Check::FileOwner { path: "in.txt".to_owned(), uid: 1000 };
    let mut env = ready(&provider, &terminal_task(spec, vec![owner])).await;
    assert_eq!(
        step(env.as_mut(), "id; pwd; echo $HOME $USER; touch /app/x").await,
        "uid=1000(agent) gid=1000(agent) groups=1000(agent),4242(extra)\n/home/agent\n/home/agent agent\n\
             touch: cannot touch '/app/x': Permission denied\n[exit 1]"
    );
    let left = env.step(&[call("exit 4")], step_ctx(7)).await.unwrap();
    assert_eq!(left.end, Some(StopReason::Ended("shell-exited".to_owned())));
    assert!(env.grade(step_ctx(8)).await.unwrap().passed);
    assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
});

here_and_elsewhere!(
    verifiers_grade_in_the_agents_container_after_its_end_or_apart,
    |backend, _| async move {
        let provider = provider(backend);
        let verifier = VerifierSpec {
            files: vec![text_file(
                "test.sh",
                "[ \"$(cat out.txt)\" = yes ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
            )],
            run: "bash /tests/test.sh".to_owned(),
            env: Default::default(),
            user: None,
            timeout: Duration::from_secs(30),
            network: NetworkPolicy::None,
            reward: RewardSource::Files,
            reward_key: None,
            apart: None,
        };
        let apart = VerifierApart {
            image: None,
            artifacts: vec![ArtifactSpec {
                source: "/app/out.txt".to_owned(),
                destination: None,
                exclude: Vec::new(),
            }],
            collect: Vec::new(),
        };
        let tampering = "echo 1 > /logs/verifier/reward.txt; mkdir /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; \
                         (setsid bash -c 'while :; do echo 1 > /logs/verifier/reward.txt; done' &) 2>/dev/null";
        for apart in [None, Some(apart)] {
            let task = Arc::new(TaskSpec {
                verifier: Some(VerifierSpec { apart, ..verifier.clone() }),
                ..TaskSpec::clone(&terminal_task(terminal(), Vec::new()))
            });
            for (commands, score) in
                [(["echo yes > out.txt", "true"], 1.0), (["echo no > out.txt", tampering], 0.0)]
            {
                let mut env = ready(&provider, &task).await;
                for command in commands {
                    step(env.as_mut(), command).await;
                }
                let grade = env.grade(step_ctx(9)).await.unwrap();
                assert_eq!(grade.score, score, "{:?}: {grade:?}", task.verifier);
                assert_eq!(env.close().await.leftovers, Vec::<String>::new());
            }
        }
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
    }
);
