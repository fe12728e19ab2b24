//! Single values: the meaning of a column, and its values in JSON (P1).

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::data_type::{ByteArray, Int96};
use parquet::schema::types::ColumnDescriptor;
use serde_json::{Number, Value};

const NANOSECONDS_OF_SECOND: i128 = 1_000_000_000;
const NANOSECONDS_OF_DAY: i128 = 86_400 * NANOSECONDS_OF_SECOND;
/// The epoch of 96-bit timestamps, in days before 1970.
const JULIAN_EPOCH: i128 = 2_440_588;

/// Meaning of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// As stored: a boolean, a signed integer, a number.
    Stored,
    Unsigned32,
    Unsigned64,
    Text,
    Uuid,
    /// A decimal with this many decimal places.
    Decimal(u32),
    Date,
    /// Time since midnight, in units of this many nanoseconds.
    Time(i128),
    /// Time since 1970, in units of this many nanoseconds; without a time zone unless it is UTC.
    Timestamp {
        unit: i128,
        is_utc: bool,
    },
}

impl Meaning {
    /// The meaning of a column; `None` if neither JSON nor a text can represent it.
    pub(super) fn of(column: &ColumnDescriptor) -> Option<Self> {
        let converted = column.converted_type();
        let meaning = match (column.physical_type(), column.logical_type_ref()) {
            (Type::INT32, Some(LogicalType::Integer(integer))) if !integer.is_signed => Self::Unsigned32,
            (Type::INT64, Some(LogicalType::Integer(integer))) if !integer.is_signed => Self::Unsigned64,
            (Type::INT32 | Type::INT64, Some(LogicalType::Integer(_))) => Self::Stored,
            (Type::INT32, Some(LogicalType::Date)) => Self::Date,
            (Type::INT32 | Type::INT64, Some(LogicalType::Time(time))) => Self::Time(nanoseconds(time.unit)),
            (Type::INT64, Some(LogicalType::Timestamp(time))) => {
                Self::Timestamp { unit: nanoseconds(time.unit), is_utc: time.is_adjusted_to_u_t_c }
            }
            (Type::BOOLEAN | Type::FLOAT | Type::DOUBLE, _) => Self::Stored,
            (Type::INT96, _) => Self::Timestamp { unit: 1, is_utc: false },
            (_, Some(LogicalType::Decimal(decimal))) => Self::Decimal(places(decimal.scale)?),
            (_, Some(LogicalType::Unknown)) => Self::Stored,
            (
                Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY,
                Some(LogicalType::String | LogicalType::Enum | LogicalType::Json),
            ) => Self::Text,
            (Type::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)) => Self::Uuid,
            (_, Some(_)) => return None,
            (physical, None) => Self::converted(physical, converted, column.type_scale())?,
        };
        Some(meaning)
    }

    /// Legacy types of older files.
    fn converted(physical: Type, converted: ConvertedType, scale: i32) -> Option<Self> {
        let meaning = match (physical, converted) {
            (Type::INT32, ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32) => {
                Self::Unsigned32
            }
            (Type::INT64, ConvertedType::UINT_64) => Self::Unsigned64,
            (Type::INT32, ConvertedType::DATE) => Self::Date,
            (Type::INT32, ConvertedType::TIME_MILLIS) => Self::Time(nanoseconds(TimeUnit::MILLIS)),
            (Type::INT64, ConvertedType::TIME_MICROS) => Self::Time(nanoseconds(TimeUnit::MICROS)),
            (Type::INT64, ConvertedType::TIMESTAMP_MILLIS) => {
                Self::Timestamp { unit: nanoseconds(TimeUnit::MILLIS), is_utc: true }
            }
            (Type::INT64, ConvertedType::TIMESTAMP_MICROS) => {
                Self::Timestamp { unit: nanoseconds(TimeUnit::MICROS), is_utc: true }
            }
            (_, ConvertedType::DECIMAL) => Self::Decimal(places(scale)?),
            (
                Type::INT32 | Type::INT64,
                ConvertedType::NONE
                | ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::INT_64,
            ) => Self::Stored,
            (
                Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY,
                ConvertedType::NONE | ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON,
            ) => Self::Text,
            _ => return None,
        };
        Some(meaning)
    }
}

