// The unmodified packages that applications use, with the hosted fields of a real vault on another site: three ways to
// load, and React.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { DESKTOP } from "./browser.js";
import { bundlePackages } from "./page-modules.js";
import { FIELDS, SHOP, startSites } from "./sites.js";

const require = createRequire(import.meta.url);
const NUMBER = "4242424242424242";

const page = (body) => `<!DOCTYPE html><html lang="en"><title>Shop</title><link rel="icon" href="data:,">
<div id="number"></div><div id="expiry"></div><div id="code"></div><div id="root"></div>${body}`;

const CREATE_FIELDS = `
  window.start = async (instance) => {
    const number = instance.createElement("cardNumber", { targetId: "number" });
    const expiry = instance.createElement("cardExpirationDate", { targetId: "expiry" });
    const code = instance.createElement("cardVerificationCode", { targetId: "code" });
    await Promise.all([number.mount("#number"), expiry.mount("#expiry"), code.mount(document.getElementById("code"))]);
    const data = { number, expiration_month: expiry.month(), expiration_year: expiry.year(), cvc: code };
    Object.assign(window, { instance, number, data });
    document.body.dataset.ready = "true";
  };
  window.key = new URLSearchParams(location.search).get("key");`;

const LOADER = '<script src="/web-elements.js"></script>';
const SCRIPT_OF_THE_VAULT = `<script src="${FIELDS}/elements/client.js"></script>`;
const START_LOADER = (options) => `<script type="module">${CREATE_FIELDS}
  await start(await basistheory(key, ${JSON.stringify(options)}));
</script>`;

const PAGES = {
  "/a": page(SCRIPT_OF_THE_VAULT + LOADER + START_LOADER({ disableTelemetry: true })),
  "/b": page(LOADER + START_LOADER({ customDomain: "vault.test", disableTelemetry: true })),
  "/c": page(`<script src="/packages.js"></script><script type="module">${CREATE_FIELDS}
    const { BasisTheory } = packages["@basis-theory/basis-theory-js"];
    const client = await new BasisTheory().init(key, {
      elements: true,
      elementsClientUrl: "${FIELDS}/web-elements/1.5.0/client/index.js",
      elementsBaseUrl: "${FIELDS}/",
      apiBaseUrl: "${FIELDS}/api",
      elementsUseSameOriginApi: true,
      disableTelemetry: true,
    });
    await start(client);
  </script>`),
  "/react": page(`${SCRIPT_OF_THE_VAULT}<script src="/packages.js"></script><script type="module">
    const { createElement: h, StrictMode, useRef, useState } = packages.react;
    const elements = packages["@basis-theory/react-elements"];
    const Checkout = () => {
      const { bt } = elements.useBasisTheory();
      const [label, setLabel] = useState("Pay");
      const [placeholder, setPlaceholder] = useState("first");
      const [number, expiry, code] = [useRef(null), useRef(null), useRef(null)];
      const pay = async () => {
        const token = await bt.tokens.create({
          type: "card",
          data: { number: number.current, expiration_month: expiry.current.month(), expiration_year: expiry.current.year(), cvc: code.current },
        });
        setLabel(token.id);
      };
      const changed = (event) => event.cardLast4 && setPlaceholder(event.cardLast4);
      return h("form", null,
        h(elements.CardNumberElement, { id: "card-number", ref: number, onChange: changed, title: placeholder }),
        h(elements.CardExpirationDateElement, { id: "card-expiry", ref: expiry }),
        h(elements.CardVerificationCodeElement, { id: "card-code", ref: code }),
        h("button", { type: "button", onClick: pay }, label));
    };
    const App = () => {
      const { bt, error } = elements.useBasisTheory(new URLSearchParams(location.search).get("key"), OPTIONS);
      if (error) return String(error);
      return h(elements.BasisTheoryProvider, { bt }, h(Checkout));
    };
    const OPTIONS = { disableTelemetry: true };
    packages["react-dom/client"].createRoot(document.getElementById("root")).render(h(StrictMode, null, h(App)));
  </script>`),
};

let sites;

before(async () => {
  const javascript = (text) => ({ type: "text/javascript", text });
  const loader = require.resolve("@basis-theory/web-elements").replace("/main/index.js", "/bundle/index.js");
  sites = await startSites({
    ...PAGES,
    "/web-elements.js": javascript(await readFile(loader, "utf8")),
    "/packages.js": javascript(
      bundlePackages(["@basis-theory/basis-theory-js", "@basis-theory/react-elements", "react", "react-dom/client"]),
    ),
  });
});

after(async () => assert.equal(await sites.stop(), 0));

const field = (it, selector) => it.frameLocator(`${selector} iframe`).locator("input:not([tabindex='-1'])").first();

async function typeCard(it, [number, expiry, code]) {
  await field(it, number).pressSequentially(NUMBER);
  await field(it, expiry).pressSequentially("1230");
  await field(it, code).pressSequentially("123");
}

async function assertStored(id) {
  const { status, body } = await sites.vault.send("private", "GET", `/tokens/${id}`);
  assert.equal(status, 200);
  const { number, expiration_month: month, expiration_year: year, cvc } = body.data;
  assert.deepEqual({ number, month, year, cvc }, { number: NUMBER, month: 12, year: 2030, cvc: "123" });
}

for (const [way, path] of [
  ["script of the vault before web-elements", "/a"],
  ["web-elements with a custom domain", "/b"],
  ["basis-theory-js with URLs of the vault", "/c"],
]) {
  test(`${way} stores a card`, () =>
    sites.browser.withPage(`elements ${way}`, DESKTOP, async (it) => {
      await it.goto(`${SHOP}${path}?key=${sites.vault.keys.public}`);
      await it.locator("body[data-ready]").waitFor();
      await typeCard(it, ["#number", "#expiry", "#code"]);
      const token = await it.evaluate(() => instance.tokens.create({ type: "card", data }));
      assert.equal(token.card.last4, "4242");
      await assertStored(token.id);
      assert.deepEqual(Object.keys(token.data.number), ["correlationId", "elementId", "path"]);
      const intent = await it.evaluate(() => instance.tokenIntents.create({ type: "card", data }));
      assert.equal(intent.card.last4, "4242");
      const { number } = await it.evaluate(() => instance.tokenize({ number }));
      const stored = await sites.vault.send("private", "GET", `/tokens/${number}`);
      assert.equal(stored.body.data, NUMBER);
    }));
}

test("basis-theory-js sends payloads without elements itself", () =>
  sites.browser.withPage("elements plain payload", DESKTOP, async (it) => {
    await it.goto(`${SHOP}/c?key=${sites.vault.keys.public}`);
    await it.locator("body[data-ready]").waitFor();
    const requests = [];
    it.on("request", (request) => requests.push(request));
    const token = await it.evaluate(() => instance.tokens.create({ type: "token", data: "plain" }));
    assert.equal(token.type, "token");
    const [sent] = requests.filter((request) => request.method() === "POST");
    assert.equal(sent.frame(), it.mainFrame());
  }));

test("react-elements stores a card in strict mode and updates options", () =>
  sites.browser.withPage("elements react", DESKTOP, async (it) => {
    await it.goto(`${SHOP}/react?key=${sites.vault.keys.public}`);
    await typeCard(it, ["#card-number", "#card-expiry", "#card-code"]);
    await it.waitForFunction(() => document.querySelector("#card-number iframe").title === "4242");
    assert.equal(await it.locator("iframe").count(), 4);
    await it.getByRole("button").click();
    await it.getByRole("button", { name: /^[0-9a-f-]{36}$/ }).waitFor();
    await assertStored(await it.getByRole("button").textContent());
  }));
