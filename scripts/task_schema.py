"""Writes the JSON Schema of a task file for editors to standard output.

`python scripts/task_schema.py > docs/task-file.schema.json`; a test holds the file to the reader.
"""

import json
import sys

from stellwerk.core.describe.schemas import task_schema

if __name__ == "__main__":
    sys.stdout.write(json.dumps(task_schema(), indent=1, ensure_ascii=False) + "\n")
