//! All filters of the language. To add a filter, add a line to [`FILTERS`].

mod alias;
mod argument;
mod card;
mod conversion;
mod date;
mod encoding;
mod list;
mod markup;
mod mask;
mod number;
mod order;
mod query;
mod replace;
mod text;

use base64::engine::general_purpose::{STANDARD, URL_SAFE};

pub(crate) use self::{
    argument::Arguments,
    date::check_format as check_date_format,
    query::{JsonPathQuery, PlainStep, mentions},
};
use crate::{
    evaluation::budget::Budget,
    host_functions::HostFunctions,
    value::{
        datum::{Datum, base16},
        decimal::Decimal,
    },
};

pub(crate) type FilterResult<'a> = Result<Datum<'a>, &'static str>;

/// The inputs of a filter. The evaluator charges the budget for reading the value and the
/// arguments, and for the result. An amplifying filter must charge for its output before it
/// allocates.
pub(crate) struct Input<'c, 'a> {
    pub(crate) value: Datum<'a>,
    pub(crate) arguments: Arguments<'c, 'a>,
    pub(crate) budget: &'c Budget,
    pub(crate) host: Option<&'c dyn HostFunctions>,
    pub(crate) query: Option<&'c JsonPathQuery>,
}

#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    pub(crate) required_arguments: usize,
    pub(crate) parameters: &'static [&'static str],
    pub(crate) random: bool,
    /// Whether the characters of the value can decide if the filter succeeds, how long its result is,
    /// or how long it takes. By such a filter, a caller could test a value that it may not read.
    pub(crate) is_conditional: bool,
    pub(crate) run: FilterFunction,
}

impl Filter {
    /// Succeeds for every value, and the length of the result follows from the length of the value.
    const fn unconditional(self) -> Self {
        Self { is_conditional: false, ..self }
    }
}

type FilterFunction = for<'a> fn(Input<'_, 'a>) -> FilterResult<'a>;

const fn deterministic_filter(
    name: &'static str,
    required_arguments: usize,
    parameters: &'static [&'static str],
    run: FilterFunction,
) -> Filter {
    Filter { name, required_arguments, parameters, random: false, is_conditional: true, run }
}

const fn random_filter(
    name: &'static str,
    parameters: &'static [&'static str],
    run: FilterFunction,
) -> Filter {
    Filter { name, required_arguments: 0, parameters, random: true, is_conditional: true, run }
}

