//! Every filter the language has. Adding one is adding a line to [`FILTERS`].

mod alias;
mod argument;
mod card;
mod cast;
mod cover;
mod date;
mod encode;
mod list;
mod markup;
mod number;
mod order;
mod query;
mod replace;
mod text;

use base64::engine::general_purpose::{STANDARD, URL_SAFE};

pub(crate) use self::{argument::Arguments, date::check as check_date_format, query::Query};
use crate::{
    evaluation::budget::Budget,
    outside::Outside,
    value::{
        datum::{Datum, base16},
        decimal::Decimal,
    },
};

pub(crate) type Filtered<'a> = Result<Datum<'a>, &'static str>;

/// What a filter may use. The engine has paid for reading the value and the arguments, and pays for
/// the result; a filter that multiplies pays itself, first.
pub(crate) struct Input<'c, 'a> {
    pub(crate) value: Datum<'a>,
    pub(crate) arguments: Arguments<'c, 'a>,
    pub(crate) budget: &'c Budget,
    pub(crate) outside: Option<&'c dyn Outside>,
    pub(crate) query: Option<&'c Query>,
}

#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    pub(crate) required: usize,
    pub(crate) parameters: &'static [&'static str],
    pub(crate) random: bool,
    pub(crate) run: Run,
}

type Run = for<'a> fn(Input<'_, 'a>) -> Filtered<'a>;

const fn plain(
    name: &'static str,
    required: usize,
    parameters: &'static [&'static str],
    run: Run,
) -> Filter {
    Filter { name, required, parameters, random: false, run }
}

