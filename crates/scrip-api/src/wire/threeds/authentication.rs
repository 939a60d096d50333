//! JSON of the outcome of an authentication.

use scrip_core::{
    idempotency::RenderedResponse,
    threeds::{AuthenticationView, CardReference},
};
use scrip_threeds::{
    authentication::Authentication,
    code::{ChallengeCancel, ChallengePreference, ChallengeType, StatusReason, WhitelistSource},
    message::{AcsRendering, Extension},
};
use serde_json::{Map, Value};

use crate::wire::response::render;

pub(crate) fn render_authentication(view: &AuthenticationView) -> RenderedResponse {
    render(200, &body(view))
}

bodies! {
    /// Absent values are omitted.
    pub(super) struct AuthenticationBody<'a> {
        pub(super) session_id: String,
        pub(super) threeds_version: &'static str,
        pub(super) acs_transaction_id: &'a str,
        pub(super) ds_transaction_id: &'a str,
        pub(super) sdk_transaction_id?: &'a str,
        pub(super) acs_reference_number: &'a str,
        pub(super) ds_reference_number: &'a str,
        pub(super) acs_operator_id?: &'a str,
        #[serde(flatten)]
        pub(super) card: CardReferenceBody,
        pub(super) authentication_value?: &'a str,
        pub(super) authentication_status: &'static str,
        pub(super) authentication_status_code: &'static str,
        pub(super) directory_status_code: &'static str,
        pub(super) authentication_status_reason?: &'static str,
        pub(super) authentication_status_reason_code?: String,
        pub(super) eci?: &'a str,
        pub(super) liability_shifted: bool,
        pub(super) acs_challenge_mandated?: &'static str,
        pub(super) acs_decoupled_authentication?: &'static str,
        pub(super) authentication_challenge_type?: &'static str,
        pub(super) acs_challenge_url?: &'a str,
        pub(super) acs_signed_content?: &'a str,
        pub(super) acs_rendering_type?: RenderingBody,
        pub(super) challenge_preference?: &'static str,
        pub(super) challenge_preference_code?: String,
        pub(super) challenge_attempts?: &'a str,
        pub(super) challenge_cancel_reason?: &'static str,
        pub(super) challenge_cancel_reason_code?: String,
        pub(super) cardholder_info?: &'a str,
        pub(super) whitelist_status?: &'static str,
        pub(super) whitelist_status_source?: &'static str,
        pub(super) message_extensions?: Vec<ExtensionBody<'a>>,
    }

    /// The card of a session, with the current and the old attribute name.
    pub(super) struct CardReferenceBody {
        pub(super) pan_token_id?: String,
        pub(super) token_id?: String,
        pub(super) token_intent_id?: String,
    }

    /// The names are those of EMV, because apps pass this object to their SDK unchanged.
    #[serde(rename_all = "camelCase")]
    pub(super) struct RenderingBody {
        pub(super) acs_interface: &'static str,
        pub(super) acs_ui_template: &'static str,
    }

    pub(super) struct ExtensionBody<'a> {
        pub(super) id: &'a str,
        pub(super) name: &'a str,
        pub(super) critical: bool,
        pub(super) data: &'a Map<String, Value>,
    }
}

pub(super) fn card_reference_body(card: &CardReference) -> CardReferenceBody {
    let (token, intent) = match card {
        CardReference::Token(id) => (Some(id.as_str().to_owned()), None),
        CardReference::TokenIntent(id) => (None, Some(id.to_string())),
    };
    CardReferenceBody { pan_token_id: token.clone(), token_id: token, token_intent_id: intent }
}

pub(super) fn body(view: &AuthenticationView) -> AuthenticationBody<'_> {
    let outcome = &view.authentication;
    let preference = outcome.parameters.challenge_preference;
    AuthenticationBody {
        session_id: view.session_id.to_string(),
        threeds_version: outcome.parameters.version.code(),
        acs_transaction_id: outcome.acs_transaction_id.expose(),
        ds_transaction_id: outcome.ds_transaction_id.expose(),
        sdk_transaction_id: outcome.sdk_transaction_id.as_ref().map(|it| it.expose()),
        acs_reference_number: outcome.acs_reference_number.expose(),
        ds_reference_number: outcome.ds_reference_number.expose(),
        acs_operator_id: outcome.acs_operator_id.as_ref().map(|it| it.expose()),
        card: card_reference_body(&view.card),
        authentication_value: outcome.authentication_value.as_ref().map(|it| it.expose()),
        authentication_status: outcome.status.name(),
        authentication_status_code: outcome.status.code(),
        directory_status_code: outcome.directory_status.code(),
        authentication_status_reason: outcome.authentication_status_reason(),
        authentication_status_reason_code: outcome.reason.map(StatusReason::code),
        eci: outcome.eci.as_ref().map(|it| it.expose()),
        liability_shifted: outcome.liability_shifted(),
        acs_challenge_mandated: outcome.acs_challenge_mandated.map(|it| it.code()),
        acs_decoupled_authentication: outcome.acs_decoupled_authentication.map(|it| it.code()),
        authentication_challenge_type: outcome.challenge_type.and_then(ChallengeType::name),
        acs_challenge_url: outcome.acs_challenge_url.as_ref().map(|it| it.expose()),
        acs_signed_content: outcome.acs_signed_content.as_ref().map(|it| it.expose()),
        acs_rendering_type: outcome.acs_rendering.as_ref().map(rendering_body),
        challenge_preference: preference.and_then(ChallengePreference::name),
        challenge_preference_code: preference.map(ChallengePreference::code),
        challenge_attempts: outcome.challenge_attempts.as_ref().map(|it| it.expose()),
        challenge_cancel_reason: outcome.challenge_cancel_reason(),
        challenge_cancel_reason_code: outcome.challenge_cancel.map(ChallengeCancel::code),
        cardholder_info: outcome.cardholder_info.as_ref().map(|it| it.expose()),
        whitelist_status: outcome.whitelist_status.map(|it| it.name()),
        whitelist_status_source: outcome.whitelist_source.and_then(WhitelistSource::name),
        message_extensions: extension_bodies(outcome),
    }
}

fn rendering_body(rendering: &AcsRendering) -> RenderingBody {
    RenderingBody {
        acs_interface: rendering.interface.code(),
        acs_ui_template: rendering.template.code(),
    }
}

/// Omitted for apps: they pass the response to their SDK, which cannot read objects here.
fn extension_bodies(authentication: &Authentication) -> Option<Vec<ExtensionBody<'_>>> {
    let extensions = authentication
        .message_extensions
        .as_ref()
        .filter(|_| authentication.sdk_transaction_id.is_none())?;
    Some(extensions.items().iter().map(extension_body).collect())
}

fn extension_body(extension: &Extension) -> ExtensionBody<'_> {
    ExtensionBody {
        id: extension.id.expose(),
        name: extension.name.expose(),
        critical: extension.critical,
        data: extension.data.expose(),
    }
}
