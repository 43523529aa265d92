"""The one loop: commands and reports in, facts journaled, orders out."""
