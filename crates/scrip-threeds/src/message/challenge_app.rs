//! Elements that an app displays in a challenge.

use serde_json::Value;

use crate::{
    format::{ElementContext, ElementFormat, Text, Url},
    message::record::record,
};

record! {
    /// One image for three screen densities.
    #[derive(Clone)]
    pub struct Image {
        may medium: Url<2048> = "medium";
        may high: Url<2048> = "high";
        may extra_high: Url<2048> = "extraHigh";
    }
}

pub const CHOICES_MAX: usize = 32;

/// The choices: objects with one name each, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectInfo(Vec<(Text<1, 45>, Text<1, 45>)>);

impl SelectInfo {
    /// The value and label of each choice. `None` for an empty list or too many choices.
    pub fn new(choices: Vec<(Text<1, 45>, Text<1, 45>)>) -> Option<Self> {
        (1..=CHOICES_MAX).contains(&choices.len()).then_some(Self(choices))
    }

    pub fn choices(&self) -> &[(Text<1, 45>, Text<1, 45>)] {
        &self.0
    }
}

fn parse_choice(value: &Value) -> Option<(Text<1, 45>, Text<1, 45>)> {
    let object = value.as_object().filter(|it| it.len() == 1)?;
    let (name, label) = object.iter().next()?;
    Some((Text::parse(name).ok()?, Text::parse(label.as_str()?).ok()?))
}

impl ElementFormat for SelectInfo {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        let choices = value.as_array().filter(|it| it.len() <= CHOICES_MAX);
        let choices = choices.and_then(|it| it.iter().map(parse_choice).collect::<Option<_>>());
        context.expect(choices.and_then(Self::new))
    }

    fn write(&self) -> Value {
        let choice_object = |(name, label): &(Text<1, 45>, Text<1, 45>)| {
            let label = Value::String(label.expose().to_owned());
            Value::Object([(name.expose().to_owned(), label)].into_iter().collect())
        };
        Value::Array(self.0.iter().map(choice_object).collect())
    }
}
