//! Submissions: trees and diffs of every kind, and invalid ones.

use clawrl_core::{Grade, SweSpec, ToolCall};
use clawrl_testkit::{SWE_FIX, bash, inline, swe_grade, swe_spec, swe_task};
use serde_json::json;

use crate::support::with_provider;

const PATCH: &str = "--- a/calc.py\n+++ b/calc.py\n@@ -1,5 +1,5 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n \n \n def mul(a, b):\n";

/// Plays commands on the spec and grades.
fn graded(spec: SweSpec, commands: &'static [&'static str], check: impl FnOnce(Grade)) {
    with_provider(|provider| async move {
        let calls: Vec<_> = commands.iter().map(|command| bash(command)).collect();
        check(swe_grade(provider.as_ref(), &swe_task(spec), &calls).await);
    });
}

fn handed_in(patch: &str, check: impl FnOnce(Grade)) {
    with_provider(|provider| async move {
        let submit = ToolCall::new("submit", json!({ "patch": patch }));
        check(swe_grade(provider.as_ref(), &swe_task(swe_spec()), &[submit]).await);
    });
}

fn flagged(flag: &'static str, message: &'static str) -> impl FnOnce(Grade) {
    move |grade| {
        assert_eq!((grade.score, grade.flags.as_slice()), (0.0, [flag.to_owned()].as_slice()), "{grade:?}");
        assert!(grade.checks[0].message.contains(message), "{grade:?}");
    }
}

#[test]
fn u3_a_diff_counts_as_a_tree_does() {
    handed_in(PATCH, |grade| {
        assert!(grade.passed && grade.flags.is_empty(), "{grade:?}");
        assert!(grade.patch.unwrap().contains("+    return a + b\n"));
    });
    let tampering = format!("{PATCH}--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+x = 1\n");
    handed_in(&tampering, |grade| {
        assert_eq!(
            (grade.passed, grade.flags.as_slice()),
            (true, ["tampered".to_owned()].as_slice()),
            "{grade:?}"
        );
        assert!(!grade.patch.unwrap().contains("conftest"));
    });
}

#[test]
fn a_diff_that_does_not_apply_scores_nothing() {
    handed_in("no diff", flagged("patch-rejected", "does not apply"));
    handed_in("", flagged("patch-rejected", "is empty"));
    handed_in(&PATCH.replace("a - b", "a * b"), flagged("patch-rejected", "does not apply"));
    handed_in("--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", flagged("patch-rejected", "does not apply"));
    handed_in(
        "--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n",
        flagged("patch-rejected", "does not apply"),
    );
    handed_in(&"x".repeat((8 << 20) + 1), flagged("too-large", "at most"));
}

