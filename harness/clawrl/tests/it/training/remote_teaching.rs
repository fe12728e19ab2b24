//! Trainings whose teacher is behind a server, run by our own sampler.

use std::fs;
use std::path::PathBuf;

use clawrl_record::Metric;
use rustix::process::Signal;

use super::ground::{LUCKY, REPRODUCIBLE, checkpoint, ground, lucky, progress, trained, weights};
use super::teacher_server::{Habit, TeacherServer};
use crate::place::{Place, Said};

/// Required keys of a teacher's policy file.
const SPEAKS: &str = "exact_tokens: vllm\nsampling: { temperature: 1 }\n";

/// All episodes come from one policy, so that two trainings see the same ones. The step is proportional to the
/// gradient, so that differences in the last bits stay small.
const PLAIN: &str = r#"
format: 1
train: plain
policy: { path: first }
suites: [ { path: tasks/signs } ]
rl:
  updates: 1
  batch_groups: 2
  group_size: 6
  minibatches: 1
  schedule: synchronous
  objective: opd
  distillation: DISTILLATION
  optimizer: { learning_rate: 1, epsilon: 1 }
  sampling: { max_new_tokens: 6 }
evaluation: { every_updates: 0, max_tasks: 4 }
limits: { concurrency: 4 }
"#;

/// A folder with the untrained policy `first`.
fn with_first(place: Place) -> Place {
    place.clawrl(&["policy", "init", "--preset", "tiny", "--out", "first", "signs"]).ends(0);
    place
}

fn first(place: &Place) -> PathBuf {
    place.path().join("first")
}

fn write(place: &Place, name: &str, text: &str) {
    fs::write(place.path().join(name), text).unwrap();
}

/// Two updates of the policy `first` in environments with random rewards, with these keys of `rl`.
fn lucky_with(keys: &str) -> Place {
    let train = LUCKY.replace("rl: { updates: 4,", &format!("rl: {{ {keys}, updates: 2,"));
    with_first(lucky(&train.replace("policy: { preset: tiny }", "policy: { path: first }"), ""))
}

fn each(place: &Place, name: &str, metric: Metric) -> Vec<f64> {
    place.run(name).updates().unwrap().iter().filter_map(|update| update.get(metric)).collect()
}

fn sum(place: &Place, name: &str, metric: Metric) -> f64 {
    each(place, name, metric).iter().filter(|figure| figure.is_finite()).sum()
}

