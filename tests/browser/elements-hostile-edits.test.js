// A hostile page uses edits that are no ordinary keys: text that an input method editor composes, data that the payer
// drops or pastes, and edits that a field refuses.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, authorize, withHostilePage } from "./hostile-page.js";
import { startSites } from "./sites.js";

const NUMBER = "4539578763621486";
const DIGITS = ["cardBin", "cardLast4"];

let sites;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

const onHostilePage = (name, use) => test(name, () => withHostilePage(sites, name, use));

async function typeKeys(page, text, pause = 20) {
  for (const key of text) {
    await page.keyboard.press(key);
    await page.waitForTimeout(pause);
  }
}

// The digits that events of a field reported, each once.
const reportedDigits = (page, id) =>
  page.evaluate(([id, names]) => [...new Set(window.changes[id].flatMap((it) => names.map((name) => it[name])))].filter(Boolean), [id, DIGITS]);

// --- Input method editors ---

const fullWidth = (text) => [...text].map((it) => String.fromCharCode(it.charCodeAt(0) + 0xfee0)).join("");

// Composes in the field that has the focus. Each field has a composition of its own.
function startEditor(page, ids) {
  const sessions = {};
  const texts = {};
  const sessionOf = async (id) => {
    const frame = await (await page.locator(`#${id} iframe`).elementHandle()).contentFrame();
    const isFocused = await frame.evaluate(() => document.hasFocus() && document.activeElement instanceof HTMLInputElement);
    return isFocused ? (sessions[id] ??= await page.context().newCDPSession(frame)) : undefined;
  };
  return {
    async compose(character) {
      for (const id of ids) {
        const session = await sessionOf(id);
        if (session === undefined) continue;
        const text = (texts[id] = (texts[id] ?? "") + fullWidth(character));
        await session.send("Input.imeSetComposition", { text, selectionStart: text.length, selectionEnd: text.length });
        await page.waitForTimeout(120);
        return;
      }
    },
    finish: async (id) => (await sessionOf(id)).send("Input.insertText", { text: texts[id] }),
  };
}

// The fields report again and again, and the page moves the focus on when one has reported something.
const followReports = (page, ids, isDue) =>
  page.evaluate(`(async (ids, isDue) => {
    let index = 0;
    window.onFieldChange = (id, event) => {
      if (id === ids[index] && isDue(event) && index < ids.length - 1) window.fields[ids[++index]].focus();
    };
    (async () => {
      for (let count = 0; ; count += 1) {
        await window.wait(15);
        for (const id of ids) window.fields[id].update({ title: String(count) });
      }
    })();
  })(${JSON.stringify(ids)}, ${isDue})`);

onHostilePage("number that is composed in pieces tells no digits of a piece", async (page, input) => {
  const ids = ["a", "b", "c"];
  await page.evaluate(async (ids) => {
    for (const id of ids) await window.addField(id, "cardNumber");
  }, ids);
  const whole = startEditor(page, ["a"]);
  await input("a").click();
  for (const digit of NUMBER) await whole.compose(digit);
  await whole.finish("a");
  await page.waitForFunction(() => window.fields.a.cardMetadata.cardBin === "45395787");
  await page.evaluate(() => {
    window.fields.a.clear();
    window.changes.a.length = 0;
  });
  // The page moves the focus after six digits, whatever the fields report.
  const pieces = startEditor(page, ids);
  await followReports(page, ids, () => false);
  await input("a").click();
  for (const [index, digit] of [...NUMBER].entries()) {
    if (index === 6) await page.evaluate(() => window.fields.b.focus());
    if (index === 6) await page.waitForTimeout(100);
    await pieces.compose(digit);
  }
  await page.waitForTimeout(200);
  assert.equal(await input("b").inputValue(), fullWidth(NUMBER.slice(6)), "control: a piece is in the second field");
  assert.deepEqual(await reportedDigits(page, "b"), []);
});

onHostilePage("mask of the page tells nothing about characters that are composed", async (page, input) => {
  const ids = ["a", "b", "c", "d", "e", "f"];
  await page.evaluate(async (ids) => {
    for (const id of ids) await window.addField(id, "text", { mask: [/[a-mａ-ｍ]/] });
  }, ids);
  const editor = startEditor(page, ids);
  await followReports(page, ids, ({ empty }) => !empty);
  await input("a").click();
  for (const character of "secret") await editor.compose(character);
  await page.waitForTimeout(200);
  const results = await page.evaluate((ids) => ids.map((id) => window.changes[id].map((it) => it.maskSatisfied).includes(true)), ids);
  assert.ok(await page.evaluate(() => window.changes.f.some((it) => !it.empty)), "control: each field has a character");
  assert.deepEqual(results, ids.map(() => false));
});

