//! `metrics.jsonl`: figures over time.
//!
//! One row a line, `{"t_ms":...,"name":"slots_open_count","value":12.0}`. Rows are no part of the promise that
//! resolutions have: a crash may cost the last of them. Names come from one enum, `<area>_<thing>_<unit>`.

use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// Slots that are not closed.
    SlotsOpenCount,
    /// Slots that are closed, by a fault or not.
    SlotsClosedCount,
    /// Slots that a fault closed.
    SlotsFaultedCount,
    /// Slots whose episode passed.
    SlotsPassedCount,
    /// Attempts under way.
    AttemptsLiveCount,
    /// Attempts resolved in the last interval, per second.
    AttemptsResolvedPerSecond,
    /// Attempts that were a further try after a fault.
    AttemptsRetriedCount,
    /// Turns in the last interval, per second.
    TurnsTakenPerSecond,
    /// Sandboxes that exist, leased or warm.
    SandboxesLiveCount,
    /// Sandboxes that are ready and not leased.
    SandboxesWarmCount,
    /// Most sandboxes at once so far.
    SandboxesPeakCount,
    /// Sum of attempts waiting for a lease.
    QueueWaitingCount,
    /// Resident memory of this process.
    HarnessMemoryMib,
    /// Processor time of this process in the last interval, in hundredths of a core.
    HarnessCpuPercent,
    /// Memory that the host has available.
    HostMemoryAvailableMib,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 15] = [
        Self::SlotsOpenCount,
        Self::SlotsClosedCount,
        Self::SlotsFaultedCount,
        Self::SlotsPassedCount,
        Self::AttemptsLiveCount,
        Self::AttemptsResolvedPerSecond,
        Self::AttemptsRetriedCount,
        Self::TurnsTakenPerSecond,
        Self::SandboxesLiveCount,
        Self::SandboxesWarmCount,
        Self::SandboxesPeakCount,
        Self::QueueWaitingCount,
        Self::HarnessMemoryMib,
        Self::HarnessCpuPercent,
        Self::HostMemoryAvailableMib,
    ];
}

/// One figure at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricRow {
    /// Milliseconds since 1970.
    pub t_ms: u64,
    /// What is measured.
    pub name: Metric,
    /// In the unit that the name ends in. Not a number is stored as null and read back as such.
    #[serde(deserialize_with = "number_or_nan")]
    pub value: f64,
}

fn number_or_nan<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Reads rows; a torn last line is left out.
///
/// # Errors
/// Number of the line, from 1, and what is wrong with it.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<MetricRow>, (usize, serde_json::Error)> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes[..whole].split_inclusive(|&byte| byte == b'\n');
    lines.enumerate().map(|(index, line)| serde_json::from_slice(line).map_err(|e| (index + 1, e))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_locked() {
        let names: Vec<String> = Metric::ALL
            .iter()
            .map(|metric| serde_json::to_value(metric).unwrap().as_str().unwrap().to_owned())
            .collect();
        insta::assert_snapshot!(names.join("\n"), @r"
        slots_open_count
        slots_closed_count
        slots_faulted_count
        slots_passed_count
        attempts_live_count
        attempts_resolved_per_second
        attempts_retried_count
        turns_taken_per_second
        sandboxes_live_count
        sandboxes_warm_count
        sandboxes_peak_count
        queue_waiting_count
        harness_memory_mib
        harness_cpu_percent
        host_memory_available_mib
        ");
    }

    #[test]
    fn torn_last_line_is_left_out() {
        let row = MetricRow { t_ms: 5, name: Metric::SlotsOpenCount, value: 3.0 };
        let mut bytes = serde_json::to_vec(&row).unwrap();
        assert_eq!(bytes, br#"{"t_ms":5,"name":"slots_open_count","value":3.0}"#);
        bytes.extend_from_slice(b"\n{\"t_ms\":");
        assert_eq!(parse(&bytes).unwrap(), [row]);
        bytes.extend_from_slice(b"\n");
        assert_eq!(parse(&bytes).unwrap_err().0, 2);
    }
}
