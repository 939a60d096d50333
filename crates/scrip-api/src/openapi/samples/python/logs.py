# Samples of the tag Logs. One section for each operation: see CONTRIBUTING.md.

# operation: list_logs
# The iterator fetches the next page when it needs one.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

for log in client.logs.list(entity_type="token", entity_id=os.environ["TOKEN_ID"], size=20):
    print(log.created_at, log.operation, log.entity_id)

# operation: list_log_entity_types
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

for entity_type in client.logs.get_entity_types():
    print(entity_type.value, entity_type.display_name)
