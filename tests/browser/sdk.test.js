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

// A test with the page of the shop open and the SDK started.
function inShop(name, use) {
  test(name, () =>
    browser.withPage(`sdk ${name}`, DESKTOP, async (page) => {
      await enter(page, shop, vault);
      await use(page);
    }),
  );
}

// Creates a session of a card with the SDK, which must succeed.
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
  const { body } = await vault.send("private", "GET", `/3ds/sessions/${session.id}`);
  return body.method.method_completion_indicator;
}

inShop("frictionless card succeeds after the method step", async (page) => {
  const session = await sessionOf(page, FRICTIONLESS);
  assert.match(session.id, /^[0-9a-f-]{36}$/);
  assert.equal(session.cardBrand, "Mastercard");
  assert.equal(await indicatorOf(session), "Y");
  const { status, body } = await vault.authenticate(session.id);
  assert.deepEqual([status, body.authentication_status, body.eci], [200, "successful", "02"]);
});

inShop("submitted trace id is returned", async (page) => {
  const correlationId = "a-trace-of-the-shop";
  const session = await sessionOf(page, FRICTIONLESS, { correlationId });
  assert.equal(session.correlationId, correlationId);
});

inShop("generated trace id is exposed to the page", async (page) => {
  const [response] = await Promise.all([
    page.waitForResponse((it) => it.url().endsWith("/3ds/sessions") && it.request().method() === "POST"),
    sessionOf(page, NO_METHOD),
  ]);
  const exposed = await response.headerValue("access-control-expose-headers");
  assert.ok(exposed.toLowerCase().split(/,\s*/).includes("bt-trace-id"));
});

inShop("card without a method step succeeds", async (page) => {
  const session = await sessionOf(page, NO_METHOD);
  assert.equal(session.cardBrand, "Visa");
  const { body } = await vault.authenticate(session.id);
  assert.equal(body.authentication_status, "challenge");
  assert.equal(await indicatorOf(session), "U");
});

inShop("session of a token succeeds", async (page) => {
  const data = { number: FRICTIONLESS, expiration_month: 12, expiration_year: 2030 };
  const { body: token } = await vault.send("private", "POST", "/tokens", { type: "card", data });
  const { value } = await createSession(page, { tokenId: token.id });
  const { body } = await vault.authenticate(value.id);
  assert.equal(body.authentication_status, "successful");
});

inShop("method page without notification times out", async (page) => {
  await vault.setBehavior({ method: "hang" });
  try {
    const began = performance.now();
    const session = await sessionOf(page, FRICTIONLESS);
    // The timer of the SDK.
    assert.ok(performance.now() - began > 9_000);
    const { body } = await vault.authenticate(session.id);
    assert.equal(body.authentication_status, "successful");
    assert.equal(await indicatorOf(session), "N");
  } finally {
    await vault.setBehavior({});
  }
});

inShop("method step works in its own window", async (page) => {
  const popup = page.waitForEvent("popup");
  const pending = sessionOf(page, FRICTIONLESS, { methodRequestMode: "redirect" });
  await popup;
  const session = await pending;
  assert.equal(await indicatorOf(session), "Y");
});

inShop("challenge works in a frame", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const pending = startChallenge(page, session, authentication);
  const bank = await bankOf(page);
  assert.equal(await bank.locator("dd").first().textContent(), "Example Shop");
  assert.match(await bank.locator("dl").textContent(), /80\.00 GBP/);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  const value = { id: session.id, isCompleted: true, authenticationStatus: "successful" };
  assert.deepEqual(await pending, { value });
  const { status, body } = await vault.challengeResult(session.id);
  assert.deepEqual([status, body.authentication_status, body.challenge_attempts], [200, "successful", "01"]);
  assert.equal(await page.locator("#challengeIframe").count(), 0);
});

