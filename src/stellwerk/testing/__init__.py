"""For tests, ours and those of drivers elsewhere: builders of values and the conformance suite."""

import pytest

pytest.register_assert_rewrite("stellwerk.testing.driver_session", "stellwerk.testing.driver_suite")
