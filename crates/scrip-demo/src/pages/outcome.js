// How it ended, in words, and what a shop would do now.

import { element } from "/demo/journal.js";

const WORDS = {
  successful: ["good", "Paid", "The bank vouches that it was the cardholder. The shop charges the card and sends the coffee."],
  attempted: [
    "good",
    "Paid",
    "The bank could not check who it was, and vouches all the same. The shop charges the card.",
  ],
  failed: ["bad", "Not paid", "The bank does not believe that it was the cardholder. The shop asks for another card."],
  rejected: ["bad", "Not paid", "The bank wants this payment not to be made. The shop does not try again."],
  unavailable: [
    "care",
    "Undecided",
    "The bank cannot tell. The shop may charge the card at its own risk, or ask for another one.",
  ],
  informational: ["care", "Undecided", "The bank took note and decided nothing."],
};
const OTHER = ["care", "Undecided", "The bank decides later, by itself."];

export function ofAuthentication(authentication) {
  const status = authentication.authentication_status;
  const [kind, title, text] = WORDS[status] ?? OTHER;
  const reason = authentication.authentication_status_reason;
  const facts = [
    ["Status", `${status} (${authentication.authentication_status_code})`],
    ["Reason", reason],
    ["Liability", authentication.liability_shifted ? "the bank's" : "the shop's"],
    ["ECI", authentication.eci],
    ["Proof", authentication.authentication_value],
  ];
  return { kind, title, text, facts };
}

export function ofStop(stopped) {
  const error = stopped.problem?.error;
  const title = stopped.status === 424 ? "Not authenticated" : "Not paid";
  const text = stopped.problem?.title === "You left" ? stopped.message : `${sentence(error?.message ?? stopped.message)} Nothing is paid.`;
  const facts = [
    ["Answer", stopped.status ? String(stopped.status) : undefined],
    ["Who failed", error?.error_source],
    ["Detail", error?.detail],
  ];
  return { kind: stopped.status === 424 ? "care" : "bad", title, text, facts };
}

function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

export function show({ kind, title, text, facts }) {
  const panel = document.getElementById("outcome");
  panel.className = `outcome ${kind}`;
  document.getElementById("outcome-title").textContent = title;
  document.getElementById("outcome-text").textContent = text;
  const rows = facts.filter(([, value]) => value !== undefined && value !== null);
  const shown = rows.flatMap(([name, value]) => [
    element("dt", { textContent: name }),
    element("dd", { textContent: value }),
  ]);
  document.getElementById("outcome-facts").replaceChildren(...shown);
  panel.hidden = false;
}
