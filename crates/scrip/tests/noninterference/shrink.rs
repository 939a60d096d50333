//! Removes the parts of a sequence that do not cause the difference: first steps, then attributes
//! of bodies and headers.

use serde_json::Value;

use crate::{
    sequence_run::TwinVaults,
    step::{Actor, Sequence},
};

pub(crate) async fn shrink(vaults: &TwinVaults, mut sequence: Sequence) -> Sequence {
    loop {
        let mut smaller = None;
        for candidate in candidates(&sequence) {
            if vaults.run(&candidate).await.is_some() {
                smaller = Some(candidate);
                break;
            }
        }
        match smaller {
            Some(it) => sequence = it,
            None => return sequence,
        }
    }
}

fn candidates(sequence: &Sequence) -> Vec<Sequence> {
    let mut candidates = Vec::new();
    for index in (0..sequence.steps.len()).rev().filter(|it| !sequence.steps[*it].is_required) {
        let mut candidate = sequence.clone();
        candidate.steps.remove(index);
        candidates.push(candidate);
    }
    for (index, step) in sequence.steps.iter().enumerate().filter(|it| !it.1.is_required) {
        let replace_body = |body: Option<String>| {
            let mut candidate = sequence.clone();
            candidate.steps[index].body = body;
            candidate
        };
        let body = step.body.as_deref().and_then(|it| serde_json::from_str::<Value>(it).ok());
        // Without a mask of an administrator's proxy, its destination shows hidden data rightfully.
        let body = body.filter(|_| step.actor != Actor::Administrator);
        if let Some(Value::Object(object)) = body {
            for name in object.keys() {
                let mut fewer_attributes = object.clone();
                fewer_attributes.remove(name);
                candidates.push(replace_body(Some(Value::Object(fewer_attributes).to_string())));
            }
        }
        // Without its headers, a field call may store a typed value as a text of the page.
        let is_field_call = step.headers.iter().any(|it| it.0.starts_with("scrip-field"));
        for header in (0..step.headers.len()).filter(|_| !is_field_call) {
            let mut candidate = sequence.clone();
            candidate.steps[index].headers.remove(header);
            candidates.push(candidate);
        }
        if step.idempotency_key.is_some() {
            let mut candidate = sequence.clone();
            candidate.steps[index].idempotency_key = None;
            candidates.push(candidate);
        }
    }
    candidates
}
