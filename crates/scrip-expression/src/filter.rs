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

pub(crate) use self::{date::check as check_date_format, query::Query};
use crate::{evaluation::budget::Budget, outside::Outside, value::datum::Datum};

pub(crate) type Filtered<'a> = Result<Datum<'a>, &'static str>;

/// What a filter may use besides its value and arguments. The engine has paid for reading these,
/// and pays for the result; a filter that multiplies pays itself, first.
pub(crate) struct Context<'c> {
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

type Run = for<'a> fn(&Context<'_>, Datum<'a>, &[Datum<'a>]) -> Filtered<'a>;

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
    plain("abs", 0, &[], number::abs),
    random("alias_card", &["bin", "last4"], alias::card),
    random("alias_preserve_format", &["first", "last"], alias::preserve_format),
    random("alias_preserve_length", &["first", "last"], alias::preserve_length),
    plain("append", 1, &["text"], text::append),
    plain("at_least", 1, &["number"], number::at_least),
    plain("at_most", 1, &["number"], number::at_most),
    plain("base64_decode", 0, &[], encode::base64_decode),
    plain("base64_encode", 0, &[], encode::to_base64),
    plain("base64_url_safe_decode", 0, &[], encode::base64_url_safe_decode),
    plain("base64_url_safe_encode", 0, &[], encode::base64_url_safe_encode),
    plain("capitalize", 0, &[], text::capitalize),
    plain("card_bin", 0, &["sep"], card::bin),
    plain("card_exp", 1, &["format"], card::exp),
    plain("card_mask", 0, &["bin", "last4", "char", "keep"], card::mask),
    plain("ceil", 0, &[], number::ceil),
    plain("compact", 0, &["property"], list::compact),
    plain("concat", 1, &["list"], list::concat),
    plain("date", 1, &["format"], date::date),
    plain("default", 1, &["value", "allow_false"], cast::default),
    plain("divided_by", 1, &["number"], number::divided_by),
    plain("downcase", 0, &[], text::downcase),
    plain("escape", 0, &[], markup::escape),
    plain("escape_once", 0, &[], markup::escape_once),
    plain("first", 0, &[], list::first),
    plain("floor", 0, &[], number::floor),
    plain("hmac", 2, &["alg", "key"], encode::hmac),
    plain("join", 0, &["separator"], list::join),
    plain("json", 1, &["path"], query::json),
    plain("json_stringify", 0, &[], cast::to_string),
    plain("last", 0, &[], list::last),
    plain("last4", 0, &[], cover::last4),
    plain("lstrip", 0, &[], text::lstrip),
    plain("map", 1, &["property"], list::map),
    plain("minus", 1, &["number"], number::minus),
    plain("modulo", 1, &["number"], number::modulo),
    plain("newline_to_br", 0, &[], markup::newline_to_br),
    plain("pad_left", 1, &["n", "c"], text::pad_left),
    plain("pad_right", 1, &["n", "c"], text::pad_right),
    plain("plus", 1, &["number"], number::plus),
    plain("prepend", 1, &["text"], text::prepend),
    plain("remove", 1, &["text"], replace::remove),
    plain("remove_first", 1, &["text"], replace::remove_first),
    plain("remove_last", 1, &["text"], replace::remove_last),
    plain("replace", 1, &["text", "with"], replace::replace),
    plain("replace_first", 1, &["text", "with"], replace::replace_first),
    plain("replace_last", 2, &["text", "with"], replace::replace_last),
    plain("reveal", 0, &["first", "last", "char", "keep"], cover::reveal),
    plain("reveal_last", 1, &["n", "char"], cover::reveal_last),
    plain("reverse", 0, &[], list::reverse),
    plain("round", 0, &["places"], number::round),
    plain("rstrip", 0, &[], text::rstrip),
    plain("size", 0, &[], list::size),
    plain("slice", 1, &["start", "length"], text::slice),
    plain("sort", 0, &["property"], order::sort),
    plain("sort_natural", 0, &["property"], order::sort_natural),
    plain("split", 1, &["separator"], text::split),
    plain("stringify", 0, &[], cast::to_string),
    plain("strip", 0, &[], text::strip),
    plain("strip_html", 0, &[], markup::strip_html),
    plain("strip_newlines", 0, &[], markup::strip_newlines),
    plain("sum", 0, &["property"], number::sum),
    plain("times", 1, &["number"], number::times),
    plain("to_base16", 0, &[], encode::to_base16),
    plain("to_base64", 0, &[], encode::to_base64),
    plain("to_boolean", 0, &[], cast::to_boolean),
    plain("to_number", 0, &[], cast::to_number),
    plain("to_string", 0, &[], cast::to_string),
    plain("truncate", 0, &["length", "ellipsis"], text::truncate),
    plain("truncatewords", 0, &["words", "ellipsis"], text::truncatewords),
    plain("uniq", 0, &["property"], order::uniq),
    plain("upcase", 0, &[], text::upcase),
    plain("url_decode", 0, &[], markup::url_decode),
    plain("url_encode", 0, &[], markup::url_encode),
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
