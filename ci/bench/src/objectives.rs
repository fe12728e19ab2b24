//! Episodes until a policy passes so many of the tasks that were held out, by objective, from the same start.
//!
//! For each seed, one policy is made and imitates (`clawrl train` without `rl`); every recipe then goes on from that
//! policy with reinforcement learning of the same seed, over the same tasks, and is evaluated greedily on the same
//! held-out ones. What differs is what a recipe adds to `rl:`. Episodes are those whose groups were used up, discarded ones
//! included: what it costs to learn, whatever was learned from.
//!
//! Everything is kept in one folder: measured again, a training that is there is read and not made again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clawrl_core::RunId;
use clawrl_record::{Metric, RunStore, UpdateMetrics};
use serde::Serialize;

use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::Failure;

mod plot;

/// What recipes add to `rl:`, where none is given.
const RECIPES: [&str; 4] = [
    "grpo=objective: dapo",
    "opd=objective: opd",
    "combined=objective: combined",
    "siblings=objective: sdpo, distillation: { hints: [sibling] }",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// NAME=KEYS: a recipe, and what it adds to `rl:` of a train file.
    #[arg(long = "recipe", value_name = "NAME=KEYS", value_parser = recipe, default_values = RECIPES)]
    recipes: Vec<Recipe>,
    /// Seeds, each with a policy of its own.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3])]
    seeds: Vec<u64>,
    /// Suite to train on.
    #[arg(long, default_value = "tasks/terminal-basics")]
    suite: PathBuf,
    /// Tasks of each template.
    #[arg(long, default_value_t = 500)]
    instances: u32,
    /// How often a demonstration that is imitated before is right, in percent.
    #[arg(long, default_value_t = 12)]
    oracle_percent: u32,
    /// Updates of each training.
    #[arg(long, default_value_t = 30)]
    updates: u32,
    /// Updates from one evaluation to the next.
    #[arg(long, default_value_t = 5)]
    every: u32,
    /// Held-out tasks of an evaluation.
    #[arg(long, default_value_t = 400)]
    evaluated: u32,
    /// Held-out success that counts as reached, in percent.
    #[arg(long, default_value_t = 70.0)]
    goal: f64,
    /// Folder of the trainings.
    #[arg(long, default_value = "results/bench/objectives")]
    keep: PathBuf,
}

/// A name, and keys of `rl:`.
#[derive(Debug, Clone)]
struct Recipe {
    name: String,
    keys: String,
}

fn recipe(text: &str) -> Result<Recipe, String> {
    let (name, keys) =
        text.split_once('=').ok_or("a recipe is NAME=KEYS, as in `light=objective: combined`")?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Err("the name of a recipe has lower-case letters, digits and dashes".to_owned());
    }
    Ok(Recipe { name: name.to_owned(), keys: keys.to_owned() })
}

/// One training.
#[derive(Debug, Clone, Serialize)]
struct Row {
    recipe: String,
    keys: String,
    seed: u64,
    curve: Vec<Point>,
    /// Until the goal was reached, between two evaluations along a line.
    episodes_to_goal: Option<f64>,
    goal_percent: f64,
}

/// One evaluation.
#[derive(Debug, Clone, Copy, Serialize)]
struct Point {
    episodes: f64,
    held_out_percent: f64,
}

/// Trains, and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let bench = Bench::new(arguments)?;
    let mut rows = Vec::new();
    for &seed in &arguments.seeds {
        let policy = bench.imitated(seed)?;
        for recipe in &arguments.recipes {
            rows.push(bench.reinforced(recipe, seed, &policy)?);
        }
    }
    rows::append(out, "objectives", &rows)?;
    let page = out.join("objectives.svg");
    let names: Vec<&str> = arguments.recipes.iter().map(|recipe| recipe.name.as_str()).collect();
    fs::write(&page, plot::svg(&names, &rows, arguments.goal))?;
    Ok(format!("{}\nplot        {}\n", table(arguments, &rows), page.display()))
}

