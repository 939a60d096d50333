//! Builds the request to the destination: body, transforms, headers.

use bytes::Bytes;
use hyper::Request;
use scrip_core::{
    error::{Denial, Error},
    operations::{
        proxy_calls::use_tokens::{UsedTokens, use_tokens},
        reference_data::{ReferenceData, ReferenceUse},
    },
    policy::Caller,
    token::{Plaintext, WorkMeter},
};
use serde_json::{Map, Value};

use crate::{
    app::App,
    proxy::{
        body::{BodyInputs, MessageBody},
        call::{ReceivedCall, party::CallParty, plan::CallPlan, transforms::CallTransforms},
        error::ProxyError,
        headers::{
            HeaderInputs, evaluate_headers, forward_request_headers, has_header_expressions,
            reads_configuration as headers_read_configuration,
        },
        transform::{TransformDirection, TransformMessage},
    },
    wire::tokens::detokenize::WHOLE_TOKEN_RENDERERS,
};

/// The values that expressions and transforms of a call share.
pub(super) struct CallInputs<'c> {
    pub(super) references: &'c ReferenceData,
    /// An object of texts; empty if neither the message nor a transform needs it.
    pub(super) configuration: &'c Value,
    pub(super) work: &'c WorkMeter,
}

/// The body with its expressions compiled. Without a caller, and if the proxy says so, expressions
/// are text.
///
/// # Errors
/// The body has an invalid expression, or the caller has no right to evaluate one.
pub(super) fn parse_message(call: &ReceivedCall) -> Result<MessageBody, ProxyError> {
    let body = call.body.clone();
    if !call.evaluates_expressions() {
        return MessageBody::without_expressions(&call.headers, body);
    }
    let message = MessageBody::parse(&call.headers, body)?;
    let mut reads_configuration = message.reads_configuration();
    if message.has_expressions() || has_header_expressions(&call.headers) {
        call.party.check_expression_right()?;
        // Errors of syntax are found before a token is loaded, so that they do not depend on data.
        let headers = forward_request_headers(&call.headers, false);
        reads_configuration |= headers_read_configuration(&headers)?;
    }
    // A browser is not trusted with the key of a provider, and a destination can repeat it.
    if reads_configuration && call.party.caller().is_some_and(Caller::is_browser) {
        return Err(Error::Forbidden(Denial::ConfigurationForBrowser).into());
    }
    Ok(message)
}

/// The configuration of the proxy, if an expression or a transform may read it.
///
/// # Errors
/// The secrets of the proxy cannot be opened.
pub(super) fn load_configuration(
    call: &ReceivedCall,
    plan: &CallPlan,
    message: &MessageBody,
) -> Result<Plaintext, ProxyError> {
    let has_header_expressions =
        || call.evaluates_expressions() && has_header_expressions(&call.headers);
    let is_read =
        message.reads_configuration() || plan.has_transforms() || has_header_expressions();
    let mut object = Map::new();
    if let Some(proxy) = call.selected.proxy().filter(|_| is_read) {
        let secrets = proxy.open_secrets()?;
        let entries = secrets.configuration.iter().flat_map(|it| it.iter());
        object.extend(entries.map(|(name, value)| (name.to_owned(), value.into())));
    }
    Ok(Plaintext::new(Value::Object(object)))
}

/// Builds the request with the data of the tokens.
///
/// # Errors
/// A token is unknown, an expression or a transform fails, or the request is too large. The failure
/// may depend on the data.
pub(super) async fn build_request(
    app: &App,
    call: &ReceivedCall,
    plan: &CallPlan,
    message: &MessageBody,
    inputs: &CallInputs<'_>,
    transforms: Option<&mut CallTransforms<'_>>,
) -> Result<Request<Bytes>, ProxyError> {
    let bytes_max = app.proxy_egress.limits.body_bytes_max;
    let fill_random = app.vault.fill_random;
    let body = message.render(&BodyInputs {
        references: inputs.references,
        configuration: inputs.configuration,
        work: inputs.work,
        fill_random,
        bytes_max,
    })?;
    let headers = forward_request_headers(&call.headers, !plan.response_transforms().is_empty());
    // Header expressions are evaluated last, because they can read the body as it is sent. Values
    // that a transform writes are not evaluated.
    let evaluates_headers = call.evaluates_expressions() && has_header_expressions(&headers);
    let client_headers = evaluates_headers.then(|| headers.clone());
    let mut outgoing = TransformMessage { headers, body };
    if let Some(transforms) = transforms {
        let direction = TransformDirection::Request;
        transforms.apply(plan.request_transforms(), &mut outgoing, direction).await?;
    }
    let TransformMessage { mut headers, body } = outgoing;
    if let Some(client_headers) = &client_headers {
        let (configuration, work) = (inputs.configuration, inputs.work);
        let header_inputs =
            HeaderInputs { client_headers, body: &body, configuration, work, fill_random };
        evaluate_headers(&mut headers, &header_inputs)?;
    }
    let mut request = Request::new(body);
    *request.method_mut() = call.method.clone();
    *request.headers_mut() = headers;
    Ok(request)
}

/// Loads the tokens that the body names.
///
/// # Errors
/// The caller may not use a token, or the store is unavailable.
pub(super) async fn load_tokens(
    app: &App,
    call: &ReceivedCall,
    message: &MessageBody,
) -> Result<UsedTokens, ProxyError> {
    let CallParty::Caller { caller, right } = &call.party else { return Ok(UsedTokens::default()) };
    let encrypted = call.encrypted.clone();
    let references = message.references().iter();
    let references: Vec<_> = references
        .map(|it| ReferenceUse { reference: &it.reference, reads_cvc: it.reads_cvc })
        .collect();
    Ok(use_tokens(&app.vault, caller, *right, &references, WHOLE_TOKEN_RENDERERS, encrypted)
        .await?)
}
