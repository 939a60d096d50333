# Samples of the tag Applications. One section for each operation: see CONTRIBUTING.md.

# operation: list_applications
# The iterator fetches the next page when it needs one.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

for application in client.applications.list(type="private", size=100):
    print(application.id, application.name)

# operation: create_application
# The response is the only one that shows the key of the application.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

application = client.applications.create(
    name="Checkout page",
    type="public",
    permissions=["token:create"],
)
print(application.id, application.name, application.key)

# operation: get_application_by_key
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

application = client.applications.get_by_key()
print(application.id, application.name, application.type)

# operation: get_application
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

application = client.applications.get(os.environ["APPLICATION_ID"])
print(application.id, application.name, application.permissions)

# operation: update_application
# Replaces name, permissions and rules.
import os

from basis_theory import AccessRule, BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

application = client.applications.update(
    os.environ["APPLICATION_ID"],
    name="Fraud checks",
    rules=[
        AccessRule(
            description="Masked cards",
            priority=1,
            container="/pci/",
            transform="mask",
            permissions=["token:read"],
        )
    ],
)
print(application.id, application.name, application.rules)

# operation: delete_application
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

client.applications.delete(os.environ["APPLICATION_ID"])
print("deleted", os.environ["APPLICATION_ID"])

# operation: list_permissions
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

for permission in client.permissions.list(application_type="private"):
    print(permission.type, permission.application_types)
