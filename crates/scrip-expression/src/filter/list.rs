//! List filters. A value that is not a list counts as a list of one item; null counts as an empty
//! list. And the filter that selects a part of a value.

use serde_json::Value;

use super::{FilterResult, Input};
use crate::{
    budget::value_cost,
    filter::json_path::JsonPathQuery,
    inner_steps::{count, count_value},
    value::datum::{Datum, to_text, values_equal},
};

static NULL: Value = Value::Null;

pub(crate) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Null => &[],
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            std::slice::from_ref(value)
        }
    }
}

fn property<'v>(item: &'v Value, name: &str) -> &'v Value {
    // Objects are sorted, so a lookup compares the name with only a few property names.
    count(item.as_object().map_or(1, |it| it.keys().map(String::len).sum()));
    item.get(name).unwrap_or(&NULL)
}

/// The value that an item is compared by: its property of that name, or the item itself.
pub(crate) fn keyed<'v>(item: &'v Value, name: Option<&str>) -> &'v Value {
    name.map_or(item, |name| property(item, name))
}

/// The items as an owned list.
pub(crate) fn into_items(value: Datum<'_>) -> Vec<Value> {
    match value.into_value() {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            vec![other]
        }
    }
}

fn list_result<'a>(items: Vec<Value>) -> FilterResult<'a> {
    Ok(Datum::Owned(Value::Array(items)))
}

pub(crate) fn size<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let size = match &*value {
        Value::String(text) => {
            count(text.len());
            text.chars().count()
        }
        Value::Array(items) => items.len(),
        Value::Object(object) => object.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    Ok(Datum::Owned(Value::from(size)))
}

pub(crate) fn first<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    edge_item(value, <[Value]>::first, |text| text.chars().next())
}

pub(crate) fn last<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    edge_item(value, <[Value]>::last, |text| text.chars().next_back())
}

fn edge_item<'a>(
    value: Datum<'a>,
    from_list: fn(&[Value]) -> Option<&Value>,
    from_text: fn(&str) -> Option<char>,
) -> FilterResult<'a> {
    if let Datum::Borrowed(Value::Array(items)) = &value {
        return Ok(from_list(items).map_or_else(Datum::null, Datum::Borrowed));
    }
    Ok(match &*value {
        Value::Array(items) => {
            let item = from_list(items).inspect(|it| count_value(it)).cloned();
            item.map_or_else(Datum::null, Datum::Owned)
        }
        Value::String(text) => {
            Datum::from_text(from_text(text).map(String::from).unwrap_or_default())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Datum::null(),
    })
}

pub(crate) fn join<'a>(Input { value, arguments, budget, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    if value.is_null() {
        return Ok(value);
    }
    let separator = arguments.non_null(0).map_or(" ".into(), to_text);
    let mut joined = String::new();
    for (index, item) in items(&value).iter().enumerate() {
        let text = to_text(item);
        budget.charge_bytes(separator.len().saturating_add(text.len()))?;
        count(separator.len().saturating_add(text.len()));
        if index > 0 {
            joined.push_str(&separator);
        }
        joined.push_str(&text);
    }
    Ok(Datum::from_text(joined))
}

pub(crate) fn reverse<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let mut items = into_items(value);
    count(items.len());
    items.reverse();
    list_result(items)
}

pub(crate) fn compact<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let name = arguments.non_null(0).map(to_text);
    let mut items = into_items(value);
    items.retain(|it| !keyed(it, name.as_deref()).is_null());
    list_result(items)
}

pub(crate) fn concat<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let Some(Value::Array(other_items)) = arguments.non_null(0) else {
        return Err("concat takes a list");
    };
    let mut items = into_items(value);
    other_items.iter().for_each(count_value);
    items.extend(other_items.iter().cloned());
    list_result(items)
}

pub(crate) fn map<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let name = arguments.text(0);
    let clone_property = |it| {
        let property = property(it, &name);
        count_value(property);
        property.clone()
    };
    list_result(items(&value).iter().map(clone_property).collect())
}

/// Selects items with this property value, or with any true value.
pub(crate) fn filter<'a>(
    Input { value, arguments, budget, .. }: Input<'_, 'a>,
) -> FilterResult<'a> {
    let name = arguments.text(0);
    let wanted = arguments.non_null(1);
    let mut selected = Vec::new();
    for item in items(&value) {
        let property = property(item, &name);
        let matches = match wanted {
            Some(wanted) => {
                // Each property is compared with the wanted value, which may be large.
                budget.charge_value(property)?;
                if let (Value::Number(_), Value::Number(wanted)) = (property, wanted) {
                    budget.charge_bytes(wanted.as_str().len())?;
                }
                values_equal(property, wanted)
            }
            None => !matches!(property, Value::Null | Value::Bool(false)),
        };
        if matches {
            count_value(item);
            selected.push(item.clone());
        }
    }
    list_result(selected)
}

/// Returns null if nothing is found, as for a missing property.
pub(crate) fn json<'a>(Input { value, budget, query, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    const SEVERAL: &str = "json found more than one value";
    let query = query.ok_or("json takes a path in quotes")?;
    let (path, readings) = match query {
        JsonPathQuery::Plain(path) => return Ok(path.select_part(value)),
        JsonPathQuery::Full { path, readings } => (path, readings),
    };
    budget.charge_bytes(value_cost(&value).saturating_mul(*readings))?;
    if let Datum::Borrowed(value) = value {
        let nodes = path.query(value);
        count(nodes.len());
        let node = nodes.at_most_one().map_err(|_| SEVERAL)?;
        return Ok(node.map_or_else(Datum::null, Datum::Borrowed));
    }
    let nodes = path.query(&value);
    count(nodes.len());
    let node = nodes.at_most_one().map_err(|_| SEVERAL)?.inspect(|it| count_value(it));
    Ok(node.cloned().map_or_else(Datum::null, Datum::Owned))
}
