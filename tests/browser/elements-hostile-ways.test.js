// A hostile page opens further ways into a date or a number: a frame that other fields do not find, the focus that
// follows a finished number, the next part of a card, and a paste. In each test a date was typed before.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, withHostilePage } from "./hostile-page.js";
import { startSites } from "./sites.js";

const NUMBER = "4539578763621486";
const HIDDEN = ["complete", "empty", "type"];

let sites;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

const onHostilePage = (name, use) => test(name, () => withHostilePage(sites, name, use));

async function typeKeys(page, text, pause = 40) {
  for (const key of text) {
    await page.keyboard.press(key);
    await page.waitForTimeout(pause);
  }
}

async function pressTab(page) {
  await page.keyboard.down("Tab");
  await page.waitForTimeout(90);
  await page.keyboard.up("Tab");
  await page.waitForTimeout(80);
}

const addForm = (page) =>
  page.evaluate(async () => {
    await window.addField("number", "cardNumber");
    await window.addField("date", "cardExpirationDate");
  });

// Every security code but a few is a date for this field.
const addTrap = (page) => page.evaluate(() => window.addField("trap", "cardExpirationDate", { maxElapsedExpirationYear: 100 }));

async function typeForm(page, input) {
  await input("number").click();
  await typeKeys(page, NUMBER, 20);
  await pressTab(page);
  await typeKeys(page, "1231");
  await page.waitForTimeout(100);
}

// The page stores a card of its own with a date, by an element with one or with several inputs.
const storedDate = (page, id) =>
  page.evaluate(async (id) => {
    const field = window.fields[id];
    const own = { number: "4242424242424242", expiration_month: field.month?.(), expiration_year: field.year?.() };
    const data = field.month === undefined ? field : own;
    const { value } = await window.outcome(window.elements.tokenIntents.create({ type: "card", data }));
    return [value?.card?.expirationMonth, value?.card?.expirationYear];
  }, id);

const lastChange = (page, id) => page.evaluate((id) => Object.keys(window.changes[id].at(-1)).sort(), id);

// --- Frames that other fields do not find ---

// A document of the page, with a field, in a shadow root or next to the other fields.
async function openInner(page, type, isHidden) {
  await page.evaluate(
    async ({ type, isHidden }) => {
      const host = document.body.appendChild(document.createElement("div"));
      const inner = document.createElement("iframe");
      Object.assign(inner, { src: location.href, width: 600, height: 300 });
      const loaded = new Promise((done) => (inner.onload = done));
      (isHidden ? host.attachShadow({ mode: "open" }) : host).append(inner);
      await loaded;
      while (inner.contentDocument.body.dataset.ready === undefined) await window.wait(50);
      inner.contentDocument.getElementById("own").remove();
      await inner.contentWindow.addField("trap", type, { maxElapsedExpirationYear: 100 });
    },
    { type, isHidden },
  );
  return page.frames().find((it) => it.url() === page.url() && it !== page.mainFrame());
}

onHostilePage("payer's Tab into a date in another document shows no security code as a date", async (page, input) => {
  await addForm(page);
  const inner = await openInner(page, "cardExpirationDate", false);
  const trap = inner.frameLocator("#trap iframe").locator("input:not([tabindex='-1'])").first();
  await typeForm(page, input);
  await pressTab(page);
  await typeKeys(page, "737");
  assert.equal(await trap.inputValue(), "07 / 37", "control: the code is in the trap");
  assert.deepEqual(await lastChange(inner, "trap"), HIDDEN);
  assert.deepEqual(await storedDate(inner, "trap"), [undefined, undefined]);
  await inner.evaluate(() => window.fields.trap.clear());
  await trap.click();
  await typeKeys(page, "1130");
  assert.deepEqual(await storedDate(inner, "trap"), [11, 2030], "control: a press opens the date");
});