/// Decimal places; decimals with more than 38 digits are not supported.
fn places(scale: i32) -> Option<u32> {
    u32::try_from(scale).ok().filter(|places| *places <= 38)
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::MILLIS => 1_000_000,
        TimeUnit::MICROS => 1_000,
        TimeUnit::NANOS => 1,
    }
}

/// A value as stored.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Bool(bool),
    Integer(i64),
    /// Nanoseconds since 1970.
    Nanoseconds(i128),
    Float(f64),
    Bytes(ByteArray),
}

impl Cell {
    /// A timestamp of 96 bits: nanoseconds of the day, and the day.
    pub(super) fn of_int96(value: &Int96) -> Self {
        let nanoseconds = match value.data() {
            [low, high, day] => {
                let of_day = i128::from(u64::from(*high) << 32 | u64::from(*low));
                (i128::from(*day) - JULIAN_EPOCH) * NANOSECONDS_OF_DAY + of_day
            }
            _ => 0,
        };
        Self::Nanoseconds(nanoseconds)
    }

    /// Bytes of the text of a value; 0 for values of a fixed size.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.data().len(),
            Self::Bool(_) | Self::Integer(_) | Self::Nanoseconds(_) | Self::Float(_) => 0,
        }
    }

    /// The value in JSON.
    ///
    /// # Errors
    /// Why JSON cannot represent the value (P2).
    pub(super) fn json(&self, meaning: Meaning) -> Result<Value, &'static str> {
        match (self, meaning) {
            (Self::Bool(value), _) => Ok(Value::Bool(*value)),
            (Self::Float(value), _) => Ok(Number::from_f64(*value).map_or(Value::Null, Value::Number)),
            (Self::Bytes(bytes), Meaning::Decimal(places)) => signed(bytes.data())
                .map(|digits| decimal(digits, places).into())
                .ok_or("not a decimal of up to 38 digits"),
            (Self::Bytes(bytes), Meaning::Uuid) => uuid(bytes.data()).map(Value::String).ok_or("not a UUID"),
            (Self::Bytes(bytes), _) => {
                std::str::from_utf8(bytes.data()).map(Value::from).map_err(|_| "not UTF-8 text")
            }
            // The bits are those of an unsigned number.
            (Self::Integer(value), Meaning::Unsigned32) => Ok(Value::from(*value as u32)),
            (Self::Integer(value), Meaning::Unsigned64) => Ok(Value::from(*value as u64)),
            (Self::Integer(value), Meaning::Decimal(places)) => Ok(decimal((*value).into(), places).into()),
            (Self::Integer(days), Meaning::Date) => {
                let at = i128::from(*days) * NANOSECONDS_OF_DAY;
                Timestamp::from_nanosecond(at)
                    .map(|at| at.to_zoned(TimeZone::UTC).date().to_string().into())
                    .map_err(|_| "not a date up to the year 9999")
            }
            (Self::Integer(value), Meaning::Time(unit)) => time(i128::from(*value) * unit),
            (Self::Integer(value), Meaning::Timestamp { unit, is_utc }) => {
                timestamp(i128::from(*value) * unit, is_utc)
            }
            (Self::Nanoseconds(value), _) => timestamp(*value, false),
            (Self::Integer(value), _) => Ok(Value::from(*value)),
        }
    }
}

fn timestamp(nanoseconds: i128, is_utc: bool) -> Result<Value, &'static str> {
    let at = Timestamp::from_nanosecond(nanoseconds).map_err(|_| "not a time up to the year 9999")?;
    Ok(if is_utc { at.to_string() } else { at.to_zoned(TimeZone::UTC).datetime().to_string() }.into())
}

fn time(nanoseconds: i128) -> Result<Value, &'static str> {
    if !(0..NANOSECONDS_OF_DAY).contains(&nanoseconds) {
        return Err("not a time of day");
    }
    let at = Timestamp::from_nanosecond(nanoseconds).map_err(|_| "not a time of day")?;
    let time: Time = at.to_zoned(TimeZone::UTC).time();
    Ok(time.to_string().into())
}

