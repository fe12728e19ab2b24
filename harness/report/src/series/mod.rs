//! Figures over time in the formats of programs that draw them.
//!
//! Names are those of `metrics.jsonl`, with a slash behind the area where programs group by one: `train/reward_mean`.

mod axis;
mod history;
mod prometheus;
mod tensorboard;

pub use history::history;
pub use prometheus::exposition;
pub use tensorboard::EventLog;
