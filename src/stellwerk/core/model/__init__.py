"""The nouns: frozen structs with no behaviour beyond their own arithmetic."""
