// Samples of the tag Applications. One section for each operation: see CONTRIBUTING.md.

// operation: list_applications
// The iterator fetches the next page when it needs one.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const applications = await client.applications.list({ type: "private", size: 100 });
for await (const application of applications) console.log(application.id, application.name);

// operation: create_application
// The response is the only one that shows the key of the application.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const application = await client.applications.create({
  name: "Checkout page",
  type: "public",
  permissions: ["token:create"],
});
console.log(application.id, application.name, application.key);

// operation: get_application_by_key
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const application = await client.applications.getByKey();
console.log(application.id, application.name, application.type);

// operation: get_application
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, APPLICATION_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const application = await client.applications.get(APPLICATION_ID);
console.log(application.id, application.name, application.permissions);

// operation: update_application
// Replaces name, permissions and rules.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, APPLICATION_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const application = await client.applications.update(APPLICATION_ID, {
  name: "Fraud checks",
  rules: [
    {
      description: "Masked cards",
      priority: 1,
      container: "/pci/",
      transform: "mask",
      permissions: ["token:read"],
    },
  ],
});
console.log(application.id, application.name, application.rules);

// operation: delete_application
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, APPLICATION_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

await client.applications.delete(APPLICATION_ID);
console.log("deleted", APPLICATION_ID);

// operation: list_permissions
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const permissions = await client.permissions.list({ applicationType: "private" });
for (const { type, applicationTypes } of permissions) console.log(type, applicationTypes);
