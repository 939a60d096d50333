// The two frames of a payment. Each one contains a page of the vault, which contains a page of the bank. The shop
// sends the URL of the bank to the page in its frame and waits for one message, as the official SDK does.

import { element } from "/demo/journal.js";

const METHOD_MS = 10_000;

export function encodeBase64Url(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Posts a message into a new frame and waits for the reply, or for `until`.
async function runInFrame(container, { page, title, message, replyType, until }) {
  const frame = element("iframe", { src: page, title });
  const reply = new Promise((resolve) => {
    const listen = (event) => {
      if (event.source !== frame.contentWindow || event.data?.type !== replyType) return;
      window.removeEventListener("message", listen);
      resolve(event.data);
    };
    window.addEventListener("message", listen);
    until.then(() => window.removeEventListener("message", listen));
  });
  const start = () => {
    frame.contentWindow.postMessage(message, window.location.origin);
    // Keyboard input continues in the bank's page.
    frame.focus();
  };
  frame.addEventListener("load", start, { once: true });
  container.append(frame);
  const result = await Promise.race([reply, until]);
  frame.remove();
  return result ?? null;
}

// Null if the bank's page sent no message in time. The payment continues.
export function runMethod(message) {
  const until = new Promise((resolve) => setTimeout(resolve, METHOD_MS));
  const title = "The bank's check of the browser";
  const container = document.getElementById("method");
  return runInFrame(container, { page: "/pages/method.html", title, message, replyType: "method", until });
}

// Null if the payer closed the dialog.
export async function runChallenge(message) {
  const dialog = document.getElementById("challenge");
  const leave = document.getElementById("leave");
  const until = new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(), { once: true });
  });
  leave.onclick = () => dialog.close();
  dialog.showModal();
  const container = document.getElementById("bank");
  const page = "/pages/challenge.html";
  const title = "Your bank's page";
  const result = await runInFrame(container, { page, title, message, replyType: "challenge", until });
  if (dialog.open) dialog.close();
  return result;
}
