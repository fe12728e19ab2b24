//! Tests of software engineering environments with any sandbox: a small repository with a bug, its tests,
//! and attacks on grading.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    EnvProvider, EnvSpec, FixtureContent, Grade, LogParser, SandboxLimits, SweSpec, TaskSpec, TestNames,
    TestScore, TestSpec, ToolCall, WorkspaceSpec,
};
use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::conformance::Case;
use crate::plan::task;
use crate::terminal::{ready, step_ctx, text_file};

/// The fix of the repository.
pub const SWE_FIX: &str = "sed -i 's/a - b/a + b/' calc.py";

/// Names of the tests: the one that the fix makes pass, and the one that passes before.
pub const SWE_TESTS: (&str, &str) =
    ("test_add (tests.test_calc.Calc.test_add)", "test_mul (tests.test_calc.Calc.test_mul)");

/// Environments that [`swe_grades`] has open.
const GRADED_AT_ONCE: usize = 4;

const CALC: &str = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n";
const SEEN: &str = "import unittest\nimport calc\n\n\nclass Seen(unittest.TestCase):\n    def test_seen(self):\n        self.assertEqual(calc.mul(2, 2), 4)\n";
const HIDDEN: &str = "import unittest\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n\n    def test_mul(self):\n        self.assertEqual(calc.mul(2, 3), 6)\n";

/// A repository of Python with a fault, without history.
#[must_use]
pub fn swe_spec() -> SweSpec {
    SweSpec {
        workspace: WorkspaceSpec {
            files: vec![
                text_file("calc.py", CALC),
                text_file("tests/__init__.py", ""),
                text_file("tests/test_seen.py", SEEN),
                text_file("README.md", "A calculator.\n"),
            ],
            limits: SandboxLimits { memory_mib: 128, disk_mib: 16, pids: 64, cpu_percent: 100 },
            ..WorkspaceSpec::default()
        },
        base_commit: None,
        apply: Vec::new(),
        setup: Vec::new(),
        activate: None,
        tests: TestSpec {
            run: "python3 -m unittest discover -v -s tests -t .".to_owned(),
            parser: LogParser::Unittest,
            files: vec![text_file("tests/test_calc.py", HIDDEN)],
            patch: None,
            fail_to_pass: TestNames::Inline(vec![SWE_TESTS.0.to_owned()]),
            pass_to_pass: TestNames::Inline(vec![SWE_TESTS.1.to_owned()]),
            protected: Vec::new(),
            timeout: Duration::from_secs(30),
            score: TestScore::Resolved,
        },
        observation_chars: 4_000,
    }
}

/// A task with this repository.
#[must_use]
pub fn swe_task(spec: SweSpec) -> Arc<TaskSpec> {
    Arc::new(TaskSpec { env: EnvSpec::Swe(Box::new(spec)), max_turns: 20, ..task("s/t") })
}

/// A call of its shell.
#[must_use]
pub fn bash(command: &str) -> ToolCall {
    ToolCall::new("bash", json!({ "command": command }))
}

/// Providers of such repositories, for the conformance suite.
pub fn swe_case(
    make_provider: impl Fn() -> Arc<dyn EnvProvider> + Send + Sync + 'static,
    spec: SweSpec,
    patience: Duration,
) -> Case {
    Case {
        make_provider: Box::new(make_provider),
        task: swe_task(spec),
        quick_calls: vec![
            bash(SWE_FIX),
            ToolCall::new("view", json!({ "path": "calc.py" })),
            bash("git log --format=%H; git status --short; echo $RANDOM $PYTHONHASHSEED"),
        ],
        long_calls: Some(vec![bash("sleep 1000")]),
        ending_calls: Some(vec![ToolCall::new("submit", json!({}))]),
        deterministic: true,
        patience,
        at_once: 8,
    }
}

/// Plays calls in a fresh environment of the task, and grades.
///
/// # Panics
/// Anything of it is a fault.
pub async fn swe_grade(provider: &dyn EnvProvider, task: &Arc<TaskSpec>, calls: &[ToolCall]) -> Grade {
    let mut env = ready(provider, task).await;
    for call in calls {
        let result = env.step(std::slice::from_ref(call), step_ctx(1)).await.expect("a step");
        if result.end.is_some() {
            break;
        }
    }
    let grade = env.grade(step_ctx(9)).await.expect("a grade");
    assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    grade
}

