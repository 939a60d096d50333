"""Rate limits through the official Python client."""

import pytest
from basis_theory.core.api_error import ApiError
from conftest import started


def test_rate_limited_request_raises_the_error_class_of_the_client(tmp_path):
    with started(tmp_path, "5/1h") as vault:
        private = vault.client("private")
        for _ in range(5):
            private.permissions.list()
        with pytest.raises(ApiError) as raised:
            private.permissions.list()
        error = raised.value
        assert error.status_code == 429
        assert error.body["status"] == 429
        assert "test_tenant" in error.body["detail"]
        headers = {name.lower(): value for name, value in error.headers.items()}
        assert 1 <= int(headers["retry-after"]) <= 3601
        assert headers["ratelimit-limit"] == "5"
        assert headers["ratelimit-remaining"] == "0"
        # Another key has its own counter.
        vault.client("management").permissions.list()


def test_client_waits_for_the_reported_time_and_retries(tmp_path):
    with started(tmp_path, "3/1s") as vault:
        patient = vault.client_of(vault.keys["private"], max_retries=1)
        for _ in range(7):
            patient.permissions.list()
