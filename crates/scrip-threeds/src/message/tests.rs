//! Tests of every message, driven by the element tables.

mod bounds;
mod elements;
mod fuzz;
mod presence;

use serde_json::{Map, Value, json};

use crate::{
    code::{AuthenticationCategory, DeviceChannel},
    fault::Fault,
    format::Version,
    message::{
        AReq, ARes, CReq, CRes, ElementPresence, Erro, Message, MessageElements, PReq, PRes, RReq,
        RRes, TransactionContext,
        document::element_tables,
        parse_message,
        record::{ElementDefinition, ElementTable},
    },
};

/// A message of one kind of transaction, with the elements that it always has.
pub(crate) struct MessageCase {
    pub(crate) label: String,
    pub(crate) fields: &'static [ElementDefinition],
    pub(crate) transaction: TransactionContext,
    base: Map<String, Value>,
    parse: fn(&[u8], &TransactionContext) -> Result<Value, Fault>,
}

impl MessageCase {
    fn for_message<M: Message>(transaction: TransactionContext, base: Value) -> Self {
        let mut base = base.as_object().unwrap().clone();
        base.insert("messageVersion".to_owned(), transaction.version.code().into());
        let label = format!("{} {base:?} {:?}", M::TYPE.code(), transaction.channel);
        base.insert("messageType".to_owned(), M::TYPE.code().into());
        let parse = |bytes: &[u8], transaction: &TransactionContext| {
            let message = parse_message::<M>(bytes, transaction)?;
            message.check(transaction).expect("a parsed message can be written and parsed again");
            Ok(serde_json::from_slice(&message.to_json()).unwrap())
        };
        Self { label, fields: M::FIELDS, transaction, base, parse }
    }

    /// The message with required elements only.
    pub(crate) fn smallest_message(&self) -> Map<String, Value> {
        add_elements(
            self.fields,
            &self.transaction,
            self.base.clone(),
            &[ElementPresence::Required],
        )
    }

    /// The message with all required and optional elements.
    pub(crate) fn largest_message(&self) -> Map<String, Value> {
        add_elements(
            self.fields,
            &self.transaction,
            self.base.clone(),
            &[ElementPresence::Required, ElementPresence::Optional],
        )
    }

    /// Parses the object as a message and returns the message as JSON.
    pub(crate) fn parse(&self, object: &Map<String, Value>) -> Result<Value, Fault> {
        self.parse_bytes(&serde_json::to_vec(object).unwrap())
    }

    pub(crate) fn parse_bytes(&self, bytes: &[u8]) -> Result<Value, Fault> {
        (self.parse)(bytes, &self.transaction)
    }

    pub(crate) fn presence(
        &self,
        field: &ElementDefinition,
        object: &Map<String, Value>,
    ) -> ElementPresence {
        (field.presence)(&MessageElements { transaction: &self.transaction, object })
    }
}

/// Adds required elements until none is missing: one element may require another.
fn add_elements(
    fields: &[ElementDefinition],
    transaction: &TransactionContext,
    mut object: Map<String, Value>,
    presences: &[ElementPresence],
) -> Map<String, Value> {
    loop {
        let length_before = object.len();
        for field in fields {
            let presence = (field.presence)(&MessageElements { transaction, object: &object });
            if !object.contains_key(field.name) && presences.contains(&presence) {
                object.insert(field.name.to_owned(), (field.samples)().swap_remove(0));
            }
        }
        if object.len() == length_before {
            return object;
        }
    }
}

/// Samples of an object in a message: with all elements, and with required elements only.
pub(crate) fn samples_of<R: ElementTable>() -> Vec<Value> {
    let transaction = TransactionContext::for_version(Version::V220);
    let smallest = add_elements(R::FIELDS, &transaction, Map::new(), &[ElementPresence::Required]);
    let largest = add_elements(
        R::FIELDS,
        &transaction,
        Map::new(),
        &[ElementPresence::Required, ElementPresence::Optional],
    );
    vec![Value::Object(largest), Value::Object(smallest)]
}

