"""Writes the JSON Schema of a fleet file for editors to standard output.

`python scripts/fleet_schema.py > docs/fleet-file.schema.json`; a test holds the file to the reader.
"""

import json
import sys

from stellwerk.core.describe.fleet_schema import fleet_schema

if __name__ == "__main__":
    sys.stdout.write(json.dumps(fleet_schema(), indent=1, ensure_ascii=False) + "\n")
