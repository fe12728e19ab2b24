//! Plans of train files, and the errors of broken ones. One snapshot for each file in `train/broken/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clawrl_config::{
    Advantage, ConfigError, CurriculumPlan, GatePlan, HeldOutGatePlan, Importance, LengthPlan, OverlongPlan,
    PolicySource, Schedule, Surrogate, TrainPlan, TrainRun, TrainTasks, load_train,
};
use clawrl_core::{PolicySpec, RunId, RunPlan, Split};
use proptest::prelude::*;

use crate::diagnostics::{damaged, rendered};
use crate::plans::host;

const BROKEN: &str = "tests/it/train/broken";

const PRESETS: &str = "../../policies/presets";

fn broken_files() -> Vec<PathBuf> {
    train_files(BROKEN)
}

fn train_files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of train files");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("its entries").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

fn failure(path: &Path) -> ConfigError {
    match load_train(path) {
        Ok(_) => panic!("{} should be refused", path.display()),
        Err(error) => error,
    }
}

fn good(name: &str) -> TrainPlan {
    load_written(Path::new(&format!("tests/it/train/good/{name}.yaml")))
}

fn load_written(path: &Path) -> TrainPlan {
    match load_train(path) {
        Ok(plan) => plan,
        Err(error) => panic!("{}", rendered(&error)),
    }
}

/// A training on suites of `good/` with these lines behind the usual ones.
fn with(suites: &str, lines: &str) -> TrainPlan {
    let good = std::fs::canonicalize("tests/it/good").expect("the good suites");
    let suites = suites.replace("../../good", good.to_str().expect("a UTF-8 path"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("train.yaml");
    let text = format!("format: 1\ntrain: t\npolicy: {{ preset: tiny }}\nsuites: [{suites}]\n{lines}\n");
    std::fs::write(&path, text).expect("a file");
    load_written(&path)
}

fn tasks(train: &TrainPlan) -> TrainTasks {
    match TrainTasks::load(train) {
        Ok(tasks) => tasks,
        Err(error) => panic!("{}", rendered(&error)),
    }
}

fn run() -> TrainRun {
    TrainRun { run: RunId::new("t").expect("a good name"), host: host() }
}

/// Without the folder of this checkout.
fn portable(text: &str) -> String {
    let root = std::fs::canonicalize(".").expect("the folder of the crate");
    text.replace(root.to_str().expect("a UTF-8 path"), "ROOT")
}

/// With all that a training plans, for a small machine.
#[test]
fn every_preset_loads_and_is_planned() {
    let files = train_files(PRESETS);
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let train = load_written(&file);
        let name = file.file_stem().and_then(|stem| stem.to_str()).expect("a UTF-8 name");
        assert_eq!(train.name, name, "{name}");
        let (tasks, policy) = (tasks(&train), Path::new("/checkpoint"));
        assert_eq!(tasks.warnings().count(), 0, "{name}");
        let plans = [
            ("demonstrations", tasks.demonstration_plan(&run())),
            ("reinforcement learning", tasks.rl_plan(policy, &run())),
            ("evaluation", tasks.evaluation_plan(policy, &run())),
        ];
        for (part, plan) in plans {
            match plan {
                Ok(plan) => assert!(!plan.slots.is_empty(), "{name}: {part} has nothing to do"),
                Err(error) => panic!("{name}, {part}: {}", rendered(&error)),
            }
        }
    }
}

#[test]
fn rubrics_of_a_training_need_a_judge_and_get_it() {
    let suites = "{ path: ../../good/rubric, instances: 2 }";
    let judge = std::fs::canonicalize("tests/it/policy/good/minimal.yaml").expect("a good policy file");
    let judged = with(suites, &format!("judge: {}\nwarm_start: {{}}", judge.display()));
    assert_eq!(judged.judge.as_deref().map(|judge| judge.model.as_str()), Some("qwen3:4b"));
    let demonstrations = |train: &TrainPlan| tasks(train).demonstration_plan(&run());
    assert_eq!(
        demonstrations(&judged).expect("a plan").judge,
        judged.judge.map(|judge| Box::new(judge.judging()))
    );
    let error = demonstrations(&with(suites, "warm_start: {}")).expect_err("no judge");
    assert!(
        rendered(&error).contains("name the policy file of a model in the train file"),
        "{}",
        rendered(&error)
    );
}

/// A mistake in the judge's file is reported at its place in that file.
#[test]
fn a_judge_that_is_no_model_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("train.yaml");
    let good = std::fs::canonicalize("tests/it/good/minimal").expect("a good suite");
    let text = format!(
        "format: 1\ntrain: t\npolicy: {{ preset: tiny }}\nsuites: [{{ path: {} }}]\njudge: judge.yaml\nwarm_start: {{}}\n",
        good.display()
    );
    std::fs::write(&path, text).expect("a file");
    std::fs::write(folder.path().join("judge.yaml"), "format: 1\nmodel: m\nbase_url: here\n")
        .expect("a file");
    let error = failure(&path);
    let (file, line, _) = error.problems()[0].location().expect("a place");
    assert!(file.ends_with("judge.yaml") && line == 3, "{file}:{line}");
}

