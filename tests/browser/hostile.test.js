// Hostile text in an id, a query, a form or a message: no page executes it. An executed script
// would open a dialog. Loads from other origins are detected, too (browser.js).

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { DESKTOP, startBrowser } from "./browser.js";
import { bankOf } from "./shop.js";
import { REQUEST, startVault } from "./vault.js";

const CHALLENGED = "4005562231212123";
const SCRIPTS = [
  `<script>alert(1)</script>`,
  `"><img src=x onerror=alert(1)>`,
  `</script><script>alert(1)//`,
  `';alert(1);'`,
  `x\u2028alert(1)//`,
];

let vault, browser, stage;

before(async () => {
  vault = await startVault();
  browser = await startBrowser();
  // Another origin: an empty page without a policy.
  stage = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end("<!DOCTYPE html><title>Other origin</title><body>");
  });
  stage.listen(0, "127.0.0.1");
  await once(stage, "listening");
});

after(async () => {
  await browser.stop();
  stage.closeAllConnections();
  stage.close();
  assert.equal(await vault.stop(), 0);
});

function onStage(name, use) {
  test(name, () =>
    browser.withPage(`hostile ${name}`, DESKTOP, async (page, faults) => {
      await page.goto(`http://127.0.0.1:${stage.address().port}`);
      await use(page, faults);
    }),
  );
}

// Posts every form into its own frame, all in parallel. The response pages have time to run.
async function postAll(page, forms) {
  await page.evaluate(async (forms) => {
    const loads = forms.map(async ([action, fields], at) => {
      const frame = Object.assign(document.createElement("iframe"), { name: `frame-${at}` });
      document.body.append(frame);
      const form = Object.assign(document.createElement("form"), { action, method: "post", target: frame.name });
      for (const [name, value] of Object.entries(fields)) {
        form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
      }
      document.body.append(form);
      const loaded = new Promise((done) => frame.addEventListener("load", done, { once: true }));
      form.submit();
      await loaded;
    });
    await Promise.all(loads);
    await new Promise((done) => setTimeout(done, 50));
    document.body.replaceChildren();
  }, forms);
}

// Posts a form as a top-level navigation.
async function post(page, action, fields) {
  await page.goto(`http://127.0.0.1:${stage.address().port}`);
  const [response] = await Promise.all([
    page.waitForNavigation(),
    page.evaluate(
      ([action, fields]) => {
        const form = Object.assign(document.createElement("form"), { action, method: "post" });
        for (const [name, value] of Object.entries(fields)) {
          form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
        }
        document.body.append(form);
        form.submit();
      },
      [action, fields],
    ),
  ]);
  return response;
}

async function newSession(changes = {}) {
  const { body } = await vault.send("public", "POST", "/3ds/sessions", {
    token_intent_id: await vault.intentOf(CHALLENGED),
    device: "browser",
    device_info: {
      browser_color_depth: "24",
      browser_java_enabled: false,
      browser_javascript_enabled: true,
      browser_language: "en-US",
      browser_screen_height: "600",
      browser_screen_width: "800",
      browser_tz: "0",
      browser_user_agent: "a test",
    },
    ...changes,
  });
  return body.id;
}

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

test("positive control: an executed script is detected", async () => {
  const open = () =>
    browser.withPage("control", DESKTOP, async (page) => {
      await page.goto(`http://127.0.0.1:${stage.address().port}`);
      await page.evaluate(() => {
        const frame = Object.assign(document.createElement("iframe"), { srcdoc: "<script>alert(1)</script>" });
        document.body.append(frame);
      });
      await page.waitForEvent("dialog");
    });
  await assert.rejects(open, /a script ran/);
});

onStage("notification pages do not execute ids, queries and fields", async (page) => {
  const id = await newSession();
  for (const script of SCRIPTS) {
    const written = encodeURIComponent(script);
    const data = encoded({ threeDSServerTransID: script });
    const forms = [
      [`/3ds/sessions/${written}/method-notification`, { threeDSMethodData: data }],
      [`/3ds/sessions/${id}/method-notification?mode=${written}`, { threeDSMethodData: data }],
      [`/3ds/sessions/${id}/method-notification`, { threeDSMethodData: script }],
      [`/3ds/sessions/${written}/challenge-notification`, { cres: data }],
      [`/3ds/sessions/${id}/challenge-notification`, { cres: script, threeDSSessionData: script }],
      [`/3ds/sessions/${id}/challenge-notification`, { erro: script }],
      [`/3ds/sessions/${id}/challenge-notification`, { [script]: script }],
    ];
    await postAll(page, forms.map(([path, fields]) => [vault.url + path, fields]));
    for (const [path, fields] of forms) {
      const response = await fetch(vault.url + path, { method: "POST", body: new URLSearchParams(fields) });
      assert.match(response.headers.get("content-type"), /^text\/html/, path);
      assert.ok(!(await response.text()).includes(script), path);
    }
  }
});

onStage("unknown mode does not close the window", async (page) => {
  const id = await newSession();
  const data = encoded({ threeDSServerTransID: id });
  const path = `/3ds/sessions/${id}/method-notification?mode=${encodeURIComponent("redirect<script>")}`;
  const response = await post(page, vault.url + path, { threeDSMethodData: data });
  assert.equal(response.status(), 200);
  assert.doesNotMatch(await response.text(), /mode|redirect/);
});

// A frame with a page of the vault, and the messages that the opener receives.
async function framed(page, name) {
  await page.evaluate(
    ([url]) =>
      new Promise((loaded) => {
        window.received = [];
        window.addEventListener("message", (event) => window.received.push(event.data));
        const frame = Object.assign(document.createElement("iframe"), { src: url, id: "page", onload: loaded });
        document.body.append(frame);
      }),
    [`${vault.url}/pages/${name}.html`],
  );
  return page.frames().find((it) => it.url().endsWith(`${name}.html`));
}

