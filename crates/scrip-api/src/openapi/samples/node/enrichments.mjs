// Samples of the tag Enrichments. One section for each operation: see CONTRIBUTING.md.

// operation: get_card_details
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const details = await client.enrichments.getcarddetails({ bin: "415058" });
console.log(details.brand, details.funding, details.issuer.country);
for (const { brand } of details.additional) console.log(brand);
