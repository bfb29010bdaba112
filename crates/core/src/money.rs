//! Money: integer nano-dollars with checked arithmetic. There is no float anywhere near it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

const NANOS_PER_USD: u64 = 1_000_000_000;

/// An amount in billionths of a US dollar. Printed as a decimal string of dollars, `"0.001234"`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NanoUsd(pub u64);

impl NanoUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The sum, or `None` if it does not fit.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The sum, held at the largest amount. For worst cases only, where too much is the safe side.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left, or zero if the other is larger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0 / NANOS_PER_USD, self.0 % NANOS_PER_USD);
        if nanos == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{nanos:09}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl fmt::Debug for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${self}")
    }
}

/// An amount that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an amount of US dollars such as \"0.50\", not negative, with at most 9 decimals")]
pub struct MoneyError;

impl FromStr for NanoUsd {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 9 {
            return Err(MoneyError);
        }
        let whole: u64 = whole.parse().map_err(|_| MoneyError)?;
        let nanos: u64 = format!("{decimals:0<9}").parse().map_err(|_| MoneyError)?;
        whole
            .checked_mul(NANOS_PER_USD)
            .and_then(|n| n.checked_add(nanos))
            .map(Self)
            .ok_or(MoneyError)
    }
}

impl Serialize for NanoUsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NanoUsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_round_trip_exactly() {
        for (nanos, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (1_234_000, "0.001234"),
            (500_000_000, "0.5"),
            (u64::MAX, "18446744073.709551615"),
        ] {
            assert_eq!(NanoUsd(nanos).to_string(), text);
            assert_eq!(text.parse(), Ok(NanoUsd(nanos)));
        }
        assert_eq!("0.50".parse(), Ok(NanoUsd(500_000_000)));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for bad in [
            "",
            "-1",
            "-0",
            "+1",
            "1e3",
            "NaN",
            "inf",
            ".5",
            "1.",
            "0.0000000001",
            "18446744073.709551616",
            "1,5",
        ] {
            assert_eq!(bad.parse::<NanoUsd>(), Err(MoneyError), "{bad}");
        }
    }
}