/// Invalid samples of an object: values of other types, and objects with one element missing or
/// invalid.
pub(crate) fn invalid_samples_of<R: ElementTable>() -> Vec<Value> {
    let transaction = TransactionContext::for_version(Version::V220);
    let largest = add_elements(
        R::FIELDS,
        &transaction,
        Map::new(),
        &[ElementPresence::Required, ElementPresence::Optional],
    );
    let mut samples = vec![Value::Null, "".into(), Value::Array(Vec::new())];
    for field in R::FIELDS {
        let mut incomplete = largest.clone();
        incomplete.remove(field.name);
        if (field.presence)(&MessageElements { transaction: &transaction, object: &incomplete })
            == ElementPresence::Required
        {
            samples.push(Value::Object(incomplete));
        }
        for value in (field.invalid_samples)() {
            let mut changed = largest.clone();
            changed.insert(field.name.to_owned(), value);
            samples.push(Value::Object(changed));
        }
    }
    samples
}

fn add_authentication_cases(cases: &mut Vec<MessageCase>, version: Version) {
    let statuses: &[&str] = match version {
        Version::V210 => &["Y", "A", "N", "U", "C", "R"],
        Version::V220 => &["Y", "A", "N", "U", "C", "R", "D", "I"],
    };
    for channel in DeviceChannel::ALL {
        for category in AuthenticationCategory::ALL {
            let transaction =
                TransactionContext::for_version(version).with_channel(*channel, *category);
            let is_requestor_initiated = *channel == DeviceChannel::Requestor;
            if is_requestor_initiated
                && version < Version::V220
                && *category == AuthenticationCategory::Payment
            {
                continue;
            }
            for status in statuses.iter().filter(|it| !is_requestor_initiated || **it != "C") {
                cases.push(MessageCase::for_message::<ARes>(
                    transaction,
                    json!({"transStatus": status}),
                ));
            }
            for status in ["Y", "A", "N", "U", "R"] {
                let base = json!({"messageCategory": category.code(), "transStatus": status});
                cases.push(MessageCase::for_message::<RReq>(transaction, base));
            }
            cases.push(MessageCase::for_message::<RRes>(transaction, json!({})));
            let kinds = ["01", "02", "03", "04"];
            let type_element = if is_requestor_initiated {
                "threeRIInd"
            } else {
                "threeDSRequestorAuthenticationInd"
            };
            for code in kinds {
                let (channel, category) = (channel.code(), category.code());
                let elements = json!({
                    "deviceChannel": channel, "messageCategory": category, type_element: code,
                });
                // An AReq contains the whole context.
                cases.push(MessageCase::for_message::<AReq>(
                    TransactionContext::for_version(version),
                    elements,
                ));
            }
        }
    }
}

/// Every message in every kind of transaction.
pub(crate) fn cases() -> Vec<MessageCase> {
    let mut cases = Vec::new();
    for version in Version::ALL {
        let transaction = TransactionContext::for_version(*version);
        add_authentication_cases(&mut cases, *version);
        cases.push(MessageCase::for_message::<PReq>(transaction, json!({})));
        cases.push(MessageCase::for_message::<PRes>(transaction, json!({})));
        cases.push(MessageCase::for_message::<Erro>(transaction, json!({})));
        for channel in [DeviceChannel::App, DeviceChannel::Browser] {
            let transaction = transaction.with_channel(channel, AuthenticationCategory::Payment);
            cases.push(MessageCase::for_message::<CReq>(transaction, json!({})));
            let last = json!({"challengeCompletionInd": "Y", "transStatus": "Y"});
            cases.push(MessageCase::for_message::<CRes>(transaction, last));
            cases.push(MessageCase::for_message::<CRes>(
                transaction,
                json!({"challengeCompletionInd": "N"}),
            ));
        }
    }
    cases
}

/// One transaction per message, channel and version. Further cases would test nothing new.
pub(crate) fn representative_cases() -> Vec<MessageCase> {
    let mut selected_keys = Vec::new();
    let mut selected = cases();
    selected.retain(|case| {
        let key = (
            case.base.get("messageType").cloned(),
            case.transaction.version,
            case.transaction.channel,
            case.base.get("deviceChannel").cloned(),
        );
        let is_new = !selected_keys.contains(&key);
        selected_keys.push(key);
        is_new
    });
    selected
}

/// Asserts that every name in a fault is in our tables.
pub(crate) fn assert_elements_are_known(fault: &Fault) {
    for name in fault.elements.iter().flat_map(|it| it.split('.')) {
        let is_known = element_tables().iter().flat_map(|it| it.iter()).any(|it| it.name == name);
        assert!(is_known || name == "messageType", "{name}");
    }
}
