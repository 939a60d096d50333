//! An authentication, played: it is written that somebody will be asked, then they are, then what
//! became of it is written; and anything can happen between.

use scrip_core::{
    operations::sessions::authenticate_session::{NewAuthentication, authenticate_session},
    threeds::Unanswered,
};
use scrip_testing::faults::schedule::{Point, Reached};
use scrip_threeds::session::{Event, Refusal, Session};
use serde_json::json;

use crate::sessions::{
    messages::{request, secret_of},
    model::{Happening, Plan, asked},
    random::{Authenticate, Reply, Trip},
    simulation::{Operating, SessionSimulation},
};

impl SessionSimulation {
    pub(crate) async fn authenticate(&mut self, step: &Authenticate) {
        let Some(of) = self.at(step.of) else { return };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let id = self.model.sessions[of].id;
        let new = NewAuthentication {
            request: request(self.model.sessions[of].kind, step.decoupled),
            card_brand: None,
        };
        let mut operation: Operating = Box::pin(async move {
            authenticate_session(&vault, &caller, id, new, None).await.map(|_| "done".to_owned())
        });
        if !self.begin(of, &mut operation, step).await {
            return;
        }
        let reached = self.stage.run(&mut operation).await;
        let Reached::Point(Point::Ask(message, answer)) = reached else {
            panic!("the directory server is asked: {reached:?}")
        };
        let state = self.model.sessions[of].row.clone().unwrap();
        let known = &mut self.model.sessions[of];
        known.secret = Some(secret_of(&message));
        if !matches!(step.reply, Reply::Unanswered(Unanswered::NotSent)) {
            known.delivered += 1;
            assert_eq!(known.delivered, 1, "{id} is asked about twice");
        }
        self.check().await;
        self.play_all(&step.meanwhile).await;
        let Some(answered) = self.reply(of, &step.reply) else { return };
        answer.send(answered.clone()).unwrap();
        self.conclude(of, &state, operation, &answered, &step.second).await;
    }

    /// Up to where it is written that somebody will be asked; whether it is.
    async fn begin(&mut self, of: usize, operation: &mut Operating, step: &Authenticate) -> bool {
        let happening = Happening {
            event: Event::Authenticate { asked: asked(step.decoupled) },
            operation: "authenticate_session",
            outcome: "asked",
            refused: |it| {
                let is_missing = *it == Refusal::DeviceMissing;
                if is_missing { "invalid".to_owned() } else { "conflict".to_owned() }
            },
            absent: "not found",
            always: true,
        };
        let mut trip = &step.first;
        loop {
            let planned = match self.model.plan(of, &happening) {
                Plan::Write(planned) => planned,
                Plan::Nothing(end) => {
                    self.end(operation, &end).await;
                    return false;
                }
            };
            match self.write(of, operation, *planned, trip).await {
                Some(Some("done")) => return true,
                Some(None) => trip = &Trip::Go,
                None => return false,
                Some(Some(end)) => {
                    self.end(operation, end).await;
                    return false;
                }
            }
        }
    }

    fn reply(&self, of: usize, reply: &Reply) -> Option<Result<Vec<u8>, Unanswered>> {
        let known = &self.model.sessions[of];
        let answer = match reply {
            Reply::Dies => return None,
            Reply::Unanswered(why) => return Some(Err(*why)),
            Reply::Status(status) => known.answer(status).to_string(),
            Reply::Other => {
                let mut answer = known.answer("Y");
                answer["threeDSServerTransID"] = "00000000-0000-4000-8000-000000000000".into();
                answer.to_string()
            }
            Reply::Erro => json!({
                "messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "203",
                "errorComponent": "D", "errorDescription": "no", "errorDetail": "purchaseAmount",
                "threeDSServerTransID": known.ids()[0],
            })
            .to_string(),
            Reply::Garbage => "<html>".to_owned(),
        };
        Some(Ok(answer.into_bytes()))
    }

    async fn conclude(
        &mut self,
        of: usize,
        state: &Session,
        mut operation: Operating,
        answered: &Result<Vec<u8>, Unanswered>,
        trip: &Trip,
    ) {
        let planned = self.model.conclude(state, answered);
        match self.write(of, &mut operation, planned, trip).await {
            None => (),
            Some(Some(end)) => self.end(&mut operation, end).await,
            Some(None) => {
                self.met.insert("a session that asked was gone".to_owned());
                self.end(&mut operation, "not found").await;
            }
        }
    }
}
