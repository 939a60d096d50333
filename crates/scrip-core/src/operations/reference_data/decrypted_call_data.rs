//! The decrypted data of a proxied call, which its expressions refer to.

use std::sync::Arc;

use scrip_expression::{Reference, ReferenceKind};

use crate::{
    Timestamp,
    equality::EvaluatedEntity,
    idempotency::proxy_call::CallDataComparison,
    types::{Containers, id::ClientKeyId},
};

/// The name by which expressions of a call read the data.
const REFERENCE_NAME: &str = "encrypted";

/// The decrypted data of a call. It is wiped at the end of the call. `P` decides who can read it.
#[derive(Debug)]
pub struct DecryptedCallData<P> {
    /// An object with `type` and `data`, or an object of such objects.
    pub(crate) value: P,
    /// By which calls with the same idempotency key are compared. The decrypted value for a caller
    /// that may read it; otherwise the data as it was sent, because an equal guess would confirm it.
    pub(crate) comparison: CallDataComparison,
    pub(crate) parts: Arc<[DecryptedPart]>,
}

/// One decrypted value.
#[derive(Debug)]
pub(crate) struct DecryptedPart {
    pub(crate) key: Option<ClientKeyId>,
    /// The default container of its type, in which the caller needs the right.
    pub(crate) containers: Containers,
    pub(crate) cvc_expires_at: Option<Timestamp>,
    /// As in [`LoadedEntity`](crate::operations::reference_data::LoadedEntity).
    pub(crate) answer_ends_at: Option<Timestamp>,
    /// The data, if the caller may use and not read it.
    pub(crate) hidden_data: Option<EvaluatedEntity>,
    /// As in [`HiddenData`](crate::operations::reference_data::HiddenData).
    pub(crate) is_sent_anywhere: bool,
}

impl DecryptedPart {
    /// Whether the caller may not read the data, and could not send it to a destination of its own.
    pub(crate) fn is_restricted(&self) -> bool {
        self.hidden_data.is_some() && !self.is_sent_anywhere
    }
}

impl<P> DecryptedCallData<P> {
    /// The value of `encrypted` in expressions.
    pub fn value(&self) -> &P {
        &self.value
    }

    /// The value by which calls are compared.
    pub fn comparison(&self) -> &CallDataComparison {
        &self.comparison
    }

    /// Whether the reference means this data, and not a token.
    pub(crate) fn is_named_by(reference: &Reference) -> bool {
        reference.kind == ReferenceKind::Data && reference.id == REFERENCE_NAME
    }
}
