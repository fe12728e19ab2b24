//! Usage of replies: tokens, cost and retried requests.
//!
//! Units: tokens; billionths of a US dollar, so that the price of one token is a whole number.

use serde::{Deserialize, Serialize};

/// Source of the numbers of a [`Usage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The server said so, and it is possible. It is the server's word and nothing more.
    Reported,
    /// The server said nothing, or something impossible: computed from the length of the texts.
    Estimated,
}

/// Usage of one reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Source of the numbers.
    pub source: UsageSource,
    /// Tokens of the prompt, those from a cache included.
    pub input_tokens: u64,
    /// Tokens of the prompt that came from the server's cache.
    pub cached_tokens: u64,
    /// Tokens of the reply, those of reasoning that is not shown included.
    pub output_tokens: u64,
    /// By the prices in the plan; `None` without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<u64>,
    /// Requests beyond one for each reply.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Replies that these are the figures of: more than one where a program asked its model several times for one action.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub replies: u32,
    /// Notes on the reply, as stable kebab-case names: `usage-missing`, `no-done`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Usage {
    /// Tokens of one reply as its server counted them, without prices or a cache.
    #[must_use]
    pub fn reported(input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            source: UsageSource::Reported,
            input_tokens,
            cached_tokens: 0,
            output_tokens,
            cost_nano_usd: None,
            retries: 0,
            replies: 1,
            notes: Vec::new(),
        }
    }

    /// Takes in the figures of further replies. Saturates: figures of a server are not trusted to fit.
    pub fn merge(&mut self, other: &Self) {
        if other.source == UsageSource::Estimated {
            self.source = UsageSource::Estimated;
        }
        let add = |into: &mut u64, more: u64| *into = into.saturating_add(more);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.cached_tokens, other.cached_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        self.retries = self.retries.saturating_add(other.retries);
        self.replies = self.replies.saturating_add(other.replies);
        self.cost_nano_usd = match (self.cost_nano_usd, other.cost_nano_usd) {
            (Some(cost), Some(more)) => Some(cost.saturating_add(more)),
            (cost, more) => cost.or(more),
        };
        let fresh = other.notes.iter().filter(|note| !self.notes.contains(note));
        let fresh: Vec<String> = fresh.cloned().collect();
        self.notes.extend(fresh);
    }
}

/// Sums over replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotal {
    /// Replies that were counted.
    pub replies: u64,
    /// Number of replies with estimated numbers.
    pub estimated_replies: u64,
    /// Tokens of prompts, those from a cache included.
    pub input_tokens: u64,
    /// Tokens of prompts that came from a cache.
    pub cached_tokens: u64,
    /// Tokens of replies.
    pub output_tokens: u64,
    /// By the prices in the plan; `None` if no reply had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<u64>,
    /// Requests beyond one for each reply. Those of turns that never got a reply are not among them.
    pub retries: u64,
}

impl UsageTotal {
    /// The sum; `None` over nothing.
    #[must_use]
    pub fn of<'a>(usages: impl IntoIterator<Item = &'a Usage>) -> Option<Self> {
        let mut total = Self::default();
        usages.into_iter().for_each(|usage| total.merge(&Self::from(usage)));
        (total.replies > 0).then_some(total)
    }

    /// Adds one reply.
    pub fn add(&mut self, usage: &Usage) {
        self.merge(&Self::from(usage));
    }

    /// Adds another sum. Saturates: figures of a server are not trusted to fit.
    pub fn merge(&mut self, other: &Self) {
        let add = |into: &mut u64, more: u64| *into = into.saturating_add(more);
        add(&mut self.replies, other.replies);
        add(&mut self.estimated_replies, other.estimated_replies);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.cached_tokens, other.cached_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.retries, other.retries);
        self.cost_nano_usd = match (self.cost_nano_usd, other.cost_nano_usd) {
            (Some(cost), Some(more)) => Some(cost.saturating_add(more)),
            (cost, more) => cost.or(more),
        };
    }
}

impl From<&Usage> for UsageTotal {
    fn from(usage: &Usage) -> Self {
        Self {
            replies: u64::from(usage.replies),
            estimated_replies: match usage.source {
                UsageSource::Estimated => u64::from(usage.replies),
                UsageSource::Reported => 0,
            },
            input_tokens: usage.input_tokens,
            cached_tokens: usage.cached_tokens,
            output_tokens: usage.output_tokens,
            cost_nano_usd: usage.cost_nano_usd,
            retries: u64::from(usage.retries),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(source: UsageSource, output_tokens: u64, cost_nano_usd: Option<u64>) -> Usage {
        let notes = Vec::new();
        Usage {
            source,
            input_tokens: 10,
            cached_tokens: 4,
            output_tokens,
            cost_nano_usd,
            retries: 1,
            replies: 1,
            notes,
        }
    }

    #[test]
    fn sums_keep_estimates_apart_and_survive_lies() {
        let usages =
            [usage(UsageSource::Reported, 3, Some(700)), usage(UsageSource::Estimated, u64::MAX, None)];
        let expected = UsageTotal {
            replies: 2,
            estimated_replies: 1,
            input_tokens: 20,
            cached_tokens: 8,
            output_tokens: u64::MAX,
            cost_nano_usd: Some(700),
            retries: 2,
        };
        assert_eq!(UsageTotal::of(&usages), Some(expected));
        assert_eq!(UsageTotal::of([]), None);
    }

    #[test]
    fn usage_of_replies_adds_up() {
        let of = |source, note: &str| Usage { notes: vec![note.to_owned()], ..usage(source, 3, Some(700)) };
        let (one, other) = (of(UsageSource::Reported, "a"), of(UsageSource::Reported, "b"));
        let mut both = one.clone();
        both.merge(&other);
        both.merge(&one);
        assert_eq!(UsageTotal::from(&both), UsageTotal::of([&one, &other, &one]).unwrap());
        assert_eq!(both.notes, ["a", "b"]);
        both.merge(&of(UsageSource::Estimated, "a"));
        assert_eq!((both.source, both.replies), (UsageSource::Estimated, 4));
    }
}
