//! JSON of a 3DS session, in full and as its creator receives it.

use scrip_core::{
    idempotency::RenderedResponse,
    threeds::{ChallengeMode, SchemeSupport, ThreeDsSessionView},
};
use scrip_threeds::code::{AcsInformation, Device, DeviceChannel, ThreeDsSessionType};
use serde_json::{Map, Value};

use crate::wire::{
    response::render,
    threeds::{
        authentication::{self, AuthenticationBody, CardReferenceBody},
        device,
    },
};

pub(crate) fn render_created(view: &ThreeDsSessionView) -> RenderedResponse {
    render(201, &created_body(view))
}

pub(crate) fn render_updated(view: &ThreeDsSessionView) -> RenderedResponse {
    render(200, &created_body(view))
}

pub(crate) fn render_session(view: &ThreeDsSessionView) -> RenderedResponse {
    let outcome = view.authentication();
    let authentication = outcome.as_ref().map(authentication::body);
    render(200, &ThreeDsSessionResponseBody { authentication, ..session_body(view) })
}

bodies! {
    /// The data that an SDK continues with. The brand has two names, because clients read one or the
    /// other.
    pub(super) struct CreatedThreeDsSessionBody<'a> {
        pub(super) id: String,
        pub(super) r#type: &'static str,
        #[serde(flatten)]
        pub(super) card: CardReferenceBody,
        pub(super) card_brand: &'static str,
        #[serde(rename = "cardBrand")]
        pub(super) card_brand_camel_case: &'static str,
        pub(super) additional_card_brands?: Vec<&'static str>,
        pub(super) method_url?: &'a str,
        pub(super) method_notification_url: &'a str,
        pub(super) directory_server_id: &'static str,
        pub(super) recommended_version: &'static str,
        pub(super) metadata?: &'a Map<String, Value>,
    }

    pub(super) struct ThreeDsSessionResponseBody<'a> {
        pub(super) id: String,
        pub(super) tenant_id: String,
        pub(super) r#type: &'static str,
        #[serde(flatten)]
        pub(super) card: CardReferenceBody,
        pub(super) card_brand: &'static str,
        pub(super) additional_card_brands?: Vec<&'static str>,
        pub(super) expiration_date: String,
        pub(super) created_date: String,
        pub(super) created_by: String,
        pub(super) modified_date?: String,
        pub(super) modified_by?: String,
        pub(super) device?: &'static str,
        pub(super) device_info?: Map<String, Value>,
        pub(super) web_challenge_mode?: &'static str,
        pub(super) version?: VersionBody,
        pub(super) method?: MethodBody<'a>,
        pub(super) authentication?: AuthenticationBody<'a>,
        pub(super) metadata?: &'a Map<String, Value>,
    }

    /// The list of versions also has two names.
    pub(super) struct VersionBody {
        pub(super) recommended_version: &'static str,
        pub(super) available_version: Vec<&'static str>,
        pub(super) available_versions: Vec<&'static str>,
        pub(super) earliest_acs_supported_version: String,
        pub(super) earliest_ds_supported_version: String,
        pub(super) latest_acs_supported_version: String,
        pub(super) latest_ds_supported_version: String,
        pub(super) acs_information: Vec<String>,
    }

    pub(super) struct MethodBody<'a> {
        pub(super) method_url?: &'a str,
        pub(super) method_completion_indicator?: &'static str,
    }
}

fn created_body(view: &ThreeDsSessionView) -> CreatedThreeDsSessionBody<'_> {
    let scheme = view.body.schemes.first();
    let brand = brand(view);
    // The SDKs for apps require the attribute but do not use it.
    let is_app = view.body.state.channel == DeviceChannel::App;
    CreatedThreeDsSessionBody {
        id: view.id.to_string(),
        r#type: view.body.state.kind.name(),
        card: authentication::card_reference_body(&view.card),
        card_brand: brand,
        card_brand_camel_case: brand,
        additional_card_brands: brands(view),
        method_url: method_url(view).or(is_app.then_some("")),
        method_notification_url: &view.method_notification_url,
        directory_server_id: scheme.map_or("", |it| it.scheme.directory_server_id()),
        recommended_version: scheme.map_or("", |it| it.recommended.code()),
        metadata: view.body.metadata.as_ref(),
    }
}

fn session_body(view: &ThreeDsSessionView) -> ThreeDsSessionResponseBody<'_> {
    let body = &view.body;
    let is_customer = body.state.kind == ThreeDsSessionType::Customer;
    let is_browser = is_customer && body.device == Device::Browser;
    let (modified_by, modified_date) = body.modified().unzip();
    ThreeDsSessionResponseBody {
        id: view.id.to_string(),
        tenant_id: view.tenant_id.to_string(),
        r#type: body.state.kind.name(),
        card: authentication::card_reference_body(&view.card),
        card_brand: brand(view),
        additional_card_brands: brands(view),
        expiration_date: view.expires_at.to_string(),
        created_date: view.created_at.to_string(),
        created_by: view.created_by.to_string(),
        modified_date: modified_date.map(|it| it.to_string()),
        modified_by: modified_by.map(|it| it.to_string()),
        device: is_customer.then(|| body.device.name()),
        device_info: device::device_info_json(&body.device_info).filter(|_| is_customer),
        web_challenge_mode: is_browser.then(|| challenge_mode_name(body.challenge_mode)),
        version: body.schemes.first().map(version_body),
        method: method_body(view),
        authentication: None,
        metadata: body.metadata.as_ref(),
    }
}

/// Every session has a brand; without one it would not have been created.
fn brand(view: &ThreeDsSessionView) -> &'static str {
    view.body.schemes.first().map_or("", |it| it.scheme.name())
}

/// All brands of a card with several, the main one first.
fn brands(view: &ThreeDsSessionView) -> Option<Vec<&'static str>> {
    let schemes = &view.body.schemes;
    (schemes.len() > 1).then(|| schemes.iter().map(|it| it.scheme.name()).collect())
}

fn challenge_mode_name(mode: ChallengeMode) -> &'static str {
    match mode {
        ChallengeMode::Iframe => "iframe",
        ChallengeMode::Redirect => "redirect",
    }
}

/// Only if a browser can open the method page.
fn method_url(view: &ThreeDsSessionView) -> Option<&str> {
    let scheme = view.body.schemes.first().filter(|_| view.body.state.has_method_page)?;
    scheme.method_url.as_ref().map(|it| it.expose())
}

fn method_body(view: &ThreeDsSessionView) -> Option<MethodBody<'_>> {
    let method_url = method_url(view);
    let method_completion_indicator = view.method_completion.map(|it| it.code());
    let has_method = method_url.is_some() || method_completion_indicator.is_some();
    has_method.then_some(MethodBody { method_url, method_completion_indicator })
}

fn version_body(scheme: &SchemeSupport) -> VersionBody {
    let available: Vec<_> = scheme.available.iter().map(|it| it.code()).collect();
    VersionBody {
        recommended_version: scheme.recommended.code(),
        available_version: available.clone(),
        available_versions: available,
        earliest_acs_supported_version: scheme.acs.0.to_string(),
        earliest_ds_supported_version: scheme.ds.0.to_string(),
        latest_acs_supported_version: scheme.acs.1.to_string(),
        latest_ds_supported_version: scheme.ds.1.to_string(),
        acs_information: scheme
            .acs_information
            .iter()
            .map(|it| acs_information_text(*it))
            .collect(),
    }
}

/// Values that a scheme defines have a code but no name.
fn acs_information_text(information: AcsInformation) -> String {
    information.name().map_or_else(|| information.code(), ToOwned::to_owned)
}
