//! Whole episodes: the four tools, endings, grades.

use clawrl_core::{StopReason, TestScore, ToolCall};
use clawrl_testkit::{
    SWE_FIX, SWE_TESTS, bash, ready, step_ctx, swe_grade, swe_spec, swe_spec_with_history, swe_task,
};
use serde_json::{Value, json};

use crate::support::with_provider;

/// One call; returns the policy's observation.
async fn said(env: &mut dyn clawrl_core::Env, name: &str, arguments: Value) -> String {
    let result = env.step(&[ToolCall::new(name, arguments)], step_ctx(1)).await.unwrap();
    result.observation.joined_text()
}

#[test]
fn repository_is_fixed_with_the_four_tools() {
    with_provider(|provider| async move {
        let mut env = ready(provider.as_ref(), &swe_task(swe_spec())).await;
        let env = env.as_mut();
        assert_eq!(
            said(env, "bash", json!({"command": "git status --short; git log --format=%s"})).await,
            "base\n[exit 0]"
        );
        assert_eq!(said(env, "view", json!({"path": "."})).await, ".git/\nREADME.md\ncalc.py\ntests/");
        assert_eq!(
            said(env, "view", json!({"path": "calc.py", "first": 1, "last": 2})).await,
            "     1\tdef add(a, b):\n     2\t    return a - b"
        );
        assert_eq!(
            said(env, "view", json!({"path": "calc.py", "first": 70})).await,
            "[error: calc.py has 6 lines]"
        );
        assert_eq!(said(env, "view", json!({"path": "gone"})).await, "[error: there is no gone]");
        let edited = said(env, "edit", json!({"path": "calc.py", "old": "a - b", "new": "a + b"})).await;
        assert!(
            edited.starts_with("[calc.py is written]\n     1\tdef add(a, b):\n     2\t    return a + b\n"),
            "{edited}"
        );
        let again = said(env, "edit", json!({"path": "calc.py", "old": "a - b", "new": "a + b"})).await;
        assert_eq!(again, "[error: calc.py: `old` is not in it]");
        let twice = said(env, "edit", json!({"path": "calc.py", "old": "return", "new": "x"})).await;
        assert_eq!(twice, "[error: calc.py: `old` is in it 2 times; take more of what is around it]");
        assert_eq!(
            said(env, "edit", json!({"path": "docs/new.md", "new": "é\n"})).await,
            "[docs/new.md is written]"
        );
        assert_eq!(
            said(env, "edit", json!({"path": "/etc/x", "new": ""})).await.split(':').next(),
            Some("[error")
        );
        assert_eq!(said(env, "bash", json!({"command": "mkfifo f"})).await, "[exit 0]");
        assert_eq!(
            said(env, "view", json!({"path": "f"})).await,
            "[error: f is neither a file nor a folder]"
        );
        assert_eq!(
            said(env, "fly", json!({})).await,
            "[error: there is no tool `fly`; there are bash, view, edit and submit]"
        );
        let end = env.step(&[ToolCall::new("submit", json!({}))], step_ctx(2)).await.unwrap().end;
        assert_eq!(end, Some(StopReason::Submitted));
        let grade = env.grade(step_ctx(3)).await.unwrap();
        assert!(grade.passed, "{grade:?}");
        assert_eq!(grade.checks[0].message, "1 of 1 to fix, 1 of 1 to keep; 2 files changed");
        // A FIFO is never source code.
        assert_eq!(grade.flags, ["copy-incomplete"]);
        let patch = grade.patch.unwrap();
        assert!(
            patch.contains("-    return a - b\n+    return a + b\n") && patch.contains("+é\n"),
            "{patch}"
        );
    });
}

#[test]
fn nothing_done_passes_nothing() {
    with_provider(|provider| async move {
        let grade = swe_grade(provider.as_ref(), &swe_task(swe_spec()), &[]).await;
        assert_eq!((grade.score, grade.patch.as_deref()), (0.0, Some("")), "{grade:?}");
        assert_eq!(grade.checks[0].message, "0 of 1 to fix, 1 of 1 to keep; 0 files changed");
        assert_eq!(grade.checks[1].message, format!("{}: failed", SWE_TESTS.0));
        let mut spec = swe_spec();
        spec.tests.score = TestScore::Fraction;
        let grade = swe_grade(provider.as_ref(), &swe_task(spec), &[]).await;
        assert_eq!((grade.score, grade.passed), (0.5, false), "{grade:?}");
    });
}

#[test]
fn a_program_that_waits_for_input_is_interrupted() {
    with_provider(|provider| async move {
        let mut env = ready(provider.as_ref(), &swe_task(swe_spec())).await;
        let waited = said(env.as_mut(), "bash", json!({"command": "cat; echo after"})).await;
        assert!(waited.contains("[there is no more input: interrupted]"), "{waited}");
        assert!(waited.ends_with("[exit 130]"), "{waited}");
        let stubborn = "python3 -c 'import signal; signal.signal(2, signal.SIG_IGN); input()'";
        let killed = said(env.as_mut(), "bash", json!({ "command": stubborn })).await;
        assert!(killed.ends_with("[exit 137]"), "{killed}");
        let unfinished = said(env.as_mut(), "bash", json!({"command": "echo 'a"})).await;
        assert_eq!(unfinished, "[the command was not finished: a closing quote ' is missing; dropped]");
        assert_eq!(said(env.as_mut(), "bash", json!({"command": "echo alive"})).await, "alive\n[exit 0]");
    });
}

