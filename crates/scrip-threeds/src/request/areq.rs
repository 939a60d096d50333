//! Request, session and card into an `AReq`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::{
    code::{DeviceChannel, MethodCompletion},
    fault::{ErrorCode, Faults},
    format::{CardNumber, Place, TransId},
    json::Plain,
    message::{AReq, Known, Scene, read_whole},
    request::{DeviceInfo, RequestorInfo, Situation, Violation, elements, violations},
};

/// Which session it is about.
#[derive(Debug)]
pub struct Subject {
    pub id: TransId,
    /// Whether the method page has run; only a browser's message tells it.
    pub method: MethodCompletion,
}

/// Who we are to the directory server, and where we can be reached.
#[derive(Debug)]
pub struct Server {
    pub reference_number: String,
    pub operator_id: Option<String>,
    /// Where the result is to be posted. It carries a secret, and is in no log.
    pub results_url: String,
    /// Where the browser comes back after a challenge.
    pub notification_url: String,
}

/// The card. The expiry is YYMM.
#[derive(Debug)]
pub struct Card {
    pub number: CardNumber,
    pub expiry: Option<String>,
}

/// All that an `AReq` is made of.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub situation: Situation<'a>,
    pub subject: &'a Subject,
    pub server: &'a Server,
    pub card: &'a Card,
}

impl<'a> Question<'a> {
    pub(crate) fn channel(&self) -> DeviceChannel {
        DeviceChannel::of(self.situation.session, self.situation.device)
    }

    pub(crate) fn on(&self, channel: DeviceChannel, value: Value) -> Option<Value> {
        (self.channel() == channel).then_some(value)
    }

    pub(crate) fn requestor(&self) -> Option<&'a RequestorInfo> {
        self.situation.request.requestor_info.as_ref()
    }

    pub(crate) fn device(&self) -> &'a DeviceInfo {
        self.situation.device_info
    }
}

/// The message, or everything that is wrong with the request. The rules speak first; what passes
/// them and is still no valid element is named by its attribute.
pub fn make_areq(question: &Question<'_>) -> Result<AReq, Vec<Violation>> {
    let broken = violations(&question.situation);
    if !broken.is_empty() {
        return Err(broken);
    }
    let mut object = Plain(Map::new());
    for element in elements::all() {
        if let Some(value) = (element.value)(question) {
            put(&mut object.0, element.name, value);
        }
    }
    let scene = Scene { extensions: Known::All, ..Scene::of(question.situation.version) };
    let mut faults = Faults::default();
    let mut place = Place { path: String::new(), scene: &scene, faults: &mut faults };
    let read = read_whole::<AReq>(&object.0, &mut place);
    match (read, faults.is_empty()) {
        (Some(message), true) => Ok(message),
        _ => Err(faults.into_all().iter().map(|(code, name)| violation(*code, name)).collect()),
    }
}

/// An element, or one of an object that is made for it.
fn put(object: &mut Map<String, Value>, name: &str, value: Value) {
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

fn violation(code: ErrorCode, name: &str) -> Violation {
    let whole = elements::all().find(|it| it.name == name);
    // An element within an object that is one attribute of ours, such as an extension's id.
    let parent = name.split('.').next().unwrap_or_default();
    let element = whole.or_else(|| elements::all().find(|it| it.name == parent));
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
