//! Builds the request to the destination: body, transforms, headers.

use scrip_core::{
    Error,
    equality::EvaluatedEntity,
    expression::ValueCounting,
    operations::{
        proxy_calls::use_tokens::{
            CallReferences, TokenUse, check_configuration_budget, use_tokens,
        },
        reference_data::ReferenceUse,
    },
    policy::Caller,
    types::{DisclosureRule, DisclosureRules, error::Denial},
    work_meter::WorkMeter,
};

use crate::{
    app::App,
    proxy::{
        body::{ExpressionSearch, MessageBody, SourceCounting},
        call::{
            party::CallParty,
            plan::CallPlan,
            received_call::ReceivedCall,
            transforms::{CallTransforms, TokenStorage},
            unsent_tokens::UnsentTokens,
        },
        error::ProxyError,
        headers::{
            ComputedHeaders, check_connection_header, find_computed_headers,
            forward_request_headers, has_header_expressions, reads_hidden_values,
        },
        outgoing::{ExpressionInputs, HiddenInputs, OutgoingMessage, UsablePlaintext},
        transform::{
            TransformTarget, check_hidden_body, check_property_names, hidden_body_work, writes_body,
        },
    },
    wire::tokens::tokenize::WHOLE_TOKEN_RENDERERS,
};

/// Compiling a byte takes longer than an expression that reads it.
const COMPILE_WORK_PER_BYTE: usize = 4;

/// The body with its expressions compiled. Without a caller, and if the proxy says so, expressions
/// are text.
///
/// Errors: the body has an invalid expression, the caller has no right to evaluate one, or the
/// connection header for the destination is invalid.
pub(super) fn parse_message(
    call: &ReceivedCall,
    rules: DisclosureRules,
    work: &WorkMeter,
) -> Result<MessageBody, ProxyError> {
    check_connection_header(&call.headers)?;
    let body = call.body.clone();
    if !call.evaluates_expressions() {
        return MessageBody::without_expressions(&call.headers, body);
    }
    let search = MessageBody::search(&call.headers, &body)?;
    let has_header_expressions = has_header_expressions(&call.headers);
    let right = call.party.check_expression_right();
    if has_header_expressions || search == ExpressionSearch::Anywhere {
        right?;
        return compile_message(call, rules, work, has_header_expressions);
    }
    let message = match search {
        ExpressionSearch::Nowhere => MessageBody::without_expressions(&call.headers, body)?,
        // A file of a client without the right may contain two braces.
        ExpressionSearch::InParts | ExpressionSearch::Anywhere => {
            compile_message(call, rules, work, false)?
        }
    };
    if message.has_expressions() {
        right?;
    }
    Ok(message)
}

/// Compiles the expressions. The work is charged before; if it is long, it runs in a slot.
fn compile_message(
    call: &ReceivedCall,
    rules: DisclosureRules,
    work: &WorkMeter,
    has_header_expressions: bool,
) -> Result<MessageBody, ProxyError> {
    let header_bytes = call.headers.values().map(|it| it.len()).sum::<usize>();
    let bytes = call.body.len().saturating_add(header_bytes);
    let compile = || {
        let message = MessageBody::parse(&call.headers, call.body.clone())?;
        let mut reads_hidden = message.reads_configuration();
        if message.has_expressions() || has_header_expressions {
            // Errors of syntax are found before a token is loaded, so that they do not depend on data.
            let headers = forward_request_headers(&call.headers, false);
            let is_body_hidden = rules.applies(DisclosureRule::ConfigurationHiddenFromBrowsers);
            reads_hidden |= reads_hidden_values(&headers, is_body_hidden)?;
        }
        Ok::<_, ProxyError>((message, reads_hidden))
    };
    let (message, reads_hidden) =
        work.run_step(bytes.saturating_mul(COMPILE_WORK_PER_BYTE), compile)??;
    // A browser is not trusted with the key of a provider, and a destination can repeat it. A
    // transform can have written it into the body.
    if reads_hidden && call.party.caller().is_some_and(Caller::is_browser) {
        return Err(Error::Forbidden(Denial::ConfigurationForBrowser).into());
    }
    Ok(message)
}

