// A hostile shop page with hosted fields, an ordinary input for controls, and the tools of an attacker.

import { FIELDS, SHOP } from "./sites.js";
import { DESKTOP } from "./browser.js";

// Runs in the page. Everything here is available to any script of a page.
function installTools() {
  window.wait = (ms) => new Promise((done) => setTimeout(done, ms));
  // Mounts a field and collects its changes.
  window.addField = async (id, type, options = {}) => {
    const place = document.createElement("div");
    place.id = id;
    document.body.append(place);
    const element = window.elements.createElement(type, { targetId: id, "aria-label": id, ...options });
    const changes = [];
    element.on("change", (event) => {
      changes.push({ ...event });
      window.onFieldChange?.(id, event);
    });
    (window.fields ??= {})[id] = element;
    (window.changes ??= {})[id] = changes;
    await element.mount(place);
  };
  // The outcome of a call as a text that can be compared.
  window.outcome = (promise) =>
    promise.then(
      (value) => ({ kind: "answer", value }),
      ({ name, status, message }) => ({ kind: `${name} ${status ?? ""}`, message }),
    );
  window.frameOf = (id) => document.querySelector(`#${id} iframe`);
  // Replaces a frame by one of the same name, which the page starts itself.
  window.replaceFrame = async (old, src, fields) => {
    const { name, parentNode } = old;
    old.remove();
    const frame = document.createElement("iframe");
    Object.assign(frame, { name, src });
    const [nonce, element] = ["nonce", "element"].map((it) => new URLSearchParams(new URL(src).hash.slice(1)).get(it));
    const started = new Promise((done) => {
      window.addEventListener("message", ({ source, data }) => {
        if (source !== frame.contentWindow) return;
        const message = { ...fields, scrip: 1, nonce, element, type: "init" };
        if (data.type === "loaded") frame.contentWindow.postMessage(message, "*");
        if (data.type === "ready") done();
      });
    });
    parentNode.append(frame);
    await started;
    return { frame, nonce, element };
  };
  // Sends a call to a controller without the script of the vault.
  let count = 0;
  window.sendRaw = ({ frame, nonce }, call) =>
    new Promise((done) => {
      const id = `raw-${++count}`;
      window.addEventListener("message", ({ data }) => data?.id === id && done(data));
      frame.contentWindow.postMessage({ ...call, scrip: 1, nonce, element: "controller", type: "call", id }, "*");
    });
  window.elementId = (id) => window.frameOf(id).name.split("-").slice(3).join("-");
}

export const HOSTILE_PAGE = `<!DOCTYPE html><html lang="en"><title>Hostile shop</title><link rel="icon" href="data:,">
<input id="own" aria-label="own">
<script src="${FIELDS}/elements/client.js"></script>
<script type="module">
  (${installTools})();
  window.key = new URLSearchParams(location.search).get("key");
  window.elements = await window.BasisTheoryElements.init(window.key);
  document.body.dataset.ready = "true";
</script>`;

// Opens the page. `input(id)` is the input that a payer sees. `faults` has the errors of scripts: a test removes the
// expected ones.
export function withHostilePage(sites, name, use) {
  return sites.browser.withPage(`hostile ${name}`, DESKTOP, async (page, faults) => {
    await page.goto(`${SHOP}/hostile?key=${sites.vault.keys.public}`);
    await page.locator("body[data-ready]").waitFor();
    const input = (id) => page.frameLocator(`#${id} iframe`).locator("input:not([tabindex='-1'])").first();
    await use(page, input, faults);
  });
}

// Like the backend of a shop: allows a session of the page to use tokens.
export async function authorize(vault, nonce, rule) {
  const { status, body } = await vault.send("private", "POST", "/sessions/authorize", { nonce, ...rule });
  if (status !== 204) throw new Error(`not authorized: ${status} ${JSON.stringify(body)}`);
}
