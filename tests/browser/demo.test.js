// The demo checkout, as a newcomer uses it: on a desktop, on a phone, and without a mouse.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { DESKTOP, DOCUMENTED, PHONE, startBrowser } from "./browser.js";
import { bankOf } from "./shop.js";
import { startVault } from "./vault.js";

const PAID = "5204247750001471";
const CHALLENGED = "4000020000000000";
const REJECTED = "5405001111111116";

let vault, browser;

before(async () => {
  vault = await startVault();
  browser = await startBrowser();
});

after(async () => {
  await browser.stop();
  assert.equal(await vault.stop(), 0);
});

function inDemo(name, options, use) {
  test(name, () =>
    browser.withPage(`demo ${name}`, options, async (page, faults) => {
      await page.goto(vault.demo);
      await page.locator("#sandbox option").first().waitFor({ state: "attached" });
      await use(page, faults);
    }),
  );
}

async function pay(page, number) {
  await page.selectOption("#sandbox", number);
  await page.click("#pay");
}

async function outcome(page) {
  const panel = page.locator("#outcome");
  await panel.waitFor();
  const title = await panel.locator("h3").textContent();
  return { title, text: await panel.textContent(), kind: await panel.getAttribute("class") };
}

// SCRIP_TEST_GOLDEN=write keeps the pictures of the documentation; without, they are only taken.
async function picture(page, name) {
  const image = await page.screenshot({ animations: "disabled" });
  if (process.env.SCRIP_TEST_GOLDEN !== "write") return;
  assert.ok(image.length < 150_000, `${name} has ${image.length} bytes`);
  await mkdir(DOCUMENTED, { recursive: true });
  await writeFile(join(DOCUMENTED, `${name}.png`), image);
}

