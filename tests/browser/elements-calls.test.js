// Calls of the hosted fields to a real vault: update, retrieve and show, sessions, proxy, encryption, and errors.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { DESKTOP } from "./browser.js";
import { FIELDS, SHOP, startSites } from "./sites.js";

const NUMBER = "4242424242424242";
const CARD = { number: NUMBER, expiration_month: 12, expiration_year: 2030, cvc: "123" };

const PAGE = `<!DOCTYPE html><html lang="en"><title>Shop</title><link rel="icon" href="data:,">
<div id="number"></div><div id="expiry"></div><div id="code"></div><div id="card"></div><div id="text"></div><div id="shown"></div>
<script src="${FIELDS}/elements/client.js"></script>
<script type="module">
  const key = new URLSearchParams(location.search).get("key");
  window.bt = await BasisTheoryElements.init(key, "", false, true, true, true);
  window.fields = {
    number: bt.createElement("cardNumber", { targetId: "number" }),
    expiry: bt.createElement("cardExpirationDate", { targetId: "expiry" }),
    code: bt.createElement("cardVerificationCode", { targetId: "code" }),
    text: bt.createElement("text", { targetId: "text" }),
  };
  await Promise.all(Object.entries(fields).map(([id, field]) => field.mount("#" + id)));
  // An error as plain data, so that it can leave the page.
  window.failure = (promise) => promise.then(
    (value) => ({ value }),
    ({ name, message, status, data, details, validation, _debug }) => ({ name, message, status, data, details, validation, _debug }),
  );
  document.body.dataset.ready = "true";
</script>`;

let sites, echo;

before(async () => {
  sites = await startSites({ "/": PAGE });
  // A destination of the proxy that repeats the request.
  echo = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const status = request.url.startsWith("/fail") ? 402 : 200;
    response.writeHead(status, { "Content-Type": "application/json", "X-Repeated": encodeURIComponent(text) });
    response.end(JSON.stringify({ url: request.url, method: request.method, body: text === "" ? null : JSON.parse(text) }));
  }).listen(0, "127.0.0.1");
  await once(echo, "listening");
});

after(async () => {
  echo.close();
  echo.closeAllConnections();
  assert.equal(await sites.stop(), 0);
});

const input = (page, id) => page.frameLocator(`#${id} iframe`).locator("input:not([tabindex='-1'])").first();

function inShop(name, use, key) {
  test(name, () =>
    sites.browser.withPage(`elements ${name}`, DESKTOP, async (page) => {
      await page.goto(`${SHOP}/?key=${key?.() ?? sites.vault.keys.public}`);
      await page.locator("body[data-ready]").waitFor();
      await use(page);
    }),
  );
}

async function typeCard(page) {
  await input(page, "number").pressSequentially(NUMBER);
  await input(page, "expiry").pressSequentially("1230");
  await input(page, "code").pressSequentially("123");
}

// Waits until the field has the value: it arrives by a message.
async function assertShown(page, expected) {
  const field = input(page, "shown");
  const read = async () => (await field.inputValue()).replaceAll(" ", "");
  for (let attempt = 0; attempt < 50 && (await read()) === ""; attempt++) await page.waitForTimeout(20);
  assert.equal(await read(), expected);
}

async function createToken(token) {
  const { status, body } = await sites.vault.send("private", "POST", "/tokens", token);
  assert.equal(status, 201, JSON.stringify(body));
  return body.id;
}

// Like the backend of a shop: allows a session of the page to use tokens.
async function startSession(page, rule) {
  const session = await page.evaluate(() => bt.sessions.create());
  const { nonce } = session;
  const { status, body } = await sites.vault.send("private", "POST", "/sessions/authorize", { nonce, ...rule });
  assert.equal(status, 204, JSON.stringify(body));
  return session.sessionKey;
}

inShop("field updates a stored token", async (page) => {
  const id = await createToken({ type: "card", data: CARD });
  await input(page, "code").pressSequentially("987");
  const token = await page.evaluate((id) => bt.tokens.update(id, { data: { cvc: fields.code }, metadata: { orderId: "7" } }), id);
  assert.equal(token.id, id);
  const { body } = await sites.vault.send("private", "GET", `/tokens/${id}`);
  assert.deepEqual([body.data.cvc, body.data.number, body.metadata], ["987", NUMBER, { orderId: "7" }]);
});

inShop("retrieved value is shown in a field and stays out of the page", async (page) => {
  const id = await createToken({ type: "card", data: CARD });
  const apiKey = await startSession(page, {
    rules: [{ description: "show", priority: 1, container: "/pci/high/", transform: "reveal", permissions: ["token:read"] }],
  });
  const token = await page.evaluate(
    async ({ id, apiKey }) => {
      const token = await bt.tokens.retrieve(id, { apiKey });
      const shown = bt.createElement("cardNumber", { targetId: "shown", readOnly: true });
      await shown.mount("#shown");
      shown.setValue(token.data.number);
      return token;
    },
    { id, apiKey },
  );
  assert.deepEqual(Object.keys(token.data.number).sort(), ["correlationId", "elementId", "path"]);
  assert.ok(!JSON.stringify(token).includes(NUMBER));
  await assertShown(page, NUMBER);
  assert.ok(!(await page.content()).includes(NUMBER));
});

