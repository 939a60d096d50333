// Describes the result of a payment, and what a shop does next.

import { element } from "/demo/journal.js";

const DESCRIPTIONS = {
  successful: ["good", "Paid", "The bank confirmed the cardholder, and the provider charged the card. The shop sends the coffee."],
  attempted: [
    "good",
    "Paid",
    "The bank could not check the cardholder, but accepts liability. The provider charged the card.",
  ],
  failed: ["bad", "Not paid", "The bank could not confirm the cardholder. The shop asks for another card."],
  rejected: ["bad", "Not paid", "The bank rejected the payment. The shop does not try again."],
  unavailable: [
    "care",
    "Undecided",
    "The bank cannot decide. The shop may charge the card at its own risk, or ask for another card.",
  ],
  informational: ["care", "Undecided", "The bank received the request for information only and decided nothing."],
};
const OTHER = ["care", "Undecided", "The bank decides later."];
const DECLINED = ["bad", "Not paid", "The bank confirmed the cardholder, but the provider declined the charge."];

export function describePayment({ authentication, charge }) {
  const status = authentication.authentication_status;
  const isDeclined = charge !== undefined && charge.status !== "approved";
  const [kind, title, text] = isDeclined ? DECLINED : (DESCRIPTIONS[status] ?? OTHER);
  const reason = authentication.authentication_status_reason;
  const facts = [
    ["Status", `${status} (${authentication.authentication_status_code})`],
    ["Reason", reason],
    ["Liability", authentication.liability_shifted ? "the bank's" : "the shop's"],
    ["ECI", authentication.eci],
    ["Proof", authentication.authentication_value],
    ["Charge", charge && `${charge.id}, ${charge.status}`],
  ];
  return { kind, title, text, facts };
}

export function describeFailure(failure) {
  const error = failure.problem?.error;
  const title = failure.status === 424 ? "Not authenticated" : "Not paid";
  const text = failure.problem?.title === "You left" ? failure.message : `${sentence(error?.message ?? failure.message)} Nothing is paid.`;
  const facts = [
    ["Response", failure.status ? String(failure.status) : undefined],
    ["Failed service", error?.error_source],
    ["Detail", error?.detail],
  ];
  return { kind: failure.status === 424 ? "care" : "bad", title, text, facts };
}

function sentence(text) {
  const capitalized = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capitalized) ? capitalized : `${capitalized}.`;
}

export function show({ kind, title, text, facts }) {
  const panel = document.getElementById("outcome");
  panel.className = `outcome ${kind}`;
  document.getElementById("outcome-title").textContent = title;
  document.getElementById("outcome-text").textContent = text;
  const rows = facts.filter(([, value]) => value !== undefined && value !== null);
  const entries = rows.flatMap(([name, value]) => [
    element("dt", { textContent: name }),
    element("dd", { textContent: value }),
  ]);
  document.getElementById("outcome-facts").replaceChildren(...entries);
  panel.hidden = false;
}
