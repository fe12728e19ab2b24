//! Software engineering tasks in containers of the base image, which the engine is given.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clawrl_container::ContainerBackend;
use clawrl_core::{
    Determinism, EnvProvider, ImageSource, ImageSpec, LogParser, Retry, SandboxKind, SweSpec, TaskSpec,
    TestNames,
};
use clawrl_sandbox::{SandboxBackend, WarmMarks};
use clawrl_swe::{SweConfig, SweProvider};
use clawrl_testkit::conformance::check_provider;
use clawrl_testkit::{
    SWE_ATTACKS, SWE_FIX, SWE_LOOKS_INTO_HISTORY, bash, ready, step_ctx, swe_case, swe_grade, swe_grades,
    swe_spec, swe_spec_with_history, swe_task, text_file,
};

use crate::engine::{all_containers, backend, backend_by, containers, with_engine};
use crate::tls::Tls;

/// Gives an engine the base image; its name there.
fn base_image(socket: &str) -> String {
    let import = Command::new("../../ci/image.sh").arg("import").env("DOCKER_HOST", socket).output().unwrap();
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    let name = String::from_utf8(import.stdout).unwrap().trim().to_owned();
    assert!(!name.is_empty(), "there is no base image: {}", String::from_utf8_lossy(&import.stderr));
    name
}

fn contained(mut spec: SweSpec, image: &str) -> SweSpec {
    let source = ImageSource::Name(image.to_owned());
    spec.workspace.sandbox = SandboxKind::Container;
    spec.workspace.image = Some(ImageSpec { source, workdir: None, user: None });
    spec
}

fn provider(backend: ContainerBackend) -> SweProvider {
    let backend: Arc<dyn SandboxBackend> = Arc::new(backend);
    SweProvider::new(SweConfig {
        backends: HashMap::from([(SandboxKind::Container, backend)]),
        marks: WarmMarks { low: 0, high: 0 },
        expected: Vec::new(),
        determinism: Determinism::default(),
        cast_bytes: 0,
    })
}

async fn attacks_score_nothing(provider: &SweProvider, task: &Arc<TaskSpec>) {
    let grades = swe_grades(provider, task, SWE_ATTACKS.iter().map(|(_, commands)| commands.to_vec())).await;
    for ((name, _), grade) in SWE_ATTACKS.iter().zip(grades) {
        assert_eq!((grade.score, grade.passed), (0.0, false), "{name}: {grade:?}");
    }
}

/// Runs `test` with a provider on an engine of its own that has the base image, and checks that nothing is left.
fn with_provider<F: Future<Output = ()>>(test: impl FnOnce(Arc<SweProvider>, String) -> F) {
    with_engine(|engine, client| async move {
        let socket = engine.socket();
        let image = base_image(&socket);
        let provider = Arc::new(provider(backend(&socket, client, "repositories").await));
        test(Arc::clone(&provider), image).await;
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
        assert_eq!(provider.usage().live, 0);
        assert_eq!(containers(&socket).await, 0);
    });
}

mod slow {
    use super::*;

    #[test]
    fn remote_repository_scores_only_real_fix() {
        with_engine(|engine, client| async move {
            let socket = engine.socket();
            let image = base_image(&socket);
            let tls = Tls::before(&socket).await;
            let provider = Arc::new(provider(backend_by(&tls.access(), client, "elsewhere", None).await));
            let task = swe_task(contained(swe_spec_with_history(), &image));
            let grade = swe_grade(provider.as_ref(), &task, &[bash(SWE_FIX)]).await;
            assert!(grade.passed, "{grade:?}");
            let grade = swe_grade(provider.as_ref(), &task, &[]).await;
            assert_eq!((grade.score, grade.patch.as_deref()), (0.0, Some("")), "{grade:?}");
            attacks_score_nothing(provider.as_ref(), &task).await;
            assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
            assert_eq!(provider.usage().live, 0);
            assert!(all_containers(&socket).await.is_empty());
        });
    }

    #[test]
    fn listed_attacks_in_containers_score_nothing() {
        with_provider(|provider, image| async move {
            let task = swe_task(contained(swe_spec(), &image));
            attacks_score_nothing(provider.as_ref(), &task).await;
            let task = swe_task(contained(swe_spec_with_history(), &image));
            let looks = SWE_LOOKS_INTO_HISTORY.iter().map(|command| vec![*command]);
            let grades = swe_grades(provider.as_ref(), &task, looks).await;
            for (command, grade) in SWE_LOOKS_INTO_HISTORY.iter().zip(grades) {
                assert_eq!((grade.score, grade.patch.as_deref()), (0.0, Some("")), "{command}: {grade:?}");
            }
            let grade = swe_grade(provider.as_ref(), &task, &[bash(SWE_FIX)]).await;
            assert!(grade.passed, "{grade:?}");
        });
    }

