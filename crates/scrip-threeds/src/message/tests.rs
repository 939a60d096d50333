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
        AReq, ARes, CReq, CRes, Erro, Facts, Message, Need, PReq, PRes, RReq, RRes, Scene,
        record::{Field, Record},
        tables,
    },
};

/// One kind of transaction, and what its message says in any case.
pub(crate) struct Case {
    pub(crate) label: String,
    pub(crate) fields: &'static [Field],
    pub(crate) scene: Scene,
    base: Map<String, Value>,
    parse: fn(&[u8], &Scene) -> Result<Value, Fault>,
}

impl Case {
    fn of<M: Message>(scene: Scene, base: Value) -> Self {
        let mut base = base.as_object().unwrap().clone();
        base.insert("messageVersion".to_owned(), scene.version.code().into());
        let label = format!("{} {base:?} {:?}", M::TYPE.code(), scene.channel);
        base.insert("messageType".to_owned(), M::TYPE.code().into());
        let parse = |bytes: &[u8], scene: &Scene| {
            let message = M::parse(bytes, scene)?;
            message.check(scene).expect("what was read can be written and read");
            Ok(serde_json::from_slice(&message.to_json()).unwrap())
        };
        Self { label, fields: M::FIELDS, scene, base, parse }
    }

    /// As few elements as possible.
    pub(crate) fn least(&self) -> Map<String, Value> {
        build(self.fields, &self.scene, self.base.clone(), &[Need::Required])
    }

    /// As many as possible.
    pub(crate) fn most(&self) -> Map<String, Value> {
        build(self.fields, &self.scene, self.base.clone(), &[Need::Required, Need::Optional])
    }

    /// Reads the object and gives it as written again.
    pub(crate) fn parse(&self, object: &Map<String, Value>) -> Result<Value, Fault> {
        self.parse_bytes(&serde_json::to_vec(object).unwrap())
    }

    pub(crate) fn parse_bytes(&self, bytes: &[u8]) -> Result<Value, Fault> {
        (self.parse)(bytes, &self.scene)
    }

    pub(crate) fn need(&self, field: &Field, object: &Map<String, Value>) -> Need {
        (field.need)(&Facts { scene: &self.scene, object })
    }
}

/// Adds what is needed, until nothing is: one element may call for another.
fn build(
    fields: &[Field],
    scene: &Scene,
    mut object: Map<String, Value>,
    needs: &[Need],
) -> Map<String, Value> {
    loop {
        let before = object.len();
        for field in fields {
            let need = (field.need)(&Facts { scene, object: &object });
            if !object.contains_key(field.name) && needs.contains(&need) {
                object.insert(field.name.to_owned(), (field.samples)().swap_remove(0));
            }
        }
        if object.len() == before {
            return object;
        }
    }
}

/// For objects within messages: the least, and the most.
pub(crate) fn samples_of<R: Record>() -> Vec<Value> {
    let scene = Scene::of(Version::V220);
    let least = build(R::FIELDS, &scene, Map::new(), &[Need::Required]);
    let most = build(R::FIELDS, &scene, Map::new(), &[Need::Required, Need::Optional]);
    vec![Value::Object(most), Value::Object(least)]
}

/// The most, with one element missing or wrong.
pub(crate) fn refused_of<R: Record>() -> Vec<Value> {
    let scene = Scene::of(Version::V220);
    let most = build(R::FIELDS, &scene, Map::new(), &[Need::Required, Need::Optional]);
    let mut refused = vec![Value::Null, "".into(), Value::Array(Vec::new())];
    for field in R::FIELDS {
        let mut without = most.clone();
        without.remove(field.name);
        if (field.need)(&Facts { scene: &scene, object: &without }) == Need::Required {
            refused.push(Value::Object(without));
        }
        for value in (field.refused)() {
            let mut with = most.clone();
            with.insert(field.name.to_owned(), value);
            refused.push(Value::Object(with));
        }
    }
    refused
}

fn authentications(cases: &mut Vec<Case>, version: Version) {
    let statuses: &[&str] = match version {
        Version::V210 => &["Y", "A", "N", "U", "C", "R"],
        Version::V220 => &["Y", "A", "N", "U", "C", "R", "D", "I"],
    };
    for channel in DeviceChannel::ALL {
        for category in AuthenticationCategory::ALL {
            let scene = Scene::of(version).within(*channel, *category);
            let alone = *channel == DeviceChannel::Requestor;
            if alone && version < Version::V220 && *category == AuthenticationCategory::Payment {
                continue;
            }
            for status in statuses.iter().filter(|it| !alone || **it != "C") {
                cases.push(Case::of::<ARes>(scene, json!({"transStatus": status})));
            }
            for status in ["Y", "A", "N", "U", "R"] {
                let base = json!({"messageCategory": category.code(), "transStatus": status});
                cases.push(Case::of::<RReq>(scene, base));
            }
            cases.push(Case::of::<RRes>(scene, json!({})));
            let kinds = ["01", "02", "03", "04"];
            let kind = if alone { "threeRIInd" } else { "threeDSRequestorAuthenticationInd" };
            for code in kinds {
                let (channel, category) = (channel.code(), category.code());
                let said = json!({
                    "deviceChannel": channel, "messageCategory": category, kind: code,
                });
                // AReq says all of it itself.
                cases.push(Case::of::<AReq>(Scene::of(version), said));
            }
        }
    }
}

/// Every message in every kind of transaction.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for version in Version::ALL {
        let scene = Scene::of(*version);
        authentications(&mut cases, *version);
        cases.push(Case::of::<PReq>(scene, json!({})));
        cases.push(Case::of::<PRes>(scene, json!({})));
        cases.push(Case::of::<Erro>(scene, json!({})));
        for channel in [DeviceChannel::App, DeviceChannel::Browser] {
            let scene = scene.within(channel, AuthenticationCategory::Payment);
            cases.push(Case::of::<CReq>(scene, json!({})));
            let last = json!({"challengeCompletionInd": "Y", "transStatus": "Y"});
            cases.push(Case::of::<CRes>(scene, last));
            cases.push(Case::of::<CRes>(scene, json!({"challengeCompletionInd": "N"})));
        }
    }
    cases
}

/// One transaction of each message, channel and version, where more of them show nothing new.
pub(crate) fn few_cases() -> Vec<Case> {
    let mut seen = Vec::new();
    let mut few = cases();
    few.retain(|case| {
        let key = (
            case.base.get("messageType").cloned(),
            case.scene.version,
            case.scene.channel,
            case.base.get("deviceChannel").cloned(),
        );
        let new = !seen.contains(&key);
        seen.push(key);
        new
    });
    few
}

/// Every name in a fault is a path of ours.
pub(crate) fn names_are_ours(fault: &Fault) {
    for name in fault.names.iter().flat_map(|it| it.split('.')) {
        let known = tables().iter().flat_map(|it| it.iter()).any(|it| it.name == name);
        assert!(known || name == "messageType", "{name}");
    }
}
