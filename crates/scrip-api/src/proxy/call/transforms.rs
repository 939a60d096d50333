//! Runs the transforms of a proxy, and creates the tokens of `tokenize` transforms.

use hyper::StatusCode;
use scrip_core::{
    Error,
    card::TokenType,
    expression::MessageThread,
    operations::{
        proxy_calls::rehearse_collection::{CollectionRehearsal, check_collected_places},
        tokens::create_token::create_token,
    },
    policy::{AccessTarget, Caller, proxy::ProxyTransform},
    token::{CollectedData, DataPlace, NewToken, TokenSource, TokenView},
    types::{Containers, Permission, Plaintext, id::TenantId},
    work_meter::WorkMeter,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    app::{App, long_evaluation},
    middleware::admission::{has_field_mark, has_field_values},
    problem::Problem,
    proxy::{
        call::{plan::CallPlan, received_call::ReceivedCall},
        edits::TransformKind,
        error::{CallDelivery, ProxyError},
        outgoing::UsablePlaintext,
        transform::{
            CollectedToken, CollectedTokenData, TransformEffect, TransformInputs, TransformRun,
            TransformTarget, stores_encrypted, tokenize::check_field_values,
        },
    },
    wire::{
        ParseError,
        tokens::{token, token_response},
    },
};

const TIMEOUT_RULE: &str =
    "the time limit of the call ended before all transforms of the answer were applied";

/// Whether the tokens of transforms are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenStorage {
    Store,
    /// All transforms run first with tokens that are not stored, so that a call which is rejected
    /// stores none.
    Rehearse,
}

/// The transforms of one call.
pub(super) struct CallTransforms<'c> {
    app: &'c App,
    run: TransformRun<'c>,
    token_creator: Option<Caller>,
    /// `None` for a call without an API key.
    sender: Option<&'c Caller>,
    tenant: TenantId,
    /// The end of the time limit of the call, when its request was sent.
    deadline: Option<Instant>,
    rehearsal: CollectionRehearsal,
    /// The ids of the created tokens, for the record of the outcome.
    created_tokens: Vec<String>,
    /// Where the tokens are that the call used and its sender may not read.
    hidden_places: Vec<DataPlace>,
}

impl<'c> CallTransforms<'c> {
    /// The transforms of the call, after a check of what their templates read; `None` if it has none.
    /// Errors: a template cannot read the client's message.
    pub(super) fn prepare(
        app: &'c App,
        call: &'c ReceivedCall,
        plan: &'c CallPlan,
        configuration: &'c UsablePlaintext,
        work: &'c WorkMeter,
    ) -> Result<Option<Self>, ProxyError> {
        if !plan.has_transforms() {
            return Ok(None);
        }
        let inputs = TransformInputs {
            configuration,
            encrypted: call.encrypted.as_ref().map(|it| it.value()),
            work,
            fill_random: app.vault.fill_random,
            bytes_max: app.egress.proxied_calls.limits.body_bytes_max,
            evaluates_expressions: call.evaluates_expressions(),
            counting: call.count_configuration(),
            is_from_browser: call.party.caller().is_some_and(Caller::is_browser),
            rules: app.vault.disclosure,
        };
        let token_creator = plan.token_creator.as_ref().map(|it| {
            let collector = app.vault.collect_for(it, call.party.caller());
            // A page could collect what a hosted field encrypted, and read the answer.
            let is_encrypted = call.encrypted.is_some() && collector.is_browser();
            let is_typed = has_field_mark(&call.headers) || has_field_values(&call.headers);
            collector.with_field_mark(is_typed || is_encrypted)
        });
        let mut transforms = Self {
            app,
            run: TransformRun::new(inputs, &call.headers, call.body.clone()),
            token_creator,
            sender: call.party.caller(),
            tenant: call.party.tenant(&call.selected)?.id,
            deadline: None,
            rehearsal: CollectionRehearsal::default(),
            created_tokens: Vec::new(),
            hidden_places: Vec::new(),
        };
        if has_field_values(&call.headers) {
            let lists = plan.request_transforms().iter().chain(plan.response_transforms());
            check_field_values(lists)?;
        }
        transforms.check_client_message(plan)?;
        transforms.check_encrypted_places(plan)?;
        Ok(Some(transforms))
    }