inShop("challenge works in a container and size chosen by the shop", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const pending = startChallenge(page, session, authentication, { containerId: "here", windowSize: "01" });
  const bank = await bankOf(page);
  assert.equal(await page.locator("#here #challengeIframe").count(), 1);
  // Nothing is cut off in the smallest window size.
  const [width, room] = await bank.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(width <= room, `${width} in ${room}`);
  await bank.fill("#code", "1234");
  await bank.press("#code", "Enter");
  assert.equal((await pending).value.authenticationStatus, "successful");
});

inShop("challenge works in its own window", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED, { webChallengeMode: "redirect" });
  const popup = page.waitForEvent("popup");
  const pending = startChallenge(page, session, authentication, { mode: "redirect" });
  const bank = await popup;
  const closed = bank.waitForEvent("close");
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  await closed;
  const value = { id: session.id, isCompleted: true, authenticationStatus: "successful" };
  assert.deepEqual(await pending, { value });
});

inShop("wrong code is reported and the right code then succeeds", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const pending = startChallenge(page, session, authentication);
  const bank = await bankOf(page);
  await bank.fill("#code", "0000");
  await bank.click("button.main");
  assert.match(await bank.locator("[role=alert]").textContent(), /not right.* 2 more tries/);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  assert.equal((await pending).value.authenticationStatus, "successful");
  const { body } = await vault.challengeResult(session.id);
  assert.equal(body.challenge_attempts, "02");
});

inShop("failed challenge is reported", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGE_FAILS);
  const pending = startChallenge(page, session, authentication);
  const bank = await bankOf(page);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  assert.equal((await pending).value.authenticationStatus, "failed");
  const { body } = await vault.challengeResult(session.id);
  const { authentication_status: status, authentication_status_reason: reason } = body;
  assert.deepEqual([status, reason], ["failed", "card-authentication-failed"]);
});

inShop("cancelled challenge is reported as failed", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const pending = startChallenge(page, session, authentication);
  const bank = await bankOf(page);
  await bank.click("button[value=cancel]");
  assert.equal((await pending).value.authenticationStatus, "failed");
  const { body } = await vault.challengeResult(session.id);
  const { authentication_status: status, challenge_cancel_reason: reason } = body;
  assert.deepEqual([status, reason], ["failed", "cardholder-canceled"]);
});

inShop("challenge longer than the timeout of the shop is an error", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  const pending = startChallenge(page, session, authentication, { timeout: 1_000 });
  assert.match((await pending).error, /Timed out waiting for a challenge response/);
  assert.equal((await vault.challengeResult(session.id)).status, 404);
});

inShop("error of the bank ends the challenge", async (page) => {
  const [session, authentication] = await challenged(page, CHALLENGED);
  await vault.setBehavior({ cres: "erro" });
  try {
    const pending = startChallenge(page, session, authentication);
    const bank = await bankOf(page);
    await bank.fill("#code", "1234");
    await bank.click("button.main");
    const value = { id: session.id, isCompleted: false, authenticationStatus: "failed" };
    assert.deepEqual(await pending, { value });
  } finally {
    await vault.setBehavior({});
  }
});

inShop("card without 3-D Secure is an SDK error", async (page) => {
  const tokenIntentId = await vault.intentOf(UNSUPPORTED);
  const { error } = await createSession(page, { tokenIntentId });
  assert.equal(error, "3DS is not supported for the provided card");
});

test("API errors become SDK errors", () =>
  browser.withPage("sdk errors", DESKTOP, async (page) => {
    const createError = async (key, request) => {
      await enter(page, shop, vault, key);
      return (await createSession(page, request)).error;
    };
    const tokenIntentId = await vault.intentOf(FRICTIONLESS);
    assert.equal(await createError("key_test_us_pub_unknown", { tokenIntentId }), "Unauthorized");
    assert.equal(await createError(vault.keys.management, { tokenIntentId }), "Forbidden");
    const unknownIntent = { tokenIntentId: "00000000-0000-0000-0000-000000000000" };
    const error = await createError(vault.keys.public, unknownIntent);
    assert.doesNotMatch(error, /unknown error|Failed to parse/);
  }));

test("API URL with a trailing slash works", () =>
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
