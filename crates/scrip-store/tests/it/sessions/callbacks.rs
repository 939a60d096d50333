//! Simulation of the callbacks without an API key: notifications of browsers, and results that
//! directory servers post.

use std::sync::Arc;

use scrip_core::operations::threeds_sessions::{
    notify_challenge::notify_challenge,
    notify_method::notify_method,
    receive_result::{PostedResult, ResultChannel, receive_result},
};
use scrip_testing::vault_harness::test_origin;
use scrip_threeds::{
    encoding::{MethodData, encode},
    message::{CRes, TransactionContext, parse_message},
    session::StateMachineEvent,
};
use serde_json::{Value, json};

use crate::sessions::{
    messages::result_message,
    model::{ModelEvent, ModelOutcome, SessionModel},
    random_steps::{ForgedPart, WriteFate},
    simulation::SessionSimulation,
};

fn notification(event: StateMachineEvent, operation: &'static str) -> ModelEvent {
    ModelEvent {
        event,
        operation,
        outcome: "done",
        refusal_result: |_| "invalid".to_owned(),
        missing_result: "not found",
        writes_without_change: false,
    }
}

impl SessionSimulation {
    pub(crate) async fn method(&mut self, session: usize, about_session: usize, fate: &WriteFate) {
        let (Some(session), Some(about_session)) =
            (self.session_index(session), self.session_index(about_session))
        else {
            return;
        };
        let (vault, directory) = (self.vault.clone(), Arc::clone(&self.directory));
        let (id, server_trans_id) = (self.model.sessions[session].id, self.trans_id(about_session));
        let data = MethodData { server_trans_id: server_trans_id.clone(), notification_url: None };
        let data = data.encode();
        let operation = Box::pin(async move {
            let notified = notify_method(&vault, &directory, &test_origin(), id, &data).await;
            notified.map(|()| "done".to_owned())
        });
        let event = StateMachineEvent::MethodNotification { server_trans_id };
        let happening = notification(event, "notify_method");
        self.run_event(session, operation, happening, fate).await;
    }

    pub(crate) async fn notify_challenge_result(
        &mut self,
        session: usize,
        about_session: usize,
        status: Option<&'static str>,
        fate: &WriteFate,
    ) {
        let (Some(session), Some(about_session)) =
            (self.session_index(session), self.session_index(about_session))
        else {
            return;
        };
        let (vault, directory) = (self.vault.clone(), Arc::clone(&self.directory));
        let id = self.model.sessions[session].id;
        let [server, acs, _] = self.model.sessions[about_session].ids();
        let mut object = json!({
            "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": server,
            "acsTransID": acs, "challengeCompletionInd": "N",
        });
        if let Some(status) = status {
            object["challengeCompletionInd"] = "Y".into();
            object["transStatus"] = status.into();
        }
        let bytes = object.to_string().into_bytes();
        let harness = TransactionContext::for_version(scrip_threeds::format::Version::V220);
        let response = Box::new(parse_message::<CRes>(&bytes, &harness).unwrap());
        let data = encode(&bytes);
        let operation = Box::pin(async move {
            let notified = notify_challenge(&vault, &directory, &test_origin(), id, &data).await;
            notified.map(|_| "done".to_owned())
        });
        let event = StateMachineEvent::ChallengeNotification { response };
        let happening = notification(event, "notify_challenge");
        self.run_event(session, operation, happening, fate).await;
    }

    pub(crate) async fn result(
        &mut self,
        session: usize,
        other: usize,
        forged: ForgedPart,
        status: &str,
        fate: &WriteFate,
    ) {
        let (Some(session), Some(other)) = (self.session_index(session), self.session_index(other))
        else {
            return;
        };
        let (ours, theirs) = (&self.model.sessions[session], &self.model.sessions[other]);
        let unknown = || "0".repeat(64);
        let secret = match forged {
            ForgedPart::Secret if session != other => theirs.secret.clone(),
            ForgedPart::Secret => None,
            ForgedPart::Nothing | ForgedPart::Message | ForgedPart::Acs | ForgedPart::Ds => {
                ours.secret.clone()
            }
        };
        let secret = secret.unwrap_or_else(unknown);
        let (mut ids, others) = (ours.ids(), theirs.ids());
        match forged {
            ForgedPart::Nothing | ForgedPart::Secret => (),
            ForgedPart::Message => ids.clone_from(&others),
            ForgedPart::Acs => ids[1].clone_from(&others[1]),
            ForgedPart::Ds => ids[2].clone_from(&others[2]),
        }
        let message = result_message(&ids, status);
        if let ModelOutcome::Nothing(code) = self.model.plan_result(session, &secret, &message) {
            let what = if forged == ForgedPart::Nothing || session == other {
                "result".to_owned()
            } else {
                format!("forged {forged:?}")
            };
            let is_challenged =
                ours.visible(self.model.now).is_some_and(|it| it.pending_challenge().is_some());
            if is_challenged || what == "result" {
                self.outcomes.insert(format!("{what} {code}"));
            }
        }
        let is_own =
            forged == ForgedPart::Nothing || (session == other && forged != ForgedPart::Secret);
        let plan = |model: &SessionModel| model.plan_result(session, &secret, &message);
        assert!(
            is_own || matches!(plan(&self.model), ModelOutcome::Nothing(code) if code != "done")
        );
        let (vault, directory, id) = (self.vault.clone(), Arc::clone(&self.directory), ours.id);
        let (sent, bytes) = (secret.clone(), message.to_string().into_bytes());
        let operation = Box::pin(async move {
            let posted = PostedResult {
                id,
                secret: &sent,
                message: &bytes,
                channel: ResultChannel::Unauthenticated,
            };
            let response = receive_result(&vault, &directory, &test_origin(), posted).await?;
            let response: Value = serde_json::from_slice(&response).unwrap();
            Ok(match response["errorCode"].as_str() {
                Some(code) => code.to_owned(),
                None if response["messageType"] == "RRes" => "done".to_owned(),
                None => response.to_string(),
            })
        });
        self.run_change(session, operation, plan, fate).await;
    }
}
