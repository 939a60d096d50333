// Encryption in the controller frame for a client key of a real vault.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP } from "./browser.js";
import { FIELDS, SHOP, startSites } from "./sites.js";

const CARD = { number: "4242424242424242", expiration_month: 12, expiration_year: 2030, cvc: "123" };

const PAGE = `<!DOCTYPE html><html lang="en"><title>Shop</title><link rel="icon" href="data:,">
<div id="card"></div><div id="text"></div>
<script src="${FIELDS}/elements/client.js"></script>
<script type="module">
  window.bt = await BasisTheoryElements.init(new URLSearchParams(location.search).get("key"));
  window.fields = { card: bt.createElement("card"), text: bt.createElement("text", { targetId: "text" }) };
  await Promise.all([fields.card.mount("#card"), fields.text.mount("#text")]);
  document.body.dataset.ready = "true";
</script>`;

let sites;

before(async () => {
  sites = await startSites({ "/": PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

const inputs = (page, id) => page.frameLocator(`#${id} iframe`).locator("input:not([tabindex='-1'])");

function inShop(name, use) {
  test(name, () =>
    sites.browser.withPage(`elements ${name}`, DESKTOP, async (page) => {
      await page.goto(`${SHOP}/?key=${sites.vault.keys.public}`);
      await page.locator("body[data-ready]").waitFor();
      await use(page);
    }),
  );
}

async function storedData(token) {
  const created = await sites.vault.send("private", "POST", "/tokens", token);
  assert.equal(created.status, 201, JSON.stringify(created.body));
  return (await sites.vault.send("private", "GET", `/tokens/${created.body.id}`)).body.data;
}

async function createClientKey() {
  const { status, body } = await sites.vault.send("management", "POST", "/keys", {});
  assert.equal(status, 201, JSON.stringify(body));
  return { keyId: body.key_id, publicKeyPem: body.public_key_pem };
}

inShop("plain values are encrypted for the vault without a request", async (page) => {
  const key = await createClientKey();
  const requests = [];
  page.on("request", (it) => requests.push(it.url()));
  const answer = await page.evaluate((key) => {
    const tokenRequests = { name: { type: "token", data: "Jo" }, object: { type: "token", data: { a: [1] } } };
    return bt.tokens.encrypt({ tokenRequests, ...key });
  }, key);
  assert.deepEqual(requests, []);
  assert.deepEqual(await storedData(answer.object), { a: [1] });
  assert.equal(await storedData(answer.name), "Jo");
});

inShop("value of a field is encrypted for a key that the vault confirms", async (page) => {
  const key = await createClientKey();
  for (const [index, text] of ["4242424242424242", "1230", "123"].entries()) {
    await inputs(page, "card").nth(index).pressSequentially(text);
  }
  const answer = await page.evaluate(
    (key) => bt.tokens.encrypt({ tokenRequests: { type: "card", data: fields.card }, ...key }),
    key,
  );
  assert.deepEqual(Object.keys(answer).sort(), ["encrypted", "type"]);
  assert.deepEqual(await storedData(answer), CARD);
});

inShop("value of a field is not encrypted for a key of the page", async (page) => {
  const key = await createClientKey();
  const publicKeyPem = `-----BEGIN PUBLIC KEY-----\n${Buffer.alloc(32, 9).toString("base64")}\n-----END PUBLIC KEY-----`;
  await inputs(page, "text").pressSequentially("secret-value");
  const name = await page.evaluate(
    (key) => bt.tokens.encrypt({ tokenRequests: { type: "token", data: fields.text }, ...key }).catch((error) => error.name),
    { keyId: key.keyId, publicKeyPem },
  );
  assert.equal(name, "BasisTheoryConfigurationError");
});

inShop("value of a field is not encrypted for a deleted key of the vault", async (page) => {
  const key = await createClientKey();
  assert.equal((await sites.vault.send("management", "DELETE", `/keys/${key.keyId}`)).status, 204);
  await inputs(page, "text").pressSequentially("secret-value");
  const name = await page.evaluate(
    (key) => bt.tokens.encrypt({ tokenRequests: { type: "token", data: fields.text }, ...key }).catch((error) => error.name),
    key,
  );
  assert.equal(name, "BasisTheoryConfigurationError");
});
