//! Conversion of intents, and creates with encrypted data. The caller need not know the data.
//! Without a reveal right on the new token, the request may contain no expression that reveals the
//! data.

use scrip_expression::is_expression;

use crate::{
    Error, FieldError, Timestamp,
    card::{self, TokenType},
    disclosure::{
        LifetimeChange, ReadLimits, check_browser_place, check_field_place, check_lifetime_change,
        check_no_added_rights, hides_marked, is_last4_index, may_read_clear,
        trust::is_type_fingerprint,
    },
    expression::compilation::compile,
    policy::{AccessTarget, Caller, has_reveal_right},
    token::{CountedPart, DataOrigin, DataPlace, NewToken, SourceIntent},
    types::{
        Containers, DisclosureRule, DisclosureRules, Permission, Plaintext, error::Denial,
        id::TokenId,
    },
};

/// The source of a pending token's data.
pub(crate) struct TokenDataSource {
    pub(crate) token_type: TokenType,
    pub(crate) data: Plaintext,
    pub(crate) origin: DataOrigin,
    /// Whether the caller sent the data in clear and knows it. A page does not know the text of a
    /// hosted field that it sends.
    pub(crate) is_known: bool,
    /// As in [`TokenBody`](crate::token::TokenBody).
    pub(crate) is_marked: bool,
    /// When a payer typed the data into a hosted field. Encrypted and collected data counts as typed
    /// now.
    pub(crate) typed_at: Option<Timestamp>,
    /// Where data comes from that the caller did not send in clear. The sender of a collected call
    /// must not have more rights on the new token.
    pub(crate) places: Vec<DataPlace>,
}

/// What the caller knows of the data of a new token.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DataKnowledge {
    Known,
    /// The caller does not know the data, and may read it in the containers of the token or not.
    Unknown {
        is_readable: bool,
        counted_part: CountedPart,
    },
}

impl DataKnowledge {
    /// A proxy that collects data counts for its sender, and the sender may choose text next to data
    /// that only the owner of the proxy may read.
    fn unknown(caller: &Caller, source: &TokenDataSource, containers: &Containers) -> Self {
        let TokenDataSource { token_type, origin, is_marked, typed_at, .. } = source;
        let (is_marked, typed_at, is_hidden) = (*is_marked, *typed_at, origin.is_hidden());
        let limits = ReadLimits { is_marked, typed_at, is_hidden };
        let reads = |it: &Caller| may_read_clear(it, containers, limits);
        let is_readable = reads(caller);
        let sender_reads =
            || !caller.is_collecting() || caller.collection_sender().is_some_and(reads);
        let is_counted_intent = matches!(origin, DataOrigin::Intent(intent) if intent.is_counted);
        let has_own_number = *token_type != TokenType::Token || is_counted_intent;
        let counted_part = match is_readable && sender_reads() {
            true => CountedPart::Everything,
            false if has_own_number && !is_hidden => CountedPart::OwnNumber,
            false => CountedPart::Nothing,
        };
        Self::Unknown { is_readable, counted_part }
    }
}

/// Checks that the conversion of an intent, or a create with encrypted data or with the text of a
/// hosted field, reveals nothing to the caller. Encrypted data counts as data in the default container
/// of its type: an intent in that container has the same rules. Returns what the caller knows of the
/// data.
///
/// Errors: an expression would reveal data that the caller may not read, the caller would gain a
/// right by the conversion, or a browser would shorten the lifetime of the data.
pub(crate) fn check_conversion(
    caller: &Caller,
    new: &NewToken,
    source: &TokenDataSource,
    containers: &Containers,
    rules: DisclosureRules,
) -> Result<DataKnowledge, Error> {
    let place = AccessTarget { containers, id: None };
    check_field_place(caller, Permission::TokenCreate, source.token_type, place)?;
    // Another key of the same page may have a reveal right for this id. The owner of a proxy wrote the
    // id of collected data.
    let is_unknown_to_page =
        caller.sends_field_values() || !(source.is_known || caller.is_collecting());
    if is_unknown_to_page && caller.is_browser() && new.id.is_some() {
        return Err(Error::Forbidden(Denial::ChosenPlace("id")));
    }
    if source.is_known {
        return Ok(DataKnowledge::Known);
    }
    check_conversion_rights(caller, new, source, containers, rules)?;
    let knowledge = DataKnowledge::unknown(caller, source, containers);
    // The owner of the proxy wrote the expressions, and nothing of a hidden answer is shown.
    let may_read = match &source.origin {
        DataOrigin::Hidden => {
            has_reveal_right(caller, containers) && !hides_marked(caller, source.is_marked)
        }
        DataOrigin::Request | DataOrigin::Intent(_) | DataOrigin::Encrypted => {
            matches!(knowledge, DataKnowledge::Unknown { is_readable: true, .. })
        }
    };
    if may_read || !rules.applies(DisclosureRule::ConversionExpressions) {
        return Ok(knowledge);
    }
    let token_type = source.token_type;
    let deny = |attribute| Err(Error::Forbidden(Denial::ExposingExpression(attribute)));
    // Any other text next to the number would give each guess another fingerprint, and its digits
    // would decide which numbers of the text are counted.
    let is_type_expression = |it: &str| {
        it == token_type.default_fingerprint_expression()
            || compile(caller.work(), it).is_ok_and(|it| is_type_fingerprint(token_type, &it))
    };
    if new.fingerprint_expression.as_deref().is_some_and(|it| !is_type_expression(it)) {
        return deny("fingerprint_expression");
    }
    let default_indexes = token_type.default_indexes();
    let is_harmless_index =
        |it: &String| default_indexes.contains(it) || is_last4_index(token_type, it);
    if !new.search_indexes.iter().flatten().all(is_harmless_index) {
        return deny("search_indexes");
    }
    // The mask of a card sees only BIN and last four. But the rejection of a mask that contains the
    // number as literal text would confirm the number.
    if new.mask.as_ref().is_some_and(|it| Some(it) != token_type.default_mask()) {
        return deny("mask");
    }
    if new.id.as_deref().is_some_and(is_expression) {
        return deny("id");
    }
    check_id(new.id.as_deref(), source)?;
    Ok(knowledge)
}