/// Parameters of a version, in the order of the file.
fn parameters(place: &Place, name: &str, version: u64) -> Vec<f32> {
    let bytes = weights(place, name, version);
    let (size, rest) = bytes.split_first_chunk::<8>().unwrap();
    let values = &rest[usize::try_from(u64::from_le_bytes(*size)).unwrap()..];
    values.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn furthest(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_server_with_the_first_policy_teaches_what_a_frozen_teacher_does() {
    let place = with_first(ground(""));
    let with = |teacher: &str| {
        PLAIN.replace("DISTILLATION", &format!("{{ teacher: {teacher}, hints: [demonstration] }}"))
    };
    write(&place, "train.yaml", &with("frozen"));
    trained(&place, "frozen");
    let server = TeacherServer::start(&first(&place), Habit::default());
    write(&place, "teacher.yaml", &server.policy_file(SPEAKS));
    write(&place, "train.yaml", &with("{ remote: teacher.yaml }"));
    trained(&place, "remote");

    let of = |name: &str, metric| each(&place, name, metric)[0];
    for metric in [Metric::TrainTeacherRms, Metric::TrainLossMean, Metric::TrainGradientNorm] {
        let (frozen, remote) = (of("frozen", metric), of("remote", metric));
        assert!(
            (frozen - remote).abs() <= 1e-5 * frozen.abs().max(0.1),
            "{metric:?}: {remote}, not {frozen}"
        );
    }
    assert!(of("remote", Metric::TrainTeacherRms) > 1e-3);
    assert_eq!(
        of("remote", Metric::TrainHintedEpisodesCount),
        of("frozen", Metric::TrainHintedEpisodesCount)
    );
    assert_eq!(of("remote", Metric::TrainTeacherUnansweredCount), 0.0);
    assert_eq!(each(&place, "frozen", Metric::TrainTeacherUnansweredCount), [0.0; 0], "it is here");
    let [begun, frozen, remote] = [("frozen", 0), ("frozen", 1), ("remote", 1)]
        .map(|(name, version)| parameters(&place, name, version));
    assert!(furthest(&begun, &frozen) > 1e-3, "{}", furthest(&begun, &frozen));
    assert!(furthest(&remote, &frozen) <= 1e-5, "{}", furthest(&remote, &frozen));
}

/// The teacher imitated for longer than its student. It reads no hints; after a kill, lost scores are requested again.
#[test]
fn a_stronger_model_is_learned_from_as_it_reads_the_episode() {
    let place = ground(
        &REPRODUCIBLE.replace("steps: 20", "steps: 60").replace("rl:\n  updates: 4\n", "rl:\n  updates: 1\n"),
    );
    trained(&place, "wise");
    let model = checkpoint(&place, "wise", 0).join("model");
    let server = TeacherServer::start(&model, Habit::default());
    write(&place, "teacher.yaml", &server.policy_file(SPEAKS));
    let keys = "rl:\n  updates: 10\n  objective: opd\n  distillation: { teacher: { remote: teacher.yaml } }\n  schedule: synchronous\n";
    let pupil = REPRODUCIBLE.replace("reproducible: true\n", "").replace("rl:\n  updates: 4\n", keys);
    let policy = place.results().join("runs/wise/policy");
    let pupil = pupil
        .replace("preset: tiny", &format!("path: {}", policy.display()))
        .replace("batch_groups: 2", "batch_groups: 4");
    write(&place, "train.yaml", &pupil);
    let mut live = place.start(&["train", "train.yaml", "--name", "pupil"]);
    live.hears("update    3/10");
    live.signal(Signal::KILL);
    assert_eq!(live.ended().code, None);
    place.clawrl(&["train", "--resume", "pupil", "--json"]).ends(0);
    let apart = each(&place, "pupil", Metric::TrainTeacherRms);
    assert_eq!((apart.len(), sum(&place, "pupil", Metric::TrainTeacherUnansweredCount)), (10, 0.0));
    assert!(each(&place, "pupil", Metric::TrainHintedEpisodesCount).iter().all(|count| *count == 16.0));
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (before, after) = (mean(&apart[..2]), mean(&apart[8..]));
    assert!(after < 0.8 * before, "it comes nearer to its teacher: {apart:?}");

    // The teacher gets exactly the sampled tokens.
    let run = place.run("pupil");
    let replies: Vec<Vec<u32>> = run
        .attempts()
        .flat_map(|attempt| run.trajectory(attempt.attempt).unwrap().trajectory.turns)
        .filter_map(|turn| turn.tokens.map(|tokens| tokens.ids))
        .collect();
    let prompts = server.prompts();
    let read = replies
        .iter()
        .filter(|reply| prompts.iter().any(|ids| ids.windows(reply.len()).any(|ids| ids == **reply)));
    assert!(read.count() >= 10 * 16);
}

/// The probe takes one request, since this vocabulary is small.
#[test]
fn a_teacher_that_falls_silent_dies_or_babbles_is_not_waited_for_and_counted() {
    let keys = "objective: combined, distillation: { teacher: { remote: teacher.yaml, timeout_secs: 2 } }";
    let place = lucky_with(keys);
    let habits = [
        ("silent", Habit { silent_after: Some(1), ..Habit::default() }),
        ("dead", Habit { cuts_after: Some(1), ..Habit::default() }),
        ("babbling", Habit { babbles_after: Some(1), ..Habit::default() }),
    ];
    for (name, habit) in habits {
        let server = TeacherServer::start(&first(&place), habit);
        write(&place, "teacher.yaml", &server.policy_file(&format!("{SPEAKS}tries: 2\n")));
        let said = place.clawrl(&["train", "train.yaml", "--name", name]).ends(0);
        assert!(said.err.contains("the teacher gives no answer"), "{name}: {}", said.err);
        assert!(server.asked() > 1, "{name}");
        assert_eq!(progress(&place, name, 2)["counts"]["informative"], 4, "{name}: outcomes teach");
        assert_eq!(sum(&place, name, Metric::TrainHintedEpisodesCount), 0.0, "{name}");
        assert_eq!(sum(&place, name, Metric::TrainTeacherRms), 0.0, "{name}");
        assert!(sum(&place, name, Metric::TrainTeacherUnansweredCount) >= 24.0, "{name}");
    }
}

#[test]
fn a_server_that_cannot_teach_is_told_before_any_episode() {
    let place = lucky_with("objective: opd, distillation: { teacher: { remote: teacher.yaml } }");
    let refused = |name: &str, habit: Option<Habit>, code: i32, told: &str| {
        let server = TeacherServer::start(&first(&place), habit.clone().unwrap_or_default());
        write(&place, "teacher.yaml", &server.policy_file(&format!("{SPEAKS}tries: 1\n")));
        let address = server.address();
        let _kept = habit.map(|_| server);
        let Said { err, .. } = place.clawrl(&["train", "train.yaml", "--name", name]).ends(code);
        assert!(err.contains(told), "{name}: {err}");
        assert_eq!(place.run(name).attempts().count(), 0, "{name}");
        address
    };
    let other = Habit { other_token: Some((90, "\u{e4}h")), ..Habit::default() };
    refused("other", Some(other), 2, "token 90 is ");
    refused(
        "mute",
        Some(Habit { is_mute: true, ..Habit::default() }),
        2,
        "it does not echo what it was sent",
    );
    let babbling = Habit { babbles_after: Some(0), ..Habit::default() };
    refused("babbling", Some(babbling), 6, "the log-probability of token 1 is \"likely\"");
    let address = refused("gone", None, 6, "server-unreachable");
    let _server = TeacherServer::start_at(address, &first(&place), Habit::default());
    place.clawrl(&["train", "--resume", "gone", "--json"]).ends(0);
    assert_eq!(sum(&place, "gone", Metric::TrainHintedEpisodesCount), 24.0);
}
