//! Detokenize: texts that name tokens become what the caller may see of these.

use std::collections::BTreeMap;

use scrip_expression::{Detokenization, LeafError, Reference, ReferenceKind};
use serde_json::Value;

use crate::{
    Vault,
    caller::Caller,
    compiled::Draw,
    error::{Error, FieldError},
    id::TokenId,
    operations::{check_count, give_way},
    path::AttributePath,
    permission::Permission,
    plain::Plain,
    reveal::{Audience, reveal},
    store::StoredToken,
    time::Timestamp,
    token::TokenView,
};

/// What expressions see of a token.
enum Seen {
    Data(Plain),
    /// With all its attributes, the data among them.
    Whole(Plain),
}

/// `whole` belongs to whoever knows the wire: the token as Get Token shows it.
///
/// # Errors
/// A text cannot be read, nobody has an id, or no rule lets the caller read a token.
pub async fn detokenize(
    vault: &Vault,
    caller: &Caller,
    body: &Plain,
    whole: fn(TokenView) -> Plain,
) -> Result<Plain, Error> {
    let now = vault.clock.now();
    let detokenization = Detokenization::parse(body.expose()).map_err(unusable)?;
    let limit = caller.tenant().quotas.detokenize_limit;
    check_count(detokenization.token_count(), limit, "detokenize_limit")?;

    let named = named(detokenization.references());
    let ids: Vec<_> = named.keys().cloned().collect();
    let inquiry = caller.inquire(Permission::TokenRead)?;
    let found = vault.store.find_tokens(inquiry, &ids, now).await?;
    let mut seen = BTreeMap::new();
    for ((id, kind), stored) in named.into_iter().zip(found) {
        let Some(stored) = stored else { continue };
        let view = view(vault, caller, &stored, now)?;
        let shown = if kind == ReferenceKind::Token {
            Seen::Whole(whole(view))
        } else {
            Seen::Data(data(view))
        };
        seen.insert(id.as_str().to_owned(), shown);
        give_way().await;
    }
    let draw = Draw::new(vault.chance);
    let value = detokenization.evaluate(&|it| resolve(&seen, it), Some(&draw)).map_err(unusable)?;
    Ok(Plain::new(value))
}

/// Each token once, and whether any expression wants all of it. There are no intents yet, and a
/// text that cannot be an id is nobody's.
fn named(references: &[Reference]) -> BTreeMap<TokenId, ReferenceKind> {
    let mut named = BTreeMap::new();
    for reference in references.iter().filter(|it| it.kind != ReferenceKind::TokenIntent) {
        let Ok(id) = TokenId::parse(&reference.id) else { continue };
        let kind = named.entry(id).or_insert(reference.kind);
        if reference.kind == ReferenceKind::Token {
            *kind = ReferenceKind::Token;
        }
    }
    named
}

fn view(
    vault: &Vault,
    caller: &Caller,
    stored: &StoredToken,
    now: Timestamp,
) -> Result<TokenView, Error> {
    let permit = caller.permit(Permission::TokenRead, &stored.record)?;
    reveal(&permit, stored, Audience::Caller { epochs: &vault.epochs, now })
}

/// Where the transform leaves nothing of the data, it is null.
fn data(view: TokenView) -> Plain {
    view.detail.and_then(|it| it.shown.into_data()).unwrap_or_default()
}

fn resolve<'v>(seen: &'v BTreeMap<String, Seen>, reference: &Reference) -> Option<&'v Value> {
    const NOTHING: &Value = &Value::Null;
    match (reference.kind, seen.get(&reference.id)?) {
        (ReferenceKind::Data, Seen::Data(data)) => Some(data.expose()),
        (ReferenceKind::Data, Seen::Whole(token)) => {
            Some(token.expose().get("data").unwrap_or(NOTHING))
        }
        (ReferenceKind::Token, Seen::Whole(token)) => Some(token.expose()),
        (ReferenceKind::Token, Seen::Data(_)) | (ReferenceKind::TokenIntent, _) => None,
    }
}

fn unusable(error: LeafError) -> Error {
    let path = AttributePath::of(&error.path);
    let path = if error.path.is_empty() { "body" } else { path.as_str() };
    FieldError::expression(path.to_owned(), error.cause).into()
}