/// The configuration of the proxy, if an expression or a transform may read it.
/// Errors: the secrets of the proxy cannot be opened.
pub(super) fn load_configuration(
    call: &ReceivedCall,
    plan: &CallPlan,
    message: &MessageBody,
) -> Result<UsablePlaintext, ProxyError> {
    let has_header_expressions =
        || call.evaluates_expressions() && has_header_expressions(&call.headers);
    let is_read =
        message.reads_configuration() || plan.has_transforms() || has_header_expressions();
    let Some(proxy) = call.selected.proxy().filter(|_| is_read) else {
        return Ok(UsablePlaintext::from_iter([]));
    };
    let secrets = proxy.open_secrets()?;
    let entries = secrets.configuration.iter().flat_map(|it| it.iter());
    Ok(entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Builds the request with the data of the tokens. If a transform creates a token, all steps run
/// first without storing it: a call that is rejected stores no token.
///
/// Errors: a token is unknown, an expression or a transform fails, or the request is too large. The
/// failure may depend on the data.
pub(super) async fn build_request(
    app: &App,
    call: &ReceivedCall,
    plan: &CallPlan,
    message: &MessageBody,
    inputs: &ExpressionInputs<'_>,
    transforms: Option<&mut CallTransforms<'_>>,
) -> Result<OutgoingMessage, ProxyError> {
    let headers = forward_request_headers(&call.headers, !plan.response_transforms().is_empty());
    // Header expressions are evaluated last, because they can read the body as it is sent. Values
    // that a transform writes are not evaluated.
    let evaluates_headers = call.evaluates_expressions() && has_header_expressions(&headers);
    let client_headers = evaluates_headers.then(|| headers.clone());
    let rules = app.vault.disclosure;
    let evaluate_headers = |outgoing: &mut OutgoingMessage| match &client_headers {
        Some(client_headers) => outgoing.evaluate_headers(client_headers, inputs, rules),
        None => Ok(()),
    };
    let mut outgoing = OutgoingMessage::render(message, headers, inputs)?;
    if let Some(transforms) = transforms {
        let list = plan.request_transforms();
        if plan.collects_from_request() {
            let mut rehearsal = outgoing.duplicate();
            let mut target = TransformTarget::Request(&mut rehearsal);
            transforms.apply(list, &mut target, TokenStorage::Rehearse).await?;
            evaluate_headers(&mut rehearsal)?;
            transforms.end_rehearsal();
        }
        let mut target = TransformTarget::Request(&mut outgoing);
        transforms.apply(list, &mut target, TokenStorage::Store).await?;
    }
    evaluate_headers(&mut outgoing)?;
    Ok(outgoing)
}

/// Loads the tokens that the body names.
/// Errors: the caller may not use a token, or the store is unavailable.
pub(super) async fn load_tokens(
    app: &App,
    call: &ReceivedCall,
    message: &MessageBody,
    has_computed_header: bool,
) -> Result<TokenUse<UsablePlaintext>, ProxyError> {
    let CallParty::Caller { caller, right } = &call.party else { return Ok(TokenUse::default()) };
    let encrypted = call.encrypted.clone();
    let references = message.references().iter();
    let references: Vec<_> = references
        .map(|it| ReferenceUse {
            reference: &it.reference,
            reads_cvc: it.reads_cvc,
            filtered: &it.filtered,
        })
        .collect();
    let destinations = app.egress.proxied_calls.destinations();
    let references = CallReferences { references: &references, has_computed_header, destinations };
    Ok(use_tokens(&app.vault, caller, *right, references, WHOLE_TOKEN_RENDERERS, encrypted).await?)
}

/// Whether the body as it is sent contains the configuration, or a text of a transform.
fn has_hidden_configuration(plan: &CallPlan, message: &MessageBody) -> bool {
    message.reads_configuration() || plan.request_transforms().iter().any(writes_body)
}

/// What the client may not read.
///
/// Checks that no transform reads it in the body, and that it becomes no name of a property, also
/// for a client that could send it to a destination of its own.
/// Errors: a transform of the request would read it.
pub(super) fn find_hidden_inputs(
    call: &ReceivedCall,
    plan: &CallPlan,
    message: &MessageBody,
    configuration: Option<EvaluatedEntity>,
    tokens: &UnsentTokens<'_>,
    work: &WorkMeter,
) -> Result<HiddenInputs, ProxyError> {
    let uses_restricted_data = tokens.used.are_restricted();
    let has_data = message.has_expressions() && uses_restricted_data;
    let configuration = configuration.is_some();
    if has_data || (configuration && message.reads_configuration()) {
        let transforms = plan.request_transforms();
        let units = hidden_body_work(transforms, call.body.len());
        work.run_step(units, || check_hidden_body(transforms, message))??;
    }
    if tokens.are_hidden() {
        check_property_names(plan.request_transforms(), message)?;
    }
    Ok(HiddenInputs {
        counting: SourceCounting {
            data: match uses_restricted_data {
                true => ValueCounting::Padded,
                false => ValueCounting::Exact,
            },
            configuration: call.count_configuration(),
        },
        in_body: has_data || (configuration && has_hidden_configuration(plan, message)),
        configuration,
    })
}

/// The configuration of the proxy, if an expression of the client can read it and the client may not.
/// Expressions of browsers cannot read it, so their failures do not count for it: all browsers share
/// one counter, and one visitor would lock out the others.
pub(super) fn find_hidden_configuration(
    call: &ReceivedCall,
    message: &MessageBody,
) -> Option<EvaluatedEntity> {
    let caller = call.party.caller().filter(|it| !it.is_browser() && !call.may_read_proxy())?;
    let is_read = message.reads_configuration() || has_header_expressions(&call.headers);
    let proxy = call.selected.proxy().filter(|_| is_read && call.evaluates_expressions())?;
    Some(EvaluatedEntity::from_configuration(caller.tenant(), proxy.record().id))
}

/// Checks that expressions of the client do not compute with a configuration that the client may not
/// read. Returns what its headers compute.
///
/// Errors: an expression computes with the configuration, or the budget of the configuration is
/// exhausted.
pub(super) async fn check_computed_headers(
    app: &App,
    call: &ReceivedCall,
    plan: &CallPlan,
    message: &MessageBody,
    configuration: Option<EvaluatedEntity>,
) -> Result<ComputedHeaders, ProxyError> {
    let Some(caller) = call.party.caller().filter(|_| call.evaluates_expressions()) else {
        return Ok(ComputedHeaders::default());
    };
    let computed = match has_header_expressions(&call.headers) {
        true => find_computed_headers(&forward_request_headers(&call.headers, false))?,
        false => ComputedHeaders::default(),
    };
    if let Some(configuration) = configuration {
        if message.computes_configuration() {
            return Err(Error::Forbidden(Denial::FilterOnHiddenData).into());
        }
        let is_in_body = has_hidden_configuration(plan, message);
        if computed.configuration || (computed.body && is_in_body) {
            return Err(Error::Forbidden(Denial::HeaderOnHiddenData).into());
        }
        check_configuration_budget(&app.vault, caller, configuration).await?;
    }
    Ok(computed)
}