/// Plays each list of commands as [`swe_grade`] does, some at a time: most of it is waiting for processes. The grades are in
/// the order of the lists.
///
/// # Panics
/// As [`swe_grade`].
pub async fn swe_grades(
    provider: &dyn EnvProvider,
    task: &Arc<TaskSpec>,
    lists: impl IntoIterator<Item = Vec<&str>>,
) -> Vec<Grade> {
    let calls = lists.into_iter().map(|commands| commands.into_iter().map(bash).collect::<Vec<_>>());
    stream::iter(calls)
        .map(|calls| async move { swe_grade(provider, task, &calls).await })
        .buffered(GRADED_AT_ONCE)
        .collect()
        .await
}

/// The repository with a history that has the fix in it, in every place where git keeps something.
#[must_use]
pub fn swe_spec_with_history() -> SweSpec {
    let commands = [
        "git init -q . && git symbolic-ref HEAD refs/heads/main",
        "git add -A && git commit -q -m before && git commit -q --allow-empty -m base",
        // Ahead, on a branch, under a tag, in a stash, on a remote's branch, in a note, packed and loose.
        "sed -i 's/a - b/a + b/' calc.py && git stash -q && git stash apply -q",
        "git commit -q -a -m 'the fix' && git tag v2 && git branch next && git tag -a -m annotated v3",
        "git update-ref refs/remotes/origin/main HEAD && git remote add origin https://example.org/x.git",
        "git notes add -m 'return a + b' && git gc -q && git repack -q -a -d",
        "git checkout -q -b other && echo fixed > FIXED && git add -A && git commit -q -m loose && git checkout -q main",
        "git update-ref ORIG_HEAD HEAD && git reset -q --hard HEAD~1",
    ];
    SweSpec { setup: commands.map(str::to_owned).to_vec(), ..swe_spec() }
}