/// Null stays null in every filter for which Liquid returns an empty string: both render as nothing
/// in text, and a single `{{ }}` keeps the type.
pub(crate) const FILTERS: &[Filter] = &[
    deterministic_filter("abs", 0, &[], |it| number::apply_to_number(&it, Decimal::abs)),
    random_filter("alias_card", &["bin", "last4"], alias::card),
    random_filter("alias_preserve_format", &["first", "last"], |it| {
        alias::preserve(it, alias::same_character_class)
    }),
    random_filter("alias_preserve_length", &["first", "last"], |it| {
        alias::preserve(it, alias::any)
    }),
    deterministic_filter("append", 1, &["text"], text::append).unconditional(),
    deterministic_filter("at_least", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, number::at_least)
    }),
    deterministic_filter("at_most", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, number::at_most)
    }),
    deterministic_filter("base64_decode", 0, &[], |it| encoding::from_base64(it, &STANDARD)),
    deterministic_filter("base64_encode", 0, &[], |it| encoding::to_base64(it, &STANDARD))
        .unconditional(),
    deterministic_filter("base64_url_safe_decode", 0, &[], |it| {
        encoding::from_base64(it, &URL_SAFE)
    }),
    deterministic_filter("base64_url_safe_encode", 0, &[], |it| encoding::to_base64(it, &URL_SAFE))
        .unconditional(),
    deterministic_filter("capitalize", 0, &[], |it| text::map_text(it.value, text::capitalize)),
    deterministic_filter("card_bin", 0, &["sep"], card::bin),
    deterministic_filter("card_exp", 1, &["format"], card::exp).unconditional(),
    deterministic_filter("card_mask", 0, &["bin", "last4", "char", "keep"], card::mask),
    deterministic_filter("ceil", 0, &[], |it| number::apply_to_number(&it, Decimal::ceil)),
    deterministic_filter("compact", 0, &["property"], list::compact),
    deterministic_filter("concat", 1, &["list"], list::concat),
    deterministic_filter("date", 1, &["format"], date::date),
    deterministic_filter("default", 1, &["value", "allow_false"], conversion::default),
    deterministic_filter("divided_by", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, Decimal::divided_by)
    }),
    deterministic_filter("downcase", 0, &[], |it| text::map_text(it.value, str::to_lowercase)),
    deterministic_filter("escape", 0, &[], |it| text::map_text(it.value, markup::escape)),
    deterministic_filter("escape_once", 0, &[], |it| text::map_text(it.value, markup::escape_once)),
    deterministic_filter("first", 0, &[], list::first),
    deterministic_filter("floor", 0, &[], |it| number::apply_to_number(&it, Decimal::floor)),
    deterministic_filter("hmac", 2, &["alg", "key"], encoding::hmac).unconditional(),
    deterministic_filter("join", 0, &["separator"], list::join),
    deterministic_filter("json", 1, &["path"], query::json).unconditional(),
    deterministic_filter("json_stringify", 0, &[], conversion::to_string).unconditional(),
    deterministic_filter("last", 0, &[], list::last),
    deterministic_filter("last4", 0, &[], mask::last4).unconditional(),
    deterministic_filter("lstrip", 0, &[], |it| {
        text::map_text(it.value, |text| text.trim_start().to_owned())
    }),
    deterministic_filter("map", 1, &["property"], list::map),
    deterministic_filter("minus", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, Decimal::minus)
    }),
    deterministic_filter("modulo", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, Decimal::modulo)
    }),
    deterministic_filter("newline_to_br", 0, &[], markup::newline_to_br),
    deterministic_filter("pad_left", 1, &["n", "c"], text::pad_left).unconditional(),
    deterministic_filter("pad_right", 1, &["n", "c"], text::pad_right).unconditional(),
    deterministic_filter("plus", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, Decimal::plus)
    }),
    deterministic_filter("prepend", 1, &["text"], text::prepend).unconditional(),
    deterministic_filter("remove", 1, &["text"], replace::replace_all),
    deterministic_filter("remove_first", 1, &["text"], replace::first),
    deterministic_filter("remove_last", 1, &["text"], replace::replace_last_match),
    deterministic_filter("replace", 1, &["text", "with"], replace::replace_all),
    deterministic_filter("replace_first", 1, &["text", "with"], replace::first),
    deterministic_filter("replace_last", 2, &["text", "with"], replace::replace_last_match),
    deterministic_filter("reveal", 0, &["first", "last", "char", "keep"], mask::reveal),
    deterministic_filter("reveal_last", 1, &["n", "char"], mask::reveal_last),
    deterministic_filter("reverse", 0, &[], list::reverse),
    deterministic_filter("round", 0, &["places"], number::round),
    deterministic_filter("rstrip", 0, &[], |it| {
        text::map_text(it.value, |text| text.trim_end().to_owned())
    }),
    deterministic_filter("size", 0, &[], list::size).unconditional(),
    deterministic_filter("slice", 1, &["start", "length"], text::slice).unconditional(),
    deterministic_filter("sort", 0, &["property"], order::sort),
    deterministic_filter("sort_natural", 0, &["property"], order::sort_natural),
    deterministic_filter("split", 1, &["separator"], text::split),
    deterministic_filter("stringify", 0, &[], conversion::to_string).unconditional(),
    deterministic_filter("strip", 0, &[], |it| {
        text::map_text(it.value, |text| text.trim().to_owned())
    }),
    deterministic_filter("strip_html", 0, &[], |it| text::map_text(it.value, markup::strip_html)),
    deterministic_filter("strip_newlines", 0, &[], |it| {
        text::map_text(it.value, markup::strip_newlines)
    }),
    deterministic_filter("sum", 0, &["property"], number::sum),
    deterministic_filter("times", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, Decimal::times)
    }),
    deterministic_filter("to_base16", 0, &[], |it| encoding::encode_value(it, base16))
        .unconditional(),
    deterministic_filter("to_base64", 0, &[], |it| encoding::to_base64(it, &STANDARD))
        .unconditional(),
    deterministic_filter("to_boolean", 0, &[], conversion::to_boolean),
    deterministic_filter("to_number", 0, &[], conversion::to_number),
    deterministic_filter("to_string", 0, &[], conversion::to_string).unconditional(),
    deterministic_filter("truncate", 0, &["length", "ellipsis"], text::truncate),
    deterministic_filter("truncatewords", 0, &["words", "ellipsis"], text::truncatewords),
    deterministic_filter("uniq", 0, &["property"], order::uniq),
    deterministic_filter("upcase", 0, &[], |it| text::map_text(it.value, str::to_uppercase)),
    deterministic_filter("url_decode", 0, &[], markup::url_decode),
    deterministic_filter("url_encode", 0, &[], |it| text::map_text(it.value, markup::url_encode)),
    deterministic_filter("where", 1, &["property", "value"], list::filter),
];

