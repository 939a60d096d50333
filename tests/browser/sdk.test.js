// The official browser SDK, unmodified, in a shop of another origin.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP, startBrowser } from "./browser.js";
import { bankOf, createSession, enter, startChallenge, startShop } from "./shop.js";
import { startVault } from "./vault.js";

const FRICTIONLESS = "5204247750001471";
const CHALLENGED = "4000020000000000";
const NO_METHOD = "4005562231212123";
const CHALLENGE_FAILS = "4055011111111111";
const UNSUPPORTED = "4100000000000003";

let vault, shop, browser;

before(async () => {
  vault = await startVault();
  shop = await startShop(vault);
  browser = await startBrowser();
});

after(async () => {
  await browser.stop();
  await shop.stop();
  assert.equal(await vault.stop(), 0);
});

// A test with the shop's page open and the SDK started.
function inShop(name, use) {
  test(name, () =>
    browser.withPage(`sdk ${name}`, DESKTOP, async (page) => {
      await enter(page, shop, vault);
      await use(page);
    }),
  );
}

// A session of a card by the SDK, which succeeds.
async function sessionOf(page, number, options = {}) {
  const tokenIntentId = await vault.intentOf(number);
  const { value, error } = await createSession(page, { tokenIntentId, ...options });
  assert.equal(error, undefined);
  return value;
}

async function challenged(page, number, options = {}) {
  const session = await sessionOf(page, number, options);
  const { status, body } = await vault.authenticate(session.id);
  assert.deepEqual([status, body.authentication_status], [200, "challenge"]);
  return [session, body];
}

async function indicatorOf(session) {
  const { body } = await vault.ask("private", "GET", `/3ds/sessions/${session.id}`);
  return body.method.method_completion_indicator;
}

inShop("a card that nobody is asked for, after the method step", async (page) => {
  const session = await sessionOf(page, FRICTIONLESS);
  assert.match(session.id, /^[0-9a-f-]{36}$/);
  assert.equal(session.cardBrand, "Mastercard");
  assert.equal(await indicatorOf(session), "Y");
  const { status, body } = await vault.authenticate(session.id);
  assert.deepEqual([status, body.authentication_status, body.eci], [200, "successful", "02"]);
});

inShop("the trace id that was given comes back", async (page) => {
  const correlationId = "a-trace-of-the-shop";
  const session = await sessionOf(page, FRICTIONLESS, { correlationId });
  assert.equal(session.correlationId, correlationId);
});

inShop("a trace id that was not given can be read", async (page) => {
  const [answer] = await Promise.all([
    page.waitForResponse((it) => it.url().endsWith("/3ds/sessions") && it.request().method() === "POST"),
    sessionOf(page, NO_METHOD),
  ]);
  const exposed = await answer.headerValue("access-control-expose-headers");
  assert.ok(exposed.toLowerCase().split(/,\s*/).includes("bt-trace-id"));
});

inShop("a card without a method step", async (page) => {
  const session = await sessionOf(page, NO_METHOD);
  assert.equal(session.cardBrand, "Visa");
  const { body } = await vault.authenticate(session.id);
  assert.equal(body.authentication_status, "challenge");
  assert.equal(await indicatorOf(session), "U");
});

inShop("a token instead of an intent", async (page) => {
  const data = { number: FRICTIONLESS, expiration_month: 12, expiration_year: 2030 };
  const { body: token } = await vault.ask("private", "POST", "/tokens", { type: "card", data });
  const { value } = await createSession(page, { tokenId: token.id });
  const { body } = await vault.authenticate(value.id);
  assert.equal(body.authentication_status, "successful");
});

inShop("a method page that never says that it is done", async (page) => {
  await vault.turnKnobs({ method: "hang" });
  try {
    const began = performance.now();
    const session = await sessionOf(page, FRICTIONLESS);
    // The SDK's own timer.
    assert.ok(performance.now() - began > 9_000);
    const { body } = await vault.authenticate(session.id);
    assert.equal(body.authentication_status, "successful");
    assert.equal(await indicatorOf(session), "N");
  } finally {
    await vault.turnKnobs({});
  }
});

inShop("a method step in a window of its own", async (page) => {
  const popup = page.waitForEvent("popup");
  const asked = sessionOf(page, FRICTIONLESS, { methodRequestMode: "redirect" });
  await popup;
  const session = await asked;
  assert.equal(await indicatorOf(session), "Y");
});

inShop("a challenge in a frame", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const asked = startChallenge(page, session, authentication);
  const bank = await bankOf(page);
  assert.equal(await bank.locator("dd").first().textContent(), "Example Shop");
  assert.match(await bank.locator("dl").textContent(), /80\.00 GBP/);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  const value = { id: session.id, isCompleted: true, authenticationStatus: "successful" };
  assert.deepEqual(await asked, { value });
  const { status, body } = await vault.challengeResult(session.id);
  assert.deepEqual([status, body.authentication_status, body.challenge_attempts], [200, "successful", "01"]);
  assert.equal(await page.locator("#challengeIframe").count(), 0);
});