#[test]
fn every_snapshot_has_its_train_file() {
    for entry in std::fs::read_dir(BROKEN).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            assert!(path.with_extension("yaml").exists(), "{} is left over", path.display());
        }
    }
}

#[test]
fn every_broken_train_file_is_explained() {
    let files = broken_files();
    assert!(files.len() >= 55, "only {} broken train files", files.len());
    for path in files {
        let error = failure(&path);
        for problem in error.problems() {
            let (file, line, column) = problem.location().expect("a place in the file");
            assert_eq!(file, path.to_str().unwrap());
            assert!(line >= 1 && column >= 1);
            assert!(!problem.help_text().is_empty(), "{problem} has no help");
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = rendered(&error);
        assert!(!text.contains(env!("CARGO_MANIFEST_DIR")), "{name} shows an absolute path");
        insta::with_settings!({ snapshot_path => "train/broken", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, text);
        });
    }
}

#[test]
fn a_missing_train_file_is_named() {
    let text = |path: &str| rendered(&failure(Path::new(path)));
    insta::assert_snapshot!(text("tests/it/train/good/minimla.yaml"), @"
      × there is no train file at `tests/it/train/good/minimla.yaml`
      help: did you mean `tests/it/train/good/minimal.yaml`?
    ");
    insta::assert_snapshot!(text("tests/it/train/good"), @"
      × `tests/it/train/good` is not a file
      help: name a train file, such as train.yaml
    ");
}

/// Semantics lock: the defaults of a train file. Change them only on purpose.
#[test]
fn defaults_are_locked() {
    let plan = serde_json::to_string_pretty(&good("minimal")).unwrap();
    insta::assert_snapshot!("train_minimal", portable(&plan));
}

#[test]
fn every_key_arrives_in_the_plan() {
    let plan = serde_json::to_string_pretty(&good("everything")).unwrap();
    insta::assert_snapshot!("train_everything", portable(&plan));
}

#[test]
fn objectives_fill_in_what_is_left_out() {
    let loss = |name: &str| good(name).rl.expect("reinforcement learning").loss;
    let losses = [loss("gspo"), loss("cispo"), loss("sequence")];
    let binary = good("binary").rl.expect("reinforcement learning");
    let fitted = (binary.advantage, binary.group_size, binary.resample_budget, binary.loss.surrogate);
    assert_eq!(fitted, (Advantage::Running, 1, 1, Surrogate::Token));
    insta::assert_snapshot!("train_objectives", serde_json::to_string_pretty(&losses).expect("JSON"));
}

#[test]
fn objectives_bring_their_teachers() {
    let taught = |name: &str| {
        let plan = good(name);
        let rl = plan.rl.expect("reinforcement learning");
        let hinted =
            plan.warm_start.map(|warm_start| (warm_start.hinted_percent, warm_start.contradicted_percent));
        (name.to_owned(), rl.outcome_weight, hinted, rl.distillation)
    };
    let all = ["combined", "opd-top-k", "taught", "gspo", "remote-teacher"].map(taught);
    insta::assert_snapshot!("train_teachers", serde_json::to_string_pretty(&all).expect("JSON"));
}

#[test]
fn defaults_follow_from_what_is_written() {
    let suite = "{ path: ../../good/minimal }";
    let plan = with(suite, "reproducible: true\nrl: {}");
    let rl = plan.rl.as_ref().unwrap();
    assert_eq!((rl.schedule, rl.max_staleness), (Schedule::Synchronous, 0));
    assert!(plan.reproducible && plan.engine.batch_invariant);
    let check = |schedule: &str, expected: u32| {
        let plan = with(suite, &format!("rl: {{ schedule: {schedule} }}"));
        assert_eq!(plan.rl.unwrap().max_staleness, expected, "{schedule}");
    };
    check("synchronous", 0);
    check("one_step_off", 1);
    check("asynchronous", 4);
    let plan = with(suite, "rl: { sampling: { max_new_tokens: 9 }, loss: { importance: none } }");
    assert_eq!(plan.evaluation.max_new_tokens, 9);
    assert_eq!(plan.rl.unwrap().loss.importance, Importance::None);
    let plan = with(suite, "warm_start: { steps: 10 }\nevaluation: { min_tasks: 900 }");
    assert_eq!(plan.warm_start.unwrap().optimizer.warm_up_steps, 5);
    assert_eq!((plan.evaluation.max_tasks, plan.rl), (900, None));
    let plan = with(suite, "rl:\ncheckpoint: { keep_weights: 1 }");
    assert_eq!(plan.checkpoint.keep_moments, 1);
    assert!(matches!(plan.policy, PolicySource::Preset(_)));
}

#[test]
fn what_controls_a_learner_is_off_unless_asked_for() {
    let suite = "{ path: ../../good/minimal }";
    let rl = |inside: &str| with(suite, &format!("rl: {{ updates: 10, {inside} }}")).rl.unwrap();
    let plain = rl("");
    assert_eq!((plain.gate, plain.overlong, plain.loss.entropy), (None, OverlongPlan::Train, None));
    assert_eq!((plain.length, plain.curriculum), (None, None));
    let usual = GatePlan { max_kl: 0.1, failures: 3, held_out: None };
    assert_eq!(rl("gate: {}").gate, Some(usual));
    let held_out = Some(HeldOutGatePlan { every_updates: 10, max_drop_points: 5.0 });
    let gate = rl("gate: { held_out: {} }").gate.unwrap();
    assert_eq!(gate, GatePlan { held_out, ..usual });
    assert_eq!((0..=20).filter(|&update| gate.evaluates(update)).collect::<Vec<_>>(), [10, 20]);
    assert_eq!(rl("overlong: soft").overlong, OverlongPlan::Soft { soft_tokens: 9 });
    assert_eq!(rl("loss: { entropy: { coefficient: 1 } }").loss.entropy.unwrap().floor, 0.3);
    assert_eq!(rl("length: { coefficient: 1 }").length, Some(LengthPlan { coefficient: 1.0, target: 1.2 }));
    let chosen = rl("curriculum: {}");
    assert_eq!(chosen.curriculum, Some(CurriculumPlan { least: 0.1, memory: 64 }));
    // More groups, so that a family may occur more often than in round robin.
    assert_eq!(chosen.groups(), 2 * plain.groups());
}

/// A plan that was stored before these settings existed.
#[test]
fn plans_of_earlier_trainings_are_read() {
    let plan = with("{ path: ../../good/minimal, weight: 1 }", "rl: {}");
    let mut stored = serde_json::to_value(&plan).unwrap();
    assert_eq!(stored["suites"][0]["weight"], 1);
    let rl = stored["rl"].as_object_mut().unwrap();
    assert!(rl.remove("gate").is_some() && rl.remove("overlong").is_some());
    assert!(rl["loss"].as_object_mut().unwrap().remove("entropy").is_some());
    assert_eq!(serde_json::from_value::<TrainPlan>(stored).unwrap(), plan);
}

#[test]
fn evaluations_are_due_before_after_and_between() {
    let mut evaluation = good("minimal").evaluation;
    let due = |evaluation: clawrl_config::EvaluationPlan| {
        (0..=7).filter(|&update| evaluation.is_due(update, 7)).collect::<Vec<_>>()
    };
    evaluation.every_updates = 3;
    assert_eq!(due(evaluation), [0, 3, 6, 7]);
    evaluation.every_updates = 0;
    assert_eq!(due(evaluation), [0, 7]);
}

proptest! {
    /// The stored plan equals the plan, to the last bit.
    #[test]
    fn a_stored_plan_is_the_plan(learning_rate in 1e-12f64..1.0, fraction in 0.0f64..=1.0, seed in 0u64..1 << 53) {
        let mut plan = good("everything");
        plan.seed = seed;
        let rl = plan.rl.as_mut().unwrap();
        rl.optimizer.learning_rate = learning_rate;
        rl.optimizer.final_fraction = fraction;
        let stored = serde_json::to_value(&plan).unwrap();
        let text = serde_json::to_string_pretty(&stored).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::from_value::<TrainPlan>(read).unwrap(), plan);
    }
}

proptest! {
    /// Every file either loads or gives problems with places.
    #[test]
    fn damaged_train_files_are_explained(
        damage in proptest::collection::vec((any::<usize>(), 0..12usize, "[-a-z:{}\\[\\]\"'#|>&*!%@é\n\t 0-9]{0,4}"), 1..4),
    ) {
        let mut text = std::fs::read_to_string("tests/it/train/good/everything.yaml").expect("a train file");
        for (at, cut, insert) in damage {
            text = damaged(&text, at, cut, &insert);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("train.yaml");
        std::fs::write(&path, text).expect("a file");
        // The copy never loads, because the files that it names are missing.
        let error = failure(&path);
        for problem in error.problems() {
            prop_assert!(problem.location().is_some(), "{problem} has no place");
            prop_assert!(!problem.help_text().is_empty(), "{problem} has no help");
        }
    }
}

// The run plans.

const EVERYTHING: &str =
    "{ path: ../../good/everything, instances: 60, weight: 2 }, { path: ../../good/minimal }";

fn ids(plan: &RunPlan) -> Vec<&str> {
    plan.slots.iter().map(|slot| plan.task_of(slot).id.0.as_str()).collect()
}

fn families(plan: &RunPlan) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for slot in &plan.slots {
        let task = plan.task_of(slot);
        *counts.entry(format!("{}/{}", task.suite, task.family)).or_default() += 1;
    }
    counts
}

#[test]
fn groups_of_reinforcement_learning() {
    let train = with(
        EVERYTHING,
        "seed: 3\nrl: { updates: 5, batch_groups: 4, group_size: 3, resample_budget: 2, sampling: { temperature: 0.5 } }",
    );
    let tasks = tasks(&train);
    let plan = tasks.rl_plan(Path::new("model"), &run()).unwrap();
    assert_eq!(plan.slots.len(), 5 * 4 * 2 * 3);
    let policy = PolicySpec::Torch { path: "model".into(), temperature_milli: 500, max_new_tokens: 48 };
    assert_eq!((&plan.policy, plan.seed), (&policy, 3));
    let mut env_seeds = BTreeSet::new();
    let mut policy_seeds = BTreeSet::new();
    for (number, group) in plan.slots.chunks(3).enumerate() {
        assert!(env_seeds.insert(group[0].env_seed), "another visit to a task is another environment");
        for (member, slot) in group.iter().enumerate() {
            assert_eq!((slot.group.0 as usize, slot.member as usize), (number, member));
            assert_eq!((slot.task, slot.env_seed), (group[0].task, group[0].env_seed));
            assert_eq!(slot.id.0 as usize, number * 3 + member);
            assert!(policy_seeds.insert(slot.policy_seed));
        }
    }
    for task in &plan.tasks {
        assert!(Split::Train.contains(&task.family, &task.instruction), "{} is held out", task.id);
    }
    let longer = with(
        EVERYTHING,
        "seed: 3\nrl: { updates: 9, batch_groups: 4, group_size: 3, resample_budget: 2, sampling: { temperature: 0.5 } }",
    );
    let longer = self::tasks(&longer).rl_plan(Path::new("model"), &run()).unwrap();
    assert_eq!(longer.slots[..plan.slots.len()], plan.slots, "a longer training begins like a shorter one");
    assert_eq!(tasks.max_episode_tokens(), Some(48 * 12));
}

/// A suite's written weight does not depend on its number of families; without weights, families of all suites take turns.
#[test]
fn groups_are_shared_by_the_weights_of_suites() {
    let shares = |weights: [&str; 2]| {
        let suites = format!(
            "{{ path: ../../good/oracles{} }}, {{ path: ../../good/oracles-too{} }}",
            weights[0], weights[1]
        );
        let train = with(&suites, "rl: { updates: 3, batch_groups: 5, group_size: 2, resample_budget: 2 }");
        let plan = tasks(&train).rl_plan(Path::new("model"), &run()).unwrap();
        let of_first = plan.slots.iter().filter(|slot| slot.suite == 0).count() / 2;
        (of_first, plan.slots.len() / 2 - of_first)
    };
    assert_eq!(shares(["", ""]), (20, 10));
    assert_eq!(shares([", weight: 1", ", weight: 1"]), (15, 15));
    assert_eq!(shares([", weight: 1", ", weight: 9"]), (3, 27));
}

/// A curriculum chooses among more groups, and those without it come first.
#[test]
fn a_plan_with_a_curriculum_begins_with_the_plan_without_it() {
    let suites = "{ path: ../../good/oracles, instances: 40 }";
    let slots = |curriculum: &str| {
        let train = with(suites, &format!("rl: {{ updates: 2, batch_groups: 3, {curriculum} }}"));
        tasks(&train).rl_plan(Path::new("model"), &run()).unwrap().slots
    };
    let (plain, chosen) = (slots(""), slots("curriculum: {}"));
    assert_eq!(chosen.len(), 2 * plain.len());
    assert_eq!(chosen[..plain.len()], plain);
}

#[test]
fn imitation_alone_has_no_groups() {
    let tasks = tasks(&with("{ path: ../../good/oracles }", "warm_start:"));
    let plan = tasks.rl_plan(Path::new("model"), &run()).unwrap();
    assert_eq!((plan.slots, plan.tasks), (Vec::new(), Vec::new()));
    assert_eq!(tasks.max_episode_tokens(), None);
}

#[test]
fn demonstrations_cover_suites_by_weight() {
    let suites = "{ path: ../../good/oracles, weight: 4 }, { path: ../../good/oracles-too }";
    let train = with(suites, "warm_start: { demonstrations: 50, oracle_percent: 40 }");
    let plan = tasks(&train).demonstration_plan(&run()).unwrap();
    assert_eq!(plan.policy, PolicySpec::Demonstrator { oracle_percent: 40 });
    let expected = [("oracles/copy", 20), ("oracles/write", 20), ("oracles-too/write", 10)];
    assert_eq!(families(&plan), expected.map(|(family, count)| (family.to_owned(), count)).into());
    assert!(plan.slots.windows(2).all(|pair| pair[0].group != pair[1].group));
    for round in ids(&plan).chunks(5) {
        assert_eq!(round.iter().filter(|id| id.starts_with("oracles-too/")).count(), 1);
    }
    assert_eq!(plan.suites.iter().map(|suite| suite.weight).collect::<Vec<_>>(), [4, 1]);
}

#[test]
fn evaluations_take_held_out_tasks_evenly() {
    let suites = "{ path: ../../good/oracles, instances: 100 }";
    let train = with(suites, "rl:\nevaluation: { max_tasks: 21, min_tasks: 20 }");
    let tasks = tasks(&train);
    let plan = tasks.evaluation_plan(Path::new("model"), &run()).unwrap();
    assert_eq!(
        plan.policy,
        PolicySpec::Torch { path: "model".into(), temperature_milli: 0, max_new_tokens: 48 }
    );
    let counts = families(&plan);
    assert_eq!(counts.values().sum::<usize>(), 21);
    assert!(counts.values().all(|&count| count == 10 || count == 11), "{counts:?}");
    let distinct: BTreeSet<&str> = ids(&plan).into_iter().collect();
    assert_eq!(distinct.len(), 21);
    for task in &plan.tasks {
        assert!(Split::HeldOut.contains(&task.family, &task.instruction), "{} is trained on", task.id);
    }
    assert_eq!(tasks.evaluation_plan(Path::new("model"), &run()).unwrap(), plan, "the same every time");
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let refused = |lines: &str, plan: fn(&TrainTasks) -> Result<RunPlan, ConfigError>| {
        let tasks = tasks(&with("{ path: ../../good/oracles }", lines));
        rendered(&plan(&tasks).expect_err(lines))
    };
    let texts = [
        refused("rl:", |tasks| tasks.demonstration_plan(&run())),
        refused("rl:\nevaluation: { min_tasks: 500 }", |tasks| {
            tasks.evaluation_plan(Path::new("model"), &run())
        }),
        refused("rl:\nlimits: { concurrency: 90000 }", |tasks| tasks.rl_plan(Path::new("model"), &run())),
    ];
    insta::assert_snapshot!("train_refused", texts.concat());
    let error =
        TrainTasks::load(&with("{ path: ../../good/minimal }", "rl: { process_weight: 0.5 }")).unwrap_err();
    insta::assert_snapshot!("train_without_process_rewards", rendered(&error));
    let judged =
        "rl: { process_weight: 0.5, judging: { rules: [{ where: reply, matches: rm, verdict: -1 }] } }";
    assert!(TrainTasks::load(&with("{ path: ../../good/minimal }", judged)).is_ok(), "turns are judged");
    let error =
        TrainTasks::load(&with("{ path: ../../good/minimal }", "rl: { curriculum: {} }")).unwrap_err();
    insta::assert_snapshot!("train_without_families_to_choose", rendered(&error));
    let (_folder, rewarding) = rewarding();
    let error = TrainTasks::load(&with(&rewarding, judged)).unwrap_err();
    insta::assert_snapshot!("train_judges_not_asked", rendered(&error));
    let both = format!("{{ path: ../../good/oracles }}, {rewarding}");
    assert!(TrainTasks::load(&with(&both, judged)).is_ok(), "some of them are judged");
    let sdft = with("{ path: ../../good/everything }", "rl: { objective: sdft }");
    assert!(TrainTasks::load(&sdft).is_ok(), "some of them have an oracle");
    let error =
        TrainTasks::load(&with("{ path: ../../good/minimal }", "rl: { objective: sdft }")).unwrap_err();
    insta::assert_snapshot!("train_without_demonstrations", rendered(&error));
    // A family without oracle cannot be demonstrated, and is named in its suite.
    let error = TrainTasks::load(&with("{ path: ../../good/everything }", "warm_start:")).unwrap_err();
    insta::assert_snapshot!("train_not_demonstrable", portable(&rendered(&error)));
}

/// A suite in which every task has step rewards.
fn rewarding() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = r#"
format: 1
suite: rewarding
vars: { words: [red, green, blue, white, black, brown, grey, pink, gold, teal] }
defaults:
  action_format: hermes
  env: { toolcall: { tools: {}, step_rewards: [{ each: turn, reward: -0.05 }] } }
tasks:
  - id: say
    template: { word: { from: words } }
    instances: all
    instruction: Say {{ word }}.
    checks: [{ answer_equals: "{{ word }}" }]
"#;
    std::fs::write(folder.path().join("suite.yaml"), text).expect("a file");
    let suite = format!("{{ path: {} }}", folder.path().display());
    (folder, suite)
}

