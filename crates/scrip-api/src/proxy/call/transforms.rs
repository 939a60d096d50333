//! Runs the transforms of a proxy, and creates the tokens of `tokenize` transforms.

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use scrip_core::{
    error::Error, operations::tokens::create_token::create_token, policy::Caller,
    proxy::ProxyTransform, token::Plaintext,
};

use crate::{
    app::App,
    middleware::long_evaluation,
    problem::Problem,
    proxy::{
        error::{CallDelivery, ProxyError},
        transform::{
            TransformDirection, TransformEffect, TransformInputs, TransformMessage, TransformRun,
            is_long,
        },
    },
    wire::tokens::{token, token_response},
};

/// The transforms of one call.
pub(super) struct CallTransforms<'c> {
    app: &'c App,
    run: TransformRun<'c>,
    token_creator: Option<&'c Caller>,
}

impl<'c> CallTransforms<'c> {
    /// `headers` and `body` are those of the client.
    pub(super) fn new(
        app: &'c App,
        inputs: TransformInputs<'c>,
        token_creator: Option<&'c Caller>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Self {
        Self { app, run: TransformRun::new(inputs, headers, body), token_creator }
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

    /// A mask of a large body runs outside of the async workers.
    fn apply_one(
        &self,
        index: usize,
        transform: &ProxyTransform,
        message: &mut TransformMessage,
        direction: TransformDirection,
    ) -> Result<TransformEffect, ProxyError> {
        if !is_long(transform, &message.body) {
            return self.run.apply(index, transform, message, direction);
        }
        let mut effect = None;
        long_evaluation::run_in_slot(&mut || {
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
        let creator = self.token_creator.ok_or_else(|| {
            Error::Internal("a proxy without an application creates a token".into())
        })?;
        let new_token = token::parse_new(body).map_err(Problem::from)?;
        let created = create_token(&self.app.vault, creator, new_token, None).await?;
        let rendered = token_response::render_created(&created).body;
        Ok(Plaintext::new(serde_json::from_str(&rendered).unwrap_or_default()))
    }
}