// --- Data that the page wrote ---

onHostilePage("data that the payer drops does not become a part of a number", async (page, input) => {
  await page.evaluate(() => window.addField("number", "cardNumber"));
  const drop = async (frame, x, y) => {
    const session = await page.context().newCDPSession(frame);
    const data = { items: [{ mimeType: "text/plain", data: "5105" }], dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"]) await session.send("Input.dispatchDragEvent", { type, x, y, data });
    await page.waitForTimeout(150);
  };
  const { x, y } = await page.locator("#own").boundingBox();
  await drop(page.mainFrame(), x + 20, y + 8);
  assert.equal(await page.locator("#own").inputValue(), "5105", "control: an ordinary input takes it");
  const frame = await (await page.locator("#number iframe").elementHandle()).contentFrame();
  const inner = await frame.locator("input:not([tabindex='-1'])").first().evaluate((it) => it.getBoundingClientRect().toJSON());
  await drop(frame, inner.x + 20, inner.y + inner.height / 2);
  assert.equal(await input("number").inputValue(), "");
});

onHostilePage("number that is typed after a pasted text tells no digits", async (page, input) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.evaluate(async () => {
    for (const id of ["whole", "joined", "replaced"]) await window.addField(id, "cardNumber", { skipLuhnValidation: true });
  });
  const paste = async (id, text) => {
    await page.evaluate((text) => navigator.clipboard.writeText(text), text);
    await input(id).click();
    await page.keyboard.press("Control+V");
  };
  await paste("whole", NUMBER);
  await page.waitForFunction(() => window.fields.whole.cardMetadata.cardBin === "45395787");
  await paste("joined", "51");
  await typeKeys(page, NUMBER);
  assert.equal(await input("joined").inputValue(), "5145 3957 8763 6214", "control: the digits are joined");
  assert.deepEqual(await reportedDigits(page, "joined"), []);
  // Nothing of the pasted text comes back next to typed digits.
  await paste("replaced", "51");
  await page.keyboard.press("Control+A");
  await typeKeys(page, "4");
  await page.keyboard.press("Control+Z");
  await page.keyboard.press("End");
  await typeKeys(page, NUMBER.slice(1));
  assert.equal((await input("replaced").inputValue()).replaceAll(" ", ""), NUMBER);
  await page.waitForFunction(() => window.fields.replaced.cardMetadata.cardBin === "45395787");
});

// --- Edits that a field refuses ---

onHostilePage("refused paste over a value of the vault does not make it a text of the payer", async (page, input) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const data = { number: "4242424242424242", expiration_month: 12, expiration_year: 2030, cvc: "697" };
  const { body } = await sites.vault.send("private", "POST", "/tokens", { type: "card", data });
  const { nonce, session } = await page.evaluate(() => window.elements.sessions.create({ keepInFrame: true }));
  const rule = { description: "reveal", priority: 1, container: "/pci/high/", permissions: ["token:read"], transform: "reveal" };
  await authorize(sites.vault, nonce, { rules: [rule] });
  await page.evaluate(
    async ({ id, session }) => {
      const { data } = await window.elements.tokens.retrieve(id, { session });
      await window.addField("code", "text", { maxLength: 3, validation: /^6/ });
      window.fields.code.setValue(data.cvc);
      await navigator.clipboard.writeText("a longer text");
      await window.wait(400);
    },
    { id: body.id, session },
  );
  const changes = () => page.evaluate(() => window.changes.code.map(({ type, ...fields }) => fields));
  await input("code").click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Control+V");
  await page.keyboard.press("Enter");
  await page.waitForTimeout(300);
  assert.equal(await input("code").inputValue(), "697", "control: the paste is refused");
  assert.deepEqual(await changes(), [{ empty: false }]);
  await page.keyboard.press("Control+A");
  await typeKeys(page, "abc");
  await page.keyboard.press("Enter");
  await page.waitForTimeout(300);
  assert.equal((await changes()).at(-1).valid, false, "control: a typed text is reported");
});
