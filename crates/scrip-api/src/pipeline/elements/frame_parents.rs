//! The pages that may put a field into a frame.

use scrip_core::{
    policy::{ApiKeyLookup, Principal, application::web_origin::WebOrigin},
    types::ApplicationKind,
};

use crate::app::App;

const APPLICATION_PARAMETER: &str = "application";

/// The pages that may frame a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameParents {
    Any,
    Origins(Vec<WebOrigin>),
    /// The URL names an application that does not exist.
    None,
}

impl FrameParents {
    /// Finds the parents by the query of a page. A public API key names the application: pages
    /// know their key, but not the id of their application.
    pub(super) fn find(app: &App, query: &str) -> Self {
        let mut keys = form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| name == APPLICATION_PARAMETER)
            .map(|(_, key)| key);
        match (keys.next(), keys.next()) {
            (None, _) => Self::Any,
            (Some(key), None) => Self::from_key(app, &key),
            (Some(_), Some(_)) => Self::None,
        }
    }

    fn from_key(app: &App, key: &str) -> Self {
        let directory = app.directory.load();
        let Some(directory) = directory.as_ref() else { return Self::None };
        match directory.find_by_digest(&directory.digest(key)) {
            Some(ApiKeyLookup::Found { principal, .. }) => Self::from_principal(principal),
            Some(ApiKeyLookup::PolicyAltered) | None => Self::None,
        }
    }

    fn from_principal(principal: &Principal) -> Self {
        match principal.kind() {
            ApplicationKind::Public if principal.origins().is_empty() => Self::Any,
            ApplicationKind::Public => Self::Origins(principal.origins().iter().cloned().collect()),
            // Such a key must not be in a URL.
            ApplicationKind::Private | ApplicationKind::Management => Self::None,
        }
    }

    /// The value of `frame-ancestors`.
    pub(super) fn to_source_list(&self) -> String {
        match self {
            Self::Any => "*".to_owned(),
            Self::Origins(origins) => {
                origins.iter().map(WebOrigin::text).collect::<Vec<_>>().join(" ")
            }
            Self::None => "'none'".to_owned(),
        }
    }

    /// The list for the script of the controller. An empty list means any page; an unknown
    /// application also has one, but no page can frame it.
    pub(super) fn to_json(&self) -> String {
        let origins = match self {
            Self::Any | Self::None => &[][..],
            Self::Origins(origins) => origins,
        };
        let texts: Vec<_> = origins.iter().map(WebOrigin::text).collect();
        serde_json::to_string(&texts).unwrap_or_default()
    }
}
