//! Valid and invalid values of each format. The message tests use them for every element.

use serde_json::{Value, json};

use super::*;
use crate::{
    code::EmvCode,
    message::{CHOICES_MAX, DATA_CHARS_MAX, EXTENSIONS_MAX, Extensions, SelectInfo},
};

pub(crate) trait Samples {
    /// Values at the boundaries of the format. The first one is typical.
    fn samples() -> Vec<Value>;

    /// Values one step beyond the boundaries.
    fn invalid_samples() -> Vec<Value>;
}

impl<C: EmvCode> Samples for C {
    fn samples() -> Vec<Value> {
        C::sample_codes().into_iter().map(Into::into).collect()
    }

    fn invalid_samples() -> Vec<Value> {
        ["", "00", "~", "999", "y"].map(Into::into).into_iter().chain([7.into()]).collect()
    }
}

fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Vec<Value> {
    texts.into_iter().map(|it| Value::String(it.into())).collect()
}

/// Adds values that are not text, and the empty text.
fn invalid_texts<T: Into<String>>(invalid: impl IntoIterator<Item = T>) -> Vec<Value> {
    let other_values = [Value::from(1), Value::Null, Value::from(""), Value::Array(Vec::new())];
    texts(invalid).into_iter().chain(other_values).collect()
}

macro_rules! texts {
    ($($Type:ty $(where [$($bound:tt)*])?: $samples:expr, invalid $invalid:expr;)*) => { $(
        impl$(<$($bound)*>)? Samples for $Type {
            fn samples() -> Vec<Value> {
                texts($samples)
            }

            fn invalid_samples() -> Vec<Value> {
                invalid_texts($invalid)
            }
        }
    )* };
}

texts! {
    Currency: ["840", "978", "008", "954", "965"],
        invalid ["84", "8400", "USD", "955", "964", "999", "000"];
    Country: ["840", "004", "900"], invalid ["84", "8400", "USA", "901", "999", "000"];
    Installments: ["2", "999", "012"], invalid ["1", "0", "001", "1000", "+2"];
    DecoupledMinutes: ["00001", "10080"], invalid ["00000", "10081", "1", "010080"];
    SdkTimeout: ["05", "99"], invalid ["04", "5", "100"];
    Day: ["20261115", "20240229", "20000229", "20261231", "99991130"], invalid [
        "2026111", "202611150", "20260229", "19000229", "20260431", "20261301", "20260100",
    ];
    DateTimeMinutes: ["202611152359", "202611150000"], invalid [
        "20261115235", "2026111523590", "202611152400", "202611152360", "202602302359",
    ];
    DateTimeSeconds: ["20261115235959", "20261115000000"], invalid [
        "2026111523595", "202611152359590", "20261115235960", "20261115246000",
    ];
    CardExpiry: ["3012", "2601"], invalid ["3013", "3000", "301", "30120"];
    Email: ["a@b.example".to_owned(), format!("{}@b.example", "a".repeat(244))], invalid [
        format!("{}@b.example", "a".repeat(245)).as_str(), "a", "@b", "a@", "a b@c",
    ];
    Ip: ["192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7"],
        invalid ["192.0.2", "192.0.2.256", "localhost", "2001:db8::1%eth0"];
    Url<MAX> where [const MAX: usize]: [
        "https://acs.example/p?a=b",
        "http://[::1]:4001",
        &format!("https://acs.example/{}", "x".repeat(MAX - 20)),
    ], invalid [
        "acs.example",
        "https://",
        "https:///p",
        "javascript:alert(1)",
        "https://a b",
        "https://a/\"",
        "https://good@bad.example/",
        "https://:80",
        "ftp://a.example",
        &format!("https://acs.example/{}", "x".repeat(MAX - 19)),
    ];
    Text<MIN, MAX> where [const MIN: usize, const MAX: usize]:
        [&"ab".repeat(MAX)[..MIN.max(1)], &"x".repeat(MAX), &"é".repeat(MAX)],
        invalid ["x".repeat(MAX + 1), "x".repeat(MIN - 1), "\n".repeat(MIN)];
    Digits<MIN, MAX> where [const MIN: usize, const MAX: usize]:
        ["1".repeat(MIN), "9".repeat(MAX)],
        invalid ["1".repeat(MAX + 1), "1".repeat(MIN - 1), "x".repeat(MIN), "٣".repeat(MIN)];
    Alphanumeric<MIN, MAX> where [const MIN: usize, const MAX: usize]:
        ["0".repeat(MIN), "N".repeat(MAX)],
        invalid ["1".repeat(MAX + 1), "1".repeat(MIN - 1), "-".repeat(MIN)];
    TransId: [
        "8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
        "8A880DC0-D2D2-4067-BCB1-B08D1690B26E",
    ], invalid [
        "8a880dc0-d2d2-4067-bcb1-b08d1690b26",
        "8a880dc0-d2d2-4067-bcb1-b08d1690b26e0",
        "8a880dc0-d2d2-4067-bcb1-b08d1690b26g",
        "8a880dc0d2d24067bcb1b08d1690b26e",
        "8a880dc0-d2d24-067-bcb1-b08d1690b26e",
    ];
    AuthenticationValue: ["AAECAwQFBgcICQoLDA0ODxAREhM=", "/+////////////////////////8="],
        invalid [
            "AAECAwQFBgcICQoLDA0ODxAREg==",
            "AAECAwQFBgcICQoLDA0ODxAREhMU",
            "AAECAwQFBgcICQoLDA0ODxAREhM",
            "_-________________________8=",
            "AAECAwQFBgcICQoLDA0ODxAREhN=",
        ];
    JoseCompact<PARTS, MAX> where [const PARTS: usize, const MAX: usize]: [
        format!("eyJ-_9{}", ".".repeat(PARTS - 1)),
        format!("{}{}", "a".repeat(MAX + 1 - PARTS), ".".repeat(PARTS - 1)),
    ], invalid [
        format!("{}{}", "a".repeat(MAX + 2 - PARTS), ".".repeat(PARTS - 1)),
        format!("a{}.", ".".repeat(PARTS - 1)),
        format!("a={}", ".".repeat(PARTS - 1)),
        format!("{}a", ".".repeat(PARTS - 1)),
    ];
    ZoneOffset: ["0", "-330", "+840", "-59.5"], invalid ["-", "123456", "3-0", "UTC", ".5"];
}

