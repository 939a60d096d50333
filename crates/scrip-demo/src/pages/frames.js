// The two frames of a payment. Both hold pages of the vault, which hold the bank's; the shop tells the page in its
// frame where to go and waits for one message. It is the contract that the official SDK keeps, in a few lines.

import { element } from "/demo/journal.js";

const METHOD_MS = 10_000;

export function encoded(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Posts a message into a new frame and waits for the answer, or for `until`.
async function inFrame(place, { page, title, message, answer, until }) {
  const frame = element("iframe", { src: page, title });
  const answered = new Promise((resolve) => {
    const listen = (event) => {
      if (event.source !== frame.contentWindow || event.data?.type !== answer) return;
      window.removeEventListener("message", listen);
      resolve(event.data);
    };
    window.addEventListener("message", listen);
    until.then(() => window.removeEventListener("message", listen));
  });
  const start = () => {
    frame.contentWindow.postMessage(message, window.location.origin);
    // Whoever types goes on in the bank's page.
    frame.focus();
  };
  frame.addEventListener("load", start, { once: true });
  place.append(frame);
  const told = await Promise.race([answered, until]);
  frame.remove();
  return told ?? null;
}

// Null if the bank's page has said nothing in its time, which is nobody's fault and no reason to stop.
export function runMethod(message) {
  const until = new Promise((resolve) => setTimeout(resolve, METHOD_MS));
  const title = "The bank's look at the browser";
  const place = document.getElementById("method");
  return inFrame(place, { page: "/pages/method.html", title, message, answer: "method", until });
}

// Null if the payer has left.
export async function runChallenge(message) {
  const dialog = document.getElementById("challenge");
  const leave = document.getElementById("leave");
  const until = new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(), { once: true });
  });
  leave.onclick = () => dialog.close();
  dialog.showModal();
  const place = document.getElementById("bank");
  const page = "/pages/challenge.html";
  const told = await inFrame(place, { page, title: "Your bank's page", message, answer: "challenge", until });
  if (dialog.open) dialog.close();
  return told;
}
