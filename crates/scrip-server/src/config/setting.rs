//! One setting: its declaration, its value with the source, and the problems of values.

use std::fmt;

use crate::config::value::{SettingValue, ValueKind};

/// One row of the table of all settings.
#[derive(Debug)]
pub struct Setting {
    pub section: &'static str,
    pub name: &'static str,
    pub kind: ValueKind,
    /// Returns the text without its secret parts.
    pub redact: fn(&str) -> String,
    pub default: &'static str,
    pub description: &'static [&'static str],
}

impl Setting {
    /// Name in the file: `server.listen`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// Name of the variable: `SCRIP_SERVER_LISTEN`.
    pub fn variable(&self) -> String {
        format!("SCRIP_{}_{}", self.section, self.name).to_ascii_uppercase()
    }
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Default,
    File,
    Environment,
    Flag,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

/// A setting in force, with its value redacted for printing.
#[derive(Debug, Clone)]
pub struct EffectiveSetting {
    pub(crate) setting: &'static Setting,
    pub(crate) text: String,
    pub(crate) source: SettingSource,
}

/// All problems, one line each. The lines never quote a value: it could be a misplaced secret.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct SettingProblems(pub(crate) Vec<String>);

/// Whether the error is a list of invalid settings.
pub fn is_setting_problem(error: &anyhow::Error) -> bool {
    error.is::<SettingProblems>()
}

/// The text of a setting, and its location for error messages.
#[derive(Default)]
pub(crate) struct SettingText {
    pub(super) text: String,
    pub(super) location: String,
}

/// Parses one value, or adds a problem.
pub(super) fn parse<T: SettingValue>(
    setting: SettingText,
    problems: &mut Vec<String>,
) -> Option<T> {
    let SettingText { text, location } = setting;
    T::parse(&text).map_err(|rule| problems.push(format!("{location}: {rule}"))).ok()
}
