//! Limits of the values in suites and train files, shared by the checks and the schema.

use std::time::Duration;

/// Newest version of the suite format that this program reads.
pub(crate) const FORMAT: i64 = 1;
/// Bytes of a suite file or of a list in a text file: a thousand tasks with a dozen tools each.
pub(crate) const MAX_TEXT_BYTES: u64 = 32 << 20;
/// Bytes of a list in a JSONL file: ten thousand rows of some kilobytes.
pub(crate) const MAX_ROWS_BYTES: u64 = 64 << 20;
/// Bytes up to which a fixture that is UTF-8 text becomes part of the plan itself.
pub(crate) const MAX_INLINE_BYTES: u64 = 64 << 10;
/// Total bytes that the templates of a suite render to, in all instances: plans are held in memory.
pub(crate) const MAX_RENDERED_BYTES: usize = 512 << 20;
/// Total time to render them, in all instances. A suite of 5,000 tasks needs a third of a second.
pub(crate) const MAX_RENDER_TIME: Duration = Duration::from_secs(60);
/// Files in one fixture folder.
pub(crate) const MAX_FIXTURE_FILES: usize = 10_000;
/// Tasks of one template.
pub(crate) const MAX_INSTANCES: i64 = 10_000;
/// Number of combinations up to which a template without `instances` generates all of them.
pub(crate) const ALL_BY_DEFAULT: usize = 64;
/// Default maximum number of turns of an attempt.
pub(crate) const DEFAULT_TURNS: u32 = 30;
pub(crate) const MAX_TURNS: i64 = 10_000;
pub(crate) const MAX_GROUP: i64 = 1_024;
/// Rank of an adapter: beyond it the whole model is as cheap.
pub(crate) const MAX_LORA_RANK: i64 = 1_024;
/// A day.
pub(crate) const MAX_TIMEOUT_SECS: f64 = 86_400.0;
/// One call of the `wait` tool; longer waits are several turns.
pub(crate) const MAX_WAIT_SECS: f64 = 600.0;
/// Columns and rows: below, full-screen programs give up; above, observations are useless.
pub(crate) const MIN_SCREEN: i64 = 8;
pub(crate) const MAX_SCREEN: i64 = 500;
pub(crate) const MAX_IDLE_MILLIS: i64 = 600_000;
/// A page that is not quiet after ten minutes never is.
pub(crate) const MAX_SETTLE_MILLIS: i64 = 600_000;
/// Maximum delay of a site's response, longer than any step.
pub(crate) const MAX_DELAY_MILLIS: i64 = 600_000;
/// Headless Chromium with one empty page takes about 160 MiB.
pub(crate) const MIN_BROWSER_MIB: i64 = 256;
/// Width and height of a page's window, pixels, as WebDriver can set them and screens have them.
pub(crate) const MIN_VIEWPORT: i64 = 100;
pub(crate) const MAX_VIEWPORT: i64 = 4_096;
pub(crate) const MIN_OBSERVATION: i64 = 100;
pub(crate) const MAX_OBSERVATION: i64 = 1_000_000;
/// A shell and the sandbox's own process need about this much to start.
pub(crate) const MIN_MEMORY_MIB: i64 = 16;
/// One tebibyte.
pub(crate) const MAX_MIB: i64 = 1 << 20;
/// The sandbox's own processes, a shell and a pipeline.
pub(crate) const MIN_PIDS: i64 = 8;
pub(crate) const MAX_PIDS: i64 = 32_768;
/// 256 cores.
pub(crate) const MAX_CPU_PERCENT: i64 = 25_600;
pub(crate) const MAX_UID: i64 = 65_534;
/// Calls of one tool in an episode.
pub(crate) const MAX_CALLS: i64 = 10_000;
/// Votes of a judge on one answer.
pub(crate) const MAX_VOTES: i64 = 15;
/// Seconds that the turns of an attempt wait for their votes.
pub(crate) const MAX_JUDGING_SECS: i64 = 3_600;
/// A month.
pub(crate) const MAX_CHAT_SECS: i64 = 31 * 86_400;
/// Concurrent questions to a judge: each needs some kilobytes and several requests.
pub(crate) const MAX_QUESTIONS: i64 = 4_096;
/// Calls in one action; each may occupy a process of the sandbox.
pub(crate) const MAX_PARALLEL_CALLS: i64 = 256;
/// Maximum size of a message from a custom environment: 64 MiB, held in memory for each attempt.
pub(crate) const MAX_MESSAGE_KIB: i64 = 65_536;
/// Maximum number of attempts over which a family's success rate is computed: more than a training of one family has.
pub(crate) const MAX_MEMORY: i64 = 1_000_000;
/// Slots of one plan. Slot numbers have 32 bits, and each slot costs memory in the dispatcher.
pub(crate) const MAX_SLOTS: u64 = 10_000_000;

