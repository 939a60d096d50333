// The demo page of a saved card: its owner sees the number in a frame of the vault, and adds a security code.

import assert from "node:assert/strict";

import { DESKTOP, PHONE, picture } from "./browser.js";
import { demoPage } from "./demo-page.js";

const NUMBER = "4242424242424242";

// The ids of the tokens that the page creates.
function watchTokens(page) {
  const created = [];
  page.on("response", async (it) => {
    if (it.url().endsWith("/api/tokens") && it.status() === 201) created.push((await it.json()).id);
  });
  return created;
}

const inDemo = demoPage("saved card", "/saved-card", watchTokens);

function withSavedCard(name, options, use) {
  inDemo(name, options, async (page, { vault, prepared: created }) => {
    await page.click("#save-button");
    await page.locator("#saved").waitFor();
    await use(page, { token: created[0], vault });
  });
}

for (const [name, options] of [["desktop", DESKTOP], ["phone", PHONE]]) {
  withSavedCard(`owner sees the number on a ${name} and the page does not`, options, async (page) => {
    assert.equal(await page.locator("#card-last4").textContent(), "•••• 4242");
    await page.click("#reveal");
    await page.getByText("The number is in the frame.").waitFor();
    const shown = page.frameLocator("#shown-number iframe").getByLabel("Card number", { exact: true });
    assert.equal((await shown.inputValue()).replaceAll(" ", ""), NUMBER);
    assert.ok(!(await page.content()).includes(NUMBER));
    if (name === "desktop") await picture(page, "saved-card");
    const steps = await page.locator("#steps").evaluate((it) => it.textContent);
    assert.match(steps, /"correlationId"/);
    assert.ok(!steps.includes(NUMBER));
    const [width, room] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(width <= room, `${width} in ${room}`);
  });
}

withSavedCard("fresh security code is added to the saved card", DESKTOP, async (page, { token, vault }) => {
  const code = page.frameLocator("#fresh-cvc iframe").getByLabel("Security code", { exact: true });
  await page.click("#fresh-button");
  await page.getByText("Type the whole security code.").waitFor();
  await code.fill("987");
  await page.click("#fresh-button");
  await page.getByText("The code is stored for the next payment").waitFor();
  const { body } = await vault.send("private", "GET", `/tokens/${token}`);
  assert.deepEqual([body.data?.number, body.data?.cvc], [NUMBER, "987"], JSON.stringify(body));
});

withSavedCard("session of the owner reads no other card", DESKTOP, async (page, { vault }) => {
  const other = await vault.send("private", "POST", "/tokens", { type: "card", data: { number: "4111111111111111" } });
  const [request] = await Promise.all([
    page.waitForRequest((it) => /\/api\/tokens\/[0-9a-f-]+$/.test(it.url())),
    page.click("#reveal"),
  ]);
  const headers = { "BT-API-KEY": (await request.allHeaders())["bt-api-key"] };
  const found = await fetch(`${vault.url}/tokens/${other.body.id}`, { headers });
  assert.equal(found.status, 403);
});