const PAGES = [
  ["method", "startMethod", "threeDSMethodURL", "threeDSMethodData"],
  ["challenge", "startChallenge", "acsURL", "creq"],
];

for (const [name, type, address, field] of PAGES) {
  onStage(`${name}.html ignores messages of other windows`, async (page) => {
    const frame = await framed(page, name);
    const good = `${vault.simulator}/sim/acs/challenge`;
    const messages = [
      null,
      "text",
      { type },
      ...["javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "//evil", "/demo", "blob:x", "", 7, {}, [],
        ` javascript:alert(1)`, `java\nscript:alert(1)`, `${good}/${"a".repeat(2048)}`,
      ].map((url) => ({ type, [address]: url, [field]: "e30" })),
      ...[...SCRIPTS, "", "e30 ", "e30+", "a=b", 7, {}, ["e30"]].map((data) => ({ type, [address]: good, [field]: data })),
      { type: "other", [address]: good, [field]: "e30" },
    ];
    await page.evaluate((messages) => {
      for (const it of messages) document.getElementById("page").contentWindow.postMessage(it, "*");
    }, messages);
    await page.waitForTimeout(200);
    assert.equal(await frame.locator("iframe, form").count(), 0);

    // Neither from a sibling frame nor from the page itself.
    await page.evaluate(
      ([message]) => {
        const sibling = document.createElement("iframe");
        document.body.append(sibling);
        const script = sibling.contentDocument.createElement("script");
        script.textContent = `parent.document.getElementById("page").contentWindow.postMessage(${JSON.stringify(message)}, "*")`;
        sibling.contentDocument.body.append(script);
      },
      [{ type, [address]: good, [field]: "e30" }],
    );
    await page.waitForTimeout(200);
    assert.equal(await frame.locator("iframe, form").count(), 0);

    // A message that does not come from the bank's frame is not forwarded.
    await page.evaluate((type) => {
      const forged = { type, id: "x", isCompleted: true };
      document.getElementById("page").contentWindow.postMessage(forged, "*");
    }, name);
    await page.waitForTimeout(200);
    assert.deepEqual(await page.evaluate(() => window.received), []);

    // Positive control: the right message from the right window works.
    await page.evaluate((message) => document.getElementById("page").contentWindow.postMessage(message, "*"), {
      type,
      [address]: good,
      [field]: "e30",
    });
    await frame.locator("iframe").waitFor({ state: "attached" });
  });
}

onStage("challenge page does not execute names of merchant and payer", async (page) => {
  for (const script of SCRIPTS.slice(0, 4)) {
    const id = await newSession({ metadata: { note: script, [script]: script } });
    const { status, body } = await vault.authenticate(id, {
      merchant_info: { ...REQUEST.merchant_info, name: script },
      requestor_info: { ...REQUEST.requestor_info, name: script },
      cardholder_info: { ...REQUEST.cardholder_info, name: script },
    });
    assert.equal(status, 200, JSON.stringify(body));
    const creq = encoded({
      messageType: "CReq",
      messageVersion: body.threeds_version,
      threeDSServerTransID: id,
      acsTransID: body.acs_transaction_id,
      challengeWindowSize: "05",
    });
    await post(page, body.acs_challenge_url, { creq, threeDSSessionData: script });
    const bank = await bankOf(page);
    assert.equal(await bank.locator("dd").first().textContent(), script);
    await bank.fill("#code", script.slice(0, 10));
    await bank.click("button.main");
    assert.equal(await bank.locator("[role=alert]").count(), 1);
    await bank.fill("#code", "1234");
    await bank.click("button.main");
    await page.waitForURL(`${vault.url}/3ds/sessions/${id}/challenge-notification`);
  }
});

onStage("bank page does not execute the challenge request", async (page) => {
  for (const script of SCRIPTS) {
    const data = encoded({ threeDSServerTransID: script, threeDSMethodNotificationURL: script });
    const js = encoded({ threeDSServerTransID: "x", threeDSMethodNotificationURL: "javascript:alert(1)" });
    const forms = [
      ["/sim/acs/visa/method", { threeDSMethodData: data }],
      ["/sim/acs/visa/method", { threeDSMethodData: js }],
      ["/sim/acs/challenge", { creq: script }],
      ["/sim/acs/challenge", { creq: encoded({ acsTransID: script }) }],
      [`/sim/acs/challenge/${encodeURIComponent(script)}`, { action: script, code: script }],
    ];
    await postAll(page, forms.map(([path, fields]) => [vault.simulator + path, fields]));
  }
});

onStage("demo does not execute its fields and address", async (page) => {
  const written = encodeURIComponent(SCRIPTS[0]);
  for (const script of SCRIPTS) {
    await page.goto(`${vault.demo}?card=${written}&session=${written}#${written}`);
    await page.locator("body[data-ready]").waitFor();
    await page.selectOption("#sandbox", CHALLENGED);
    await page.fill("#name", script);
    await page.fill("#email", `${script.replace(/\s/g, "")}@x`);
    await page.click("#pay");
    // Accepted or rejected: the text is displayed as text.
    await page.locator("dialog[open], #outcome:not([hidden])").first().waitFor();
    if (await page.locator("dialog[open]").count()) {
      await (await bankOf(page)).click("button[value=cancel]");
      await page.locator("#outcome").waitFor();
    }
    const steps = await page.locator("#steps").evaluate((it) => it.textContent);
    assert.ok(steps.includes(JSON.stringify(script).slice(1, -1)), "the steps do not contain the submitted text");
    assert.equal(await page.locator("#steps img, #steps script, #outcome img, #outcome script").count(), 0);
  }
});