struct Bench<'a> {
    arguments: &'a Arguments,
    program: PathBuf,
    suite: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self, Failure> {
        let program = std::env::current_exe()?.with_file_name("clawrl-torch");
        if !program.is_file() {
            return Err(format!("{} is not there; ci/bench/run.sh builds it", program.display()).into());
        }
        let suite = arguments.suite.canonicalize();
        let suite = suite.map_err(|error| format!("{}: {error}", arguments.suite.display()))?;
        fs::create_dir_all(&arguments.keep)?;
        Ok(Self { arguments, program, suite })
    }

    /// The folder of a policy that has imitated.
    fn imitated(&self, seed: u64) -> Result<PathBuf, Failure> {
        let Arguments { oracle_percent, .. } = self.arguments;
        let body = format!(
            "policy: {{ preset: tiny }}\n\
             warm_start:\n  demonstrations: 3000\n  oracle_percent: {oracle_percent}\n  steps: 1000\n  batch: 16\n  \
             interchangeable: [names]\n  hinted_percent: 30\n  \
             optimizer: {{ learning_rate: 3e-3, beta2: 0.95, weight_decay: 0.1, warm_up_steps: 20, final_fraction: 0.1 }}\n\
             evaluation: {{ max_tasks: 1, max_new_tokens: 24 }}\n"
        );
        let run = self.trained(&format!("imitated-{oracle_percent}-{seed}"), seed, &body)?;
        Ok(run.join("checkpoints/000000/model").canonicalize()?)
    }

    fn reinforced(&self, recipe: &Recipe, seed: u64, policy: &Path) -> Result<Row, Failure> {
        let Arguments { updates, every, evaluated, goal, .. } = self.arguments;
        let body = format!(
            "policy: {{ path: {} }}\n\
             rl: {{ updates: {updates}, batch_groups: 16, group_size: {GROUP}, optimizer: {{ learning_rate: 5e-4 }}, \
             sampling: {{ max_new_tokens: 24 }}, guards: {{ updates: 0 }}, {} }}\n\
             evaluation: {{ every_updates: {every}, max_tasks: {evaluated}, min_tasks: 1 }}\n",
            yaml(policy),
            recipe.keys
        );
        let name = format!("{}-{seed}", recipe.name);
        self.trained(&name, seed, &body)?;
        let curve = curve(&self.figures(&name)?);
        let episodes_to_goal = reached(&curve, *goal);
        let (recipe, keys) = (recipe.name.clone(), recipe.keys.clone());
        Ok(Row { recipe, keys, seed, curve, episodes_to_goal, goal_percent: *goal })
    }

    /// The folder of a training of this name and file, which is made unless it is there.
    fn trained(&self, name: &str, seed: u64, body: &str) -> Result<PathBuf, Failure> {
        let keep = &self.arguments.keep;
        let file = keep.join(format!("{name}.yaml"));
        let text = format!(
            "format: 1\ntrain: {name}\nseed: {seed}\nsuites: [ {{ path: {}, instances: {} }} ]\n\
             limits: {{ concurrency: 128 }}\n{body}",
            yaml(&self.suite),
            self.arguments.instances
        );
        let folder = keep.join("runs").join(name);
        let done = keep.join(format!("{name}.done"));
        if folder.is_dir() && fs::read_to_string(&done).is_ok_and(|of| of == text) {
            return Ok(folder);
        }
        if done.exists() {
            fs::remove_file(&done)?;
        }
        for part in ["", "-demonstrations", "-eval-"] {
            remove(keep, name, part)?;
        }
        fs::write(&file, &text)?;
        let mut command = Command::new(&self.program);
        command.arg("train").arg(&file).args(["--name", name, "--quiet", "--results"]).arg(keep);
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("clawrl train {}: {}: {words}", file.display(), output.status).into());
        }
        fs::write(&done, &text)?;
        Ok(folder)
    }

    fn figures(&self, name: &str) -> Result<Vec<UpdateMetrics>, Failure> {
        let run = RunId::new(name).ok_or("the name of a run")?;
        Ok(RunStore::open(&self.arguments.keep)?.run(&run)?.updates()?)
    }
}

/// Attempts of a group.
const GROUP: u32 = 8;

/// A scalar of YAML, whatever is in it.
fn yaml(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy()).to_string()
}

