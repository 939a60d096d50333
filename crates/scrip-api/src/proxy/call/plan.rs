//! The plan of a received call: destination, TLS, time limit, and the application that creates
//! tokens for its transforms.

use std::{sync::Arc, time::Duration};

use hyper::StatusCode;
use scrip_core::{
    Error, FieldError,
    policy::{
        Caller, CallerRequirement, Directory, Proxy, ProxyLookup, ProxyProgram,
        destination::DestinationUrl,
        proxy::{ProxyDetails, ProxyTransform},
    },
    types::Permission,
};
use scrip_egress::{ConnectionScope, Destination, TlsOptions};

use crate::{
    app::{App, failed_call_log::CallFailureCause, long_evaluation},
    metrics::CallFailureReason,
    proxy::{
        call::{failure::reject_by_guard, received_call::ReceivedCall, selection::SelectedProxy},
        error::{CallDelivery, ProxyError},
    },
};

pub(super) struct CallPlan {
    /// `None` for an ephemeral proxy.
    pub(super) program: Option<Arc<ProxyProgram>>,
    pub(super) destination: Destination,
    pub(super) tls: Option<Arc<TlsOptions>>,
    pub(super) timeout: Duration,
    pub(super) scope: ConnectionScope,
    /// The application of the proxy, if a transform creates tokens.
    pub(super) token_creator: Option<Caller>,
}

const REPEATED_RULE: &str = "must not repeat a parameter of the destination_url of the proxy";
const CODE_RULE: &str = "a transform of this proxy is code, and this server cannot run code";
const OVERSIZED_RULE: &str = "the expression of a mask of this proxy has more than 256 steps or a \
    class of Unicode properties, which this server does not run; change the proxy";
const TEMPLATE_RULE: &str = "a template or the order of the transforms of this proxy breaks a rule of \
    this version; change the proxy";
const NO_APPLICATION: &str =
    "a transform of this proxy creates tokens, and the proxy has no application";

impl CallPlan {
    /// Errors: the path cannot be appended to the destination, the operator does not allow the
    /// destination, or a transform of the proxy cannot run.
    pub(super) fn new(
        app: &App,
        directory: &Directory,
        call: &ReceivedCall,
    ) -> Result<Self, ProxyError> {
        let tenant = call.party.tenant(&call.selected)?.id;
        let tenant_bytes = *tenant.0.as_bytes();
        let scope =
            |part: uuid::Uuid| ConnectionScope { tenant: tenant_bytes, part: part.into_bytes() };
        let plan = match &call.selected {
            SelectedProxy::Ephemeral(url) => {
                let application = call.party.caller().map(|it| it.application().0);
                Self {
                    program: None,
                    destination: join_destination(url, call)?,
                    tls: None,
                    timeout: app.egress.proxied_calls.timeout(None),
                    scope: scope(application.unwrap_or_default()),
                    token_creator: None,
                }
            }
            SelectedProxy::PreConfigured(proxy) => {
                let program = compile_in_slot(proxy)?;
                let destination = join_destination(&program.destination, call)?;
                // The query of a proxy is a decision of its administrator.
                if program.destination.repeats_base_parameter(call.target.query()) {
                    return Err(ProxyError::invalid("query", REPEATED_RULE));
                }
                let token_creator = find_token_creator(directory, program, call)?;
                Self {
                    destination,
                    tls: app.egress.proxied_calls.tls_options(proxy, program)?,
                    timeout: app.egress.proxied_calls.timeout(program.timeout),
                    scope: scope(proxy.record().id.0),
                    token_creator,
                    program: Some(Arc::clone(program)),
                }
            }
        };
        let client = app.egress.proxied_calls.client.get()?;
        client
            .check_name(&plan.destination)
            .map_err(|it| reject_by_guard(app, it).with_audit_outcome("forbidden"))?;
        Ok(plan)
    }

    pub(super) fn request_transforms(&self) -> &[ProxyTransform] {
        self.program.as_ref().map_or(&[], |it| &it.request_transforms)
    }

