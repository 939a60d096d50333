//! Every message, walked by its table: what a test knows of an element is what the table says.

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
        RRes, TransactionContext, element_tables,
        record::{ElementDefinition, ElementTable},
    },
};

/// One kind of transaction, and what its message says in any case.
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
            let message = M::parse(bytes, transaction)?;
            message.check(transaction).expect("what was read can be written and read");
            Ok(serde_json::from_slice(&message.to_json()).unwrap())
        };
        Self { label, fields: M::FIELDS, transaction, base, parse }
    }

    /// As few elements as possible.
    pub(crate) fn minimal(&self) -> Map<String, Value> {
        add_elements(
            self.fields,
            &self.transaction,
            self.base.clone(),
            &[ElementPresence::Required],
        )
    }

    /// As many as possible.
    pub(crate) fn maximal(&self) -> Map<String, Value> {
        add_elements(
            self.fields,
            &self.transaction,
            self.base.clone(),
            &[ElementPresence::Required, ElementPresence::Optional],
        )
    }

    /// Reads the object and gives it as written again.
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

/// Adds what is needed, until nothing is: one element may call for another.
fn add_elements(
    fields: &[ElementDefinition],
    transaction: &TransactionContext,
    mut object: Map<String, Value>,
    presences: &[ElementPresence],
) -> Map<String, Value> {
    loop {
        let before = object.len();
        for field in fields {
            let presence = (field.presence)(&MessageElements { transaction, object: &object });
            if !object.contains_key(field.name) && presences.contains(&presence) {
                object.insert(field.name.to_owned(), (field.samples)().swap_remove(0));
            }
        }
        if object.len() == before {
            return object;
        }
    }
}

/// For objects within messages: the least, and the most.
pub(crate) fn samples_of<R: ElementTable>() -> Vec<Value> {
    let transaction = TransactionContext::for_version(Version::V220);
    let minimal = add_elements(R::FIELDS, &transaction, Map::new(), &[ElementPresence::Required]);
    let maximal = add_elements(
        R::FIELDS,
        &transaction,
        Map::new(),
        &[ElementPresence::Required, ElementPresence::Optional],
    );
    vec![Value::Object(maximal), Value::Object(minimal)]
}

/// The most, with one element missing or wrong.
pub(crate) fn invalid_samples_of<R: ElementTable>() -> Vec<Value> {
    let transaction = TransactionContext::for_version(Version::V220);
    let maximal = add_elements(
        R::FIELDS,
        &transaction,
        Map::new(),
        &[ElementPresence::Required, ElementPresence::Optional],
    );
    let mut samples = vec![Value::Null, "".into(), Value::Array(Vec::new())];
    for field in R::FIELDS {
        let mut without = maximal.clone();
        without.remove(field.name);
        if (field.presence)(&MessageElements { transaction: &transaction, object: &without })
            == ElementPresence::Required
        {
            samples.push(Value::Object(without));
        }
        for value in (field.invalid_samples)() {
            let mut with = maximal.clone();
            with.insert(field.name.to_owned(), value);
            samples.push(Value::Object(with));
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
                // AReq says all of it itself.
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

/// One transaction of each message, channel and version, where more of them show nothing new.
pub(crate) fn representative_cases() -> Vec<MessageCase> {
    let mut seen = Vec::new();
    let mut few = cases();
    few.retain(|case| {
        let key = (
            case.base.get("messageType").cloned(),
            case.transaction.version,
            case.transaction.channel,
            case.base.get("deviceChannel").cloned(),
        );
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
    few
}

/// Every name in a fault is a path of ours.
pub(crate) fn assert_elements_are_known(fault: &Fault) {
    for name in fault.elements.iter().flat_map(|it| it.split('.')) {
        let known = element_tables().iter().flat_map(|it| it.iter()).any(|it| it.name == name);
        assert!(known || name == "messageType", "{name}");
    }
}