    /// Checks that the sender gains no right on the data that it encrypted, before anything is sent.
    /// Errors: the sender would see more of the data in a new token, or could use it.
    fn check_encrypted_places(&self, plan: &CallPlan) -> Result<(), ProxyError> {
        let transforms = plan.request_transforms().iter().chain(plan.response_transforms());
        for transform in transforms.filter(|it| stores_encrypted(it)) {
            let ProxyTransform::Tokenize { token, .. } = transform else { continue };
            self.check_fixed_containers(token, |it| vec![it.into()])?;
        }
        Ok(())
    }

    /// Checks a template that decides the containers of its tokens. If a message decides them, they
    /// are checked when the token is created.
    fn check_fixed_containers(
        &self,
        token: &Value,
        places: impl FnOnce(Containers) -> Vec<DataPlace>,
    ) -> Result<(), ProxyError> {
        if let (Some(creator), Some((token_type, containers))) =
            (&self.token_creator, fixed_containers(token))
        {
            let places = places(token_type.default_container().into());
            let vault = &self.app.vault;
            check_collected_places(vault, creator, token_type, &containers, &places)?;
        }
        Ok(())
    }

    /// Checks what templates read from the client's message, before a token is loaded.
    /// Errors: a template cannot read the message.
    fn check_client_message(&mut self, plan: &CallPlan) -> Result<(), ProxyError> {
        let lists = [
            (plan.request_transforms(), TransformKind::Request),
            (plan.response_transforms(), TransformKind::Response),
        ];
        let transforms = lists.iter().flat_map(|(list, _)| *list);
        let thread = self.run.charge_client_check(transforms)?;
        let run = &mut self.run;
        let mut check =
            || lists.iter().try_for_each(|(list, kind)| run.check_client_message(list, *kind));
        if thread == MessageThread::Worker {
            return check();
        }
        let mut checked = None;
        long_evaluation::run_in_slot(Some(self.tenant), &mut || checked = Some(check()));
        checked.ok_or_else(overload)?
    }

    /// The call used tokens that its sender may not read, at these places.
    /// Errors: a transform copies the answer into attributes that the sender can read.
    pub(super) fn hide_answer(
        &mut self,
        plan: &CallPlan,
        hidden_places: Vec<DataPlace>,
    ) -> Result<(), ProxyError> {
        self.hidden_places = hidden_places;
        for transform in plan.response_transforms() {
            let ProxyTransform::Tokenize { token, .. } = transform else { continue };
            self.check_fixed_containers(token, |_| self.hidden_places.clone())?;
        }
        self.run.hide_answer(plan.response_transforms())
    }

    /// Transforms of the answer must start before this time.
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    /// The ids of the tokens that were created since the last call of this function.
    pub(super) fn take_created_tokens(&mut self) -> Vec<String> {
        std::mem::take(&mut self.created_tokens)
    }

    pub(super) fn end_rehearsal(&mut self) {
        self.run.end_rehearsal();
    }

    /// Applies the transforms in order.
    /// Errors: a transform cannot be applied, so the message must not be passed on.
    pub(super) async fn apply(
        &mut self,
        transforms: &[ProxyTransform],
        target: &mut TransformTarget<'_>,
        storage: TokenStorage,
    ) -> Result<(), ProxyError> {
        for (index, transform) in transforms.iter().enumerate() {
            if self.deadline.is_some_and(|it| it <= Instant::now()) {
                let (status, delivery) = (StatusCode::REQUEST_TIMEOUT, CallDelivery::NotSent);
                return Err(ProxyError::new(status, delivery, TIMEOUT_RULE));
            }
            let effect = self.apply_one(index, transform, target)?;
            let (TransformEffect::CreateToken(token), ProxyTransform::Tokenize { identifier, .. }) =
                (effect, transform)
            else {
                continue;
            };
            let token = self.create_token(token, storage).await?;
            if let Some(identifier) = identifier {
                self.run.bind_token(identifier, token);
            }
        }
        Ok(())
    }

