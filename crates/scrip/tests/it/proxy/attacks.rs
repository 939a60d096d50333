//! Attackers: with a key of the tenant, in control of the destination, and against the servers
//! around the vault.

mod ambiguous_requests;
mod browsers;
mod collected_tokens;
mod equal_outcomes;
mod exhaustion;
mod failing_expressions;
mod front_servers;
mod hidden_data;
mod hostile_destinations;
mod limited_keys;
mod own_network;
mod padded_sizes;
mod repeated_calls;
mod second_evaluation;
mod templates;