onHostilePage("payer's Tab into a number in another document reports no first digits of a text", async (page, input) => {
  await addForm(page);
  const inner = await openInner(page, "cardNumber", false);
  const trap = inner.frameLocator("#trap iframe").locator("input:not([tabindex='-1'])").first();
  await typeForm(page, input);
  await pressTab(page);
  await typeKeys(page, "519283");
  assert.equal(await trap.inputValue(), "5192 83", "control: the text is in the trap");
  assert.deepEqual(await lastChange(inner, "trap"), HIDDEN);
  await inner.evaluate(() => window.fields.trap.clear());
  await trap.click();
  await typeKeys(page, NUMBER, 20);
  await inner.waitForFunction(() => window.fields.trap.cardMetadata.cardBin === "45395787");
});

// The page hides its honest fields, so that a date which it adds later does not know what was typed in them.
for (const type of ["cardNumber", "cardExpirationDate"]) {
  onHostilePage(`${type} in a shadow root does not start`, async (page, _, faults) => {
    const outcome = (isHidden) => openInner(page, type, isHidden).then(() => "started", ({ message }) => message);
    assert.equal(await outcome(false), "started", "control: in another document of the page");
    const hidden = outcome(true);
    const isOpen = () => page.frames().filter((it) => it.url().includes("/field.html")).length === 2;
    while (!isOpen()) await page.waitForTimeout(50);
    await page.waitForTimeout(1_000);
    const fields = page.frames().filter((it) => it.url().includes("/field.html"));
    const counts = await Promise.all(fields.map((it) => it.locator("input:not([tabindex='-1'])").count()));
    assert.deepEqual(counts, [1, 0]);
    assert.match(await hidden, /did not start.*shadow root/);
    assert.match(faults.splice(0).join(), /field in a shadow root does not start/);
  });
}

onHostilePage("date that the page moves into a shadow root still counts for Tab", async (page, input) => {
  await addForm(page);
  const openTrap = async (id) => {
    await page.evaluate((id) => window.addField(id, "cardExpirationDate", { maxElapsedExpirationYear: 100 }), id);
    await page.evaluate((id) => document.getElementById(id).before(document.getElementById("own")), id);
    await page.locator("#own").click();
    await pressTab(page);
    await typeKeys(page, "737");
    assert.equal(await input(id).inputValue(), "07 / 37", "control: the code is in the trap");
  };
  await openTrap("first");
  assert.deepEqual(await storedDate(page, "first"), [7, 2037], "control: the first date");
  await page.evaluate(() => {
    for (const id of ["number", "date", "first"]) {
      const host = document.getElementById(id).appendChild(document.createElement("div"));
      host.attachShadow({ mode: "open" }).moveBefore(window.frameOf(id), null);
    }
  });
  await openTrap("trap");
  assert.deepEqual(await lastChange(page, "trap"), HIDDEN);
  assert.deepEqual(await storedDate(page, "trap"), [undefined, undefined]);
});

onHostilePage("field in a sandbox without an origin does not start", async (page) => {
  await page.evaluate(() => window.addField("number", "cardNumber"));
  const start = (sandbox) =>
    page.evaluate(async (sandbox) => {
      const { src } = window.frameOf("number");
      const frame = document.createElement("iframe");
      if (sandbox !== undefined) frame.sandbox = sandbox;
      frame.src = src;
      let isStarted = false;
      window.addEventListener("message", ({ source }) => (isStarted ||= source === frame.contentWindow));
      const loaded = new Promise((done) => (frame.onload = done));
      document.body.append(frame);
      await loaded;
      await window.wait(300);
      return isStarted;
    }, sandbox);
  assert.equal(await start("allow-scripts allow-same-origin"), true, "control: a sandbox with an origin");
  assert.equal(await start("allow-scripts"), false);
});

// --- The focus that follows a number ---

