// Elements in a page: wrong use, moved and removed frames, repeated init, direction and language.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP } from "./browser.js";
import { FIELDS, OTHER_SITE, SHOP, startSites } from "./sites.js";

const PAGE = `<!DOCTYPE html><html lang="de"><title>Shop</title><link rel="icon" href="data:,">
<div id="a"></div><div id="b" dir="rtl" lang="ar"></div><div id=":r1:"></div><div id="shadow"></div>
<script src="${FIELDS}/elements/client.js"></script><script src="${FIELDS}/elements/client.js"></script>
<script>window.key = new URLSearchParams(location.search).get("key");</script>`;
const EARLY_PAGE = `<!DOCTYPE html><html lang="en"><head><title>Early</title><link rel="icon" href="data:,">
<script src="${FIELDS}/elements/client.js"></script>
<script>window.started = BasisTheoryElements.init(new URLSearchParams(location.search).get("key"));</script></head><body><p>Text</p></body>`;

let sites;

before(async () => {
  sites = await startSites({ "/": PAGE, "/early": EARLY_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

function inPage(name, use, path = "/") {
  test(name, () =>
    sites.browser.withPage(`elements ${name}`, DESKTOP, async (page, faults) => {
      await page.goto(`${SHOP}${path}?key=${sites.vault.keys.public}`);
      await use(page, faults);
    }),
  );
}

const input = (page, id) => page.frameLocator(`[id="${id}"] iframe`).locator("input:not([tabindex='-1'])").first();

inPage("wrong use is a clear error", async (page) => {
  const messages = await page.evaluate(async () => {
    const messages = {};
    const attempt = async (name, run) => {
      try {
        await run();
        messages[name] = "no error";
      } catch (error) {
        messages[name] = error instanceof Error ? error.message : "no Error object";
      }
    };
    await attempt("before init", () => BasisTheoryElements.createElement("card"));
    const bt = await BasisTheoryElements.init(key);
    const text = () => bt.createElement("text", { targetId: "t" });
    const shadow = document.getElementById("shadow").attachShadow({ mode: "open" });
    const inner = document.createElement("div");
    shadow.append(inner);
    const mounted = text();
    await mounted.mount("#a");
    await attempt("unknown type", () => bt.createElement("iban", { targetId: "t" }));
    await attempt("data type", () => bt.createElement("data"));
    await attempt("inherited name", () => bt.createElement("constructor", { targetId: "t" }));
    await attempt("no targetId", () => bt.createElement("text", {}));
    await attempt("options", () => bt.createElement("card", "x"));
    await attempt("missing target", () => text().mount("#missing"));
    await attempt("wrong target", () => text().mount(5));
    await attempt("detached target", () => text().mount(document.createElement("div")));
    await attempt("shadow root", () => text().mount(inner));
    await attempt("mounted twice", () => mounted.mount("#b"));
    await attempt("not mounted", () => text().clear());
    await attempt("event", () => text().on("input", () => {}));
    await attempt("listener", () => text().on("change", "x"));
    await attempt("setValue", () => mounted.setValue("4242"));
    await attempt("setValueRef", () => mounted.setValueRef({}));
    await attempt("update", () => mounted.update("x"));
    await attempt("key", () => BasisTheoryElements.init(5));
    await attempt("cycle", () => {
      const payload = {};
      payload.self = payload;
      return bt.tokenize(payload);
    });
    await attempt("bigint", () => bt.tokenize({ a: 1n }));
    const other = await BasisTheoryElements.init(key, "", false, true, true, true);
    await attempt("other instance", () => other.tokenize({ a: mounted }));
    return messages;
  });
  assert.deepEqual(Object.values(messages).filter((it) => /^no (e|E)rror/.test(it)), [], JSON.stringify(messages));
  assert.match(messages["shadow root"], /shadow root/);
  assert.match(messages["missing target"], /#missing/);
  assert.match(messages["mounted twice"], /already mounted/);
  assert.match(messages["other instance"], /another instance/);
  assert.match(messages["unknown type"], /cardNumber/);
});

inPage("methods of each type are those of the official types", async (page) => {
  const abilities = await page.evaluate(async () => {
    const bt = await BasisTheoryElements.init(key);
    const types = ["card", "cardNumber", "cardExpirationDate", "cardVerificationCode", "text", "copyButton"];
    const names = ["setValue", "setValueRef", "month", "year", "format", "cardMetadata"];
    return types.map((type) => {
      const element = bt.createElement(type, { targetId: "x" });
      return names.filter((name) => element[name] !== undefined).join(" ");
    });
  });
  assert.deepEqual(abilities, [
    "setValue cardMetadata",
    "setValue setValueRef cardMetadata",
    "setValue setValueRef month year format",
    "setValue setValueRef",
    "setValue setValueRef",
    "setValueRef",
  ]);
});

inPage("frame that is moved in the page works again", async (page) => {
  await page.evaluate(async () => {
    window.bt = await BasisTheoryElements.init(key);
    window.text = bt.createElement("text", { targetId: "t", placeholder: "old" });
    window.readyEvents = 0;
    text.on("ready", () => window.readyEvents++);
    await text.mount("#a");
    await text.update({ placeholder: "new" });
    document.getElementById("b").append(document.querySelector("#a iframe"));
  });
  await page.waitForFunction(() => window.readyEvents === 2);
  assert.equal(await input(page, "b").getAttribute("placeholder"), "new");
  await input(page, "b").pressSequentially("value");
  const { id } = await page.evaluate(() => bt.tokens.create({ type: "token", data: text }));
  assert.equal((await sites.vault.send("private", "GET", `/tokens/${id}`)).body.data, "value");
});

inPage("element can be unmounted and mounted again, without its value", async (page) => {
  await page.evaluate(async () => {
    window.bt = await BasisTheoryElements.init(key);
    window.text = bt.createElement("text", { targetId: "t" });
    await text.mount("#a");
  });
  await input(page, "a").pressSequentially("value");
  await page.waitForFunction(() => text.metadata.empty === false);
  const states = await page.evaluate(async () => {
    text.unmount();
    text.unmount();
    const states = [text.mounted, text.metadata.empty];
    await text.mount(document.getElementById(":r1:"));
    return [...states, text.mounted];
  });
  assert.deepEqual(states, [false, true, true]);
  assert.equal(await input(page, ":r1:").inputValue(), "");
});

inPage("instance works again after the page removed the controller frame", async (page) => {
  const id = await page.evaluate(async () => {
    const bt = await BasisTheoryElements.init(key);
    document.querySelector("iframe[name^=scrip-controller]").remove();
    return (await bt.tokens.create({ type: "token", data: "x" })).id;
  });
  assert.match(id, /^[0-9a-f-]{36}$/);
});

inPage("repeated init uses the same frames", async (page) => {
  const [same, frames, other] = await page.evaluate(async () => {
    const [first, second] = await Promise.all([BasisTheoryElements.init(key), BasisTheoryElements.init(key)]);
    const third = await BasisTheoryElements.init(key, "x", false, true, false, false, "production", false, undefined, undefined);
    const frames = document.querySelectorAll("iframe").length;
    const debug = await BasisTheoryElements.init(key, "x", false, true, false, true);
    return [first === second && second === third, frames, debug !== first];
  });
  assert.deepEqual([same, frames, other], [true, 1, true]);
});

inPage("init before the body exists waits for the body", async (page) => {
  assert.equal(await page.evaluate(async () => typeof (await window.started).createElement), "function");
}, "/early");

inPage("frame gets language and direction of its container", async (page) => {
  await page.evaluate(async () => {
    const bt = await BasisTheoryElements.init(key);
    await Promise.all(["a", "b"].map((id) => bt.createElement("text", { targetId: id }).mount(`#${id}`)));
  });
  const read = (id) => input(page, id).evaluate((it) => [it.ownerDocument.documentElement.lang, getComputedStyle(it.ownerDocument.documentElement).direction]);
  assert.deepEqual(await read("a"), ["de", "ltr"]);
  assert.deepEqual(await read("b"), ["ar", "rtl"]);
});

inPage("payload with elements is recognized", async (page) => {
  const results = await page.evaluate(async () => {
    const bt = await BasisTheoryElements.init(key);
    const expiry = bt.createElement("cardExpirationDate", { targetId: "t" });
    const cycle = {};
    cycle.self = cycle;
    const payloads = [{ a: [{ b: expiry }] }, expiry, { m: expiry.month() }, { f: expiry.format("MM/yy") }, {}, null, "x", { element: {} }, cycle];
    return payloads.map((it) => BasisTheoryElements.hasElement(it));
  });
  assert.deepEqual(results, [true, true, true, true, false, false, false, false, false]);
});

inPage("device information has ordinary facts and no fingerprint", async (page) => {
  const info = await page.evaluate(async () => {
    const elements = await BasisTheoryElements.init(key);
    // The facts come from the controller, which runs after the first call at the latest.
    await elements.sessions.create();
    return elements.device.getDeviceInfo({ includeCanvasHash: true });
  });
  assert.equal(info.innerWidth, DESKTOP.viewport.width);
  assert.ok(info.languages.length > 0 && info.timeZone !== undefined);
  for (const name of ["canvasHash", "webglVendor", "webglRenderer", "plugins"]) assert.equal(info[name], undefined);
});

inPage("frames of an unreachable vault are a configuration error", async (page, faults) => {
  await page.route(`${FIELDS}/web-elements/**`, (route) => route.fulfill({ status: 404, body: "" }));
  const error = await page.evaluate(async () => {
    const elements = await BasisTheoryElements.init(key);
    return elements.sessions.create().catch(({ name, message }) => ({ name, message }));
  });
  assert.equal(error.name, "BasisTheoryConfigurationError");
  assert.ok(error.message.includes(FIELDS));
  await page.unroute(`${FIELDS}/web-elements/**`);
  const session = await page.evaluate(async () => (await BasisTheoryElements.init(key)).sessions.create());
  assert.ok(session.nonce);
  assert.deepEqual(faults, []);
});

// As in a browser that ignores frame-ancestors: the list in the controller's page is replaced before its script runs.
inPage("controller sends nothing for a page with an origin that the application does not list", async (page) => {
  await page.addInitScript((origin) => {
    if (!location.pathname.endsWith("/controller.html")) return;
    const replace = () => (document.querySelector('meta[name="scrip-origins"]').content = JSON.stringify([origin]));
    document.addEventListener("readystatechange", replace, { once: true });
  }, OTHER_SITE);
  const requests = [];
  page.on("request", (it) => it.url().includes("/api/") && requests.push(it.url()));
  const error = await page.evaluate(async () => {
    const bt = await BasisTheoryElements.init(key);
    return bt.tokens.create({ type: "token", data: "x" }).catch(({ name, message }) => ({ name, message }));
  });
  assert.equal(error.name, "BasisTheoryConfigurationError");
  assert.ok(error.message.includes(SHOP));
  assert.deepEqual(requests, []);
});

test("page on the origin of the vault gets a warning", () =>
  sites.browser.withPage("elements same origin", DESKTOP, async (page) => {
    const warnings = [];
    page.on("console", (it) => it.type() === "warning" && warnings.push(it.text()));
    await page.route(`${FIELDS}/shop`, (route) => route.fulfill({ contentType: "text/html", body: PAGE }));
    await page.goto(`${FIELDS}/shop`);
    assert.equal(warnings.filter((it) => it.includes("origin of the vault")).length, 1);
    await page.goto(`${OTHER_SITE}/`);
    assert.equal(warnings.length, 1);
  }));
