//! Message extensions of the schemes.

use crate::{
    fault::ErrorCode,
    format::{ElementContext, ElementFormat, List, Object, Text},
    message::record::record,
};

pub const EXTENSIONS_MAX: usize = 10;
pub const DATA_CHARS_MAX: usize = 8059;
/// The limit for all extensions of a message together, in characters.
const TOTAL_CHARS_MAX: usize = 81_920;

record! {
    /// One extension. Only components that know the id interpret its data.
    #[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Extension {
        must name: Text<1, 64> = "name";
        must id: Text<1, 64> = "id";
        must critical: bool = "criticalityIndicator";
        must data: Object<DATA_CHARS_MAX> = "data";
    }
}

/// The extensions of one message. Unknown extensions are not critical.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Extensions(Vec<Extension>);

impl Extensions {
    /// Returns `None` for an empty list or too many extensions.
    pub fn new(items: Vec<Extension>) -> Option<Self> {
        (1..=EXTENSIONS_MAX).contains(&items.len()).then_some(Self(items))
    }

    pub fn items(&self) -> &[Extension] {
        &self.0
    }
}

impl ElementFormat for Extensions {
    fn read(value: &serde_json::Value, context: &mut ElementContext<'_>) -> Option<Self> {
        let known_extensions = context.transaction.known_extensions;
        let extensions = List::<Extension, EXTENSIONS_MAX>::read(value, context)?;
        let is_unknown_critical =
            |it: &&Extension| it.critical && !known_extensions.contains(it.id.expose());
        if extensions.items().iter().any(|it| is_unknown_critical(&it)) {
            context.add_fault(ErrorCode::CriticalExtensionUnknown);
            return None;
        }
        let fits_limit = value.to_string().chars().count() <= TOTAL_CHARS_MAX;
        context.expect(Self::new(extensions.items().to_vec()).filter(|_| fits_limit))
    }

    fn write(&self) -> serde_json::Value {
        serde_json::Value::Array(self.0.iter().map(ElementFormat::write).collect())
    }
}