inShop("a challenge in a container and a size of the shop's choice", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const asked = startChallenge(page, session, authentication, { containerId: "here", windowSize: "01" });
  const bank = await bankOf(page);
  assert.equal(await page.locator("#here #challengeIframe").count(), 1);
  // Nothing is cut off in the smallest size there is.
  const [width, room] = await bank.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(width <= room, `${width} in ${room}`);
  await bank.fill("#code", "1234");
  await bank.press("#code", "Enter");
  assert.equal((await asked).value.authenticationStatus, "successful");
});

inShop("a challenge in a window of its own", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED, { webChallengeMode: "redirect" });
  const popup = page.waitForEvent("popup");
  const asked = startChallenge(page, session, authentication, { mode: "redirect" });
  const bank = await popup;
  const closed = bank.waitForEvent("close");
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  await closed;
  const value = { id: session.id, isCompleted: true, authenticationStatus: "successful" };
  assert.deepEqual(await asked, { value });
});

inShop("a wrong code, told on the page, and then the right one", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const asked = startChallenge(page, session, authentication);
  const bank = await bankOf(page);
  await bank.fill("#code", "0000");
  await bank.click("button.main");
  assert.match(await bank.locator("[role=alert]").textContent(), /not right.* 2 more tries/);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  assert.equal((await asked).value.authenticationStatus, "successful");
  const { body } = await vault.challengeResult(session.id);
  assert.equal(body.challenge_attempts, "02");
});

inShop("a challenge that fails", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGE_FAILS);
  const asked = startChallenge(page, session, authentication);
  const bank = await bankOf(page);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  assert.equal((await asked).value.authenticationStatus, "failed");
  const { body } = await vault.challengeResult(session.id);
  const { authentication_status: status, authentication_status_reason: reason } = body;
  assert.deepEqual([status, reason], ["failed", "card-authentication-failed"]);
});

inShop("a challenge that the payer cancels", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const asked = startChallenge(page, session, authentication);
  const bank = await bankOf(page);
  await bank.click("button[value=cancel]");
  assert.equal((await asked).value.authenticationStatus, "failed");
  const { body } = await vault.challengeResult(session.id);
  const { authentication_status: status, challenge_cancel_reason: reason } = body;
  assert.deepEqual([status, reason], ["failed", "cardholder-canceled"]);
});

inShop("a challenge that takes longer than the shop waits", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const asked = startChallenge(page, session, authentication, { timeout: 1_000 });
  assert.match((await asked).error, /Timed out waiting for a challenge response/);
  assert.equal((await vault.challengeResult(session.id)).status, 404);
});

inShop("a bank that ends with an error ends the waiting", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  await vault.turnKnobs({ cres: "erro" });
  try {
    const asked = startChallenge(page, session, authentication);
    const bank = await bankOf(page);
    await bank.fill("#code", "1234");
    await bank.click("button.main");
    const value = { id: session.id, isCompleted: false, authenticationStatus: "failed" };
    assert.deepEqual(await asked, { value });
  } finally {
    await vault.turnKnobs({});
  }
});

inShop("a card that is not for 3-D Secure", async (page) => {
  const tokenIntentId = await vault.intentOf(UNSUPPORTED);
  const { error } = await createSession(page, { tokenIntentId });
  assert.equal(error, "3DS is not supported for the provided card");
});

test("errors reach the SDK in its own words", () =>
  browser.withPage("sdk errors", DESKTOP, async (page) => {
    const refused = async (key, request) => {
      await enter(page, shop, vault, key);
      return (await createSession(page, request)).error;
    };
    const tokenIntentId = await vault.intentOf(FRICTIONLESS);
    assert.equal(await refused("key_test_us_pub_unknown", { tokenIntentId }), "Unauthorized");
    assert.equal(await refused(vault.keys.management, { tokenIntentId }), "Forbidden");
    const nobody = { tokenIntentId: "00000000-0000-0000-0000-000000000000" };
    const error = await refused(vault.keys.public, nobody);
    assert.doesNotMatch(error, /unknown error|Failed to parse/);
  }));

test("an address with a slash at its end", () =>
  browser.withPage("sdk slash", DESKTOP, async (page) => {
    await page.goto(shop.url);
    const tokenIntentId = await vault.intentOf(NO_METHOD);
    const status = await page.evaluate(
      async ([url, key, token_intent_id]) => {
        const headers = { "BT-API-KEY": key, "Content-Type": "application/json" };
        const body = JSON.stringify({ token_intent_id, device: "browser", device_info: {
          browser_color_depth: "24", browser_java_enabled: false, browser_javascript_enabled: true,
          browser_language: "en-US", browser_screen_height: "600", browser_screen_width: "800",
          browser_tz: "0", browser_user_agent: navigator.userAgent } });
        return (await fetch(`${url}/3ds/sessions/`, { method: "POST", headers, body })).status;
      },
      [vault.url, vault.keys.public, tokenIntentId],
    );
    assert.equal(status, 201);
  }));
