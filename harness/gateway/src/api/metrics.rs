//! Metrics for Prometheus.
//!
//! I1. Names are fixed, and none contains a user.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::activity::Activity;

/// Upper bounds of the histogram's buckets, in milliseconds.
const BOUNDS_MS: [u64; 12] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000];

/// Window of the token rate, in seconds.
const RATE_SECONDS: usize = 60;

/// A counter.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

/// Latencies by bucket.
#[derive(Debug, Default)]
pub(super) struct LatencyHistogram(Mutex<([u64; BOUNDS_MS.len()], u64, Duration)>);

/// Tokens of the last seconds, a ring of (second since the server's start, tokens).
#[derive(Debug)]
pub(super) struct TokenRate {
    start: Instant,
    seconds: Mutex<[(u64, u64); RATE_SECONDS]>,
}

/// All metrics.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) requests: Counter,
    pub(super) refused: Counter,
    pub(super) answers: Counter,
    pub(super) failures: Counter,
    pub(super) unrecorded: Counter,
    pub(super) prompt_tokens: Counter,
    pub(super) sampled_tokens: Counter,
    pub(super) first_token: LatencyHistogram,
    pub(super) recent: TokenRate,
    /// For pages only (I1).
    pub(super) activity: Activity,
}

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl LatencyHistogram {
    pub(super) fn observe(&self, wait: Duration) {
        // No code that can panic runs under the lock.
        let mut histogram = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let bound = BOUNDS_MS.iter().position(|bound| wait <= Duration::from_millis(*bound));
        if let Some(bound) = bound {
            histogram.0[bound] += 1;
        }
        histogram.1 += 1;
        histogram.2 += wait;
    }

    /// Number of observations.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1
    }

    /// The smallest bucket bound that covers this share of observations; `None` without observations, or if the largest bound does not.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let (counts, all, _) = *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let wanted = (share * all as f64).ceil() as u64;
        let mut below = 0;
        let mut enough = counts.iter().map(|count| {
            below += count;
            below >= wanted
        });
        (all > 0)
            .then(|| enough.position(|is_enough| is_enough))?
            .map(|at| Duration::from_millis(BOUNDS_MS[at]))
    }

    fn write(&self, text: &mut String, name: &str, help: &str) {
        let (counts, all, sum) = *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        head(text, name, help, "histogram");
        let mut below = 0;
        for (bound, count) in BOUNDS_MS.iter().zip(counts) {
            below += count;
            line(text, format_args!("{name}_bucket{{le=\"{}\"}} {below}", *bound as f64 / 1000.0));
        }
        line(text, format_args!("{name}_bucket{{le=\"+Inf\"}} {all}"));
        line(text, format_args!("{name}_sum {}", sum.as_secs_f64()));
        line(text, format_args!("{name}_count {all}"));
    }
}

impl Default for TokenRate {
    fn default() -> Self {
        Self { start: Instant::now(), seconds: Mutex::new([(0, 0); RATE_SECONDS]) }
    }
}

impl TokenRate {
    pub(super) fn add(&self, tokens: u64) {
        let now = self.start.elapsed().as_secs();
        let mut seconds = self.seconds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let place = &mut seconds[now as usize % RATE_SECONDS];
        if place.0 != now {
            *place = (now, 0);
        }
        place.1 += tokens;
    }

    /// Tokens per second, over the last minute or since the start.
    pub(super) fn rate(&self) -> f64 {
        let age = self.start.elapsed().as_secs();
        let seconds = self.seconds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let recent = seconds.iter().filter(|(second, _)| second + RATE_SECONDS as u64 > age);
        let tokens: u64 = recent.map(|(_, tokens)| tokens).sum();
        tokens as f64 / (age + 1).min(RATE_SECONDS as u64) as f64
    }
}

impl Metrics {
    /// The exposition text; `running`: answers in progress.
    pub(super) fn text(&self, running: usize) -> String {
        let mut text = String::new();
        let counters = [
            ("gateway_requests_count", "Requests for an answer.", &self.requests),
            ("gateway_refused_count", "Refused requests.", &self.refused),
            ("gateway_answers_count", "Completed answers.", &self.answers),
            ("gateway_failures_count", "Failed answers.", &self.failures),
            ("gateway_unrecorded_count", "Failed writes to the ledger.", &self.unrecorded),
            ("gateway_prompt_tokens_count", "Prompt tokens of completed answers.", &self.prompt_tokens),
            ("gateway_sampled_tokens_count", "Sampled tokens.", &self.sampled_tokens),
        ];
        for (name, help, counter) in counters {
            head(&mut text, name, help, "counter");
            line(&mut text, format_args!("{name} {}", counter.get()));
        }
        head(&mut text, "gateway_running_count", "Answers in progress.", "gauge");
        line(&mut text, format_args!("gateway_running_count {running}"));
        self.first_token.write(
            &mut text,
            "gateway_first_token_seconds",
            "Time to first token of streamed answers.",
        );
        text
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    line(text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rate_covers_the_last_minute() {
        let recent = TokenRate::default();
        assert_eq!(recent.rate(), 0.0);
        tokio::time::advance(Duration::from_secs(9)).await;
        recent.add(50);
        assert_eq!(recent.rate(), 5.0);
        tokio::time::advance(Duration::from_secs(51)).await;
        recent.add(70);
        assert_eq!(recent.rate(), 2.0);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(recent.rate(), 70.0 / 60.0);
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(recent.rate(), 0.0);
    }

    #[test]
    fn quantile_is_a_bucket_bound() {
        let histogram = LatencyHistogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for wait in [3, 30, 40, 90_000] {
            histogram.observe(Duration::from_millis(wait));
        }
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.quantile(0.25), Some(Duration::from_millis(5)));
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_millis(50)));
        assert_eq!(histogram.quantile(0.95), None, "longer than the longest bound");
    }

    #[test]
    fn histogram_buckets_are_cumulative() {
        let metrics = Metrics::default();
        metrics.answers.add(2);
        for wait in [3, 30, 90_000] {
            metrics.first_token.observe(Duration::from_millis(wait));
        }
        let text = metrics.text(4);
        for line in [
            "gateway_answers_count 2",
            "gateway_running_count 4",
            "gateway_first_token_seconds_bucket{le=\"0.005\"} 1",
            "gateway_first_token_seconds_bucket{le=\"0.05\"} 2",
            "gateway_first_token_seconds_bucket{le=\"60\"} 2",
            "gateway_first_token_seconds_bucket{le=\"+Inf\"} 3",
            "gateway_first_token_seconds_sum 90.033",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
