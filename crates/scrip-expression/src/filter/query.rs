//! The filter that selects a part of a value.

use super::{
    input::{FilterResult, Input},
    json_path::JsonPathQuery,
};
use crate::{
    budget::value_cost,
    inner_steps::{count, count_value},
    value::datum::Datum,
};

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