/// Words trade places only if they are words, in lists that there are.
#[test]
fn lists_of_interchangeable_words_are_looked_up_in_the_suites() {
    let suites = "{ path: ../../good/lists }, { path: ../../good/lists-too }";
    let good = tasks(&with(suites, "warm_start: { interchangeable: [colors, fruits] }"));
    let expected: [&[&str]; 2] = [&["blue", "green", "red"], &["apple", "pear"]];
    assert_eq!(good.interchangeable(), expected);

    let bad = with(suites, "warm_start: { interchangeable: [color, files, fruits, colors, colors, plates] }");
    let error = TrainTasks::load(&bad).unwrap_err();
    insta::assert_snapshot!("train_interchangeable", portable(&rendered(&error)));
}

/// A template with fewer different tasks than requested gives all it has, and the summary reports it.
#[test]
fn instances_are_as_many_as_differ() {
    let suites = "{ path: ../../good/oracles, instances: 300 }, { path: ../../good/oracles-too }";
    let train = with(suites, "warm_start:\nrl:");
    let tasks = tasks(&train);
    let summary = tasks.describe();
    insta::assert_snapshot!("train_summary", summary.to_string());
    let all: Vec<_> = tasks.train().chain(tasks.held_out()).collect();
    let contents: BTreeSet<String> = all
        .iter()
        .map(|task| {
            serde_json::to_string(&(&task.family, &task.suite, &task.instruction, &task.env)).unwrap()
        })
        .collect();
    assert_eq!(contents.len(), all.len(), "no task is there twice");
    let instructions = |tasks: &mut dyn Iterator<Item = &std::sync::Arc<clawrl_core::TaskSpec>>| {
        tasks.map(|task| (task.family.clone(), task.instruction.clone())).collect::<BTreeSet<_>>()
    };
    assert!(instructions(&mut tasks.train()).is_disjoint(&instructions(&mut tasks.held_out())));
}