    /// A transform that takes long runs outside of the async workers.
    fn apply_one(
        &mut self,
        index: usize,
        transform: &ProxyTransform,
        target: &mut TransformTarget<'_>,
    ) -> Result<TransformEffect, ProxyError> {
        if let Some(effect) = self.run.apply_inline(index, transform, target)? {
            return Ok(effect);
        }
        let (mut effect, run) = (None, &mut self.run);
        long_evaluation::run_in_slot(Some(self.tenant), &mut || {
            effect = Some(run.apply(index, transform, target));
        });
        effect.ok_or_else(overload)?
    }

    /// Creates the token by the rights of the proxy's application. Returns it as Create Token does,
    /// without the data.
    async fn create_token(
        &mut self,
        token: CollectedToken,
        storage: TokenStorage,
    ) -> Result<Plaintext, ProxyError> {
        let creator = self.token_creator.as_ref().ok_or_else(|| {
            Error::Internal("a proxy without an application creates a token".into())
        })?;
        let vault = &self.app.vault;
        let new_token = parse_collected(token, &self.hidden_places).map_err(Problem::from)?;
        // The sender sent other data too, but need not know it: an intent by its id, for example.
        let is_known = matches!(new_token.source, TokenSource::Data { .. });
        let mut created = match storage {
            TokenStorage::Rehearse => self.rehearsal.add(vault, creator, new_token).await?,
            TokenStorage::Store => create_token(vault, creator, new_token, None).await?,
        };
        if storage == TokenStorage::Store {
            self.created_tokens.push(created.token.id.as_str().to_owned());
        }
        if !is_known {
            hide_details(&mut created.token);
        }
        if created.deduplicated.is_some() && !self.may_sender_read(&created.token) {
            created.token.detail = None;
        }
        let rendered = token_response::render_created(&created).body;
        Ok(Plaintext::new(serde_json::from_str(&rendered).unwrap_or_default()))
    }

    /// Whether the sender may read a token that existed before the call.
    fn may_sender_read(&self, token: &TokenView) -> bool {
        let target = AccessTarget { containers: &token.containers, id: Some(&token.id) };
        self.sender.is_some_and(|it| it.transform(Permission::TokenRead, target).is_some())
    }
}

/// The type and the containers of the tokens of a template, unless a message decides them.
fn fixed_containers(token: &Value) -> Option<(TokenType, Containers)> {
    let token_type = TokenType::parse(token.get("type")?.as_str()?)?;
    let containers = match token.get("containers") {
        None | Some(Value::Null) => Containers::from(token_type.default_container()),
        Some(texts) => {
            let texts = texts.as_array()?.iter().map(Value::as_str);
            Containers::parse(texts.collect::<Option<Vec<_>>>()?).ok()?
        }
    };
    Some((token_type, containers))
}

/// Removes what the view shows of the data. The application of the proxy may read the data in clear,
/// but templates copy the view into messages for others.
fn hide_details(token: &mut TokenView) {
    token.fingerprint = None;
    if let Some(detail) = &mut token.detail {
        (detail.card, detail.network_token, detail.bank) = (None, None, None);
        detail.fingerprint_expression = None;
    }
}

/// Parses the create-token request of a transform.
fn parse_collected(token: CollectedToken, places: &[DataPlace]) -> Result<NewToken, ParseError> {
    let CollectedToken { body, data } = token;
    let mut new = token::parse_new(body)?;
    let source = std::mem::replace(&mut new.source, TokenSource::Intent(String::new()));
    new.source = match (data, source) {
        (CollectedTokenData::Encrypted(data), _) => TokenSource::Collected(data),
        (CollectedTokenData::HiddenInBody, TokenSource::Data { token_type, data }) => {
            let data = CollectedData::from_hidden_answer(token_type, data, places.to_vec());
            TokenSource::Collected(data)
        }
        (CollectedTokenData::HiddenInBody | CollectedTokenData::InBody, source) => source,
    };
    Ok(new)
}

fn overload() -> ProxyError {
    ProxyError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        CallDelivery::NotSent,
        "too many transforms at the same time; try again shortly",
    )
}
