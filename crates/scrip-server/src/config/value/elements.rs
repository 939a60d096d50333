//! The origin of the hosted fields.

use scrip_core::policy::application::web_origin::WebOrigin;

use crate::config::value::SettingValue;

/// An origin with https: card numbers are typed there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldOrigin(pub WebOrigin);

impl SettingValue for FieldOrigin {
    fn parse(text: &str) -> Result<Self, String> {
        let origin = WebOrigin::parse(text).ok().filter(WebOrigin::is_https);
        origin.map(Self).ok_or_else(|| {
            "must be an origin such as https://fields.example, with https and without a path"
                .to_owned()
        })
    }
}
