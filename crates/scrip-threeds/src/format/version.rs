//! Protocol versions: the supported ones, and any other that a message may name.

use std::fmt;

use crate::code::{EmvCode, codes};

codes! {
    /// The supported versions, in ascending order.
    pub enum Version {
        V210 = "2.1.0" "2.1.0",
        V220 = "2.2.0" "2.2.0",
    }
}

impl Version {
    pub fn number(self) -> VersionNumber {
        match self {
            Self::V210 => VersionNumber([2, 1, 0]),
            Self::V220 => VersionNumber([2, 2, 0]),
        }
    }
}

/// Any version, compared number by number. Card ranges may name unsupported versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionNumber([u8; 3]);

impl VersionNumber {
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|it| {
            let is_canonical = it.bytes().all(|it| it.is_ascii_digit())
                && (it == "0" || !it.starts_with('0'))
                && it.len() <= 2;
            it.parse().ok().filter(|_| is_canonical)
        });
        let version = [numbers.next()??, numbers.next()??, numbers.next()??];
        numbers.next().is_none().then_some(Self(version))
    }
}

impl fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl EmvCode for VersionNumber {
    fn parse_code(code: &str) -> Option<Self> {
        Self::parse(code)
    }

    fn to_code(&self) -> String {
        self.to_string()
    }

    #[cfg(test)]
    fn sample_codes() -> Vec<String> {
        ["2.1.0", "1.0.2", "2.2.0", "2.3.1", "10.99.99"].map(str::to_owned).into()
    }
}

impl VersionNumber {
    pub(crate) fn from_code(code: &str) -> Option<Self> {
        Self::parse(code)
    }
}

crate::code::impl_code_serde! { VersionNumber }
