//! JSON Schemas in the dialect of OpenAPI 3.1, as far as we need them.
//!
//! The shapes of answers are closed, and nothing in them is null but what says so. Those of requests are open, because unknown
//! attributes are passed over, and an optional attribute may be null, which says nothing.

use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Schema(Value);

impl Schema {
    pub(crate) fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        if let Some(object) = self.0.as_object_mut() {
            object.insert(keyword.to_owned(), value.into());
        }
        self
    }

    pub(crate) fn about(self, text: &str) -> Self {
        self.with("description", text)
    }

    pub(crate) fn pattern(self, pattern: impl Into<String>) -> Self {
        self.with("pattern", pattern.into())
    }

    /// How many characters or entries.
    pub(crate) fn sized(self, least: usize, most: usize) -> Self {
        let (min, max) = if self.0.get("type").is_some_and(|it| it == "array") {
            ("minItems", "maxItems")
        } else {
            ("minLength", "maxLength")
        };
        self.with(min, least).with(max, most)
    }

    pub(crate) fn between(self, least: u64, most: u64) -> Self {
        self.with("minimum", least).with("maximum", most)
    }

    /// But not this text.
    pub(crate) fn except(self, text: &str) -> Self {
        self.with("not", json!({"const": text}))
    }

    pub(crate) fn examples(self, examples: impl IntoIterator<Item = Value>) -> Self {
        self.with("examples", examples.into_iter().collect::<Value>())
    }

    pub(crate) fn or_null(self) -> Self {
        let Value::Object(mut object) = self.0 else { return self };
        match object.get("type").cloned() {
            Some(Value::String(one)) => object.insert("type".to_owned(), json!([one, "null"])),
            // Anything, or already more than one.
            Some(_) => return Self(Value::Object(object)),
            None if object.is_empty() => return any(),
            None => return either([Self(Value::Object(object)), null()]),
        };
        if let Some(Value::Array(values)) = object.get_mut("enum") {
            values.push(Value::Null);
        }
        Self(Value::Object(object))
    }

    pub(crate) fn into_value(self) -> Value {
        self.0
    }
}

pub(crate) fn any() -> Schema {
    Schema(json!({}))
}

pub(crate) fn null() -> Schema {
    Schema(json!({"type": "null"}))
}

pub(crate) fn text() -> Schema {
    Schema(json!({"type": "string"}))
}

pub(crate) fn uuid() -> Schema {
    text().with("format", "uuid")
}

/// A time in an answer.
pub(crate) fn instant() -> Schema {
    text().with("format", "date-time")
}

pub(crate) fn whole() -> Schema {
    Schema(json!({"type": "integer", "minimum": 0}))
}

pub(crate) fn boolean() -> Schema {
    Schema(json!({"type": "boolean"}))
}

pub(crate) fn list(entry: Schema) -> Schema {
    Schema(json!({"type": "array", "items": entry.0}))
}

/// Any names, each with such a value.
pub(crate) fn map(value: Schema) -> Schema {
    Schema(json!({"type": "object", "additionalProperties": value.0}))
}

/// One of these texts, taken from a table of the code.
pub(crate) fn one_of(texts: impl IntoIterator<Item = &'static str>) -> Schema {
    let texts: Vec<_> = texts.into_iter().collect();
    text().with("enum", texts)
}

pub(crate) fn either(schemas: impl IntoIterator<Item = Schema>) -> Schema {
    let schemas: Vec<_> = schemas.into_iter().map(Schema::into_value).collect();
    Schema(json!({"anyOf": schemas}))
}

/// What must be absent, or null.
pub(crate) fn nothing() -> Schema {
    text().with("enum", Vec::<Value>::new())
}

/// A schema that stands among the components.
pub(crate) fn named(name: &str) -> Schema {
    Schema(json!({"$ref": format!("#/components/schemas/{name}")}))
}

/// A name with what it has.
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    schema: Schema,
    presence: Presence,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Always,
    Sometimes,
}

pub(crate) fn always(name: &'static str, schema: Schema) -> Attribute {
    Attribute { name, schema, presence: Presence::Always }
}

pub(crate) fn sometimes(name: &'static str, schema: Schema) -> Attribute {
    Attribute { name, schema, presence: Presence::Sometimes }
}

/// What we write: these attributes and no other, and what is absent is left out.
pub(crate) fn answer(attributes: impl IntoIterator<Item = Attribute>) -> Schema {
    object(attributes, |it| it.schema).with("additionalProperties", false)
}

/// What we read.
pub(crate) fn request(attributes: impl IntoIterator<Item = Attribute>) -> Schema {
    object(attributes, |it| match it.presence {
        Presence::Always => it.schema,
        Presence::Sometimes => it.schema.or_null(),
    })
}

fn object(
    attributes: impl IntoIterator<Item = Attribute>,
    schema: impl Fn(Attribute) -> Schema,
) -> Schema {
    let mut required = Vec::new();
    let mut properties = serde_json::Map::new();
    for attribute in attributes {
        let name = attribute.name;
        if attribute.presence == Presence::Always {
            required.push(name);
        }
        properties.insert(name.to_owned(), schema(attribute).0);
    }
    let object = Schema(json!({"type": "object", "properties": properties}));
    if required.is_empty() { object } else { object.with("required", required) }
}

/// Digits and nothing else.
pub(crate) fn digits(least: usize, most: usize) -> Schema {
    let (times, about) = if least == most {
        (format!("{{{least}}}"), format!("{least} digits."))
    } else {
        (format!("{{{least},{most}}}"), format!("{least} to {most} digits."))
    };
    text().pattern(format!("^[0-9]{times}$")).about(&about)
}
