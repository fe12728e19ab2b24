//! S1 to S3: attempts to cheat instead of fixing the code score nothing.

use clawrl_testkit::{
    SWE_ATTACKS, SWE_FIX, SWE_FORGED, SWE_LOOKS_INTO_HISTORY, SWE_SHADOWS, bash, swe_grade, swe_spec,
    swe_spec_flat, swe_spec_with_history, swe_task,
};

use crate::support::with_provider;

/// Attacks that touch nothing that the task protects, or leave no trace of it.
const NO_TRACE: &[&str] = &[
    "exit in the code",
    "compiled tests",
    "a killed shell",
    "planted configuration",
    "another repository",
    "a repository elsewhere",
    "a repository inside",
    "the package index",
];

#[test]
fn listed_attacks_score_nothing() {
    with_provider(|provider| async move {
        let task = swe_task(swe_spec());
        for (name, commands) in SWE_ATTACKS {
            let calls: Vec<_> = commands.iter().map(|command| bash(command)).collect();
            let grade = swe_grade(provider.as_ref(), &task, &calls).await;
            assert_eq!((grade.score, grade.passed), (0.0, false), "{name}: {grade:?}");
            let tampered = grade.flags.iter().any(|flag| flag == "tampered");
            assert_eq!(tampered, !NO_TRACE.contains(name), "{name}: {grade:?}");
        }
    });
}

#[test]
fn shadowing_files_score_zero_with_flag() {
    with_provider(|provider| async move {
        let task = swe_task(swe_spec_flat());
        for (name, commands) in SWE_SHADOWS {
            let calls: Vec<_> = [SWE_FORGED].iter().chain(*commands).map(|command| bash(command)).collect();
            let grade = swe_grade(provider.as_ref(), &task, &calls).await;
            assert_eq!((grade.score, grade.passed), (0.0, false), "{name}: {grade:?}");
            assert!(grade.flags.iter().any(|flag| flag == "tampered"), "{name}: {grade:?}");
            let calls: Vec<_> =
                [SWE_FIX, SWE_FORGED].iter().chain(*commands).map(|command| bash(command)).collect();
            let grade = swe_grade(provider.as_ref(), &task, &calls).await;
            assert!(grade.passed, "{name}, beside the fix: {grade:?}");
        }
    });
}

/// Additions of an honest fix are not an attack.
#[test]
fn new_modules_and_sections_beside_tests_count() {
    with_provider(|provider| async move {
        let task = swe_task(swe_spec_flat());
        let honest = [
            "mkdir impl; printf 'def add(a, b):\\n    return a + b\\n' > impl/__init__.py",
            "printf 'from impl import add\\ndef mul(a, b):\\n    return a * b\\n' > calc.py",
            "printf '[project]\\nname = \"calc\"\\n' > pyproject.toml; printf '[metadata]\\nname = calc\\n' > setup.cfg",
            "mkdir check_data; echo 1 > check_data/one.txt; ln -s check_data data",
        ];
        let grade = swe_grade(provider.as_ref(), &task, &honest.map(bash)).await;
        assert!(grade.passed && grade.flags.is_empty(), "{grade:?}");
    });
}

/// The same attacks beside the fix: it counts, and they do not undo it.
#[test]
fn a_fix_beside_an_attack_counts_and_is_flagged() {
    with_provider(|provider| async move {
        let task = swe_task(swe_spec());
        for (name, commands) in SWE_ATTACKS {
            if ["exit in the code", "no repository"].contains(name) {
                continue;
            }
            let calls: Vec<_> = [SWE_FIX].iter().chain(*commands).map(|command| bash(command)).collect();
            let grade = swe_grade(provider.as_ref(), &task, &calls).await;
            assert_eq!(grade.score, 1.0, "{name}: {grade:?}");
        }
    });
}

#[test]
fn s1_the_fix_is_nowhere_in_the_history() {
    with_provider(|provider| async move {
        let task = swe_task(swe_spec_with_history());
        for command in SWE_LOOKS_INTO_HISTORY {
            let grade = swe_grade(provider.as_ref(), &task, &[bash(command)]).await;
            assert_eq!(grade.score, 0.0, "{command}: {grade:?}");
            assert_eq!(grade.patch.as_deref(), Some(""), "{command}: {grade:?}");
        }
        let grade = swe_grade(provider.as_ref(), &task, &[bash(SWE_FIX)]).await;
        assert_eq!(grade.score, 1.0, "{grade:?}");
    });
}

/// Histories that git itself keeps longer than it has to, or keeps elsewhere.
#[test]
fn s1_no_later_history_is_left() {
    let before =
        "git init -q . && git symbolic-ref HEAD refs/heads/main && git add -A && git commit -q -m base";
    let fix = "sed -i 's/a - b/a + b/' calc.py";
    let cases: &[(&str, String)] = &[
        ("a kept pack", format!("{fix}; git commit -qam fix; git repack -q -a -d; touch $(ls .git/objects/pack/*.pack | sed s/pack$/keep/); git reset -q --hard HEAD~1")),
        ("a promised pack", format!("{fix}; git commit -qam fix; git repack -q -a -d; touch $(ls .git/objects/pack/*.pack | sed s/pack$/promisor/); git reset -q --hard HEAD~1; git config extensions.partialClone origin; git config remote.origin.promisor true; git config remote.origin.url /nowhere")),
        ("a staged fix", format!("{fix}; git add -A; sed -i 's/a + b/a - b/' calc.py")),
        ("words of git", format!("{fix}; git commit -qam 'a + b'; git reset -q --hard HEAD~1; git config branch.main.description 'a + b'; mkdir -p .git/lost-found/other .git/rr-cache; echo 'a + b' | tee .git/lost-found/other/x .git/rr-cache/x .git/MERGE_MSG > .git/COMMIT_EDITMSG")),
        ("a repository inside", format!("mkdir vendored && cp calc.py vendored && cd vendored && git init -q . && {fix} && git add -A && git commit -qm 'a + b' && sed -i 's/a + b/a - b/' calc.py && git commit -qam worse")),
        ("a symbolic reference", "git update-ref refs/remotes/origin/main HEAD; git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main".to_owned()),
    ];
    with_provider(|provider| async move {
        for (name, setup) in cases {
            let mut spec = swe_spec();
            spec.setup = vec![before.to_owned(), setup.clone()];
            let look = "find . -name .git -prune -exec sh -c 'for git; do grep -rl \"a + b\" $git; \
                        git --git-dir=$git cat-file --batch-all-objects --batch-check | while read object kind size; do \
                        git --git-dir=$git cat-file $kind $object | grep -q \"a + b\" && echo $object; done; done' sh {} +; \
                        git status --short; git log --all --format=%s";
            let task = swe_task(spec);
            let mut env = clawrl_testkit::ready(provider.as_ref(), &task).await;
            let seen = env.step(&[bash(look)], clawrl_testkit::step_ctx(1)).await.unwrap();
            let seen = seen.observation.joined_text();
            let expected = if *name == "a repository inside" {
                "?? vendored/\nbase\n[exit 0]"
            } else {
                "base\n[exit 0]"
            };
            assert_eq!(seen, expected, "{name}");
            assert!(env.close().await.leftovers.is_empty());
            let grade = swe_grade(provider.as_ref(), &task, &[bash(SWE_FIX)]).await;
            assert!(grade.passed, "{name}: {grade:?}");
        }
    });
}
