"""The version of the rules: a decision names it, since only the same rules decide the same."""

CORE_VERSION = "0.1.0"
