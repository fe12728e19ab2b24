//! A TensorBoard event file: scalars, and the points where a training returned to a checkpoint.
//!
//! I1. Every record is complete: its length and its bytes have a checksum each. I2. If a resumed
//! training removed rows, they are removed from the chart: TensorBoard forgets all points at and after the step of a session's
//! start, so the remaining points are written again. TensorBoard does so from the second start in a file on.
//!
//! Shapes: a record is its length (u64), the checksum of the length (u32), the bytes, their checksum (u32), little-endian; checksums are CRC-32C,
//! rotated right by 15 and raised by 0xa282ead8. The bytes are a message `Event` in the wire format of protocol buffers.
//! Pure. Source: TensorFlow's `record_writer.cc`, and `event.proto` and `summary.proto` of TensorBoard.

use clawrl_record::MetricRow;

use super::axis::{path, step};

/// `Event.file_version`
const VERSION: &str = "brain.Event:2";

/// `SessionLog.START`
const START: u64 = 1;

/// Content of the event file so far.
#[derive(Debug, Clone, Default)]
pub struct EventLog {
    begin_ms: Option<u64>,
    rows: Vec<MetricRow>,
}

impl EventLog {
    /// Brings the file up to date with all rows that there are: the bytes to append.
    #[must_use]
    pub fn bring_up(&mut self, rows: &[MetricRow]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let begin_ms = match self.begin_ms {
            Some(begin_ms) => begin_ms,
            None => {
                let Some(first) = rows.first() else { return bytes };
                bytes.extend(record(&event(first.t_ms, None, &text(3, VERSION))));
                bytes.extend(record(&start(first.t_ms, 0)));
                first.t_ms
            }
        };
        self.begin_ms = Some(begin_ms);
        let same = |(old, new): &(&MetricRow, &MetricRow)| {
            (old.t_ms, old.name, old.update) == (new.t_ms, new.name, new.update)
        };
        let kept = self.rows.iter().zip(rows).take_while(same).count();
        let step = |row: &MetricRow| step(row, begin_ms);
        let mut due: Vec<&MetricRow> = Vec::new();
        if let Some(from) = self.rows[kept..].iter().map(step).min() {
            let now = rows[..kept].iter().map(|row| row.t_ms).max().unwrap_or(begin_ms);
            bytes.extend(record(&start(now, from)));
            due.extend(rows[..kept].iter().filter(|row| step(row) >= from));
        }
        due.extend(&rows[kept..]);
        for row in due {
            let value = [text(1, &path(row.name)), single(2, row.value as f32)].concat();
            let summary = message(5, &message(1, &value));
            bytes.extend(record(&event(row.t_ms, Some(step(row)), &summary)));
        }
        self.rows = rows.to_vec();
        bytes
    }
}

/// The start of a session whose first values belong to a step.
fn start(t_ms: u64, step: u64) -> Vec<u8> {
    event(t_ms, Some(step), &message(7, &number(1, START)))
}

fn event(t_ms: u64, step: Option<u64>, what: &[u8]) -> Vec<u8> {
    let step = step.map(|step| number(2, step)).unwrap_or_default();
    [double(1, t_ms as f64 / 1000.0), step, what.to_vec()].concat()
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let sums = [&length, data].map(|bytes| masked(crc32c::crc32c(bytes)).to_le_bytes());
    [&length as &[u8], &sums[0], data, &sums[1]].concat()
}

fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The wire types of protocol buffers.
fn field(place: u64, wire_type: u64) -> Vec<u8> {
    varint(place << 3 | wire_type)
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(place: u64, value: u64) -> Vec<u8> {
    [field(place, 0), varint(value)].concat()
}

fn double(place: u64, value: f64) -> Vec<u8> {
    [field(place, 1), value.to_le_bytes().to_vec()].concat()
}

fn single(place: u64, value: f32) -> Vec<u8> {
    [field(place, 5), value.to_le_bytes().to_vec()].concat()
}

fn message(place: u64, bytes: &[u8]) -> Vec<u8> {
    [field(place, 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn text(place: u64, text: &str) -> Vec<u8> {
    message(place, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use clawrl_record::Metric;

    use super::*;

    fn row(update: u64, value: f64) -> MetricRow {
        let metric = Metric::TrainRewardMean;
        MetricRow { t_ms: 1_000 * (update + 1), name: metric, update: Some(update), value }
    }

    /// Steps of the events of a file, and of those whether each is the start of a session.
    fn events(mut bytes: &[u8]) -> Vec<(Option<u8>, bool)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            let sum = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(sum(8), masked(crc32c::crc32c(&bytes[..8])));
            let data = &bytes[12..12 + length];
            assert_eq!(sum(12 + length), masked(crc32c::crc32c(data)));
            // The time has 9 bytes, then follow the step of a small number and the kind.
            let has_step = data[9] == 2 << 3;
            let kind = if has_step { data[11] } else { data[9] };
            found.push((has_step.then(|| data[10]), kind == 7 << 3 | 2));
            bytes = &bytes[16 + length..];
        }
        found
    }

    #[test]
    fn records_are_as_tensorboard_writes_them() {
        // The first record of every event file: `EventFileWriter` wrote it, but for the time.
        let version = record(&event(0, None, &text(3, VERSION)));
        let mut expected = vec![0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22];
        expected.extend([9, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a, 0x0d]);
        expected.extend(b"brain.Event:2");
        assert_eq!(version[..36], expected);
        assert_eq!(varint(300), [0xac, 2]);
    }

    #[test]
    fn each_row_is_written_once() {
        let mut log = EventLog::default();
        assert_eq!(log.bring_up(&[]), Vec::<u8>::new());
        assert_eq!(events(&log.bring_up(&[row(1, 0.5)])), [(None, false), (Some(0), true), (Some(1), false)]);
        let rows = [row(1, 0.5), row(2, f64::NAN)];
        assert_eq!(events(&log.bring_up(&rows)), [(Some(2), false)]);
        // NaN equals itself here.
        assert_eq!(log.bring_up(&rows), Vec::<u8>::new());
    }

    #[test]
    fn i2_rolled_back_values_are_removed() {
        let imitation = MetricRow { name: Metric::TrainImitationLossNats, ..row(9, 1.0) };
        let mut log = EventLog::default();
        let _ = log.bring_up(&[imitation, row(1, 0.1), row(2, 0.2), row(3, 0.3)]);
        let again = MetricRow { t_ms: 99_000, ..row(2, 0.4) };
        let found = events(&log.bring_up(&[imitation, row(1, 0.1), again]));
        // The step of the imitation lies behind the one that was gone back to.
        assert_eq!(found, [(Some(2), true), (Some(9), false), (Some(2), false)]);
    }
}