/// Newest version of the gate format that this program reads.
pub(crate) const CI_FORMAT: i64 = 1;
/// Attempts at each task of a gate: beyond it, more tasks give more information than more attempts.
pub(crate) const MAX_REPEATS: i64 = 10_000;
/// Number of tasks up to which a gate tests every task by default. Up to this number, 8 attempts on each side suffice at the default alpha
/// to show that a task broke, if it passed in all attempts before and passes in none now.
pub(crate) const FIXED_TASKS: usize = 100;
/// Looks of a gate, so that their boundaries are computed at once.
pub(crate) const MAX_INTERIM_ANALYSES: i64 = 20;
/// Newest version of the policy format that this program reads.
pub(crate) const CHAT_FORMAT: i64 = 1;
pub(crate) const POLICY_FORMAT: i64 = 1;
pub(crate) const AGENT_FORMAT: i64 = 1;
/// Answers of a model to one program.
pub(crate) const MAX_MODEL_CALLS: i64 = 1_000_000;
/// Tokens of one reply of a remote policy: more than any model writes.
pub(crate) const MAX_REPLY_TOKENS: i64 = 1_000_000;
/// Requests for one reply.
pub(crate) const MAX_TRIES: i64 = 100;
/// US dollars for a million tokens.
pub(crate) const MAX_PRICE: f64 = 1_000_000.0;
/// Texts that end a reply.
pub(crate) const MAX_STOPS: usize = 16;

/// Newest version of the train format that this program reads.
pub(crate) const TRAIN_FORMAT: i64 = 1;
/// JSON and YAML readers of other languages keep whole numbers up to here.
pub(crate) const MAX_SEED: i64 = (1 << 53) - 1;
pub(crate) const MAX_WEIGHT: i64 = 1_000;
pub(crate) const MAX_DEMONSTRATIONS: i64 = 1_000_000;
pub(crate) const MAX_STEPS: i64 = 10_000_000;
/// Segments of one optimizer step.
pub(crate) const MAX_BATCH: i64 = 65_536;
pub(crate) const MAX_UPDATES: i64 = 1_000_000;
pub(crate) const MAX_BATCH_GROUPS: i64 = 4_096;
/// Versions by which a token may be behind.
pub(crate) const MAX_STALENESS: i64 = 1_000;
pub(crate) const MAX_BUDGET: i64 = 1_000;
pub(crate) const MAX_MINIBATCHES: i64 = 1_024;
pub(crate) const MAX_TEMPERATURE: f64 = 10.0;
pub(crate) const MAX_NEW_TOKENS: i64 = 65_536;
/// Largest absolute reward of a single step.
pub(crate) const MAX_STEP_REWARD: f64 = 1.0;
/// Largest weight of process rewards relative to the outcome.
pub(crate) const MAX_PROCESS_WEIGHT: f64 = 10.0;
/// Largest weight of a term of the advantage (outcome, teacher).
pub(crate) const MAX_TERM_WEIGHT: f64 = 10.0;
/// Candidates per token in a request to a teacher.
pub(crate) const MAX_TOP_K: i64 = 64;
pub(crate) const MAX_SKIPPED: i64 = 1_000;
pub(crate) const MAX_EVALUATION_TASKS: i64 = 1_000_000;
pub(crate) const MAX_KEPT: i64 = 10_000;
/// Sequences that are decoded together.
pub(crate) const MAX_ENGINE_BATCH: i64 = 65_536;
pub(crate) const MAX_THREADS: i64 = 1_024;
/// GPUs of one machine.
pub(crate) const MAX_GPUS: i64 = 64;
pub(crate) const MAX_CONCURRENCY: i64 = 100_000;
pub(crate) const MAX_RETRIES: i64 = 1_000;