onHostilePage("finished number does not move the focus on to a second date", async (page, input) => {
  const advanceTo = (id) =>
    page.evaluate((id) => {
      window.onFieldChange = (changed, { complete }) => {
        if (changed === "number" && complete) window.fields[id].focus();
      };
    }, id);
  await addForm(page);
  await addTrap(page);
  await advanceTo("date");
  await input("number").click();
  await typeKeys(page, NUMBER, 20);
  await page.waitForTimeout(150);
  await typeKeys(page, "1231");
  assert.deepEqual(await storedDate(page, "date"), [12, 2031], "control: the first date is open");
  await page.evaluate(() => window.fields.number.clear());
  await advanceTo("trap");
  await input("number").click();
  await typeKeys(page, NUMBER, 20);
  await page.waitForTimeout(150);
  await typeKeys(page, "697");
  assert.equal(await input("trap").inputValue(), "06 / 97", "control: the code is in the trap");
  assert.deepEqual(await lastChange(page, "trap"), HIDDEN);
  assert.deepEqual(await storedDate(page, "trap"), [undefined, undefined]);
});

for (const way of ["the focus that moves on", "Tab"]) {
  onHostilePage(`date of a card that ${way} opens is the first date of the page`, async (page, input) => {
    const typeCard = async () => {
      await input("card").click();
      await typeKeys(page, way === "Tab" ? NUMBER.slice(0, -1) : NUMBER, 20);
      if (way === "Tab") {
        await pressTab(page);
        await typeKeys(page, "697");
        // A correction of the number, with the code in the date.
        await input("card").click();
        await page.keyboard.press("End");
        await typeKeys(page, NUMBER.slice(-1));
      } else {
        await page.waitForTimeout(100);
        await typeKeys(page, "697");
      }
      await page.waitForTimeout(100);
    };
    await page.evaluate(() => window.addField("card", "card", { maxElapsedExpirationYear: 100 }));
    const inputs = page.frameLocator("#card iframe").locator("input:not([tabindex='-1'])");
    const code = () => inputs.nth(2).fill("123");
    await typeCard();
    assert.equal(await inputs.nth(1).inputValue(), "06 / 97");
    await code();
    assert.deepEqual(await storedDate(page, "card"), [6, 2097], "control: the first date is open");
    await page.evaluate(() => window.fields.card.clear());
    await typeCard();
    assert.equal(await inputs.nth(1).inputValue(), "06 / 97", "control: the code is in the date");
    await code();
    assert.deepEqual(await lastChange(page, "card"), HIDDEN);
    assert.deepEqual(await storedDate(page, "card"), [undefined, undefined]);
  });
}

// --- Enter and a paste ---

onHostilePage("Enter in a second date that the page focused is no action", async (page, input) => {
  await addForm(page);
  await addTrap(page);
  const typeCode = async (id) => {
    await page.evaluate((id) => window.fields[id].focus(), id);
    await page.waitForTimeout(100);
    await page.keyboard.press("Enter");
    await typeKeys(page, "737");
    assert.equal((await input(id).inputValue()).replaceAll(" ", ""), "07/37");
  };
  await page.evaluate(() => window.addField("first", "cardExpirationDate", { maxElapsedExpirationYear: 100 }));
  await typeCode("first");
  assert.deepEqual(await storedDate(page, "first"), [7, 2037], "control: the first date");
  await typeCode("trap");
  assert.deepEqual(await lastChange(page, "trap"), HIDDEN);
  assert.deepEqual(await storedDate(page, "trap"), [undefined, undefined]);
});

onHostilePage("paste into a second date that the page focused shows no security code as a date", async (page, input) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await addForm(page);
  await addTrap(page);
  await page.evaluate(() => navigator.clipboard.writeText("737"));
  const pasteInto = async (id) => {
    await page.evaluate((id) => window.fields[id].focus(), id);
    await page.waitForTimeout(100);
    await page.keyboard.press("Control+V");
    await page.waitForTimeout(100);
    assert.equal((await input(id).inputValue()).replaceAll(" ", ""), "07/37");
  };
  await page.evaluate(() => window.addField("first", "cardExpirationDate", { maxElapsedExpirationYear: 100 }));
  await pasteInto("first");
  assert.deepEqual(await storedDate(page, "first"), [7, 2037], "control: the first date");
  await pasteInto("trap");
  assert.deepEqual(await lastChange(page, "trap"), HIDDEN);
  assert.deepEqual(await storedDate(page, "trap"), [undefined, undefined]);
});