    #[test]
    fn repositories_in_containers_conform() {
        with_engine(|engine, client| async move {
            let socket = engine.socket();
            let image = base_image(&socket);
            let mut backends = Vec::new();
            for number in 0..13 {
                backends.push(backend(&socket, client.clone(), &format!("conform-{number}")).await);
            }
            let backends = Mutex::new(backends);
            let provider =
                move || Arc::new(provider(backends.lock().unwrap().pop().unwrap())) as Arc<dyn EnvProvider>;
            let case = swe_case(provider, contained(swe_spec(), &image), Duration::from_secs(30));
            check_provider(case).await.assert_conforms();
            assert_eq!(containers(&socket).await, 0);
        });
    }

    /// Root inside may also change files outside the repository: programs, and the interpreter's own library.
    #[test]
    fn changes_outside_repository_do_not_count() {
        let attacks = [
            "printf '#!/bin/sh\\necho \"test_add (tests.test_calc.Calc.test_add) ... ok\" >&2\\n' | tee /usr/bin/python3 /usr/local/bin/python3 /usr/local/bin/git > /bin/bash2; chmod +x /usr/local/bin/*",
            "for folder in /usr/lib/python3*; do printf 'import unittest\\nunittest.TestCase.run = lambda self, result=None: result.addSuccess(self)\\n' > $folder/sitecustomize.py; done",
            "mkdir -p /etc/profile.d; echo 'exit 0' | tee /etc/profile.d/x.sh /etc/bash.bashrc ~/.bashrc; git config --system core.fsmonitor /bin/false",
            "rm -rf /usr/lib/git-core",
        ];
        with_provider(|provider, image| async move {
            let task = swe_task(contained(swe_spec(), &image));
            let alone = swe_grades(provider.as_ref(), &task, attacks.map(|attack| vec![attack])).await;
            let beside =
                swe_grades(provider.as_ref(), &task, attacks.map(|attack| vec![SWE_FIX, attack])).await;
            for (attack, (alone, beside)) in attacks.iter().zip(alone.into_iter().zip(beside)) {
                assert_eq!((alone.score, beside.score), (0.0, 1.0), "{attack}: {alone:?} {beside:?}");
            }
        });
    }

    /// The tests of pytest's users, which are not of this machine's programs.
    #[test]
    fn pytest_runs_with_the_tasks_configuration() {
        let attacks: [(&str, &[&str]); 4] = [
            (
                "conftest",
                &[
                    "printf 'import pytest\\n@pytest.hookimpl(hookwrapper=True)\\ndef pytest_runtest_makereport(item, call):\\n    outcome = yield\\n    report = outcome.get_result()\\n    report.outcome = \"passed\"\\n' | tee tests/conftest.py > conftest.py",
                ],
            ),
            (
                "pytest.ini",
                &[
                    "printf '[pytest]\\naddopts = -p cheat\\n' > pytest.ini; printf 'def pytest_runtest_makereport(item, call): pass\\n' > cheat.py",
                ],
            ),
            (
                "forged lines",
                &[
                    "printf 'print(\"PASSED tests/test_calc.py::test_add\")\\ndef add(a, b): return 0\\ndef mul(a, b): return a * b\\n' > calc.py",
                ],
            ),
            ("exit", &["printf 'import pytest\\npytest.exit(\"done\", returncode=0)\\n' >> calc.py"]),
        ];
        with_provider(|provider, image| async move {
            let mut spec = contained(swe_spec(), &image);
            spec.tests.run = "python3 -m pytest -rA tests".to_owned();
            spec.tests.parser = LogParser::Pytest;
            spec.tests.files = vec![text_file(
                "tests/test_calc.py",
                "import calc\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n\ndef test_mul():\n    assert calc.mul(2, 3) == 6\n",
            )];
            spec.tests.fail_to_pass = TestNames::Inline(vec!["tests/test_calc.py::test_add".to_owned()]);
            spec.tests.pass_to_pass = TestNames::Inline(vec!["tests/test_calc.py::test_mul".to_owned()]);
            let task = swe_task(spec);
            for (name, commands) in attacks {
                let calls: Vec<_> = commands.iter().map(|command| bash(command)).collect();
                let grade = swe_grade(provider.as_ref(), &task, &calls).await;
                assert_eq!(grade.score, 0.0, "{name}: {grade:?}");
            }
            let grade = swe_grade(provider.as_ref(), &task, &[bash(SWE_FIX)]).await;
            assert!(grade.passed, "{grade:?}");
        });
    }

    #[test]
    fn lost_engine_is_fault_not_score() {
        with_engine(|mut engine, client| async move {
            let socket = engine.socket();
            let image = base_image(&socket);
            let provider = provider(backend(&socket, client, "gone").await);
            let task = swe_task(contained(swe_spec(), &image));
            let mut first = ready(&provider, &task).await;
            first.step(&[bash(SWE_FIX)], step_ctx(1)).await.unwrap();
            engine.restart().await;
            let fault = first.grade(step_ctx(2)).await.unwrap_err();
            assert_eq!((fault.code.as_str(), fault.retry), ("container-lost", Retry::Sound), "{fault:?}");
            assert!(first.close().await.leftovers.is_empty());
            let grade = swe_grade(&provider, &task, &[bash(SWE_FIX)]).await;
            assert!(grade.passed, "{grade:?}");
            assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
        });
    }
}
