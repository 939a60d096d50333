//! The check of a mask when its token is written.

use serde_json::Value;

use crate::{
    FieldError,
    card::{self, TokenType},
    policy::Caller,
    reveal,
    token::TokenBody,
    writes::evaluation::failure_mode::{FailureMode, MaskOrigin},
};

/// Errors: the mask fails, or shows the number of the card.
pub(super) fn check_mask(
    caller: &Caller,
    token_type: TokenType,
    body: &TokenBody,
    failure_mode: FailureMode,
    origin: MaskOrigin,
) -> Result<(), FieldError> {
    // The mask of a card sees a masked number; the masks of other types see the data.
    let reports_errors = origin == MaskOrigin::Request && failure_mode == FailureMode::Report;
    if body.mask.is_none() || !token_type.is_card() && !reports_errors {
        return Ok(());
    }
    let masked = reveal::apply_mask(caller.work(), failure_mode.input(), token_type, body);
    let masked = match (masked, origin) {
        (Ok(masked), _) => masked,
        (Err(_), MaskOrigin::Stored) => None,
        (Err(error), MaskOrigin::Request) => {
            return Err(FieldError::from_expression_error("mask", error));
        }
    };
    // The mask itself may contain the number as literal text, although its input does not.
    let number = card::card_number(body.data.expose()).filter(|_| token_type.is_card());
    if let (Some(masked), Some(number)) = (masked, number)
        && contains_number(masked.expose(), number)
    {
        return Err(FieldError::new("mask", "must not contain the card number"));
    }
    Ok(())
}

/// Whether a text or name in the value contains the number, also with separators.
fn contains_number(value: &Value, number: &str) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(it) => it.to_string().contains(number),
        Value::String(text) => {
            let unseparated: String = text.chars().filter(|it| !" -._/".contains(*it)).collect();
            unseparated.contains(number)
        }
        Value::Array(items) => items.iter().any(|it| contains_number(it, number)),
        Value::Object(object) => {
            object.iter().any(|(name, it)| name.contains(number) || contains_number(it, number))
        }
    }
}
