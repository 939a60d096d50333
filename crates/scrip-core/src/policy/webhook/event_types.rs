//! Sets of types of events.

use crate::{FieldError, types::EventType};

impl EventType {
    #[expect(clippy::as_conversions, reason = "a unit variant is its own index, below 64")]
    const fn bit(self) -> u64 {
        1 << (self as u8)
    }
}

/// A set of types of events: one bit each, so that the question whether a tenant wants an event
/// costs one `and`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventTypes(u64);

impl EventTypes {
    pub const fn has(self, event: EventType) -> bool {
        self.0 & event.bit() != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn iter(self) -> impl Iterator<Item = EventType> {
        EventType::ALL.into_iter().filter(move |it| self.has(*it))
    }
}

impl FromIterator<EventType> for EventTypes {
    fn from_iter<I: IntoIterator<Item = EventType>>(events: I) -> Self {
        Self(events.into_iter().fold(0, |bits, it| bits | it.bit()))
    }
}

/// The types of events of one webhook, without repetitions, in the order of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventList(Vec<EventType>);

const SEPARATOR: &str = ",";
/// A longer text is no name of an event, and is not repeated in an error.
const SHOWN_NAME_CHARS_MAX: usize = 100;

impl EventList {
    /// Errors: the list is empty, or has names that are no types of events.
    pub fn parse(names: &[String]) -> Result<Self, Vec<FieldError>> {
        if names.is_empty() {
            return Err(vec![FieldError::new("events", "must name at least one event type")]);
        }
        let mut events = Vec::new();
        let mut errors = Vec::new();
        for (index, name) in names.iter().enumerate() {
            match EventType::parse(name) {
                Some(event) if !events.contains(&event) => events.push(event),
                Some(_) => (),
                None => errors.push(unknown_event(index, name)),
            }
            // A request with thousands of wrong names needs no error for each.
            if errors.len() >= EventType::ALL.len() {
                break;
            }
        }
        if errors.is_empty() { Ok(Self(events)) } else { Err(errors) }
    }

    /// The text of a row.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(SEPARATOR)
    }

    /// `None` when the text is not the output of [`EventList::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        let events: Option<Vec<_>> = text.split(SEPARATOR).map(EventType::parse).collect();
        let events = events?;
        let set: EventTypes = events.iter().copied().collect();
        (set.iter().count() == events.len()).then_some(Self(events))
    }

    pub fn as_slice(&self) -> &[EventType] {
        &self.0
    }

    pub(crate) fn to_set(&self) -> EventTypes {
        self.0.iter().copied().collect()
    }
}

/// Names the unknown event if it can be one: letters, digits, dots and hyphens, and too few digits
/// for a card number. Other text may be a secret in a wrong attribute.
fn unknown_event(index: usize, name: &str) -> FieldError {
    let is_name_byte =
        |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b".-".contains(&it);
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_shown = !name.is_empty()
        && name.len() <= SHOWN_NAME_CHARS_MAX
        && name.contains('.')
        && name.bytes().all(is_name_byte)
        && digits < 9;
    let subject = if is_shown { format!("{name} ") } else { String::new() };
    let problem =
        format!("{subject}is not an event type; GET /webhooks/event-types lists them").into();
    FieldError { field: format!("events[{index}]").into(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(names: &[&str]) -> Result<EventList, Vec<FieldError>> {
        EventList::parse(&names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn event_types_have_unique_bits() {
        assert_eq!(EventType::ALL.len(), 48);
        for event in EventType::ALL {
            assert_eq!(EventType::parse(event.as_str()), Some(event));
            assert_eq!(EventTypes::from_iter([event]).iter().collect::<Vec<_>>(), [event]);
        }
        let all: EventTypes = EventType::ALL.into_iter().collect();
        assert_eq!(all.iter().count(), 48);
        let raised: EventTypes = EventType::RAISED.iter().copied().collect();
        assert_eq!(raised.iter().count(), EventType::RAISED.len());
    }

    #[test]
    fn threeds_event_types_have_the_names_of_stored_events() {
        use scrip_threeds::session::WebhookEventType;
        for event in WebhookEventType::ALL {
            assert!(EventType::parse(event.name()).is_some(), "{}", event.name());
        }
    }

    #[test]
    fn event_list_keeps_the_order_and_drops_repetitions() {
        let list = parse(&["token.read", "token.created", "token.read"]).unwrap();
        assert_eq!(list.as_slice(), [EventType::TokenRead, EventType::TokenCreated]);
        assert_eq!(list.to_text(), "token.read,token.created");
        assert_eq!(EventList::from_text(&list.to_text()), Some(list));
        for text in ["", ",", "token.read,", "token.read,token.read", "token.fly", " token.read"] {
            assert_eq!(EventList::from_text(text), None, "{text}");
        }
    }

    #[track_caller]
    fn check_error(names: &[&str], field: &str, problem: &str) {
        let errors = parse(names).unwrap_err();
        assert_eq!((&*errors[0].field, &*errors[0].problem), (field, problem), "{names:?}");
    }

    #[test]
    fn unknown_event_is_named_unless_it_may_be_a_secret() {
        let rule = "is not an event type; GET /webhooks/event-types lists them";
        check_error(&[], "events", "must name at least one event type");
        check_error(&["token.read", "token.fly"], "events[1]", &format!("token.fly {rule}"));
        for text in ["4242.424242424242", "secret", "token.FLY", "", "a b.c", &"a.".repeat(51)] {
            check_error(&[text], "events[0]", rule);
        }
        assert_eq!(parse(&["x.y"; 5000]).unwrap_err().len(), 48);
    }
}
