//! Rate limits and budgets.

mod addresses;
mod collected_guesses;
mod cost;
mod evaluation_cost;
mod guessing_budget;
mod guessing_budget_digit_runs;
pub(crate) mod guessing_budget_harness;
mod guessing_budget_open_data;
pub(crate) mod harness;
mod hidden_numbers;
mod model;
mod rate_table;
mod redis_counters;
mod search_budget;
