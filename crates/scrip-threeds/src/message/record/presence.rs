//! When an element is required, optional or forbidden in a message.

use serde_json::{Map, Value};

use crate::{
    code::{AuthenticationCategory, DeviceChannel},
    format::{TransactionContext, Version},
};

/// The presence rule of an element in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementPresence {
    Required,
    Optional,
    /// The element would contradict the rest of the message.
    Forbidden,
    /// The message version does not define the element. It is ignored like an unknown element.
    NotInVersion,
}

impl ElementPresence {
    pub(crate) fn required_if(condition: bool) -> Self {
        if condition { Self::Required } else { Self::Optional }
    }

    pub(crate) fn only_if(condition: bool) -> Self {
        if condition { Self::Required } else { Self::Forbidden }
    }

    pub(crate) fn not_required(self) -> Self {
        if self == Self::Required { Self::Optional } else { self }
    }

    /// For elements that exist since 2.2.0.
    pub(crate) fn since_220(self, elements: &MessageElements<'_>) -> Self {
        if elements.transaction.version < Version::V220 { Self::NotInVersion } else { self }
    }
}

/// The inputs of a presence rule: the transaction, and the other elements as sent.
#[derive(Debug)]
pub(crate) struct MessageElements<'a> {
    pub(crate) transaction: &'a TransactionContext,
    pub(crate) object: &'a Map<String, Value>,
}

impl MessageElements<'_> {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    pub(crate) fn has_code(&self, name: &str, codes: &[&str]) -> bool {
        self.object.get(name).and_then(Value::as_str).is_some_and(|it| codes.contains(&it))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.object.get(name).and_then(Value::as_str)
    }

    /// The channel in the message, or else the channel of the transaction.
    pub(crate) fn channel(&self) -> Option<DeviceChannel> {
        let stated_channel = self.text("deviceChannel").and_then(DeviceChannel::from_code);
        stated_channel.or(self.transaction.channel)
    }

    pub(crate) fn is_channel(&self, channel: DeviceChannel) -> bool {
        self.channel() == Some(channel)
    }

    pub(crate) fn is_payment(&self) -> bool {
        let stated_category =
            self.text("messageCategory").and_then(AuthenticationCategory::from_code);
        stated_category.or(self.transaction.category) == Some(AuthenticationCategory::Payment)
    }
}

pub(crate) fn always(_: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::Required
}

pub(crate) fn optional(_: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::Optional
}

/// Optional since 2.2.0.
pub(crate) fn since_220(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::Optional.since_220(elements)
}

/// Required in one channel and forbidden in others. Optional if the channel is unknown.
fn required_on(elements: &MessageElements<'_>, channel: DeviceChannel) -> ElementPresence {
    elements
        .channel()
        .map_or(ElementPresence::Optional, |it| ElementPresence::only_if(it == channel))
}

pub(crate) fn browser(elements: &MessageElements<'_>) -> ElementPresence {
    required_on(elements, DeviceChannel::Browser)
}

pub(crate) fn app(elements: &MessageElements<'_>) -> ElementPresence {
    required_on(elements, DeviceChannel::App)
}

pub(crate) fn requestor(elements: &MessageElements<'_>) -> ElementPresence {
    required_on(elements, DeviceChannel::Requestor)
}

/// Required if a cardholder is present.
pub(crate) fn cardholder(elements: &MessageElements<'_>) -> ElementPresence {
    elements.channel().map_or(ElementPresence::Optional, |it| {
        ElementPresence::only_if(it != DeviceChannel::Requestor)
    })
}

/// Optional if a cardholder is present, forbidden otherwise.
pub(crate) fn cardholder_optional(elements: &MessageElements<'_>) -> ElementPresence {
    if elements.is_channel(DeviceChannel::Requestor) {
        ElementPresence::Forbidden
    } else {
        ElementPresence::Optional
    }
}

pub(crate) fn payment(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(elements.is_payment())
}

/// The cryptogram: required in a payment with status successful or attempted.
pub(crate) fn authentication_value(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(
        elements.is_payment() && elements.has_code("transStatus", &["Y", "A"]),
    )
}

/// The status reason: required in a payment that failed.
pub(crate) fn status_reason(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(
        elements.is_payment() && elements.has_code("transStatus", &["N", "U", "R"]),
    )
}

/// The source of the whitelist status: required with the status, forbidden without it.
pub(crate) fn whitelist_source(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::only_if(elements.has("whiteListStatus")).since_220(elements)
}