for (const [name, options] of [
  ["desktop", DESKTOP],
  ["phone", PHONE],
]) {
  inDemo(`paid at once, on a ${name}`, options, async (page) => {
    await pay(page, PAID);
    const { title, text, kind } = await outcome(page);
    assert.deepEqual([title, kind], ["Paid", "outcome good"]);
    assert.match(text, /successful \(Y\)/);
    assert.equal(await page.locator("#steps > li.done").count(), 4);
    // What the shop says next is in view, wherever it was pressed, and a screen reader is there too.
    assert.ok(await page.locator("#outcome-title").evaluate((it) => it === document.activeElement));
    await page.waitForFunction(() => {
      const { top, bottom } = document.getElementById("outcome-title").getBoundingClientRect();
      return top >= 0 && bottom <= window.innerHeight;
    });
  });

  inDemo(`paid after a challenge, on a ${name}`, options, async (page) => {
    await pay(page, CHALLENGED);
    const bank = await bankOf(page);
    assert.match(await bank.locator("dl").textContent(), /Corner Coffee.*28\.50 EUR.*0000/);
    await picture(page, `challenge-${name}`);
    await bank.fill("#code", "1234");
    await bank.click("button.main");
    const { title, text } = await outcome(page);
    assert.equal(title, "Paid");
    assert.match(text, /successful \(Y\)/);
    assert.equal(await page.locator("#steps > li.done").count(), 6);
    assert.equal(await page.locator("dialog[open]").count(), 0);
    if (name === "desktop") await picture(page, "paid");
  });

  inDemo(`rejected, on a ${name}`, options, async (page) => {
    await pay(page, REJECTED);
    const { title, text, kind } = await outcome(page);
    assert.deepEqual([title, kind], ["Not paid", "outcome bad"]);
    assert.match(text, /rejected \(R\).*suspected-fraud.*the shop's/);
    await page.click("#again");
    assert.ok(await page.locator("#outcome").isHidden());
    await pay(page, PAID);
    assert.equal((await outcome(page)).title, "Paid");
  });

  inDemo(`nothing is wider than a ${name}`, options, async (page) => {
    await picture(page, `checkout-${name}`);
    await pay(page, CHALLENGED);
    await (await bankOf(page)).click("button[value=cancel]");
    await outcome(page);
    for (const summary of await page.locator("summary").all()) await summary.click();
    const [width, room] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(width <= room, `${width} in ${room}`);
  });
}

inDemo("by keyboard only", DESKTOP, async (page) => {
  const focused = () => page.evaluate(() => document.activeElement.id);
  const tabTo = async (id) => {
    for (let presses = 0; (await focused()) !== id; presses += 1) {
      assert.ok(presses < 20, `${id} is not reached`);
      await page.keyboard.press("Tab");
      const outlined = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.equal(outlined, "solid", `${await focused()} does not show that it has the focus`);
    }
  };
  await tabTo("sandbox");
  await page.keyboard.type("The bank asks");
  assert.equal(await page.inputValue("#number"), "4000 0200 0000 0000");
  await tabTo("pay");
  await page.keyboard.press("Enter");
  const bank = await bankOf(page);
  // The focus is in the bank's frame: its first field is one press away.
  for (let presses = 0; !(await bank.evaluate(() => document.activeElement.id === "code")); presses += 1) {
    assert.ok(presses < 5, "the code is not reached");
    await page.keyboard.press("Tab");
  }
  await page.keyboard.type("1234");
  await page.keyboard.press("Enter");
  assert.equal((await outcome(page)).title, "Paid");
  assert.equal(await focused(), "outcome-title");
});

inDemo("a payer who leaves", DESKTOP, async (page) => {
  await pay(page, CHALLENGED);
  await bankOf(page);
  await page.click("#leave");
  const { title, text } = await outcome(page);
  assert.equal(title, "Not paid");
  assert.match(text, /not done asking/);
  assert.ok(await page.locator("#pay").isEnabled());
});

inDemo("a card is looked at while it is typed", DESKTOP, async (page) => {
  const number = page.locator("#number");
  const brand = page.locator("#brand");
  const told = page.locator("#number-told");
  const type = async (text) => {
    await number.fill("");
    await number.pressSequentially(text);
  };
  for (const [digits, shown, name] of [
    ["4242", "4242", "Visa"],
    ["5555555555554444", "5555 5555 5555 4444", "Mastercard"],
    ["378282246310005", "3782 822463 10005", "American Express"],
    ["6011601160116011", "6011 6011 6011 6011", "Discover"],
    ["3566002020360505", "3566 0020 2036 0505", "JCB"],
    ["9", "9", ""],
  ]) {
    await type(digits);
    assert.equal(await number.inputValue(), shown);
    assert.equal(await brand.textContent(), name);
    assert.equal(await page.inputValue("#sandbox"), "own");
  }
  // A typo is worth a hint, and is no reason to refuse; but a sandbox card may be like that.
  await type("4242424242424241");
  await number.blur();
  assert.match(await told.textContent(), /typo/);
  assert.equal(await number.getAttribute("aria-invalid"), "false");
  await type("42424242");
  await page.click("#pay");
  assert.match(await told.textContent(), /too short/);
  assert.equal(await number.getAttribute("aria-invalid"), "true");
  assert.equal(await page.evaluate(() => document.activeElement.id), "number");
  await type(CHALLENGED);
  assert.equal(await page.inputValue("#sandbox"), CHALLENGED);
  // A digit in the middle does not send the cursor to the end.
  await type("42424242");
  await number.evaluate((it) => it.setSelectionRange(2, 2));
  await page.keyboard.type("0");
  assert.equal(await number.inputValue(), "4204 2424 2");
  assert.equal(await number.evaluate((it) => it.selectionStart), 3);
  await page.fill("#expiry", "01/20");
  await page.locator("#expiry").blur();
  assert.match(await page.locator("#expiry-told").textContent(), /expired/);
});

inDemo("no message has a card in it, or the private key", DESKTOP, async (page) => {
  const requests = [];
  page.on("request", (it) => requests.push(it));
  await pay(page, CHALLENGED);
  const bank = await bankOf(page);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
  await outcome(page);
  const shown = await page.locator("#steps").evaluate((it) => it.textContent);
  assert.match(shown, /••••••••••••0000/);
  assert.doesNotMatch(shown, /4000020000000000/);
  assert.match(shown, /"cvc": "•••"/);
  const told = await Promise.all(requests.map(async (it) => [it.url(), it.postData(), await it.allHeaders()]));
  assert.ok(!JSON.stringify(told).includes(vault.keys.private));
  const withCard = told.filter(([, body]) => body?.includes("4000020000000000"));
  assert.deepEqual(withCard.map(([url]) => url), [`${vault.url}/token-intents`]);
});

inDemo("every sandbox card keeps its word", DESKTOP, async (page) => {
  const cards = await page.evaluate(async () => (await import("/demo/sandbox.js")).CARDS);
  assert.ok(cards.length >= 12);
  for (const { number, ends, asks = false } of cards) {
    await pay(page, number);
    if (asks) {
      const answer = () => {
        const code = document.getElementById("code");
        if (code) code.value = "1234";
        document.querySelector("button.main").click();
      };
      await (await bankOf(page)).evaluate(answer);
    }
    const { text } = await outcome(page);
    const expected = ends === 424 ? /Answer424/ : new RegExp(`Status${ends} `);
    assert.match(text, expected, `the card that ends with ${number.slice(-4)}`);
  }
});
