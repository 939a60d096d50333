// A payment, from the card to the bank's word. What a real shop does with the official SDK and its own backend.

import { encoded, runChallenge, runMethod } from "/demo/frames.js";

// A step that did not work out: whoever catches it tells the payer.
export class Stopped extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? "The vault does not answer.");
    this.status = status;
    this.problem = problem;
  }
}

export async function pay(payer, { journal, publicKey }) {
  const vault = { publicKey, name: "the public key" };
  const intent = await hide(payer.card, journal, vault);
  const session = await open(intent, journal, vault);
  await look(session, journal);
  const authentication = await authenticate(session, payer, journal);
  if (authentication.authentication_status !== "challenge") return authentication;
  return challenge(session, authentication, journal);
}

async function hide(card, journal, vault) {
  const step = journal.begin("The card goes into the vault", "The browser hands the card to Scrip…");
  const intent = await ask(step, vault, "/token-intents", { type: "card", data: card });
  step.end("done", "The card went from the browser to the vault. The shop got an id for it, and no number.");
  return intent;
}

async function open(intent, journal, vault) {
  const step = journal.begin("A 3-D Secure session", "Scrip looks up which bank issued the card…");
  const body = { token_intent_id: intent.id, device: "browser", device_info: device(), web_challenge_mode: "iframe" };
  const session = await ask(step, vault, "/3ds/sessions", body);
  const versions = session.recommended_version ? ` It speaks version ${session.recommended_version}.` : "";
  step.end("done", `The card belongs to a bank that takes part (${session.card_brand}).${versions}`);
  return session;
}

async function look(session, journal) {
  const title = "The bank looks at the browser";
  const step = journal.begin(title, "A hidden frame of the bank looks at this browser…");
  if (!session.method_url) {
    step.end("skipped", "This bank does not want to.");
    return;
  }
  const data = {
    threeDSServerTransID: session.id,
    threeDSMethodNotificationURL: session.method_notification_url,
  };
  const message = {
    type: "startMethod",
    threeDSMethodURL: session.method_url,
    threeDSMethodData: encoded(data),
  };
  const told = await runMethod(message);
  step.show(
    { line: `form to ${session.method_url}`, value: { threeDSMethodData: data } },
    { line: "message from the frame", value: told ?? undefined },
  );
  if (told) step.end("done", "It has, in a frame that nobody sees. It may trust this browser more from now on.");
  else step.end("skipped", "It did not finish within ten seconds. That is no reason to stop.");
}

async function authenticate(session, payer, journal) {
  const step = journal.begin("The bank is asked", "The shop's backend asks the bank, through Scrip…");
  const { name, email } = payer;
  const answer = await askShop(step, "/demo/authenticate", { session_id: session.id, name, email });
  const status = answer.authentication_status;
  const told = status === "challenge" ? "The bank wants to ask the payer first." : `The bank's answer: ${status}.`;
  step.end(isGood(status) || status === "challenge" ? "done" : "bad", told);
  return answer;
}

async function challenge(session, authentication, journal) {
  const step = journal.begin("The bank asks the payer", "Answer your bank in the window that has opened.");
  const creq = {
    messageType: "CReq",
    messageVersion: authentication.threeds_version,
    threeDSServerTransID: session.id,
    acsTransID: authentication.acs_transaction_id,
    challengeWindowSize: "05",
  };
  const message = { type: "startChallenge", acsURL: authentication.acs_challenge_url, creq: encoded(creq) };
  const told = await runChallenge(message);
  step.show(
    { line: `form to ${authentication.acs_challenge_url}`, value: { creq } },
    { line: "message from the frame", value: told ?? undefined },
  );
  if (!told) {
    step.end("bad", "You left before the bank was done.");
    throw new Stopped(0, { title: "You left", detail: "The bank was not done asking, so nothing is paid." });
  }
  step.end("done", "The bank's page says that it is over. What counts is what the bank told Scrip directly.");
  return result(session, journal);
}

async function result(session, journal) {
  const step = journal.begin("The bank's last word", "The shop's backend fetches the result…");
  const answer = await askShop(step, "/demo/challenge-result", { session_id: session.id });
  const status = answer.authentication_status;
  step.end(isGood(status) ? "done" : "bad", `The bank's answer: ${status}.`);
  return answer;
}

const isGood = (status) => status === "successful" || status === "attempted";

// The vault, from the browser.
async function ask(step, vault, path, body) {
  const headers = { "BT-API-KEY": vault.publicKey, "Content-Type": "application/json" };
  const { status, answer } = await fetched(step, path, { method: "POST", headers, body: JSON.stringify(body) });
  step.show(
    { line: `POST ${path}, from the browser with ${vault.name}`, value: body },
    { line: String(status), value: answer },
  );
  return checked(step, status, answer);
}

// The shop's backend, which asks the vault and tells what it said.
async function askShop(step, path, body) {
  const headers = { "Content-Type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  const { status, answer } = await fetched(step, path, init);
  if (status !== 200) return checked(step, status, answer);
  const { request } = answer;
  step.show(
    {
      line: `${request.method} ${request.path}, from the backend with the private key`,
      value: request.body ?? undefined,
    },
    { line: String(answer.status), value: answer.answer },
  );
  return checked(step, answer.status, answer.answer);
}

async function fetched(step, path, init) {
  try {
    const response = await fetch(path, init);
    return { status: response.status, answer: await response.json() };
  } catch {
    step.end("bad", "No answer. Is scrip dev still running?");
    throw new Stopped(0, null);
  }
}

function checked(step, status, answer) {
  if (status >= 200 && status < 300) return answer;
  const stopped = new Stopped(status, answer);
  step.end("bad", `Refused with ${status}: ${stopped.message}`);
  throw stopped;
}

// What EMV 3-D Secure asks of a browser; the rest is seen by the server.
function device() {
  const depth = [48, 32, 24, 16, 15, 8, 4, 1].find((it) => it <= screen.colorDepth) ?? 24;
  return {
    browser_color_depth: String(depth),
    browser_java_enabled: false,
    browser_javascript_enabled: true,
    browser_language: navigator.language.split("-").slice(0, 2).join("-"),
    browser_screen_height: String(screen.height),
    browser_screen_width: String(screen.width),
    browser_tz: String(new Date().getTimezoneOffset()),
    browser_user_agent: navigator.userAgent,
  };
}
