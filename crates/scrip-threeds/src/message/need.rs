//! When an element must, may or must not be in a message.

use serde_json::{Map, Value};

use crate::{
    code::{AuthenticationCategory, DeviceChannel},
    format::Version,
    message::Scene,
};

/// What the tables say of an element, for one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
    /// Its presence would contradict the rest of the message.
    Never,
    /// The message's version does not have it: passed over like any name we do not know.
    Unknown,
}

impl Need {
    pub(crate) fn required_if(condition: bool) -> Self {
        if condition { Self::Required } else { Self::Optional }
    }

    pub(crate) fn only_if(condition: bool) -> Self {
        if condition { Self::Required } else { Self::Never }
    }

    pub(crate) fn not_required(self) -> Self {
        if self == Self::Required { Self::Optional } else { self }
    }

    /// For elements that came with 2.2.0.
    pub(crate) fn since_220(self, facts: &Facts<'_>) -> Self {
        if facts.scene.version < Version::V220 { Self::Unknown } else { self }
    }
}

/// What a need may look at: the scene, and the other elements as they were sent.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) object: &'a Map<String, Value>,
}

impl Facts<'_> {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    pub(crate) fn is(&self, name: &str, codes: &[&str]) -> bool {
        self.object.get(name).and_then(Value::as_str).is_some_and(|it| codes.contains(&it))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.object.get(name).and_then(Value::as_str)
    }

    /// As the message says, or else as we know.
    pub(crate) fn channel(&self) -> Option<DeviceChannel> {
        let said = self.text("deviceChannel").and_then(DeviceChannel::from_code);
        said.or(self.scene.channel)
    }

    pub(crate) fn on(&self, channel: DeviceChannel) -> bool {
        self.channel() == Some(channel)
    }

    pub(crate) fn is_payment(&self) -> bool {
        let said = self.text("messageCategory").and_then(AuthenticationCategory::from_code);
        said.or(self.scene.category) == Some(AuthenticationCategory::Payment)
    }
}

pub(crate) fn always(_: &Facts<'_>) -> Need {
    Need::Required
}

pub(crate) fn optional(_: &Facts<'_>) -> Need {
    Need::Optional
}

/// Since 2.2.0, and then optional.
pub(crate) fn since_220(facts: &Facts<'_>) -> Need {
    Need::Optional.since_220(facts)
}

/// An element of one channel: required there, and nowhere else. Where the channel is not known, it
/// may be there.
fn of(facts: &Facts<'_>, channel: DeviceChannel) -> Need {
    facts.channel().map_or(Need::Optional, |it| Need::only_if(it == channel))
}

pub(crate) fn browser(facts: &Facts<'_>) -> Need {
    of(facts, DeviceChannel::Browser)
}

pub(crate) fn app(facts: &Facts<'_>) -> Need {
    of(facts, DeviceChannel::App)
}

pub(crate) fn requestor(facts: &Facts<'_>) -> Need {
    of(facts, DeviceChannel::Requestor)
}

/// Somebody is there.
pub(crate) fn cardholder(facts: &Facts<'_>) -> Need {
    facts.channel().map_or(Need::Optional, |it| Need::only_if(it != DeviceChannel::Requestor))
}

/// Only where somebody is there, and optional.
pub(crate) fn cardholder_optional(facts: &Facts<'_>) -> Need {
    if facts.on(DeviceChannel::Requestor) { Need::Never } else { Need::Optional }
}

pub(crate) fn payment(facts: &Facts<'_>) -> Need {
    Need::required_if(facts.is_payment())
}

/// A cryptogram: with a success or an attempt in a payment.
pub(crate) fn authentication_value(facts: &Facts<'_>) -> Need {
    Need::required_if(facts.is_payment() && facts.is("transStatus", &["Y", "A"]))
}

/// A reason: with a failure in a payment.
pub(crate) fn status_reason(facts: &Facts<'_>) -> Need {
    Need::required_if(facts.is_payment() && facts.is("transStatus", &["N", "U", "R"]))
}

/// The source of a status, and never without it.
pub(crate) fn whitelist_source(facts: &Facts<'_>) -> Need {
    Need::only_if(facts.has("whiteListStatus")).since_220(facts)
}