/// Checks that the caller gains no right by the conversion, and does not shorten the lifetime.
fn check_conversion_rights(
    caller: &Caller,
    new: &NewToken,
    source: &TokenDataSource,
    containers: &Containers,
    rules: DisclosureRules,
) -> Result<(), Error> {
    // Rules of an access session may have conditions on ids, and such a session may be the sender of
    // collected data.
    let id = new.id.as_deref().and_then(|it| TokenId::parse(it).ok());
    let target = AccessTarget { containers, id: id.as_ref() };
    check_sender_rights(caller, source.token_type, &source.places, target, rules)?;
    let default_containers;
    let source_containers = match &source.origin {
        // The text of a hosted field: its first containers are those of the request.
        DataOrigin::Request => return Ok(()),
        // The owner of the proxy wrote the expressions, and no digest, mask or detail is shown.
        DataOrigin::Hidden => {
            return match new.id.as_deref().is_some_and(is_expression) {
                true => Err(Error::Forbidden(Denial::ExposingExpression("id"))),
                false => Ok(()),
            };
        }
        DataOrigin::Intent(intent) => {
            check_intent_access(caller, source.token_type, intent)?;
            &intent.containers
        }
        DataOrigin::Encrypted => {
            default_containers = Containers::from(source.token_type.default_container());
            &default_containers
        }
    };
    if rules.applies(DisclosureRule::StrongerRight) {
        if containers.sorted_text() != source_containers.sorted_text() {
            check_browser_place(caller, Permission::TokenCreate, source.token_type, target)?;
        }
        check_no_added_rights(caller, source.token_type, source_containers.into(), target)?;
    }
    if let DataOrigin::Intent(intent) = &source.origin {
        let (intent_expires_at, after) = (intent.expires_at, new.expires_at);
        check_lifetime_change(caller, LifetimeChange::Conversion { intent_expires_at, after })?;
    }
    Ok(())
}

/// Checks that the sender of a call gains no right when a proxy collects its data.
/// Errors: the sender would see more of the data than at one of its places, or could use it.
pub(crate) fn check_sender_rights(
    collector: &Caller,
    token_type: TokenType,
    places: &[DataPlace],
    target: AccessTarget<'_>,
    rules: DisclosureRules,
) -> Result<(), Error> {
    if let Some(sender) = collector.collection_sender()
        && rules.applies(DisclosureRule::StrongerRight)
    {
        for place in places {
            check_no_added_rights(sender, token_type, place.into(), target)?;
        }
    }
    Ok(())
}

/// An intent in containers that its creator chose is only for callers with a right there. An intent
/// in the default container of the type belongs to the tenant: knowing its id is enough for a
/// backend. A browser converts only intents of its own application: another public application may
/// name other containers, and its sessions may read there.
fn check_intent_access(
    caller: &Caller,
    token_type: TokenType,
    intent: &SourceIntent,
) -> Result<(), Error> {
    use Permission::{TokenCreate, TokenIntentCreate, TokenIntentDelete, TokenIntentRead};
    if caller.is_browser() && intent.created_by != caller.application() {
        return Err(Error::Forbidden(Denial::OtherApplicationIntent));
    }
    let containers = &intent.containers;
    let default = Containers::from(token_type.default_container());
    let rights = [TokenCreate, TokenIntentCreate, TokenIntentRead, TokenIntentDelete];
    let has_right = || rights.into_iter().any(|it| caller.transform(it, containers).is_some());
    if containers.sorted_text() == default.sorted_text() || has_right() {
        return Ok(());
    }
    Err(Error::Forbidden(Denial::NoRule(TokenCreate)))
}

/// Checks the id. An error for an id that contains the number would confirm the number. Therefore
/// an id with any look-alike number is rejected. This check is possible only for cards, because
/// their BIN and last four are not secret. Other content of an id is not checked.
fn check_id(id: Option<&str>, source: &TokenDataSource) -> Result<(), Error> {
    let number = card::card_number(source.data.expose()).filter(|_| source.token_type.is_card());
    let (Some(id), Some(number)) = (id, number) else { return Ok(()) };
    if card::contains_lookalike(id, number) {
        let rule = "must not contain a number that looks like this card's";
        return Err(FieldError::new("id", rule).into());
    }
    Ok(())
}
