//! What schemes add to messages.

use crate::{
    fault::ErrorCode,
    format::{Format, List, Object, Place, Text},
    message::record::{nested, record},
};

pub const EXTENSIONS_MAX: usize = 10;
pub const DATA_CHARS_MAX: usize = 8059;
/// All extensions of a message together, in characters.
const TOTAL_CHARS_MAX: usize = 81_920;

record! {
    /// One extension; its data is between the scheme and whoever knows the id.
    #[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Extension {
        must name: Text<1, 64> = "name";
        must id: Text<1, 64> = "id";
        must critical: bool = "criticalityIndicator";
        must data: Object<DATA_CHARS_MAX> = "data";
    }
}

nested! { Extension }

/// The extensions of one message, of which no critical one is unknown.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Extensions(Vec<Extension>);

impl Extensions {
    /// None if there are none, or too many.
    #[must_use]
    pub fn new(items: Vec<Extension>) -> Option<Self> {
        (1..=EXTENSIONS_MAX).contains(&items.len()).then_some(Self(items))
    }

    #[must_use]
    pub fn items(&self) -> &[Extension] {
        &self.0
    }
}

impl Format for Extensions {
    fn read(value: &serde_json::Value, place: &mut Place<'_>) -> Option<Self> {
        let known = place.scene.extensions;
        let read = List::<Extension, EXTENSIONS_MAX>::read(value, place)?;
        let foreign = |it: &&Extension| it.critical && !known.has(it.id.expose());
        if read.items().iter().any(|it| foreign(&it)) {
            place.fault(ErrorCode::CriticalExtensionUnknown);
            return None;
        }
        if value.to_string().chars().count() > TOTAL_CHARS_MAX {
            place.fault(ErrorCode::FormatInvalid);
            return None;
        }
        Self::new(read.items().to_vec())
    }

    fn write(&self) -> serde_json::Value {
        serde_json::Value::Array(self.0.iter().map(Format::write).collect())
    }

    #[cfg(test)]
    fn samples() -> Vec<serde_json::Value> {
        let one = serde_json::json!({
            "name": "n", "id": "A1", "criticalityIndicator": false, "data": {"a": "b"},
        });
        vec![vec![one.clone()].into(), vec![one; EXTENSIONS_MAX].into()]
    }

    #[cfg(test)]
    fn refused() -> Vec<serde_json::Value> {
        let one = Self::samples().swap_remove(0);
        let one = one.get(0).unwrap();
        let mut critical = one.clone();
        critical["criticalityIndicator"] = true.into();
        let mut wide = one.clone();
        wide["data"] = serde_json::json!({"a": "x".repeat(DATA_CHARS_MAX - 8)});
        wide["name"] = "n".repeat(64).into();
        wide["id"] = "i".repeat(64).into();
        let many = vec![one.clone(); EXTENSIONS_MAX + 1];
        vec![vec![critical].into(), many.into(), vec![wide; EXTENSIONS_MAX].into(), one.clone()]
    }
}
