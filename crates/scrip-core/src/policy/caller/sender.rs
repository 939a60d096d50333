//! The sender of a request: a browser or a backend, itself or through a proxy that collects data.

use std::sync::Arc;

use crate::{
    policy::{Caller, FieldKinds, Principal, caller::CollectionSender},
    types::{ApplicationKind, id::ApplicationId},
};

impl Caller {
    /// The same caller. With `marks_fields`, the tokens and intents that it writes hold the text of a
    /// hosted field that the page must not read.
    #[must_use]
    pub fn with_field_mark(self, marks_fields: bool) -> Self {
        Self { marks_fields, ..self }
    }

    pub(crate) fn marks_fields(&self) -> bool {
        self.marks_fields
    }

    /// Whether the request holds what a payer typed: it has values of hosted fields, or collects them
    /// for a sender.
    pub(crate) fn carries_typed_values(&self) -> bool {
        let sender_carries = || self.collection_sender().is_some_and(Self::carries_typed_values);
        self.marks_fields || self.field_kinds.has_values() || sender_carries()
    }

    /// The same caller. With `sends_field_values`, the request holds values of hosted fields.
    #[must_use]
    pub fn with_field_values(self, sends_field_values: bool) -> Self {
        Self { sends_field_values, ..self }
    }

    pub(crate) fn sends_field_values(&self) -> bool {
        self.sends_field_values
    }

    /// The same caller, which stores data that another caller sent; `None` for a sender without an
    /// API key. The rights stay those of this caller. The rules for browsers and the guessing budget
    /// are those of the sender.
    pub(crate) fn collecting_for(&self, sender: Option<&Self>) -> Self {
        let sender = sender
            .map_or(CollectionSender::Keyless, |it| CollectionSender::Caller(Arc::new(it.clone())));
        Self { sender: Some(sender), ..self.clone() }
    }

    /// The sender of the call that this caller collects data for, if it has an API key.
    pub(crate) fn collection_sender(&self) -> Option<&Self> {
        match &self.sender {
            Some(CollectionSender::Caller(sender)) => Some(sender),
            Some(CollectionSender::Keyless) | None => None,
        }
    }

    /// Whether the caller is the application of a proxy that stores data of a sender.
    pub(crate) fn is_collecting(&self) -> bool {
        self.sender.is_some()
    }

    /// The application whose guesses are counted.
    pub(crate) fn guessing_application(&self) -> ApplicationId {
        match &self.sender {
            Some(CollectionSender::Caller(sender)) => sender.application(),
            Some(CollectionSender::Keyless) | None => self.application(),
        }
    }

    /// Whether guesses count in the counters of browsers. The sender decides, not the application
    /// that collects for it: otherwise a sender would have the budgets of both.
    pub(crate) fn guesses_as_browser(&self) -> bool {
        match &self.sender {
            Some(CollectionSender::Keyless) => true,
            Some(CollectionSender::Caller(sender)) => sender.is_browser(),
            None => self.is_browser(),
        }
    }

    /// Whether the caller, and the sender whose data it collects, have a reveal right wherever they
    /// can read, search or create tokens.
    pub(crate) fn reveals_everywhere(&self) -> bool {
        self.each_principal(Principal::reveals_everywhere)
    }

    /// Whether the caller, and the sender whose data it collects, read all tokens of the tenant in
    /// clear.
    pub(crate) fn reveals_whole_tenant(&self) -> bool {
        self.each_principal(Principal::reveals_whole_tenant)
    }

    /// Whether the principal, and that of the sender whose data it collects, meet a condition. A
    /// sender without a key meets none.
    fn each_principal(&self, meets: impl Fn(&Principal) -> bool) -> bool {
        let sender_meets = match &self.sender {
            Some(CollectionSender::Caller(sender)) => meets(&sender.principal),
            Some(CollectionSender::Keyless) => false,
            None => true,
        };
        sender_meets && meets(&self.principal)
    }

    /// Whether the caller runs in a browser that the tenant does not control: a public application
    /// or an access session, or a proxy that collects data of such a sender or of one without a key.
    pub fn is_browser(&self) -> bool {
        let has_browser_sender = match &self.sender {
            Some(CollectionSender::Keyless) => true,
            Some(CollectionSender::Caller(sender)) => sender.is_browser(),
            None => false,
        };
        has_browser_sender
            || self.access_session().is_some()
            || self.principal().kind() == ApplicationKind::Public
    }
}

impl Caller {
    /// The same caller, with these kinds of values of hosted fields in its request.
    #[must_use]
    pub fn with_field_kinds(self, field_kinds: FieldKinds) -> Self {
        Self { field_kinds, ..self }
    }

    pub(crate) fn field_kinds(&self) -> FieldKinds {
        self.field_kinds
    }
}
