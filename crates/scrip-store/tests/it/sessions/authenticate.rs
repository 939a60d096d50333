//! An authentication, played: it is written that somebody will be asked, then they are, then what
//! became of it is written; and anything can happen between.

use scrip_core::{
    operations::threeds_sessions::authenticate_threeds_session::{
        NewAuthentication, authenticate_threeds_session,
    },
    threeds::DirectoryServerError,
};
use scrip_testing::faults::schedule::{PausePoint, RunOutcome};
use scrip_threeds::session::{StateMachineEvent, ThreeDsRejection, ThreeDsSession};
use serde_json::json;

use crate::sessions::{
    messages::{authenticate_request, secret_of},
    model::{ModelEvent, ModelOutcome, authentication_parameters},
    random_steps::{AuthenticateStep, ServerReply, WriteFate},
    simulation::{OperationFuture, SessionSimulation},
};

impl SessionSimulation {
    pub(crate) async fn authenticate(&mut self, step: &AuthenticateStep) {
        let Some(session) = self.session_index(step.session) else { return };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let id = self.model.sessions[session].id;
        let new = NewAuthentication {
            request: authenticate_request(self.model.sessions[session].kind, step.decoupled),
            card_brand: None,
        };
        let mut operation: OperationFuture = Box::pin(async move {
            authenticate_threeds_session(&vault, &caller, id, new, None)
                .await
                .map(|_| "done".to_owned())
        });
        if !self.begin_authentication(session, &mut operation, step).await {
            return;
        }
        let reached = self.schedule.run(&mut operation).await;
        let RunOutcome::Paused(PausePoint::SendMessage(message, response)) = reached else {
            panic!("the directory server is asked: {reached:?}")
        };
        let state = self.model.sessions[session].row.clone().unwrap();
        let known = &mut self.model.sessions[session];
        known.secret = Some(secret_of(&message));
        if !matches!(step.reply, ServerReply::Unanswered(DirectoryServerError::NotSent)) {
            known.delivered += 1;
            assert_eq!(known.delivered, 1, "{id} is asked about twice");
        }
        self.check().await;
        self.run_steps(&step.meanwhile).await;
        let Some(answered) = self.server_reply(session, &step.reply) else { return };
        response.send(answered.clone()).unwrap();
        self.conclude(session, &state, operation, &answered, &step.second_write).await;
    }

    /// Up to where it is written that somebody will be asked; whether it is.
    async fn begin_authentication(
        &mut self,
        session: usize,
        operation: &mut OperationFuture,
        step: &AuthenticateStep,
    ) -> bool {
        let happening = ModelEvent {
            event: StateMachineEvent::Authenticate {
                parameters: authentication_parameters(step.decoupled),
            },
            operation: "authenticate_session",
            outcome: "asked",
            refusal_result: |it| {
                let is_missing = *it == ThreeDsRejection::DeviceInfoMissing;
                if is_missing { "invalid".to_owned() } else { "conflict".to_owned() }
            },
            missing_result: "not found",
            writes_without_change: true,
        };
        let mut trip = &step.first_write;
        loop {
            let planned = match self.model.plan(session, &happening) {
                ModelOutcome::Write(planned) => planned,
                ModelOutcome::Nothing(end) => {
                    self.expect_end(operation, &end).await;
                    return false;
                }
            };
            match self.run_write(session, operation, *planned, trip).await {
                Some(Some("done")) => return true,
                Some(None) => trip = &WriteFate::Commit,
                None => return false,
                Some(Some(end)) => {
                    self.expect_end(operation, end).await;
                    return false;
                }
            }
        }
    }

    fn server_reply(
        &self,
        session: usize,
        reply: &ServerReply,
    ) -> Option<Result<Vec<u8>, DirectoryServerError>> {
        let known = &self.model.sessions[session];
        let response = match reply {
            ServerReply::ProcessDies => return None,
            ServerReply::Unanswered(why) => return Some(Err(*why)),
            ServerReply::Status(status) => known.authentication_response(status).to_string(),
            ServerReply::OtherSession => {
                let mut response = known.authentication_response("Y");
                response["threeDSServerTransID"] = "00000000-0000-4000-8000-000000000000".into();
                response.to_string()
            }
            ServerReply::ErrorMessage => json!({
                "messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "203",
                "errorComponent": "D", "errorDescription": "no", "errorDetail": "purchaseAmount",
                "threeDSServerTransID": known.ids()[0],
            })
            .to_string(),
            ServerReply::Garbage => "<html>".to_owned(),
        };
        Some(Ok(response.into_bytes()))
    }

    async fn conclude(
        &mut self,
        session: usize,
        state: &ThreeDsSession,
        mut operation: OperationFuture,
        answered: &Result<Vec<u8>, DirectoryServerError>,
        fate: &WriteFate,
    ) {
        let planned = self.model.conclude(state, answered);
        match self.run_write(session, &mut operation, planned, fate).await {
            None => (),
            Some(Some(end)) => self.expect_end(&mut operation, end).await,
            Some(None) => {
                self.outcomes.insert("a session that asked was gone".to_owned());
                self.expect_end(&mut operation, "not found").await;
            }
        }
    }
}