#[test]
fn variables_and_activation_reach_agent_and_tests() {
    with_provider(|provider| async move {
        let mut spec = swe_spec();
        spec.workspace.env.insert("GREETING".to_owned(), "it's me".to_owned());
        spec.activate = Some("export SIDE=active; cd tests/..".to_owned());
        spec.setup = vec!["echo \"$GREETING\" > made.txt".to_owned()];
        spec.tests.run =
            "[ \"$GREETING $SIDE $(cat made.txt)\" = \"it's me active it's me\" ] && python3 -m unittest -v tests.test_calc".to_owned();
        let task = swe_task(spec);
        let mut env = ready(provider.as_ref(), &task).await;
        let seen =
            said(env.as_mut(), "bash", json!({"command": "echo $GREETING $SIDE; git status --short"})).await;
        assert_eq!(seen, "it's me active\n[exit 0]");
        drop(env);
        let grade = swe_grade(provider.as_ref(), &task, &[bash(SWE_FIX)]).await;
        assert!(grade.passed, "{grade:?}");
    });
}

#[test]
fn a_history_ends_with_the_base_commit() {
    with_provider(|provider| async move {
        let mut env = ready(provider.as_ref(), &swe_task(swe_spec_with_history())).await;
        let history = "git log --all --format=%s; git for-each-ref --format='%(refname)'; git remote; git status --short";
        let seen = said(env.as_mut(), "bash", json!({ "command": history })).await;
        assert_eq!(seen, "base\nbefore\nrefs/heads/main\n[exit 0]");
    });
}

#[test]
fn pagers_are_cat_unless_the_task_names_others() {
    with_provider(|provider| async move {
        let pagers = json!({"command": "echo $PAGER $GIT_PAGER"});
        let mut env = ready(provider.as_ref(), &swe_task(swe_spec())).await;
        assert!(said(env.as_mut(), "bash", pagers.clone()).await.starts_with("cat cat\n"));
        let mut spec = swe_spec();
        spec.workspace.env.insert("PAGER".to_owned(), "less".to_owned());
        let mut env = ready(provider.as_ref(), &swe_task(spec)).await;
        assert!(said(env.as_mut(), "bash", pagers).await.starts_with("less cat\n"));
    });
}

/// git's output about it is then the same in every run.
#[test]
fn a_commit_of_the_agent_has_the_date_of_the_plan() {
    with_provider(|provider| async move {
        let mut env = ready(provider.as_ref(), &swe_task(swe_spec())).await;
        let commit = "git -c user.name=a -c user.email=a commit -q --allow-empty -m mine; git log -1 --format='%at %ct'";
        let seen = said(env.as_mut(), "bash", json!({ "command": commit })).await;
        let date = clawrl_core::Determinism::default().source_date_epoch;
        assert_eq!(seen, format!("{date} {date}\n[exit 0]"));
    });
}

/// A repository at a later commit than the issue's: its files stay, its history goes.
#[test]
fn later_image_changes_become_one_commit() {
    with_provider(|provider| async move {
        let mut spec = swe_spec();
        spec.setup = [
            "git init -q . && git symbolic-ref HEAD refs/heads/main && git add -A && git commit -q -m base",
            "git tag start && echo 1 > one && git add -A && git commit -q -m 'told the fix' && echo 2 > two && git add -A && git commit -q -m two",
            "git rev-parse start > /tmp/start",
        ]
        .map(str::to_owned)
        .to_vec();
        let mut env = ready(provider.as_ref(), &swe_task(spec.clone())).await;
        let start = said(env.as_mut(), "bash", json!({"command": "cat /tmp/start"})).await;
        spec.base_commit = start.lines().next().map(str::to_owned);
        let mut env = ready(provider.as_ref(), &swe_task(spec.clone())).await;
        let seen = said(
            env.as_mut(),
            "bash",
            json!({"command": "git log --all --format=%s; cat one two; git status --short"}),
        )
        .await;
        assert_eq!(seen, "base\nbase\n1\n2\n[exit 0]");
        for (commit, code) in [("0123456789", "base-commit"), ("HEAD", "")] {
            spec.base_commit = Some(commit.to_owned());
            let mut env = provider_lease(provider.as_ref(), &spec).await;
            let fault = env.reset(step_ctx(0)).await.err();
            assert_eq!(fault.map(|fault| fault.code).unwrap_or_default(), code, "{commit}");
        }
    });
}

async fn provider_lease(
    provider: &dyn clawrl_core::EnvProvider,
    spec: &clawrl_core::SweSpec,
) -> Box<dyn clawrl_core::Env> {
    provider.lease(clawrl_testkit::lease_request(&swe_task(spec.clone()))).await.unwrap()
}