inShop("proxy sends the value of a field and answers with references", async (page) => {
  const { status, body: proxy } = await sites.vault.send("management", "POST", "/proxies", {
    name: "Echo",
    destination_url: `http://127.0.0.1:${echo.address().port}/`,
    require_auth: true,
  });
  assert.equal(status, 201, JSON.stringify(proxy));
  const apiKey = await startSession(page, { permissions: ["proxy:invoke"] });
  await input(page, "number").pressSequentially(NUMBER);
  const [answer, refused] = await page.evaluate(
    async ({ apiKey, key }) => {
      const request = (path) => ({
        apiKey,
        path,
        query: { a: "b c" },
        headers: { "BT-PROXY-KEY": key, "BT-EXPOSE-RAW-PROXY-RESPONSE": "true" },
        body: { number: fields.number, fixed: "x" },
        includeResponseHeaders: true,
      });
      const answer = await bt.proxy.post(request("/charge"));
      const shown = bt.createElement("cardNumber", { targetId: "shown", readOnly: true });
      await shown.mount("#shown");
      shown.setValue(answer.data.body.number);
      return [answer, await failure(bt.proxy.post(request("/fail")))];
    },
    { apiKey, key: proxy.key },
  );
  for (const value of [answer, refused]) assert.ok(!JSON.stringify(value).includes(NUMBER), JSON.stringify(value));
  assert.equal(answer.headers["bt-proxy-destination-status"], "200");
  assert.equal(answer.headers["x-repeated"], undefined);
  assert.deepEqual([refused.name, refused.status], ["BasisTheoryApiError", 402]);
  // The destination received the number: its answer is shown in the vault's frame.
  await assertShown(page, NUMBER);
});

inShop("path of a proxy request cannot reach another operation", async (page) => {
  await input(page, "text").pressSequentially("secret-value");
  const requests = [];
  page.on("request", (it) => requests.push(it.url()));
  const result = await page.evaluate(() =>
    failure(bt.proxy.post({ path: "/../tokens", body: { type: "token", data: fields.text, mask: "{{ data }}" } })),
  );
  assert.equal(result.name, "BasisTheoryValidationError");
  assert.deepEqual(requests, []);
});

inShop("incomplete and unmounted fields stop a call", async (page) => {
  await input(page, "number").pressSequentially("4242");
  const requests = [];
  page.on("request", (it) => requests.push(it.url()));
  const result = await page.evaluate(() =>
    failure(bt.tokens.create({ type: "card", data: { number: fields.number, cvc: fields.code } })),
  );
  assert.equal(result.name, "BasisTheoryValidationError");
  assert.deepEqual(result.details, { data: { number: { type: "incomplete" }, cvc: { type: "incomplete" } } });
  assert.deepEqual(result.validation.map((it) => it.targetId), ["number", "code"]);
  await page.waitForFunction(() => fields.number.metadata.errors.length > 0);
  const unmounted = await page.evaluate(() => {
    fields.text.unmount();
    return failure(bt.tokens.create({ type: "token", data: fields.text }));
  });
  assert.match(unmounted.message, /not mounted/);
  assert.deepEqual(requests, []);
});

inShop("rejected call is an error with status, problem and trace id", async (page) => {
  await typeCard(page);
  const result = await page.evaluate(() => failure(bt.tokens.create({ type: "unknown", data: { number: fields.number } })));
  assert.deepEqual([result.name, result.status, result.data.status], ["BasisTheoryApiError", 400, 400]);
  assert.ok(result.data.errors.type);
  assert.match(result._debug.btTraceId, /^[0-9a-f]{32}$/);
  const [isError, forbidden] = await page.evaluate(async () => {
    const error = await bt.tokens.retrieve("5705a9df-cc65-40ea-99ce-562d410aaab5").catch((it) => it);
    return [error instanceof Error, error.status];
  });
  assert.deepEqual([isError, forbidden], [true, 403]);
});

inShop("vault out of reach is an error with status 0", async (page) => {
  await page.route(`${FIELDS}/api/**`, (route) => route.abort());
  const result = await page.evaluate(() => failure(bt.tokens.create({ type: "token", data: "x" })));
  assert.deepEqual([result.name, result.status], ["BasisTheoryApiError", 0]);
});

inShop("idempotency key and trace id reach the vault", async (page) => {
  await input(page, "text").pressSequentially("once");
  const [first, second] = await page.evaluate(async () => {
    const create = () =>
      bt.tokens.create({ type: "token", data: fields.text }, { idempotencyKey: "order-1", correlationId: "0123456789abcdef0123456789abcdef" });
    return [await create(), await create()];
  });
  assert.equal(first.id, second.id);
  assert.equal(first._debug.btTraceId, "0123456789abcdef0123456789abcdef");
});

inShop("plain values are stored as they are given", async (page) => {
  const value = `<b>&amp;"'</b> ü 💳`;
  const { id } = await page.evaluate((value) => bt.tokens.create({ type: "token", data: { value, list: [1, null, true] } }), value);
  const { body } = await sites.vault.send("private", "GET", `/tokens/${id}`);
  assert.deepEqual(body.data, { value, list: [1, null, true] });
});

inShop("client and other public keys are refused", async (page) => {
  const other = await sites.vault.send("management", "POST", "/applications", {
    name: "Other",
    type: "public",
    permissions: ["token:create"],
  });
  const results = await page.evaluate(
    (apiKey) => Promise.all([failure(bt.client.post("https://other.test", {})), failure(bt.tokens.create({ type: "token", data: "x" }, { apiKey }))]),
    other.body.key,
  );
  assert.deepEqual(results.map((it) => it.name), ["BasisTheoryConfigurationError", "BasisTheoryConfigurationError"]);
});
