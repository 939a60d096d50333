//! Plaintext JSON: `Debug` does not print it, and it is wiped when dropped.

use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroize;

/// The data of a token between parsing and sealing, or between opening and response.
#[derive(Default, Deserialize)]
pub struct Plaintext(Value);

/// The maximum number of JSON values of a request body, and of the data of a token with its mask. Each
/// value takes time in parsing, checks and sealing: so many take about 40 milliseconds.
pub const VALUES_MAX: usize = 100_000;

impl Plaintext {
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// The only access to the value. Search for `expose` to list all code that reads plaintext.
    pub fn expose(&self) -> &Value {
        &self.0
    }

    pub fn expose_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    pub fn into_exposed(mut self) -> Value {
        std::mem::take(&mut self.0)
    }

    /// An explicit copy.
    pub fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Drop for Plaintext {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

hide_in_debug! { Plaintext }

/// How many more values are allowed after this one; `None` if it has too many.
pub fn count_values(value: &Value, allowed: usize) -> Option<usize> {
    let allowed = allowed.checked_sub(1)?;
    match value {
        Value::Array(items) => items.iter().try_fold(allowed, |left, it| count_values(it, left)),
        Value::Object(object) => {
            object.values().try_fold(allowed, |left, it| count_values(it, left))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(allowed),
    }
}

/// Overwrites texts. `serde_json` gives no access to the memory of numbers, so they are only
/// dropped.
fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(object) => object.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_of_plaintext_shows_no_data() {
        assert_eq!(format!("{:?}", Plaintext::new("4242".into())), "Plaintext");
    }
}
