//! Connection formulas, described.

use scrip_core::connection_formula::CATALOG;
use serde_json::json;

use crate::wire::{
    connection_formula::WireFormula,
    described::{Description, Tag, operation},
    schema::{Schema, always, answer, boolean, list, named, one_of, text},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let field = answer([
        always("key", text()),
        always("display_name", text()),
        always("required", boolean()),
        always("format", one_of(["text"])),
        always("secret", boolean()),
    ]);
    let features = answer([
        always("three_d_secure_pass_through", boolean()),
        always("delayed_capture", boolean()),
        always("partial_capture", boolean()),
        always("partial_refunds", boolean()),
        always("refunds", boolean()),
        always("zero_auth", boolean()),
        always("void", answer([always("voidAllowed", boolean())])),
    ]);
    let currency = text().pattern("^[A-Z]{3}$").about("ISO 4217.");
    let country = text().pattern("^[A-Z]{2}$").about("ISO 3166-1.");
    let formula = answer([
        always("id", text()),
        always("display_name", text()),
        always("method", one_of(["card"])),
        always("fields", list(field).about("What a connection asks for.")),
        always("supported_currencies", list(currency)),
        always("supported_countries", list(country)),
        always("supported_features", features),
    ]);
    let short = CATALOG.iter().filter(|it| it.currencies.len() < 8 && it.countries.len() < 8);
    let examples = short.take(1).map(|it| json!(WireFormula::of(it)));
    vec![("ConnectionFormula", formula.examples(examples))]
}

pub(crate) fn list_all() -> Description {
    operation(Tag::Connections, "List connection formulas")
        .about(
            "The catalog of processors, the same for every tenant. Both methods on both paths give \
             it; a body is passed over.",
        )
        .answer(200, "Every formula there is.", list(named("ConnectionFormula")))
}