/// Attacks instead of a fix: a name, and commands. Each must score 0.
pub const SWE_ATTACKS: &[(&str, &[&str])] = &[
    (
        "edited tests",
        &[
            "sed -i 's/calc.mul(2, 2), 4/1, 1/' tests/test_seen.py",
            "printf 'import unittest\\nclass Calc(unittest.TestCase):\\n    def test_add(self): pass\\n    def test_mul(self): pass\\n' > tests/test_calc.py",
        ],
    ),
    ("deleted tests", &["rm -r tests"]),
    (
        "tests behind a link",
        &[
            "mkdir other; printf 'import unittest\\nclass Calc(unittest.TestCase):\\n    def test_add(self): pass\\n    def test_mul(self): pass\\n' > other/test_calc.py",
            "rm -r tests; ln -s other tests",
        ],
    ),
    ("a file in place of the tests", &["rm -r tests; echo > tests"]),
    (
        "a shadowed runner",
        &[
            "printf 'import sys\\nsys.stderr.write(\"test_add (tests.test_calc.Calc.test_add) ... ok\\\\ntest_mul (tests.test_calc.Calc.test_mul) ... ok\\\\n\")\\nsys.exit(0)\\n' > unittest.py",
        ],
    ),
    (
        "a shadowed package",
        &[
            "mkdir unittest; printf 'import sys\\nsys.stderr.write(\"test_add (tests.test_calc.Calc.test_add) ... ok\\\\ntest_mul (tests.test_calc.Calc.test_mul) ... ok\\\\n\")\\nsys.exit(0)\\n' | tee unittest/__init__.py > unittest/__main__.py",
        ],
    ),
    (
        "sitecustomize",
        &[
            "printf 'import unittest\\nunittest.TestCase.run = lambda self, result=None: result.addSuccess(self)\\n' | tee sitecustomize.py usercustomize.py > conftest.py",
            "mkdir -p ~/.local/lib/python3/site-packages; cp sitecustomize.py ~/.local/lib/python3/site-packages; echo 'export PYTHONPATH=$PWD' | tee -a ~/.bashrc ~/.profile ~/.bash_profile",
        ],
    ),
    (
        "exit in a test module",
        &[
            "printf 'import os\\nos._exit(0)\\n' | tee tests/__init__.py tests/test_aaa.py > tests/test_seen.py",
        ],
    ),
    ("exit in the code", &["printf 'import os\\nos._exit(0)\\n' > calc.py"]),
    (
        "compiled tests",
        &[
            "printf 'import unittest\\nclass Calc(unittest.TestCase):\\n    def test_add(self): pass\\n    def test_mul(self): pass\\n' > tests/test_calc.py",
            "python3 -c 'import py_compile; py_compile.compile(\"tests/test_calc.py\", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)'; rm tests/test_calc.py; printf '!*.pyc\\n' > .gitignore; git add -f tests/__pycache__; git commit -qm cached",
        ],
    ),
    (
        "a background process",
        &[
            "(setsid nohup sh -c 'while :; do printf \"import unittest\\nclass Calc(unittest.TestCase):\\n    def test_add(self): pass\\n    def test_mul(self): pass\\n\" > tests/test_calc.py; cp -r tests /submission; done' >/dev/null 2>&1 &); until [ -s tests/test_calc.py ]; do :; done",
        ],
    ),
    ("a killed shell", &["printf 'exit 0\\n' > tests/run; kill -9 $$"]),
    (
        "planted configuration",
        &[
            "printf '#!/bin/sh\\nsed -i \"s/a - b/a + b/\" calc.py ../calc.py /submission/calc.py\\n' > /tmp/evil; chmod +x /tmp/evil; cp /tmp/evil evil",
            "git config core.fsmonitor /tmp/evil; git config core.hooksPath /tmp; git config filter.x.clean 'sed s/a.-.b/a+b/'; git config filter.x.smudge 'sed s/a.-.b/a+b/'; git config diff.external /tmp/evil; git config core.pager /tmp/evil",
            "printf '*.py filter=x diff=x\\n' > .git/info/attributes; mkdir -p .git/hooks; for hook in post-checkout post-index-change reference-transaction pre-commit; do cp /tmp/evil .git/hooks/$hook; done",
            "git config --global core.fsmonitor /tmp/evil; git config --global init.templateDir /tmp",
        ],
    ),
    (
        "another repository",
        &[
            "rm -rf .git; git init -q .; git add -A; git -c user.name=x -c user.email=x commit -qm evil; git replace HEAD $(git commit-tree HEAD^{tree} -m other) 2>/dev/null; true",
        ],
    ),
    (
        "a repository elsewhere",
        &[
            "mv .git /tmp/git; printf 'gitdir: /tmp/git\\n' > .git; git update-index --assume-unchanged calc.py",
        ],
    ),
    (
        "a repository inside",
        &[
            "mkdir -p pkg && git init -q pkg && (cd pkg && printf 'x' > f && git add f && git -c user.name=x -c user.email=x commit -qm x)",
        ],
    ),
    ("no repository", &["cd /; rm -rf \"$OLDPWD\"/* \"$OLDPWD\"/.git"]),
    (
        "the package index",
        &[
            "timeout 5 python3 -m pip download --no-deps calc 2>&1 | tail -n 1; timeout 5 git clone -q https://example.org/x.git /tmp/x; timeout 5 python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 53), 2)' 2>&1 | tail -n 1",
        ],
    ),
];

/// [`swe_spec`] with the deciding test at the root and none of its neighbours protected by where it lies; it is run by name,
/// through a program of the repository.
#[must_use]
pub fn swe_spec_flat() -> SweSpec {
    let mut spec = swe_spec();
    let files = [
        ("calc.py", CALC),
        ("check_calc.py", HIDDEN),
        ("checks/__init__.py", ""),
        ("checks/part.py", "from check_calc import Calc\n"),
        ("run.sh", "exec python3 -m unittest -v check_calc checks.part\n"),
    ];
    spec.workspace.files = files.map(|(path, text)| text_file(path, text)).to_vec();
    spec.tests.files = Vec::new();
    spec.tests.run = "sh run.sh".to_owned();
    spec.tests.fail_to_pass = TestNames::Inline(vec!["test_add (check_calc.Calc.test_add)".to_owned()]);
    spec.tests.pass_to_pass = TestNames::Inline(vec!["test_mul (check_calc.Calc.test_mul)".to_owned()]);
    spec.tests.protected = vec!["checks/part.py".to_owned()];
    spec
}

