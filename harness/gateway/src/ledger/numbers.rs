//! Conversion of ids to SQLite's signed integers. Request numbers count from 1 and never come near the limit.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::{RequestId, SessionId, TurnId};

pub(crate) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

macro_rules! request_numbers {
    ($($name:ident, $number:expr, $made:expr;)*) => {
        $(
            impl ToSql for $name {
                fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                    let number: fn(&$name) -> u64 = $number;
                    Ok(to_sql(number(self)).into())
                }
            }

            impl FromSql for $name {
                fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                    let made: fn(u64) -> $name = $made;
                    i64::column_result(value).map(|number| made(from_sql(number)))
                }
            }
        )*
    };
}

request_numbers! {
    RequestId, |id| id.0, RequestId;
    SessionId, |id| id.0.0, |number| SessionId(RequestId(number));
    TurnId, |id| id.0.0, |number| TurnId(RequestId(number));
}
