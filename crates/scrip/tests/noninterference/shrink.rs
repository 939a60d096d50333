//! Removes what a difference does not need: steps first, then attributes of bodies.

use serde_json::Value;

use crate::{sequence_run::TwinVaults, step::Sequence};

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
    for at in (0..sequence.steps.len()).rev() {
        let mut candidate = sequence.clone();
        candidate.steps.remove(at);
        candidates.push(candidate);
    }
    for (at, step) in sequence.steps.iter().enumerate() {
        let changed = |body: Option<String>| {
            let mut candidate = sequence.clone();
            candidate.steps[at].body = body;
            candidate
        };
        let body = step.body.as_deref().and_then(|it| serde_json::from_str::<Value>(it).ok());
        if let Some(Value::Object(object)) = body {
            for name in object.keys() {
                let mut fewer = object.clone();
                fewer.remove(name);
                candidates.push(changed(Some(Value::Object(fewer).to_string())));
            }
        }
        if step.idempotency_key.is_some() {
            let mut candidate = sequence.clone();
            candidate.steps[at].idempotency_key = None;
            candidates.push(candidate);
        }
    }
    candidates
}
