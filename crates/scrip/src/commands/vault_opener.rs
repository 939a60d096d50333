//! Names what opened a vault: its root key, or an unlock method.

use scrip_server::unlock::open::MethodName;
use serde_json::{Value, json};

/// The method that returned the vault key; `None` for the root key of a vault without methods.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VaultOpener(pub(crate) Option<MethodName>);

impl VaultOpener {
    /// A clause such as `unlock method file disk (ID) opens it`.
    pub(crate) fn describe(&self) -> String {
        match &self.0 {
            None => "the root key opens it".to_owned(),
            Some(method) if method.is_root_key => {
                format!("the root key opens it, as unlock method {method}")
            }
            Some(method) => format!("unlock method {method} opens it"),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match &self.0 {
            None => json!({ "kind": "root key" }),
            Some(it) => json!({ "kind": it.kind.as_str(), "id": it.id, "label": it.label }),
        }
    }
}
