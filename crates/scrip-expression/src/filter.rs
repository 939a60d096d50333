//! All filters of the language. To add a filter, add a line to [`FILTERS`].

mod alias;
mod card;
mod date;
mod input;
mod json_path;
mod list;
mod markup;
mod mask;
mod number;
mod order;
mod text;

use base64::engine::general_purpose::{STANDARD, URL_SAFE};

pub(crate) use self::{
    date::check_format as check_date_format,
    input::{Arguments, FilterResult, Input},
    json_path::{JsonPathQuery, PlainStep, mentions},
};
pub use self::{
    input::{HmacAlgorithm, HostFunctions},
    json_path::check_json_path,
};
use crate::value::{datum::base16, decimal::Decimal};

#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    pub(crate) required_arguments: usize,
    pub(crate) parameters: &'static [&'static str],
    pub(crate) random: bool,
    pub(crate) run: FilterFunction,
}

type FilterFunction = for<'a> fn(Input<'_, 'a>) -> FilterResult<'a>;

const fn deterministic_filter(
    name: &'static str,
    required_arguments: usize,
    parameters: &'static [&'static str],
    run: FilterFunction,
) -> Filter {
    Filter { name, required_arguments, parameters, random: false, run }
}

const fn random_filter(
    name: &'static str,
    parameters: &'static [&'static str],
    run: FilterFunction,
) -> Filter {
    Filter { name, required_arguments: 0, parameters, random: true, run }
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
    deterministic_filter("append", 1, &["text"], text::append),
    deterministic_filter("at_least", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, number::at_least)
    }),
    deterministic_filter("at_most", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, number::at_most)
    }),
    deterministic_filter("base64_decode", 0, &[], |it| text::from_base64(it, &STANDARD)),
    deterministic_filter("base64_encode", 0, &[], |it| text::to_base64(it, &STANDARD)),
    deterministic_filter("base64_url_safe_decode", 0, &[], |it| text::from_base64(it, &URL_SAFE)),
    deterministic_filter("base64_url_safe_encode", 0, &[], |it| text::to_base64(it, &URL_SAFE)),
    deterministic_filter("capitalize", 0, &[], |it| text::map_text(it.value, text::capitalize)),
    deterministic_filter("card_bin", 0, &["sep"], card::bin),
    deterministic_filter("card_exp", 1, &["format"], card::exp),
    deterministic_filter("card_mask", 0, &["bin", "last4", "char", "keep"], card::mask),
    deterministic_filter("ceil", 0, &[], |it| number::apply_to_number(&it, Decimal::ceil)),
    deterministic_filter("compact", 0, &["property"], list::compact),
    deterministic_filter("concat", 1, &["list"], list::concat),
    deterministic_filter("date", 1, &["format"], date::date),
    deterministic_filter("default", 1, &["value", "allow_false"], number::default),
    deterministic_filter("divided_by", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, Decimal::divided_by)
    }),
    deterministic_filter("downcase", 0, &[], |it| text::map_text(it.value, str::to_lowercase)),
    deterministic_filter("escape", 0, &[], |it| text::map_text(it.value, markup::escape)),
    deterministic_filter("escape_once", 0, &[], |it| text::map_text(it.value, markup::escape_once)),
    deterministic_filter("first", 0, &[], list::first),
    deterministic_filter("floor", 0, &[], |it| number::apply_to_number(&it, Decimal::floor)),
    deterministic_filter("hmac", 2, &["alg", "key"], text::hmac),
    deterministic_filter("join", 0, &["separator"], list::join),
    deterministic_filter("json", 1, &["path"], list::json),
    deterministic_filter("json_stringify", 0, &[], number::to_string),
    deterministic_filter("last", 0, &[], list::last),
    deterministic_filter("last4", 0, &[], mask::last4),
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
    deterministic_filter("pad_left", 1, &["n", "c"], text::pad_left),
    deterministic_filter("pad_right", 1, &["n", "c"], text::pad_right),
    deterministic_filter("plus", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, Decimal::plus)
    }),
    deterministic_filter("prepend", 1, &["text"], text::prepend),
    deterministic_filter("remove", 1, &["text"], text::replace_all),
    deterministic_filter("remove_first", 1, &["text"], text::replace_first_match),
    deterministic_filter("remove_last", 1, &["text"], text::replace_last_match),
    deterministic_filter("replace", 1, &["text", "with"], text::replace_all),
    deterministic_filter("replace_first", 1, &["text", "with"], text::replace_first_match),
    deterministic_filter("replace_last", 2, &["text", "with"], text::replace_last_match),
    deterministic_filter("reveal", 0, &["first", "last", "char", "keep"], mask::reveal),
    deterministic_filter("reveal_last", 1, &["n", "char"], mask::reveal_last),
    deterministic_filter("reverse", 0, &[], list::reverse),
    deterministic_filter("round", 0, &["places"], number::round),
    deterministic_filter("rstrip", 0, &[], |it| {
        text::map_text(it.value, |text| text.trim_end().to_owned())
    }),
    deterministic_filter("size", 0, &[], list::size),
    deterministic_filter("slice", 1, &["start", "length"], text::slice),
    deterministic_filter("sort", 0, &["property"], order::sort),
    deterministic_filter("sort_natural", 0, &["property"], order::sort_natural),
    deterministic_filter("split", 1, &["separator"], text::split),
    deterministic_filter("stringify", 0, &[], number::to_string),
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
    deterministic_filter("to_base16", 0, &[], |it| text::encode_value(it, base16)),
    deterministic_filter("to_base64", 0, &[], |it| text::to_base64(it, &STANDARD)),
    deterministic_filter("to_boolean", 0, &[], number::to_boolean),
    deterministic_filter("to_number", 0, &[], number::to_number),
    deterministic_filter("to_string", 0, &[], number::to_string),
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
    use super::*;

    /// Without this rule, a comma before a parameter and a comma before a filter would be
    /// ambiguous.
    #[test]
    fn no_parameter_has_the_name_of_a_filter_that_takes_arguments() {
        for parameter in FILTERS.iter().flat_map(|it| it.parameters) {
            let filter = find_filter(parameter);
            assert!(filter.is_none_or(|it| it.parameters.is_empty()), "{parameter}");
        }
    }

    #[test]
    fn filter_names_are_unique_and_sorted() {
        assert!(FILTERS.is_sorted_by(|left, right| left.name < right.name));
    }
}
