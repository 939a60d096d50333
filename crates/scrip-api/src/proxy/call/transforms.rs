//! Runs the transforms of a proxy, and creates the tokens of `tokenize` transforms.

use hyper::StatusCode;
use scrip_core::{
    error::Error, id::TenantId, operations::tokens::create_token::create_token, policy::Caller,
    proxy::ProxyTransform, token::Plaintext,
};
use tokio::time::Instant;

use crate::{
    app::App,
    middleware::{authenticate::has_field_mark, long_evaluation},
    problem::Problem,
    proxy::{
        call::ReceivedCall,
        error::{CallDelivery, ProxyError},
        transform::{
            TransformDirection, TransformEffect, TransformInputs, TransformMessage, TransformRun,
        },
    },
    wire::tokens::{token, token_response},
};

const TIMEOUT_RULE: &str =
    "the time limit of the call ended before all transforms of the answer were applied";

/// The transforms of one call.
pub(super) struct CallTransforms<'c> {
    app: &'c App,
    run: TransformRun<'c>,
    token_creator: Option<Caller>,
    tenant: TenantId,
    /// The end of the time limit of the call, when its request was sent.
    deadline: Option<Instant>,
}

impl<'c> CallTransforms<'c> {
    /// # Errors
    /// Never: a call has a tenant.
    pub(super) fn new(
        app: &'c App,
        inputs: TransformInputs<'c>,
        token_creator: Option<&'c Caller>,
        call: &ReceivedCall,
    ) -> Result<Self, ProxyError> {
        let run = TransformRun::new(inputs, &call.headers, call.body.clone());
        let tenant = call.party.tenant(&call.selected)?.id;
        let token_creator = token_creator.map(|it| {
            let collector = app.vault.collect_for(it, call.party.caller());
            // A page could collect what a hosted field encrypted, and read the answer.
            let is_encrypted = call.encrypted.is_some() && collector.is_browser();
            collector.with_field_mark(has_field_mark(&call.headers) || is_encrypted)
        });
        Ok(Self { app, run, token_creator, tenant, deadline: None })
    }

    /// Transforms of the answer must start before this time.
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    /// Applies the transforms in order.
    ///
    /// # Errors
    /// A transform cannot be applied, so the message must not be passed on.
    pub(super) async fn apply(
        &mut self,
        transforms: &[ProxyTransform],
        message: &mut TransformMessage,
        direction: TransformDirection,
    ) -> Result<(), ProxyError> {
        for (index, transform) in transforms.iter().enumerate() {
            if self.deadline.is_some_and(|it| it <= Instant::now()) {
                let (status, delivery) = (StatusCode::REQUEST_TIMEOUT, CallDelivery::NotSent);
                return Err(ProxyError::new(status, delivery, TIMEOUT_RULE));
            }
            let effect = self.apply_one(index, transform, message, direction)?;
            let (TransformEffect::CreateToken(body), ProxyTransform::Tokenize { identifier, .. }) =
                (effect, transform)
            else {
                continue;
            };
            let token = self.create_token(body).await?;
            if let Some(identifier) = identifier {
                self.run.bind_token(identifier, token);
            }
        }
        Ok(())
    }

    /// A mask that takes long runs outside of the async workers.
    fn apply_one(
        &self,
        index: usize,
        transform: &ProxyTransform,
        message: &mut TransformMessage,
        direction: TransformDirection,
    ) -> Result<TransformEffect, ProxyError> {
        if let Some(effect) = self.run.apply_inline(index, transform, message, direction)? {
            return Ok(effect);
        }
        let mut effect = None;
        long_evaluation::run_in_slot_of(self.tenant, &mut || {
            effect = Some(self.run.apply(index, transform, message, direction));
        });
        let overload = || {
            ProxyError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                CallDelivery::NotSent,
                "too many transforms at the same time; try again shortly",
            )
        };
        effect.ok_or_else(overload)?
    }

    /// Creates the token by the rights of the proxy's application. Returns it as Create Token does,
    /// without the data.
    async fn create_token(&self, body: Plaintext) -> Result<Plaintext, ProxyError> {
        let creator = self.token_creator.as_ref().ok_or_else(|| {
            Error::Internal("a proxy without an application creates a token".into())
        })?;
        let new_token = token::parse_new(body).map_err(Problem::from)?;
        let created = create_token(&self.app.vault, creator, new_token, None).await?;
        let rendered = token_response::render_created(&created).body;
        Ok(Plaintext::new(serde_json::from_str(&rendered).unwrap_or_default()))
    }
}