pub(crate) fn find_filter(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Expression, Scope, host_functions::HmacAlgorithm};

    struct TestHost;

    impl HostFunctions for TestHost {
        fn hmac(&self, _: HmacAlgorithm, _: &[u8], _: &[u8]) -> Vec<u8> {
            vec![7; 32]
        }

        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    /// Without this rule, a comma before a parameter and a comma before a filter would be
    /// ambiguous.
    #[test]
    fn no_parameter_has_the_name_of_a_filter_that_takes_arguments() {
        for parameter in FILTERS.iter().flat_map(|it| it.parameters) {
            let filter = find_filter(parameter);
            assert!(filter.is_none_or(|it| it.parameters.is_empty()), "{parameter}");
        }
    }

    /// Evaluates a filter on texts that differ in their characters only.
    #[test]
    fn unconditional_filters_succeed_on_every_text_and_keep_its_length() {
        let source = |filter: &Filter| match filter.name {
            "append" | "prepend" => ": 'ab'".to_owned(),
            "hmac" => ": 'sha-256', 'key'".to_owned(),
            "json" => ": '$.a'".to_owned(),
            "pad_left" | "pad_right" => ": 20, 'é'".to_owned(),
            "card_exp" => ": 'MM/YY'".to_owned(),
            "slice" => ": 3, 2".to_owned(),
            _ => String::new(),
        };
        let texts =
            ["4242424242424242", "----------------", "AbC dE\"\\{}['%&", "0x1e99999999999."];
        for filter in FILTERS.iter().filter(|it| !it.is_conditional) {
            let expression = format!("{{{{ data | {}{} }}}}", filter.name, source(filter));
            let expression = Expression::parse(&expression).unwrap();
            let length = |text: &str| {
                let card = json!({"number": text, "expiration_month": 7, "expiration_year": 2031});
                let data = if filter.name == "card_exp" { card } else { text.into() };
                let scope = Scope::new(&data, None).with_host_functions(&TestHost);
                let value = expression.evaluate(&scope);
                let value = value.unwrap_or_else(|it| panic!("{}: {it:?}", filter.name));
                value.as_str().map_or(0, str::len)
            };
            let lengths: Vec<_> = texts.iter().map(|it| length(it)).collect();
            assert!(lengths.iter().all(|it| *it == lengths[0]), "{}: {lengths:?}", filter.name);
        }
    }

    #[test]
    fn filter_names_are_unique_and_sorted() {
        assert!(FILTERS.is_sorted_by(|left, right| left.name < right.name));
    }
}