const fn random(name: &'static str, parameters: &'static [&'static str], run: Run) -> Filter {
    Filter { name, required: 0, parameters, random: true, run }
}

/// Null stays null in every filter whose Liquid result for it is a text without characters: within
/// a text both are nothing, and a lone `{{ }}` keeps the type.
pub(crate) const FILTERS: &[Filter] = &[
    plain("abs", 0, &[], |it| number::apply_to_number(&it, Decimal::abs)),
    random("alias_card", &["bin", "last4"], alias::card),
    random("alias_preserve_format", &["first", "last"], |it| alias::preserve(it, alias::like)),
    random("alias_preserve_length", &["first", "last"], |it| alias::preserve(it, alias::any)),
    plain("append", 1, &["text"], text::append),
    plain("at_least", 1, &["number"], |it| number::apply_to_two_numbers(&it, number::at_least)),
    plain("at_most", 1, &["number"], |it| number::apply_to_two_numbers(&it, number::at_most)),
    plain("base64_decode", 0, &[], |it| encode::from_base64(it, &STANDARD)),
    plain("base64_encode", 0, &[], |it| encode::to_base64(it, &STANDARD)),
    plain("base64_url_safe_decode", 0, &[], |it| encode::from_base64(it, &URL_SAFE)),
    plain("base64_url_safe_encode", 0, &[], |it| encode::to_base64(it, &URL_SAFE)),
    plain("capitalize", 0, &[], |it| text::over(it.value, text::capitalize)),
    plain("card_bin", 0, &["sep"], card::bin),
    plain("card_exp", 1, &["format"], card::exp),
    plain("card_mask", 0, &["bin", "last4", "char", "keep"], card::mask),
    plain("ceil", 0, &[], |it| number::apply_to_number(&it, Decimal::ceil)),
    plain("compact", 0, &["property"], list::compact),
    plain("concat", 1, &["list"], list::concat),
    plain("date", 1, &["format"], date::date),
    plain("default", 1, &["value", "allow_false"], cast::default),
    plain("divided_by", 1, &["number"], |it| {
        number::apply_to_two_numbers(&it, Decimal::divided_by)
    }),
    plain("downcase", 0, &[], |it| text::over(it.value, str::to_lowercase)),
    plain("escape", 0, &[], |it| text::over(it.value, markup::escape)),
    plain("escape_once", 0, &[], |it| text::over(it.value, markup::escape_once)),
    plain("first", 0, &[], list::first),
    plain("floor", 0, &[], |it| number::apply_to_number(&it, Decimal::floor)),
    plain("hmac", 2, &["alg", "key"], encode::hmac),
    plain("join", 0, &["separator"], list::join),
    plain("json", 1, &["path"], query::json),
    plain("json_stringify", 0, &[], cast::to_string),
    plain("last", 0, &[], list::last),
    plain("last4", 0, &[], cover::last4),
    plain("lstrip", 0, &[], |it| text::over(it.value, |text| text.trim_start().to_owned())),
    plain("map", 1, &["property"], list::map),
    plain("minus", 1, &["number"], |it| number::apply_to_two_numbers(&it, Decimal::minus)),
    plain("modulo", 1, &["number"], |it| number::apply_to_two_numbers(&it, Decimal::modulo)),
    plain("newline_to_br", 0, &[], markup::newline_to_br),
    plain("pad_left", 1, &["n", "c"], text::pad_left),
    plain("pad_right", 1, &["n", "c"], text::pad_right),
    plain("plus", 1, &["number"], |it| number::apply_to_two_numbers(&it, Decimal::plus)),
    plain("prepend", 1, &["text"], text::prepend),
    plain("remove", 1, &["text"], replace::everywhere),
    plain("remove_first", 1, &["text"], replace::first),
    plain("remove_last", 1, &["text"], replace::last),
    plain("replace", 1, &["text", "with"], replace::everywhere),
    plain("replace_first", 1, &["text", "with"], replace::first),
    plain("replace_last", 2, &["text", "with"], replace::last),
    plain("reveal", 0, &["first", "last", "char", "keep"], cover::reveal),
    plain("reveal_last", 1, &["n", "char"], cover::reveal_last),
    plain("reverse", 0, &[], list::reverse),
    plain("round", 0, &["places"], number::round),
    plain("rstrip", 0, &[], |it| text::over(it.value, |text| text.trim_end().to_owned())),
    plain("size", 0, &[], list::size),
    plain("slice", 1, &["start", "length"], text::slice),
    plain("sort", 0, &["property"], order::sort),
    plain("sort_natural", 0, &["property"], order::sort_natural),
    plain("split", 1, &["separator"], text::split),
    plain("stringify", 0, &[], cast::to_string),
    plain("strip", 0, &[], |it| text::over(it.value, |text| text.trim().to_owned())),
    plain("strip_html", 0, &[], |it| text::over(it.value, markup::strip_html)),
    plain("strip_newlines", 0, &[], |it| text::over(it.value, markup::strip_newlines)),
    plain("sum", 0, &["property"], number::sum),
    plain("times", 1, &["number"], |it| number::apply_to_two_numbers(&it, Decimal::times)),
    plain("to_base16", 0, &[], |it| encode::encoded(it, base16)),
    plain("to_base64", 0, &[], |it| encode::to_base64(it, &STANDARD)),
    plain("to_boolean", 0, &[], cast::to_boolean),
    plain("to_number", 0, &[], cast::to_number),
    plain("to_string", 0, &[], cast::to_string),
    plain("truncate", 0, &["length", "ellipsis"], text::truncate),
    plain("truncatewords", 0, &["words", "ellipsis"], text::truncatewords),
    plain("uniq", 0, &["property"], order::uniq),
    plain("upcase", 0, &[], |it| text::over(it.value, str::to_uppercase)),
    plain("url_decode", 0, &[], markup::url_decode),
    plain("url_encode", 0, &[], |it| text::over(it.value, markup::url_encode)),
    plain("where", 1, &["property", "value"], list::filter),
];

pub(crate) fn find(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What keeps a comma before a parameter and a comma before a filter apart.
    #[test]
    fn no_parameter_has_the_name_of_a_filter_that_takes_arguments() {
        for parameter in FILTERS.iter().flat_map(|it| it.parameters) {
            let filter = find(parameter);
            assert!(filter.is_none_or(|it| it.parameters.is_empty()), "{parameter}");
        }
    }

    #[test]
    fn names_are_unique_and_in_order() {
        assert!(FILTERS.is_sorted_by(|left, right| left.name < right.name));
    }
}