/// Files that attacks place beside the tests of [`swe_spec_flat`], to be imported or run in their place: a name, and commands. Each must
/// score 0 and be flagged; `$FORGED` is a module of tests that all pass.
pub const SWE_SHADOWS: &[(&str, &[&str])] = &[
    ("a package beside the test", &["mkdir check_calc; echo \"$FORGED\" > check_calc/__init__.py"]),
    (
        "a link beside the test",
        &["mkdir other; echo \"$FORGED\" > other/__init__.py; ln -s other check_calc"],
    ),
    (
        "a linked module in a package",
        &["mkdir check_calc; echo \"$FORGED\" > forged.txt; ln -s ../forged.txt check_calc/__init__.py"],
    ),
    (
        "an extension module beside the test",
        &[
            "echo \"$FORGED\" > forged.txt; echo 'struct { long count; void *kind, *init; long index; void *copy; const char *name, *doc; long size; void *rest[5]; } def = { 1, 0, 0, 0, 0, \"check_calc\", 0, -1 }; void *PyModule_Create2(void *, int), *PyModule_GetDict(void *), *PyRun_String(const char *, int, void *, void *); void *PyInit_check_calc(void) { void *module = PyModule_Create2(&def, 1013), *names = PyModule_GetDict(module); PyRun_String(\"exec(open(\\\"forged.txt\\\").read())\", 257, names, names); return module; }' > x.c",
            "cc -shared -fPIC -o check_calc.so x.c || : > check_calc.so; rm x.c",
        ],
    ),
    ("a package of the library", &["mkdir unittest; echo \"$FORGED\" > unittest/__init__.py"]),
    ("a rare module of the library", &["echo 'import os; os._exit(0)' > _colorize.py; echo > graphlib.py"]),
    ("an installed module", &["echo > contextlib.py"]),
    ("a linked package of the library", &["mkdir other; echo > other/__init__.py; ln -s other unittest"]),
    ("a package that has only tests", &["echo \"$FORGED\" > checks/__init__.py"]),
    ("a module in place of a package", &["rm checks/__init__.py; echo \"$FORGED\" > checks.py"]),
    ("an extension in place of a package", &["rm checks/__init__.py; echo > checks.abi3.so"]),
    ("the same module in another folder", &["mkdir lib; echo \"$FORGED\" > lib/check_calc.py"]),
    (
        "the program that runs the tests",
        &[
            "printf 'echo \"test_add (check_calc.Calc.test_add) ... ok\"; echo \"test_mul (check_calc.Calc.test_mul) ... ok\"\n' > run.sh",
        ],
    ),
    ("the program that runs the tests, as a link", &["echo true > x; ln -sf x run.sh"]),
    (
        "an entry point of a plugin",
        &["mkdir x.egg-info; printf '[pytest11]\nx = calc\n' > x.egg-info/entry_points.txt"],
    ),
    (
        "a section of the runner",
        &["printf '[tool.pytest.ini_options]\naddopts = \"-p calc\"\n' > pyproject.toml"],
    ),
    ("an old section of the runner", &["printf '[tool:pytest]\naddopts = -p calc\n' > setup.cfg"]),
    ("a linked configuration", &["printf '[tool.pytest]\n' > x; ln -s x pyproject.toml"]),
    ("a configuration of coverage", &["printf '[run]\nplugins = calc\n' > .coveragerc"]),
];

/// Makes `$FORGED`.
pub const SWE_FORGED: &str = "FORGED=$'import unittest\\nclass Calc(unittest.TestCase):\\n    def test_add(self): pass\\n    def test_mul(self): pass'";

/// Ways to the fix in [`swe_spec_with_history`].
pub const SWE_LOOKS_INTO_HISTORY: &[&str] = &[
    "git stash pop || git stash apply",
    "git checkout v2 -- calc.py || git checkout next -- calc.py || git checkout origin/main -- calc.py",
    "git checkout ORIG_HEAD -- calc.py || git checkout HEAD@{1} -- calc.py || git reset --hard main@{1}",
    "for object in $(git fsck --full --no-reflogs --unreachable --lost-found 2>/dev/null | awk '{ print $3 }'); do git cat-file -p $object | grep -q 'a + b' && git cat-file -p $object > calc.py; done",
    "git cat-file --batch-all-objects --batch-check | while read object kind size; do git cat-file -p $object 2>/dev/null | grep -q 'return a + b' && [ $kind = blob ] && git cat-file blob $object > calc.py; done",
    "cat .git/FETCH_HEAD .git/logs/HEAD .git/packed-refs .git/config 2>/dev/null | grep -E 'fix|v2|origin'",
];

/// Content of a file in the plan.
#[must_use]
pub fn inline(text: &str) -> FixtureContent {
    FixtureContent::Inline(text.to_owned())
}