impl Samples for CardNumber {
    fn samples() -> Vec<Value> {
        Digits::<13, 19>::samples()
    }

    fn invalid_samples() -> Vec<Value> {
        Digits::<13, 19>::invalid_samples()
    }
}

impl<T: Samples, const MAX: usize> Samples for List<T, MAX> {
    fn samples() -> Vec<Value> {
        let sample = T::samples().swap_remove(0);
        let most = vec![sample.clone(); MAX.min(200)];
        vec![Value::Array(vec![sample]), Value::Array(most)]
    }

    fn invalid_samples() -> Vec<Value> {
        let sample = T::samples().swap_remove(0);
        // The longest lists are too long to be built in every test; `bounds.rs` tests them.
        let many = if MAX <= 200 { vec![sample.clone(); MAX + 1] } else { Vec::new() };
        let wrong =
            T::invalid_samples().into_iter().map(|it| Value::Array(vec![sample.clone(), it]));
        wrong.chain([Value::Array(many), Value::Array(Vec::new()), "01".into()]).collect()
    }
}

impl Samples for bool {
    fn samples() -> Vec<Value> {
        vec![true.into(), false.into()]
    }

    fn invalid_samples() -> Vec<Value> {
        vec!["true".into(), 1.into(), Value::Null]
    }
}

impl Samples for TrueFlag {
    fn samples() -> Vec<Value> {
        vec![true.into()]
    }

    fn invalid_samples() -> Vec<Value> {
        vec![false.into(), "true".into(), Value::Null]
    }
}

impl<const MAX: usize> Samples for Object<MAX> {
    fn samples() -> Vec<Value> {
        vec![json!({"a": [1.50, null]}), json!({"a": "é".repeat(MAX - 8)})]
    }

    fn invalid_samples() -> Vec<Value> {
        vec![json!({"a": "é".repeat(MAX - 7)}), "{}".into(), Value::Null]
    }
}

impl Samples for Extensions {
    fn samples() -> Vec<Value> {
        let one = json!({
            "name": "n", "id": "A1", "criticalityIndicator": false, "data": {"a": "b"},
        });
        vec![vec![one.clone()].into(), vec![one; EXTENSIONS_MAX].into()]
    }

    fn invalid_samples() -> Vec<Value> {
        let one = Self::samples().swap_remove(0);
        let one = one.get(0).unwrap();
        let mut critical = one.clone();
        critical["criticalityIndicator"] = true.into();
        let mut wide = one.clone();
        wide["data"] = json!({"a": "x".repeat(DATA_CHARS_MAX - 8)});
        wide["name"] = "n".repeat(64).into();
        wide["id"] = "i".repeat(64).into();
        let many = vec![one.clone(); EXTENSIONS_MAX + 1];
        vec![vec![critical].into(), many.into(), vec![wide; EXTENSIONS_MAX].into(), one.clone()]
    }
}

impl Samples for SelectInfo {
    fn samples() -> Vec<Value> {
        let one = json!({"phone": "Mobile **** 329"});
        vec![vec![one.clone()].into(), vec![one; CHOICES_MAX].into()]
    }

    fn invalid_samples() -> Vec<Value> {
        let one = json!({"phone": "Mobile **** 329"});
        let two = json!([{"a": "b", "c": "d"}]);
        vec![vec![one.clone(); CHOICES_MAX + 1].into(), one, two, Value::Array(Vec::new())]
    }
}