/// Big-endian two's complement.
fn signed(bytes: &[u8]) -> Option<i128> {
    let (first, len) = (*bytes.first()?, bytes.len());
    if len > 16 {
        return None;
    }
    let mut whole = [if first < 0x80 { 0 } else { 0xff }; 16];
    whole[16 - len..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(whole))
}

fn decimal(digits: i128, places: u32) -> String {
    let places = places as usize;
    if places == 0 {
        return digits.to_string();
    }
    let sign = if digits < 0 { "-" } else { "" };
    let text = format!("{:0>width$}", digits.unsigned_abs(), width = places + 1);
    let (whole, rest) = text.split_at(text.len() - places);
    format!("{sign}{whole}.{rest}")
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(cell: &Cell, meaning: Meaning, expected: Result<Value, &str>) {
        assert_eq!(cell.json(meaning), expected, "{cell:?} {meaning:?}");
    }

    #[test]
    fn p1_values_become_json() {
        check(&Cell::Bool(true), Meaning::Stored, Ok(json!(true)));
        check(&Cell::Integer(-7), Meaning::Stored, Ok(json!(-7)));
        check(&Cell::Integer(-1), Meaning::Unsigned32, Ok(json!(4_294_967_295_u32)));
        check(&Cell::Integer(-1), Meaning::Unsigned64, Ok(json!(u64::MAX)));
        check(&Cell::Float(0.5), Meaning::Stored, Ok(json!(0.5)));
        check(&Cell::Float(f64::NAN), Meaning::Stored, Ok(Value::Null));
        let bytes = |bytes: &[u8]| Cell::Bytes(ByteArray::from(bytes.to_vec()));
        check(&bytes("é".as_bytes()), Meaning::Text, Ok(json!("é")));
        check(&bytes(&[0xff]), Meaning::Text, Err("not UTF-8 text"));
        check(&bytes(&[0x12; 16]), Meaning::Uuid, Ok(json!("12121212-1212-1212-1212-121212121212")));
        check(&bytes(&[0x12; 15]), Meaning::Uuid, Err("not a UUID"));
    }

    #[test]
    fn p1_decimals_keep_their_digits() {
        check(&Cell::Integer(12345), Meaning::Decimal(2), Ok(json!("123.45")));
        check(&Cell::Integer(-5), Meaning::Decimal(3), Ok(json!("-0.005")));
        check(&Cell::Integer(7), Meaning::Decimal(0), Ok(json!("7")));
        let bytes = |bytes: &[u8]| Cell::Bytes(ByteArray::from(bytes.to_vec()));
        check(&bytes(&[0xff, 0x38]), Meaning::Decimal(2), Ok(json!("-2.00")));
        check(&bytes(&[1, 0]), Meaning::Decimal(0), Ok(json!("256")));
        check(&bytes(&[]), Meaning::Decimal(0), Err("not a decimal of up to 38 digits"));
        check(&bytes(&[1; 17]), Meaning::Decimal(0), Err("not a decimal of up to 38 digits"));
    }

    #[test]
    fn p1_times_become_iso_8601() {
        let micros = |is_utc| Meaning::Timestamp { unit: 1_000, is_utc };
        check(&Cell::Integer(1_700_000_000_000_000), micros(true), Ok(json!("2023-11-14T22:13:20Z")));
        check(&Cell::Integer(1_700_000_000_250_000), micros(false), Ok(json!("2023-11-14T22:13:20.25")));
        check(&Cell::Integer(i64::MAX), micros(true), Err("not a time up to the year 9999"));
        check(&Cell::Integer(-1), Meaning::Date, Ok(json!("1969-12-31")));
        check(&Cell::Integer(i64::MAX), Meaning::Date, Err("not a date up to the year 9999"));
        check(&Cell::Integer(3_661_000), Meaning::Time(1_000_000), Ok(json!("01:01:01")));
        check(&Cell::Integer(-1), Meaning::Time(1), Err("not a time of day"));
        let mut noon = Int96::new();
        let of_day: u64 = 43_200 * 1_000_000_000;
        noon.set_data(of_day as u32, (of_day >> 32) as u32, 2_440_589);
        check(&Cell::of_int96(&noon), micros(false), Ok(json!("1970-01-02T12:00:00")));
    }
}