/// Removes the runs of a training, all of which begin with its name.
fn remove(keep: &Path, name: &str, part: &str) -> Result<(), Failure> {
    let runs = keep.join("runs");
    let Ok(entries) = fs::read_dir(&runs) else { return Ok(()) };
    let prefix = format!("{name}{part}");
    for entry in entries {
        let entry = entry?;
        let found = entry.file_name().to_string_lossy().into_owned();
        let is_of_it = if part.is_empty() { found == prefix } else { found.starts_with(&prefix) };
        if is_of_it {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Held-out success by episodes used up.
fn curve(updates: &[UpdateMetrics]) -> Vec<Point> {
    let (mut episodes, mut curve) = (0.0, Vec::new());
    for update in updates {
        episodes += update.get(Metric::TrainGroupsTriedCount).unwrap_or(0.0) * f64::from(GROUP);
        if let Some(ratio) = update.get(Metric::TrainHeldOutSuccessRatio) {
            curve.push(Point { episodes, held_out_percent: 100.0 * ratio });
        }
    }
    curve
}

/// Episodes at which a curve first comes to a height.
fn reached(curve: &[Point], goal: f64) -> Option<f64> {
    if curve.first().is_some_and(|first| first.held_out_percent >= goal) {
        return Some(0.0);
    }
    let crossing = curve.windows(2).find(|pair| pair[1].held_out_percent >= goal)?;
    let (from, to) = (crossing[0], crossing[1]);
    let share = (goal - from.held_out_percent) / (to.held_out_percent - from.held_out_percent);
    Some(from.episodes + share * (to.episodes - from.episodes))
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let header = ["recipe", "start, %", "end, %", "best, %", "episodes to goal", "reached", "by seed"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for recipe in &arguments.recipes {
        let of_it: Vec<&Row> = rows.iter().filter(|row| row.recipe == recipe.name).collect();
        let mean = |of: fn(&[Point]) -> f64| {
            of_it.iter().map(|row| of(&row.curve)).sum::<f64>() / of_it.len().max(1) as f64
        };
        let reached: Vec<f64> = of_it.iter().filter_map(|row| row.episodes_to_goal).collect();
        let seeds = of_it.iter().map(|row| match row.episodes_to_goal {
            Some(episodes) => format!("{episodes:.0}"),
            None => "-".to_owned(),
        });
        lines.push(vec![
            recipe.name.clone(),
            format!("{:.1}", mean(|curve| curve.first().map_or(f64::NAN, |point| point.held_out_percent))),
            format!("{:.1}", mean(|curve| curve.last().map_or(f64::NAN, |point| point.held_out_percent))),
            format!(
                "{:.1}",
                mean(|curve| curve.iter().map(|point| point.held_out_percent).fold(0.0, f64::max))
            ),
            format!("{:.0}", Sample::new(reached.clone()).median()),
            format!("{} of {}", reached.len(), of_it.len()),
            seeds.collect::<Vec<_>>().join(", "),
        ]);
    }
    format!(
        "held-out tasks passed, greedily: means over {} seeds; episodes until {} %: median of the seeds that came there\n\n{}",
        arguments.seeds.len(),
        arguments.goal,
        render(&lines)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve_of(points: &[(f64, f64)]) -> Vec<Point> {
        let point = |&(episodes, held_out_percent)| Point { episodes, held_out_percent };
        points.iter().map(point).collect()
    }

    #[test]
    fn the_goal_is_reached_between_two_evaluations() {
        let check = |points: &[(f64, f64)], expected| {
            assert_eq!(reached(&curve_of(points), 70.0), expected, "{points:?}");
        };
        check(&[(0.0, 40.0), (100.0, 60.0), (200.0, 80.0)], Some(150.0));
        check(&[(0.0, 40.0), (100.0, 70.0)], Some(100.0));
        check(&[(0.0, 80.0), (100.0, 60.0)], Some(0.0));
        check(&[(0.0, 40.0), (100.0, 60.0)], None);
        check(&[], None);
    }

    #[test]
    fn episodes_are_counted_whatever_was_learned_from_them() {
        let update = |update: u64, figures: &[(Metric, f64)]| UpdateMetrics {
            update,
            t_ms: 0,
            figures: figures.iter().copied().collect(),
        };
        let updates = [
            update(0, &[(Metric::TrainHeldOutSuccessRatio, 0.25)]),
            update(1, &[(Metric::TrainGroupsUsedCount, 16.0), (Metric::TrainGroupsTriedCount, 20.0)]),
            update(2, &[(Metric::TrainGroupsTriedCount, 16.0), (Metric::TrainHeldOutSuccessRatio, 0.5)]),
        ];
        let found: Vec<(f64, f64)> =
            curve(&updates).iter().map(|point| (point.episodes, point.held_out_percent)).collect();
        assert_eq!(found, [(0.0, 25.0), (288.0, 50.0)]);
    }

    #[test]
    fn recipes_have_names() {
        assert!(recipe("light=objective: combined").is_ok());
        for bad in ["light", "=objective: opd", "A B=objective: opd"] {
            assert!(recipe(bad).is_err(), "{bad}");
        }
    }
}
