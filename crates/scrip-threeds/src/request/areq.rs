//! Request, session and card into an `AReq`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::{
    code::{DeviceChannel, MethodCompletion},
    fault::{ErrorCode, FaultList},
    format::{CardNumber, ElementContext, TransId},
    json::WipedObject,
    message::{AReq, KnownExtensions, TransactionContext, read_message},
    request::{AuthenticateContext, DeviceInfo, RequestorInfo, Violation, elements, violations},
};

/// Which session it is about.
#[derive(Debug)]
pub struct AReqSession {
    pub id: TransId,
    /// Whether the method page has run; only a browser's message tells it.
    pub method_completion: MethodCompletion,
}

/// Who we are to the directory server, and where we can be reached.
#[derive(Debug)]
pub struct ServerIdentity {
    pub reference_number: String,
    pub operator_id: Option<String>,
    /// Where the result is to be posted. It carries a secret, and is in no log.
    pub results_url: String,
    /// Where the browser comes back after a challenge.
    pub notification_url: String,
}

/// The card. The expiry is YYMM.
#[derive(Debug)]
pub struct AReqCard {
    pub number: CardNumber,
    pub expiry: Option<String>,
}

/// All that an `AReq` is made of.
#[derive(Debug, Clone, Copy)]
pub struct AReqInput<'a> {
    pub context: AuthenticateContext<'a>,
    pub session: &'a AReqSession,
    pub server: &'a ServerIdentity,
    pub card: &'a AReqCard,
}

impl<'a> AReqInput<'a> {
    pub(crate) fn channel(&self) -> DeviceChannel {
        DeviceChannel::for_session(self.context.session, self.context.device)
    }

    pub(crate) fn if_channel(&self, channel: DeviceChannel, value: Value) -> Option<Value> {
        (self.channel() == channel).then_some(value)
    }

    pub(crate) fn requestor(&self) -> Option<&'a RequestorInfo> {
        self.context.request.requestor_info.as_ref()
    }

    pub(crate) fn device_info(&self) -> &'a DeviceInfo {
        self.context.device_info
    }
}

/// The message, or everything that is wrong with the request. The rules speak first; what passes
/// them and is still no valid element is named by its attribute.
pub fn build_areq(input: &AReqInput<'_>) -> Result<AReq, Vec<Violation>> {
    let violations = violations(&input.context);
    if !violations.is_empty() {
        return Err(violations);
    }
    let mut object = WipedObject(Map::new());
    for element in elements::all_mappings() {
        if let Some(value) = (element.value)(input) {
            insert_element(&mut object.0, element.name, value);
        }
    }
    let transaction = TransactionContext {
        known_extensions: KnownExtensions::All,
        ..TransactionContext::for_version(input.context.version)
    };
    let mut faults = FaultList::default();
    let mut element_context =
        ElementContext { path: String::new(), transaction: &transaction, faults: &mut faults };
    let message = read_message::<AReq>(&object.0, &mut element_context);
    match (message, faults.is_empty()) {
        (Some(message), true) => Ok(message),
        _ => Err(faults
            .into_vec()
            .iter()
            .map(|(code, name)| violation_for_element(*code, name))
            .collect()),
    }
}

/// An element, or one of an object that is made for it.
fn insert_element(object: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            object.insert(name.to_owned(), value);
        }
        Some((parent, child)) => {
            let parent = object.entry(parent).or_insert_with(|| Value::Object(Map::new()));
            if let Some(parent) = parent.as_object_mut() {
                parent.insert(child.to_owned(), value);
            }
        }
    }
}

fn violation_for_element(code: ErrorCode, name: &str) -> Violation {
    let exact = elements::all_mappings().find(|it| it.name == name);
    // An element within an object that is one attribute of ours, such as an extension's id.
    let parent = name.split('.').next().unwrap_or_default();
    let element = exact.or_else(|| elements::all_mappings().find(|it| it.name == parent));
    let path = element.map(|it| it.path).filter(|it| !it.is_empty());
    let path = path.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed);
    let message = if code == ErrorCode::ElementMissing {
        "is required"
    } else if code == ErrorCode::IsoCodeInvalid {
        "is not a code that can be used here"
    } else {
        "has a form or length that the card schemes do not accept"
    };
    Violation { path, message }
}
