//! The events of tokens that the receiver of a webhook got, compared with the requests of the
//! clients and with the tokens that exist afterwards.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use crate::destination::DestinationRequest;

pub const TOKEN_CREATED: &str = "token.created";
pub const TOKEN_READ: &str = "token.read";
pub const TOKEN_DELETED: &str = "token.deleted";

/// The number of violations that a report describes.
const EXAMPLES_MAX: usize = 5;
/// The headers with which a receiver verifies a delivery.
const SIGNATURE_HEADERS: [&str; 5] = [
    "bt-signature",
    "bt-signature-version",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

/// A violated guarantee of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventViolation {
    /// An acknowledged request has no event.
    LostEvent,
    /// A request without a response took effect, but it has no event.
    EffectWithoutEvent,
    /// One effect has two events with different ids.
    SecondEvent,
    /// An event of a request that had no effect, or of no request at all.
    EventWithoutEffect,
    /// Two deliveries of one event differ.
    EventChanged,
    /// A delivery that a receiver cannot verify.
    Unsigned,
    /// A receiver got an event twice although no node was killed and no attempt failed.
    DeliveredTwice,
    /// A response with an unexpected status.
    UnexpectedStatus,
}

/// The counts and violations of a run.
#[derive(Debug, Default)]
pub struct EventReport {
    pub counts: BTreeMap<&'static str, usize>,
    pub violations: BTreeMap<EventViolation, usize>,
    /// Descriptions of the first violations.
    pub examples: Vec<String>,
}

impl EventReport {
    pub fn add(&mut self, counter: &'static str, count: usize) {
        *self.counts.entry(counter).or_default() += count;
    }

    pub fn count(&self, counter: &str) -> usize {
        self.counts.get(counter).copied().unwrap_or_default()
    }

    pub fn add_violation(&mut self, violation: EventViolation, example: impl Into<String>) {
        *self.violations.entry(violation).or_default() += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{violation:?}: {}", example.into()));
        }
    }

    pub fn has_violation(&self, violation: EventViolation) -> bool {
        self.violations.contains_key(&violation)
    }

    pub fn merge(&mut self, other: Self) {
        for (counter, count) in other.counts {
            self.add(counter, count);
        }
        for (violation, count) in other.violations {
            *self.violations.entry(violation).or_default() += count;
        }
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }
}

/// All attempts of a client to send one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestAttempts {
    pub sent: usize,
    pub is_acknowledged: bool,
}

/// One token and the requests of its client. The client chose the id, so it knows the token of a
/// request without a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequests {
    pub id: String,
    pub create: RequestAttempts,
    pub read: RequestAttempts,
    pub delete: RequestAttempts,
}

impl TokenRequests {
    pub fn new(id: String) -> Self {
        let (create, read, delete) = Default::default();
        Self { id, create, read, delete }
    }
}

/// The events that arrived: the ids by token and event type.
#[derive(Debug, Default)]
struct ReceivedEvents {
    ids: HashMap<(String, String), HashSet<String>>,
    deliveries: HashMap<String, ReceivedEvent>,
}

/// One event, and how often it arrived.
#[derive(Debug)]
struct ReceivedEvent {
    content: Value,
    deliveries: usize,
}

impl ReceivedEvents {
    fn parse(received: &[DestinationRequest], report: &mut EventReport) -> Self {
        let mut events = Self::default();
        for request in received {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let event = &body["event"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (id, event_type) = (text(&event["id"]), text(&event["type"]));
            let token = text(&event["data"]["token"]["id"]);
            let has_header = |name: &&str| request.header(name).is_some_and(|it| !it.is_empty());
            if !SIGNATURE_HEADERS.iter().all(has_header)
                || request.header("webhook-id") != Some(id.as_str())
            {
                report.add_violation(EventViolation::Unsigned, format!("{event_type} of {token}"));
            }
            events.ids.entry((token, event_type)).or_default().insert(id.clone());
            let first = events
                .deliveries
                .entry(id)
                .or_insert_with(|| ReceivedEvent { content: event.clone(), deliveries: 0 });
            first.deliveries += 1;
            if first.content != *event {
                report.add_violation(EventViolation::EventChanged, event.to_string());
            }
        }
        events
    }

    fn count_ids(&self, token: &str, event_type: &str) -> usize {
        self.ids.get(&(token.to_owned(), event_type.to_owned())).map_or(0, HashSet::len)
    }
}

/// Compares the events at a receiver with the requests of all clients and with the ids of the
/// tokens that exist at the end.
pub fn check_token_events(
    tokens: &[TokenRequests],
    existing_ids: &HashSet<String>,
    received: &[DestinationRequest],
) -> EventReport {
    let mut report = EventReport::default();
    let events = ReceivedEvents::parse(received, &mut report);
    report.add("events", events.deliveries.len());
    report.add("repeated", received.len() - events.deliveries.len());
    for token in tokens {
        check_token(token, existing_ids.contains(&token.id), &events, &mut report);
    }
    let known_tokens: HashSet<&str> = tokens.iter().map(|it| it.id.as_str()).collect();
    for (token, event_type) in events.ids.keys() {
        let is_known_type = [TOKEN_CREATED, TOKEN_READ, TOKEN_DELETED].contains(&&**event_type);
        if !known_tokens.contains(token.as_str()) || !is_known_type {
            let example = format!("{event_type} of {token:?}");
            report.add_violation(EventViolation::EventWithoutEffect, example);
        }
    }
    report
}

/// Checks the events of one token. Without a response, a client does not know whether its request
/// took effect; then the existence of the token decides.
fn check_token(
    token: &TokenRequests,
    exists: bool,
    events: &ReceivedEvents,
    report: &mut EventReport,
) {
    let count = |event_type| events.count_ids(&token.id, event_type);
    let was_created = exists || count(TOKEN_CREATED) > 0;
    let checks = [
        EventCheck {
            event_type: TOKEN_CREATED,
            request: token.create,
            must_have_effect: exists,
            can_have_effect: exists || token.delete.sent > 0,
            effects_max: 1,
        },
        EventCheck {
            event_type: TOKEN_READ,
            request: token.read,
            must_have_effect: false,
            can_have_effect: token.read.sent > 0,
            effects_max: token.read.sent,
        },
        EventCheck {
            event_type: TOKEN_DELETED,
            request: token.delete,
            must_have_effect: was_created && !exists,
            can_have_effect: token.delete.sent > 0 && !exists,
            effects_max: 1,
        },
    ];
    for check in checks {
        let count = count(check.event_type);
        report.add(check.event_type, count);
        if let Some(violation) = check.find_violation(count) {
            report.add_violation(violation, format!("{count} {} of {token:?}", check.event_type));
        }
    }
}

/// The requests for events of one type, and their effects.
struct EventCheck {
    event_type: &'static str,
    request: RequestAttempts,
    /// The state of the token proves the effect.
    must_have_effect: bool,
    /// The state of the token allows the effect.
    can_have_effect: bool,
    effects_max: usize,
}

impl EventCheck {
    fn find_violation(&self, count: usize) -> Option<EventViolation> {
        match count {
            0 if self.request.is_acknowledged => Some(EventViolation::LostEvent),
            0 if self.must_have_effect => Some(EventViolation::EffectWithoutEvent),
            0 => None,
            _ if !self.can_have_effect => Some(EventViolation::EventWithoutEffect),
            _ if count > self.effects_max => Some(EventViolation::SecondEvent),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