    pub(super) fn response_transforms(&self) -> &[ProxyTransform] {
        self.program.as_ref().map_or(&[], |it| &it.response_transforms)
    }

    /// Whether a transform of the request creates a token.
    pub(super) fn collects_from_request(&self) -> bool {
        let is_tokenize = |it: &ProxyTransform| matches!(it, ProxyTransform::Tokenize { .. });
        self.request_transforms().iter().any(is_tokenize)
    }

    pub(super) fn has_transforms(&self) -> bool {
        !self.request_transforms().is_empty() || !self.response_transforms().is_empty()
    }
}

/// Appends path and query. The query of the client stays as it is, so a byte that the destination's
/// syntax does not allow is an error of the request.
fn join_destination(url: &DestinationUrl, call: &ReceivedCall) -> Result<Destination, ProxyError> {
    let joined = url.join(call.target.path(), call.target.query());
    let joined = joined.map_err(|error| invalid_path(error.to_string()))?;
    Destination::parse(&joined).map_err(|error| invalid_path(error.to_string()))
}

fn invalid_path(problem: String) -> ProxyError {
    FieldError { field: "path".into(), problem: problem.into() }.into()
}

/// The application that creates tokens for `tokenize` transforms. Checked before the call: after the
/// answer it would be too late.
fn find_token_creator(
    directory: &Directory,
    program: &ProxyProgram,
    call: &ReceivedCall,
) -> Result<Option<Caller>, ProxyError> {
    let mut transforms = program.request_transforms.iter().chain(&program.response_transforms);
    let unprocessable = |rule| {
        let cause = CallFailureCause::new(CallFailureReason::Transform, rule);
        ProxyError::new(StatusCode::UNPROCESSABLE_ENTITY, CallDelivery::NotSent, rule)
            .with_logged_cause(cause)
    };
    if transforms.clone().any(|it| matches!(it, ProxyTransform::Code { .. })) {
        return Err(unprocessable(CODE_RULE));
    }
    if transforms.clone().any(|it| matches!(it, ProxyTransform::OversizedMask)) {
        return Err(unprocessable(OVERSIZED_RULE));
    }
    if transforms.clone().any(|it| matches!(it, ProxyTransform::RejectedTemplate)) {
        return Err(unprocessable(TEMPLATE_RULE));
    }
    if !transforms.any(|it| matches!(it, ProxyTransform::Tokenize { .. })) {
        return Ok(None);
    }
    let application = call.selected.proxy().and_then(|it| it.record().application);
    let principal = application.and_then(|it| directory.principal(it));
    let principal = principal.ok_or_else(|| unprocessable(NO_APPLICATION))?;
    let creator = Caller::new(Arc::clone(principal), call.party.origin().clone())
        .with_long_evaluations(long_evaluation::run_in_slot);
    let needed = CallerRequirement::Permission(Permission::TokenCreate);
    creator.check_requirement(needed)?;
    Ok(Some(creator))
}

/// The program of a proxy. If it is not compiled yet, it is compiled in a slot for long evaluations.
/// Errors: the settings cannot be opened, or too many evaluations wait for a slot.
pub(crate) fn compile_in_slot(proxy: &Proxy) -> Result<&Arc<ProxyProgram>, Error> {
    let tenant = proxy.tenant().id;
    proxy.program(|compile| long_evaluation::run_in_slot(Some(tenant), compile))
}

impl App {
    /// Compiles a proxy that was written, so that its first call need not wait.
    /// Errors: the settings cannot be opened.
    pub(crate) fn compile_proxy(&self, written: &ProxyDetails) -> Result<(), Error> {
        let directory = self.directory.load();
        let lookup =
            directory.as_ref().map(|it| it.find_proxy_by_key(written.secrets.key.expose()));
        let Some(Some(ProxyLookup::Found(proxy))) = lookup else { return Ok(()) };
        match compile_in_slot(proxy) {
            // The first call compiles it.
            Err(Error::Unavailable(_)) => Ok(()),
            result => result.map(drop),
        }
    }
}