#[test]
fn u2_trees_of_every_kind_are_adopted() {
    let commands: &[&str] = &[
        SWE_FIX,
        "printf '\\000\\001\\377' > data.bin; printf 'caf\\351\\n' > latin1.txt; printf 'crlf\\r\\n' > dos.txt",
        "mkdir -p a/b; echo deep > 'a/b/two words'; ln -s a/b link; printf x > $'na\\xefve'; chmod +x calc.py",
        "git mv README.md READ.ME; git commit -qam 'a commit of mine'; echo '*.log' > .gitignore; touch x.log",
        "head -c 300000 /dev/urandom > random.bin",
    ];
    let mut spec = swe_spec();
    spec.tests.run = "set -e
cmp data.bin <(printf '\\000\\001\\377'); cmp latin1.txt <(printf 'caf\\351\\n'); cmp dos.txt <(printf 'crlf\\r\\n')
[ \"$(cat 'a/b/two words')\" = deep ]; [ \"$(readlink link)\" = a/b ]; [ -f $'na\\xefve' ]; [ -x calc.py ]; [ -f READ.ME ]
[ ! -e README.md ]; [ ! -e x.log ]; [ ! -e /submission/calc.py ]; [ $(stat -c %s random.bin) = 300000 ]
python3 -m unittest -v tests.test_calc".to_owned();
    graded(spec, commands, |grade| {
        assert!(grade.passed && grade.flags.is_empty(), "{grade:?}");
        let patch = grade.patch.unwrap();
        assert!(patch.contains("GIT binary patch") && patch.contains("new mode 100755"), "{patch}");
    });
}

#[test]
fn a_huge_submission_scores_nothing() {
    graded(
        swe_spec(),
        &[SWE_FIX, "head -c 8000000 /dev/urandom > big.bin"],
        flagged("too-large", "diff of more than"),
    );
    let mut small = swe_spec();
    small.workspace.limits.disk_mib = 8;
    graded(small, &[SWE_FIX, "head -c 4500000 /dev/urandom > big.bin"], flagged("too-large", "no room"));
}

#[test]
fn patches_of_a_task_are_applied() {
    let mut spec = swe_spec();
    spec.apply = vec![inline(
        "--- a/calc.py\n+++ b/calc.py\n@@ -3,4 +3,4 @@\n \n \n def mul(a, b):\n-    return a * b\n+    return a ** b\n",
    )];
    spec.tests.patch =
        Some(inline("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-A calculator.\n+Tested.\n"));
    spec.tests.run = "grep -q Tested README.md && python3 -m unittest -v tests.test_calc".to_owned();
    let commands: &[&str] =
        &[SWE_FIX, "git log --format=%s; sed -i 's/a \\*\\* b/a * b/' calc.py; echo mine > README.md"];
    graded(spec.clone(), commands, |grade| {
        assert!(grade.passed, "{grade:?}");
        assert_eq!(grade.flags, ["tampered"]);
        assert!(!grade.patch.unwrap().contains("mine"));
    });
    graded(spec, &[SWE_FIX], |grade| assert!(!grade.passed, "{grade:?}"));
}

#[test]
fn a_task_that_cannot_be_graded_is_a_fault() {
    with_provider(|provider| async move {
        use clawrl_testkit::{lease_request, ready, step_ctx};
        let mut spec = swe_spec();
        spec.apply = vec![inline("nonsense")];
        let mut env =
            clawrl_core::EnvProvider::lease(provider.as_ref(), lease_request(&swe_task(spec))).await.unwrap();
        let fault = env.reset(step_ctx(0)).await.unwrap_err();
        assert_eq!(
            (fault.code.as_str(), fault.retry),
            ("repository", clawrl_core::Retry::Never),
            "{fault:?}"
        );
        let mut spec = swe_spec();
        spec.tests.patch = Some(inline("--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-x\n+y\n"));
        let mut env = ready(provider.as_ref(), &swe_task(spec)).await;
        let fault = env.grade(step_ctx(1)).await.unwrap_err();
        assert_eq!(fault.boundary, clawrl_core::Boundary::Grader, "{fault:?}");
        let mut spec = swe_spec();
        spec.setup = vec!["echo why >&2; exit 3".to_owned()];
        let mut env =
            clawrl_core::EnvProvider::lease(provider.as_ref(), lease_request(&swe_task(spec))).await.unwrap();
        let fault = env.reset(step_ctx(0)).await.unwrap_err();
        assert_eq!(fault.message, "setup command `echo why >&2; exit 3` ended with 3; output: why");
    });
}

/// The agent's files are tested byte by byte, whatever git's attributes and settings say.
#[test]
fn git_settings_do_not_affect_submission() {
    let mut spec = swe_spec();
    spec.workspace.files.push(clawrl_testkit::text_file(".gitattributes", "* text=auto\n*.sh eol=crlf\n"));
    spec.workspace.files.push(clawrl_testkit::text_file(".gitignore", "*.mo\n"));
    spec.workspace.files.push(clawrl_testkit::text_file("made.mo", "old\n"));
    spec.tests.run = "set -e
cmp data.csv <(printf 'a\\r\\nb\\r\\n'); cmp run.sh <(printf 'x\\n'); [ -x run.sh ]; cmp made.mo <(printf 'new\\n')
[ -f readme.md ]; [ ! -e README.md ]
python3 -m unittest -v tests.test_calc"
        .to_owned();
    let commands: &[&str] = &[
        SWE_FIX,
        "printf 'a\\r\\nb\\r\\n' > data.csv; printf 'x\\n' > run.sh; chmod +x run.sh; echo new > made.mo",
        "git config core.ignoreCase true; git config core.fileMode false; mv README.md readme.md",
        "printf '*.py working-tree-encoding=UTF-16 ident eol=crlf\\n' >> .gitattributes",
    ];
    graded(spec, commands, |grade| assert!(grade.passed && grade.flags.is_empty(), "{grade:?}"));
}

/// The machine causes none of this, so none is a fault.
#[test]
fn obstacles_left_by_agent_are_not_faults() {
    let mut spec = swe_spec();
    spec.tests.files.push(clawrl_testkit::text_file("checks/data.json", "{}\n"));
    let passing: [&'static [&'static str]; 4] = [
        &[SWE_FIX, "mkdir -p checks/data.json; echo 1 > checks/data.json/x"],
        &[SWE_FIX, "echo 1 > checks"],
        &[SWE_FIX, "mkdir -p locked/in; echo x > locked/in/x; chmod 000 locked/in; chmod 555 locked"],
        &[
            SWE_FIX,
            "mkdir many; cd many; seq -f 'a-rather-long-name-of-a-file-that-nobody-needs-%06.0f' 1 4000 | xargs touch",
        ],
    ];
    for commands in passing {
        graded(spec.clone(), commands, |grade| assert!(grade.passed, "{commands:?}: {grade:?}"));
    }
    let large: [&'static [&'static str]; 2] =
        [&[SWE_FIX, "truncate -s 400M sparse"], &[SWE_FIX, "head -c 12M /dev/zero > zeros"]];
    for commands in large {
        graded(spec.clone(), commands, flagged("too-large", "changes a file of more than"));
    }
}

/// A package that is there may grow, also where its name is one of a runner's.
#[test]
fn existing_package_is_not_a_shadow() {
    let mut spec = swe_spec();
    spec.workspace.files.push(clawrl_testkit::text_file("src/attr/__init__.py", ""));
    graded(
        spec,
        &[SWE_FIX, "echo x = 1 > src/attr/_new.py; mkdir email; echo hi > email/template.txt"],
        |grade| {
            assert!(grade.passed && grade.flags.is_empty(), "{grade:?}");
            assert_eq!(grade.checks[0].message, "1 of 1 to fix, 1 of 1 to keep; 3 files changed");
        },
    );
}

/// The name before is as much the task's as the name after.
#[test]
fn a_patch_of_tests_that_renames_protects_both_names() {
    let mut spec = swe_spec();
    spec.tests.patch = Some(inline(
        "diff --git a/README.md b/MOVED.md\nsimilarity index 100%\nrename from README.md\nrename to MOVED.md\n",
    ));
    graded(spec, &[SWE_FIX, "echo mine > README.md"], |grade| {
        assert_eq!(
            (grade.passed, grade.flags.as_slice()),
            (true, ["tampered".to_owned()].as_slice()),
            "{grade:?}"
        );
    });
}
