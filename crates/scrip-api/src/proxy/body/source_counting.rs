//! How values count toward the length of a message, by their source.

use scrip_core::expression::message::ValueCounting;
use scrip_expression::MessageSource;

/// How values count, by their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCounting {
    /// Data of tokens, intents and of the client.
    pub data: ValueCounting,
    /// The configuration of the proxy, and texts of its transforms.
    pub configuration: ValueCounting,
}

impl SourceCounting {
    pub(crate) const EXACT: Self =
        Self { data: ValueCounting::Exact, configuration: ValueCounting::Exact };

    /// Whether the exact length of the message is hidden.
    pub(crate) fn is_padded(self) -> bool {
        self != Self::EXACT
    }

    pub(super) fn of(self, source: &MessageSource) -> ValueCounting {
        match source {
            MessageSource::Configuration(_) => self.configuration,
            MessageSource::Reference(_)
            | MessageSource::Identifier(_)
            | MessageSource::Object(_) => self.data,
        }
    }
}
