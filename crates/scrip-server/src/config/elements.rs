//! The origin of the hosted fields.

use scrip_api::app::field_hosting::FieldHosting;
use scrip_core::policy::application::web_origin::host_without_port;

use crate::config::{
    table::Settings,
    value::{FieldOrigin, threeds::PublicUrl},
};

impl Settings {
    /// The hosts that serve the hosted fields. `is_on_loopback` is for development.
    pub fn field_hosting(&self, is_on_loopback: bool) -> FieldHosting {
        let origin = self.elements.origin.as_ref().map(|it| it.0.clone());
        FieldHosting { origin, is_on_loopback }
    }
}

/// Returns the problems that depend on more than one setting. The port does not make an origin of
/// its own here: the server compares host names only.
pub(super) fn find_contradictions(settings: &Settings) -> Option<String> {
    let FieldOrigin(origin) = settings.elements.origin.as_ref()?;
    let Some(PublicUrl::Url(public_url)) = &settings.threeds.public_url else { return None };
    let (_, rest) = public_url.0.split_once("://")?;
    let host = host_without_port(rest.split('/').next().unwrap_or_default());
    host.eq_ignore_ascii_case(origin.host()).then(|| {
        "elements.origin: must have another host than threeds.public_url, because answers of \
         proxied calls share the origin of the API"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use crate::config::load::tests::{assert_rejected, load};

    #[test]
    fn field_origin_must_be_an_https_origin() {
        for text in ["http://fields.example", "http://localhost", "fields.example", "https://a.b/c"]
        {
            assert_rejected(
                &format!("[elements]\norigin = \"{text}\""),
                "elements.origin: must be an origin such as https://fields.example",
            );
        }
        let settings = load("[elements]\norigin = \"https://Fields.example:443\"", &[]).unwrap();
        let origin = settings.elements.origin.map(|it| it.0.text().to_owned());
        assert_eq!(origin.as_deref(), Some("https://fields.example"));
    }

    #[test]
    fn field_origin_must_not_share_its_host_with_the_api() {
        let settings = |url: &str| {
            format!(
                "[elements]\norigin = \"https://vault.example\"\n[threeds]\npublic_url = \"{url}\""
            )
        };
        for url in
            ["https://vault.example", "https://VAULT.example:8443", "https://vault.example/x"]
        {
            assert_rejected(&settings(url), "elements.origin: must have another host");
        }
        assert!(load(&settings("https://api.vault.example"), &[]).is_ok());
    }
}
