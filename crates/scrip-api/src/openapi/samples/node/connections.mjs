// Samples of the tag Connections. One section for each operation: see CONTRIBUTING.md.

// operation: list_connection_formulas
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/orchestration/connection_formulas`, {
  headers: { "BT-API-KEY": SCRIP_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
for (const { id, display_name } of await response.json()) console.log(id, display_name);

// operation: list_connection_formulas_2
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/orchestration/connection_formulas`, {
  method: "POST",
  headers: { "BT-API-KEY": SCRIP_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
for (const { id, display_name } of await response.json()) console.log(id, display_name);

// operation: list_connection_formulas_3
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/orchestration/connection/formulas`, {
  headers: { "BT-API-KEY": SCRIP_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
for (const { id, display_name } of await response.json()) console.log(id, display_name);

// operation: list_connection_formulas_4
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/orchestration/connection/formulas`, {
  method: "POST",
  headers: { "BT-API-KEY": SCRIP_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
for (const { id, display_name } of await response.json()) console.log(id, display_name);
