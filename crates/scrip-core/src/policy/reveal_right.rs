//! The reveal right of a caller on a token.

use crate::{
    policy::{AccessTarget, Caller},
    types::Transform,
};

/// Whether the caller has a reveal right on a token: `token:read`, `token:search` or `token:update`
/// with the transform `reveal`.
pub(crate) fn has_reveal_right<'a>(caller: &Caller, target: impl Into<AccessTarget<'a>>) -> bool {
    caller.max_transform(target) == Some(Transform::Reveal)
}
