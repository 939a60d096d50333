// The demo checkout as a new user sees it: on a desktop, on a phone, and without a mouse.

import assert from "node:assert/strict";

import { findViolations } from "./axe.js";
import { DESKTOP, PHONE, picture } from "./browser.js";
import { demoPage } from "./demo-page.js";
import { bankOf } from "./shop.js";

const PAID = "5204247750001471";
const CHALLENGED = "4000020000000000";
const REJECTED = "5405001111111116";

const inDemo = demoPage("demo", "");

// An input in a frame of the vault.
function field(page, id, label) {
  return page.frameLocator(`#${id} iframe`).getByLabel(label, { exact: true });
}

const numberField = (page) => field(page, "number", "Card number");

async function pay(page, number) {
  await page.selectOption("#sandbox", number);
  await page.click("#pay");
}

async function waitForValue(input, expected) {
  await assert.doesNotReject(async () => {
    for (let attempts = 0; (await input.inputValue()) !== expected; attempts += 1) {
      if (attempts > 100) throw new Error(`${await input.inputValue()} instead of ${expected}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  });
}

async function outcome(page) {
  const panel = page.locator("#outcome");
  await panel.waitFor();
  const title = await panel.locator("h3").textContent();
  return { title, text: await panel.textContent(), kind: await panel.getAttribute("class") };
}

// SCRIP_TEST_GOLDEN=write stores the screenshots of the documentation. Without it they are only
// taken.
for (const [name, options] of [
  ["desktop", DESKTOP],
  ["phone", PHONE],
]) {
  inDemo(`payment without a challenge succeeds on a ${name}`, options, async (page) => {
    await pay(page, PAID);
    const { title, text, kind } = await outcome(page);
    assert.deepEqual([title, kind], ["Paid", "outcome good"]);
    assert.match(text, /successful \(Y\)/);
    assert.equal(await page.locator("#steps > li.done").count(), 5);
    // The next message of the shop is in view and has the focus for a screen reader.
    assert.ok(await page.locator("#outcome-title").evaluate((it) => it === document.activeElement));
    await page.waitForFunction(() => {
      const { top, bottom } = document.getElementById("outcome-title").getBoundingClientRect();
      return top >= 0 && bottom <= window.innerHeight;
    });
  });

  inDemo(`payment after a challenge succeeds on a ${name}`, options, async (page) => {
    await pay(page, CHALLENGED);
    const bank = await bankOf(page);
    assert.match(await bank.locator("dl").textContent(), /Corner Coffee.*28\.50 EUR.*0000/);
    await picture(page, `challenge-${name}`);
    await bank.fill("#code", "1234");
    await bank.click("button.main");
    const { title, text } = await outcome(page);
    assert.equal(title, "Paid");
    assert.match(text, /successful \(Y\)/);
    assert.equal(await page.locator("#steps > li.done").count(), 7);
    assert.equal(await page.locator("dialog[open]").count(), 0);
    if (name === "desktop") await picture(page, "paid");
  });

  inDemo(`rejected payment is reported on a ${name}`, options, async (page) => {
    await pay(page, REJECTED);
    const { title, text, kind } = await outcome(page);
    assert.deepEqual([title, kind], ["Not paid", "outcome bad"]);
    assert.match(text, /rejected \(R\).*suspected-fraud.*the shop's/);
    await page.click("#again");
    assert.ok(await page.locator("#outcome").isHidden());
    await pay(page, PAID);
    assert.equal((await outcome(page)).title, "Paid");
  });

  inDemo(`page fits the width of a ${name}`, options, async (page) => {
    await picture(page, `checkout-${name}`);
    await pay(page, CHALLENGED);
    await (await bankOf(page)).click("button[value=cancel]");
    await outcome(page);
    for (const summary of await page.locator("summary").all()) await summary.click();
    const [width, room] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(width <= room, `${width} in ${room}`);
  });
}

inDemo("checkout works with the keyboard only", DESKTOP, async (page) => {
  const focused = () => page.evaluate(() => document.activeElement.id);
  const outlineStyle = () => {
    const { activeElement } = document;
    return getComputedStyle(activeElement.closest(".hosted") ?? activeElement).outlineStyle;
  };
  const tabTo = async (id) => {
    for (let presses = 0; (await focused()) !== id; presses += 1) {
      assert.ok(presses < 20, `${id} is not reached`);
      await page.keyboard.press("Tab");
      for (let attempts = 0; (await page.evaluate(outlineStyle)) !== "solid"; attempts += 1) {
        assert.ok(attempts < 40, `${await focused()} has no visible focus`);
        await page.waitForTimeout(50);
      }
    }
  };
  await tabTo("sandbox");
  await page.keyboard.type("The bank asks");
  await waitForValue(numberField(page), "4000 0200 0000 0000");
  await tabTo("pay");
  await page.keyboard.press("Enter");
  const bank = await bankOf(page);
  // The focus is in the frame of the bank: its first field is one key press away.
  for (let presses = 0; !(await bank.evaluate(() => document.activeElement.id === "code")); presses += 1) {
    assert.ok(presses < 5, "the code field is not reached");
    await page.keyboard.press("Tab");
  }
  await page.keyboard.type("1234");
  await page.keyboard.press("Enter");
  assert.equal((await outcome(page)).title, "Paid");
  assert.equal(await focused(), "outcome-title");
});

for (const path of ["", "/saved-card"]) {
  inDemo(`axe finds no violation on the page /demo${path}`, DESKTOP, async (page, { vault }) => {
    await page.goto(vault.demo + path);
    await page.locator("body[data-ready]").waitFor();
    assert.deepEqual(await findViolations(page), []);
  });
}

inDemo("abandoned challenge is reported as unfinished", DESKTOP, async (page) => {
  await pay(page, CHALLENGED);
  await bankOf(page);
  await page.click("#leave");
  const { title, text } = await outcome(page);
  assert.equal(title, "Not paid");
  assert.match(text, /You left before the bank/);
  assert.ok(await page.locator("#pay").isEnabled());
});

inDemo("card number is formatted and checked while it is typed", DESKTOP, async (page) => {
  const number = numberField(page);
  const hint = page.locator("#number-message");
  const type = async (text) => {
    await number.click();
    await number.fill("");
    await number.pressSequentially(text);
  };
  for (const [digits, formatted, name] of [
    ["4242", "4242", "Visa"],
    ["5555555555554444", "5555 5555 5555 4444", "Mastercard"],
    ["378282246310005", "3782 822463 10005", "American Express"],
    ["6011601160116011", "6011 6011 6011 6011", "Discover"],
    ["3566002020360505", "3566 0020 2036 0505", "JCB"],
  ]) {
    await type(digits);
    await waitForValue(number, formatted);
    await page.waitForFunction((it) => document.getElementById("brand").textContent === it, name);
    assert.equal(await page.inputValue("#sandbox"), "own");
  }
  await type("42424242");
  await page.click("#pay");
  assert.match(await hint.textContent(), /whole card number/);
  assert.ok(await page.locator("#number.wrong").isVisible());
  assert.equal(await number.evaluate((it) => it === document.activeElement), true);
  await type(CHALLENGED);
  // The page gets the last four digits when the payer leaves the field.
  await number.blur();
  await page.waitForFunction((it) => document.getElementById("sandbox").value === it, CHALLENGED);
  const expiry = field(page, "expiry", "Expiration date");
  await expiry.fill("");
  await expiry.pressSequentially("0120");
  await expiry.blur();
  await page.getByText("This card has expired.").waitFor();
});

inDemo("steps show no card number and no request contains the private key", DESKTOP, async (page, { vault }) => {
  const requests = [];
  page.on("request", (it) => requests.push(it));
  await pay(page, CHALLENGED);
  const bank = await bankOf(page);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  await outcome(page);
  const steps = await page.locator("#steps").evaluate((it) => it.textContent);
  assert.match(steps, /"number": "\(in the frame\)"/);
  assert.doesNotMatch(steps, /4000020000000000/);
  const sent = await Promise.all(requests.map(async (it) => [it.url(), it.postData(), await it.allHeaders()]));
  assert.ok(!JSON.stringify(sent).includes(vault.keys.private));
  const withCard = sent.filter(([, body]) => body?.includes("4000020000000000"));
  const fields = vault.url.replace("127.0.0.1", "localhost");
  assert.deepEqual(withCard.map(([url]) => url), [`${fields}/api/token-intents`]);
});

inDemo("provider receives the card that the shop only refers to", DESKTOP, async (page, { vault }) => {
  await pay(page, PAID);
  const { text } = await outcome(page);
  assert.match(text, /Chargech_[0-9a-f]{24}, approved/);
  // The provider: another origin, with its own copy of the request.
  const received = page.frameLocator("iframe[title='What the provider received']").locator("pre");
  const body = JSON.parse(await received.textContent());
  assert.equal(body.card.number, PAID);
  assert.equal(body.card.cvc, "123");
  assert.equal(typeof body.card.expiration_month, "number");
  assert.equal(body.threeds.eci, "02");
  const frame = page.frames().find((it) => it.url().startsWith(`${vault.provider}/charges/`));
  assert.ok(frame, `no frame of ${vault.provider}`);
  const isReadable = await page.evaluate(
    () => document.querySelector("iframe[title='What the provider received']").contentDocument !== null,
  );
  assert.equal(isReadable, false);
  // The shop: references before, the last four digits afterwards.
  const step = page.locator("#steps > li").last();
  await step.locator("summary").click();
  const [request, response] = await step.locator(".raw pre").allTextContents();
  const sent = JSON.parse(request);
  assert.match(sent.card.number, /^\{\{ token_intent: [0-9a-f-]{36} \| json: '\$\.data\.number' \}\}$/);
  assert.deepEqual(JSON.parse(response).card, { last4: PAID.slice(-4) });
  assert.ok(!(await page.locator("#steps").evaluate((it) => it.textContent)).includes(PAID));
  await step.evaluate((it) => it.scrollIntoView({ block: "end", behavior: "instant" }));
  await picture(page, "provider");
  // The card is no longer in the vault, so its code cannot outlive the authorization.
  const intent = /token_intent: ([0-9a-f-]+)/.exec(sent.card.number)[1];
  assert.equal((await vault.send("private", "GET", `/token-intents/${intent}`)).status, 404);
});

inDemo("repeated charge of a session reaches the provider once", DESKTOP, async (page) => {
  const bodies = [];
  page.on("request", (it) => it.url().endsWith("/demo/charge") && bodies.push(it.postData()));
  await pay(page, PAID);
  const { text } = await outcome(page);
  const [id] = /ch_[0-9a-f]{24}/.exec(text);
  const repeated = await page.evaluate(async (body) => {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch("/demo/charge", { method: "POST", headers, body });
    return response.json();
  }, bodies[0]);
  // The answer of the first call: a second call would have another id.
  assert.deepEqual([repeated.status, repeated.answer.id], [200, id]);
});

inDemo("nothing can be chosen or paid before the fields are loaded", DESKTOP, async (page) => {
  let release;
  const released = new Promise((done) => (release = done));
  await page.route("**/*", async (route) => {
    const request = route.request();
    if (request.isNavigationRequest() && request.frame() !== page.mainFrame()) await released;
    await route.continue();
  });
  await page.reload({ waitUntil: "commit" });
  await page.locator("#sandbox option").first().waitFor({ state: "attached" });
  for (const id of ["pay", "sandbox"]) assert.ok(await page.locator(`#${id}`).isDisabled(), id);
  release();
  await page.locator("body[data-ready]").waitFor();
  for (const id of ["pay", "sandbox"]) assert.ok(await page.locator(`#${id}`).isEnabled(), id);
});

inDemo("every sandbox card has the outcome that the demo announces", DESKTOP, async (page) => {
  const cards = await page.evaluate(async () => (await import("/demo/sandbox.js")).CARDS);
  assert.ok(cards.length >= 12);
  for (const { number, result, hasChallenge = false } of cards) {
    await pay(page, number);
    if (hasChallenge) {
      const answer = () => {
        const code = document.getElementById("code");
        if (code) code.value = "1234";
        document.querySelector("button.main").click();
      };
      await (await bankOf(page)).evaluate(answer);
    }
    const { title, text } = await outcome(page);
    assert.equal(title === "Paid", ["successful", "attempted"].includes(result), `the card that ends with ${number.slice(-4)}`);
    const expected = result === 424 ? /Response424/ : new RegExp(`Status${result} `);
    assert.match(text, expected, `the card that ends with ${number.slice(-4)}`);
  }
});
