//! Time as values, and the port behind which a clock stands.

use crate::Fut;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A moment, in microseconds since the Unix epoch, UTC. Printed as RFC 3339 with `Z` and milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// A moment that many milliseconds after this one.
    pub const fn plus_ms(self, ms: u64) -> Self {
        let micros = ms.saturating_mul(1_000);
        Self(self.0.saturating_add_unsigned(micros))
    }

    /// Whole milliseconds since an earlier moment, or zero if it is later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        let micros = self.0.saturating_sub(earlier.0);
        if micros <= 0 {
            0
        } else {
            micros.unsigned_abs() / 1_000
        }
    }

    /// The UTC day, as days since the Unix epoch. Usage belongs to it.
    pub const fn day(self) -> i64 {
        self.0.div_euclid(86_400_000_000)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.day());
        let micros = self.0.rem_euclid(86_400_000_000);
        let (seconds, millis) = (micros / 1_000_000, micros % 1_000_000 / 1_000);
        let (hour, minute, second) = (seconds / 3_600, seconds % 3_600 / 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The proleptic Gregorian date of a day number: the era-based algorithm, exact over the whole range.
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// The day number of a proleptic Gregorian date.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let month_index = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_index + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// A time that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a UTC time such as 2026-01-31T08:00:00.000Z")]
pub struct TimestampError;

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;

    /// Reads `YYYY-MM-DDThh:mm:ss[.fraction]Z`; a finer fraction than microseconds is cut.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let body = text.strip_suffix('Z').ok_or(TimestampError)?;
        let (date, clock) = body.split_once('T').ok_or(TimestampError)?;
        let number = |part: &str, width: usize| -> Result<i64, TimestampError> {
            if part.len() != width || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(TimestampError);
            }
            part.parse().map_err(|_| TimestampError)
        };
        let mut date_parts = date.splitn(3, '-');
        let mut next_date = |width| number(date_parts.next().ok_or(TimestampError)?, width);
        let (year, month, day) = (next_date(4)?, next_date(2)?, next_date(2)?);
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let mut clock_parts = clock.splitn(3, ':');
        let mut next_clock = || number(clock_parts.next().ok_or(TimestampError)?, 2);
        let (hour, minute, second) = (next_clock()?, next_clock()?, next_clock()?);
        if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return Err(TimestampError);
        }
        let micros: i64 = format!("{fraction:0<6}")[..6]
            .parse()
            .map_err(|_| TimestampError)?;
        let days = days_from_civil(year, month, day);
        if civil_from_days(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
            return Err(TimestampError);
        }
        Ok(Self(
            ((days * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000_000) + micros,
        ))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where the present comes from. Only liveness may depend on it, never safety.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock, for stamps that people read.
    fn now(&self) -> Timestamp;

    /// Microseconds since some fixed moment; it never goes back. Time that is measured is measured with this.
    fn monotonic_us(&self) -> u64;

    /// Completes after that many milliseconds.
    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_print_and_parse() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_599_999_000, "2025-12-31T23:59:59.999Z"),
            (-1_000, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(micros)));
        }
    }

    #[test]
    fn impossible_moments_are_refused() {
        for bad in [
            "2025-02-29T00:00:00Z",
            "2025-01-01 00:00:00Z",
            "2025-01-01T24:00:00Z",
            "2025-1-1T00:00:00Z",
            "now",
        ] {
            assert_eq!(bad.parse::<Timestamp>(), Err(TimestampError), "{bad}");
        }
    }
}
