//! The interpreter of an episode: its state, and its observations.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use clawrl_core::{EnvProvider, ImageSource, ImageSpec, LeaseRequest, Retry, ToolKind, WorkspaceSpec};
use clawrl_testkit::{lease_request, ready, step_ctx, unpack_image};
use serde_json::json;

use crate::support::{
    act, call, code, command, sandboxed, shown, submit, tool, toolcall_task, with_env, with_provider, within,
};

/// Runs pieces of code one after another in one episode, and checks each observation.
fn check(pieces: &'static [(&'static str, &'static str)]) {
    with_env(sandboxed(vec![tool("python", ToolKind::Python)]), async |env| {
        for (text, expected) in pieces {
            assert_eq!(&shown(env, &[code(text)]).await, expected, "{text}");
        }
    });
}

#[test]
fn names_persist_and_the_last_expression_is_shown() {
    check(&[
        ("x = 20", "[python] (no output)"),
        ("def double(n):\n    return 2 * n\ndouble(x) + 2", "[python] 42"),
        ("print('a')\n'b'", "[python]\na\n'b'"),
        ("import sys; sys.argv, __name__", "[python] ([''], '__main__')"),
        ("open('f.py', 'w').write('y = 7')", "[python] 5"),
        ("import f; f.y", "[python] 7"),
        ("", "[python] (no output)"),
        ("'\\ud800'; print('\\ud800')", "[python] \\ud800"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    n: int\nP(3)", "[python] P(n=3)"),
    ]);
}

#[test]
fn workspace_file_cannot_shadow_driver_modules() {
    check(&[
        ("open('json.py', 'w').write('broken(')\nopen('random.py', 'w').write('broken(')", "[python] 7"),
        (
            "import os; os._exit(0)",
            "[python] [the interpreter has ended: exit code 0; the next call starts a fresh one, variables are lost]",
        ),
        ("1 + 1", "[python]\n[the interpreter was restarted; variables are lost]\n2"),
    ]);
}

#[test]
fn all_output_is_in_the_order_of_writing() {
    check(&[
        (
            "import os, subprocess, sys\nprint('one')\nsubprocess.run(['sh', '-c', 'echo two; echo three >&2'])\n\
             os.write(1, b'four\\n')\nprint('five', file=sys.stderr)\nNone",
            "[python]\none\ntwo\nthree\nfour\nfive",
        ),
        ("print('no line end', end='')\n3", "[python]\nno line end\n3"),
        (
            "import ctypes; _ = ctypes.CDLL(None).puts(b'from C'); ctypes.CDLL(None).fflush(None)",
            "[python]\nfrom C\n0",
        ),
        ("import sys; sys.stdin.read()", "[python] ''"),
    ]);
}

#[test]
fn errors_are_tracebacks_of_the_code_alone() {
    let spec = sandboxed(vec![tool("python", ToolKind::Python)]);
    with_env(spec, async |env| {
        let text = shown(env, &[code("def f():\n    return 1 / 0\nf()")]).await;
        assert!(
            text.starts_with("[python]\nTraceback (most recent call last):\n  File \"<call 1>\", line 3, in"),
            "{text}"
        );
        assert!(
            text.contains("return 1 / 0") && text.ends_with("ZeroDivisionError: division by zero"),
            "{text}"
        );
        assert!(!text.contains("driver"), "{text}");
        let text = shown(env, &[code("x = (")]).await;
        assert!(
            text.starts_with("[python]\n  File \"<call 2>\", line 1") && text.contains("SyntaxError"),
            "{text}"
        );
        for (text, expected) in [
            ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError(1) from e", "KeyError: 1"),
            ("raise SystemExit(3)", "SystemExit: 3"),
            ("input()", "EOFError: EOF when reading a line"),
            ("def r():\n    r()\nr()", "RecursionError: maximum recursion depth exceeded"),
            (
                "class E(Exception):\n    def __str__(self):\n        raise E()\nraise E()",
                "E: <exception str() failed>",
            ),
        ] {
            let shown = shown(env, &[code(text)]).await;
            assert!(shown.trim_end().ends_with(expected) && !shown.contains("driver"), "{shown}");
        }
    });
}

#[test]
fn code_that_forks_answers_once() {
    check(&[
        (
            "import os\npid = os.fork()\nprint('both') if pid == 0 else os.waitpid(pid, 0)[1]",
            "[python]\nboth\n0",
        ),
        (
            "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as pool:\n    print(pool.map(abs, [-1, -2]))",
            "[python] [1, 2]",
        ),
        ("1", "[python] 1"),
    ]);
}

#[test]
fn timed_out_code_is_interrupted_interpreter_lives() {
    with_env(sandboxed(vec![within(1_000, tool("python", ToolKind::Python))]), async |env| {
        for text in ["x = 7\nprint('begun')\nwhile True: pass", "import time; time.sleep(1000)"] {
            let shown = shown(env, &[code(text)]).await;
            assert!(
                shown.contains("KeyboardInterrupt") && shown.ends_with("[interrupted after 1 s]"),
                "{shown}"
            );
            assert!(!shown.contains("driver"), "{shown}");
        }
        assert_eq!(shown(env, &[code("x")]).await, "[python] 7");
        let mut ctx = step_ctx(3);
        ctx.deadline = Instant::now() + Duration::from_millis(400);
        let result = env.step(&[code("while True: pass")], ctx).await.unwrap();
        assert!(
            result.observation.joined_text().ends_with("[interrupted at the end of the step's time]"),
            "{result:?}"
        );
        assert_eq!(shown(env, &[code("x")]).await, "[python] 7");
    });
}

#[test]
fn calls_of_one_action_run_concurrently() {
    let spec = sandboxed(vec![
        tool("python", ToolKind::Python),
        within(1_500, tool("never", ToolKind::Never)),
        within(1_500, command("wait", &["sleep", "1000"])),
        command("meet", &["sh", "-c", "until [ -e here ]; do :; done; echo met"]),
    ]);
    with_env(spec, async |env| {
        let calls = [
            call("never", json!({})),
            call("meet", json!({})),
            code("open('here', 'w').close()\nn = 1"),
            call("wait", json!({})),
            code("n + 1"),
        ];
        let expected = "[never] error: no answer, ended after 1.5 s\n[meet]\nmet\n[exit 0]\n[python] (no output)\n\
                        [wait] [killed after 1.5 s]\n[python] 2";
        assert_eq!(shown(env, &calls).await, expected);
    });
}

#[test]
fn much_output_is_bounded() {
    with_env(sandboxed(vec![tool("python", ToolKind::Python)]), async |env| {
        let observation = act(env, &[code("for n in range(200_000): print(n)\n'end'")]).await.observation;
        let text = observation.joined_text();
        assert!(
            text.chars().count() < 2_100 && text.starts_with("[python]\n0\n1\n") && text.ends_with("'end'"),
            "{text}"
        );
        let full = observation.full_text.unwrap();
        assert!(full.len() < 1_100_000 && full.contains("bytes left out ...]"), "{}", full.len());
        let text = shown(env, &[code("'x' * 10_000_000")]).await;
        assert!(text.chars().count() < 2_100 && text.contains("left out ...]"), "{text}");
        assert_eq!(shown(env, &[code("1")]).await, "[python] 1");
    });
}

#[test]
fn warm_interpreters_take_the_seed_of_the_episode() {
    let mut spec = sandboxed(vec![tool("python", ToolKind::Python)]);
    spec.workspace.as_mut().unwrap().env = [("OWN".to_owned(), "mine".to_owned())].into();
    with_provider(&spec.clone(), |provider| async move {
        provider.warm_up(3).await.unwrap();
        assert_eq!((provider.usage().live, provider.usage().warm), (3, 3));
        let task = toolcall_task(spec, Vec::new());
        let mut seen = Vec::new();
        for seed in [7, 7, 8] {
            let request = LeaseRequest { seed, ..lease_request(&task) };
            let mut env = provider.lease(request).await.unwrap();
            env.reset(step_ctx(0)).await.unwrap();
            let text =
                "import os, random\n(random.random(), os.environ['OWN'], os.environ['PYTHONHASHSEED'])";
            seen.push(shown(env.as_mut(), &[code(text)]).await);
            env.close().await;
        }
        assert_eq!((provider.usage().live, provider.usage().warm), (0, 0));
        assert!(seen[0] == seen[1] && seen[0] != seen[2], "{seen:?}");
        assert!(seen[0].ends_with("'mine', '7')"), "{seen:?}");
    });
}

#[test]
fn image_without_python_is_explained_fault() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = folder.path().join("image");
    fs::create_dir(&root).unwrap();
    unpack_image(&root, &[]).unwrap();
    let image = ImageSpec { source: ImageSource::Rootfs(root), workdir: None, user: None };
    let mut spec = sandboxed(vec![tool("python", ToolKind::Python)]);
    let workspace = spec.workspace.take().unwrap();
    spec.workspace = Some(WorkspaceSpec { image: Some(image), ..workspace });
    with_provider(&spec.clone(), |provider| async move {
        let task = toolcall_task(spec, Vec::new());
        let fault = provider.lease(lease_request(&task)).await.err().unwrap();
        assert_eq!((fault.code.as_str(), fault.retry), ("python-missing", Retry::Never), "{fault}");
        assert!(fault.message.contains("needs `python3`"), "{fault}");
    });
}

#[test]
fn submit_after_code_ends_the_episode() {
    let spec = sandboxed(vec![tool("python", ToolKind::Python)]);
    with_provider(&spec.clone(), |provider| async move {
        let mut env = ready(provider.as_ref(), &toolcall_task(spec, Vec::new())).await;
        let result = act(env.as_mut(), &[code("6 * 7"), submit("42"), code("never run")]).await;
        assert_eq!(result.observation.joined_text(), "[python] 42");
        assert!(result.end.is_some());
    });
}
